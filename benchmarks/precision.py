"""Whether bfloat16 learns what float32 learns: learning curves of both precisions, beside those of
other seeds as the measure of noise.

GPT2 and GPT2E of `studies/sample` on its corpus and in its size, three seeds of each precision. A
seed fixes the first weights, the order of the documents and the dropout, so that two precisions of
one seed differ by rounding alone. Differences are in nats per token.

    python benchmarks/precision.py
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from common import Column, Report, make_parser
from training import SAMPLE, resize

from entity_transformers.corpus.alignment import AlignedCorpus, align_split, learn_tokenizer
from entity_transformers.corpus.labels import give
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.kinds import ModelEntry
from entity_transformers.models.registry import build_model
from entity_transformers.study.params import Params
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.loop import Training
from entity_transformers.train.progress import CurveRow

PRECISIONS = ("float32", "bfloat16")
# precision and seed: losses in training and on dev
Curves = dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]
COLUMNS = {
    "gap": Column("mean difference", "nats per token", middle=mean),
    "loss": Column("mean loss", "nats per token", middle=mean),
    "spread": Column("standard deviation", "nats per token"),
}


def make_corpora(params: Params, folder: Path) -> dict[str, AlignedCorpus]:
    """The sample corpus, train and dev, as tokens."""
    write_sample(folder, params.corpus.sample_words)
    documents = list(read_corpus("ontonotes", folder))
    splits = {
        split: [document for document in documents if document.split == split]
        for split in ("train", "dev")
    }
    tokenizer = learn_tokenizer(splits["train"], params.tokenizer.vocabulary, params.corpus.spacing)
    policy, spacing = params.corpus.nested_mentions, params.corpus.spacing
    return {
        split: align_split(some, tokenizer, split=split, policy=policy, spacing=spacing)
        for split, some in splits.items()
    }


def train(
    entry: ModelEntry, corpora: dict[str, AlignedCorpus], vocabulary: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """A run's curve: the mean training loss between one row and the next, and the dev losses."""
    learnt, dev = (give(corpora[split], entry.labels, seed) for split in ("train", "dev"))
    unlabelled, window = give(dev, "none"), entry.lm.window
    rows: list[CurveRow] = []
    with tempfile.TemporaryDirectory() as folder:
        Training(
            build_model(entry, vocabulary, 0, seed=seed),
            learnt,
            lambda model, labels: mean_loss(model, dev if labels else unlabelled, window=window),
            entry.lm,
            seed,
            CheckpointStore(Path(folder), 1),
            SAMPLE.run.checkpoint_every,
            lambda index, row: rows.append(row),
        ).run()
    return np.array([row["train_loss"] for row in rows]), np.array(
        [row["dev_loss_on"] for row in rows if row["dev_loss_on"] != ""]
    )


def compare(curves: Curves, seeds: Iterable[int]) -> dict[str, list[float]]:
    """Largest gap between two training curves and gap at the end on dev: of the precisions of one
    seed, and of two seeds of float32.
    """
    one, other = PRECISIONS
    found: dict[str, list[float]] = {}
    for seed in seeds:
        (a, dev_a), (b, dev_b) = curves[one, seed], curves[other, seed]
        found.setdefault("training, two precisions", []).append(float(np.abs(a - b).max()))
        found.setdefault("dev, bfloat16 less float32", []).append(float(dev_b[-1] - dev_a[-1]))
    for left, right in itertools.combinations(seeds, 2):
        (a, dev_a), (b, dev_b) = curves[one, left], curves[one, right]
        found.setdefault("training, two seeds", []).append(float(np.abs(a - b).max()))
        found.setdefault("dev, two seeds", []).append(float(abs(dev_b[-1] - dev_a[-1])))
    return found


def main() -> None:
    """Train, compare and print."""
    parser = make_parser(__doc__, __file__, seeds=3)
    parser.add_argument("--steps", type=int, help="left out: the study's")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error(f"--seeds {options.seeds}: at least 2, since seeds are the measure of noise")
    report = Report(__doc__, COLUMNS, options)
    steps = options.steps or SAMPLE.lm.steps
    changes = {"steps": steps, "warmup_steps": min(SAMPLE.lm.warmup_steps, steps)}
    seeds = range(1, options.seeds + 1)
    with tempfile.TemporaryDirectory() as folder:
        corpora = make_corpora(SAMPLE, Path(folder))
    for name in ("gpt2", "gpt2e"):
        curves: Curves = {}
        for precision, seed in itertools.product(PRECISIONS, seeds):
            entry = resize(SAMPLE.model(name), precision=precision, **changes)
            curves[precision, seed] = train(entry, corpora, SAMPLE.tokenizer.vocabulary, seed)
        for what, gaps in compare(curves, seeds).items():
            report.row(f"{name}: {what}", gap=gaps)
        ends = [float(curves["float32", seed][1][-1]) for seed in seeds]
        report.row(f"{name}: dev loss in float32, over seeds", loss=ends, spread=stdev(ends))
    report.write()


if __name__ == "__main__":
    main()
