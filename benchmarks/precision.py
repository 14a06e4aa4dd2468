"""Does bfloat16 learn what float32 learns? Learning curves of both precisions, beside those of
other seeds as the measure of noise.

GPT2 and GPT2E of `studies/sample` on its corpus and in its size, three seeds of each precision. A
seed fixes the first weights, the order of the documents and the dropout, so that two precisions of
one seed differ by rounding alone. Differences are in nats per token.

    python benchmarks/precision.py
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import torch

from entity_transformers.artifacts import write_text
from entity_transformers.corpus.alignment import AlignedCorpus, align_split, learn_tokenizer
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.corpus.sample import generate_corpus
from entity_transformers.models.registry import build_model, label_corpus
from entity_transformers.study.params import Params, load
from entity_transformers.tasks.perplexity import mean_loss
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.loop import Training
from entity_transformers.train.progress import CurveRow

ROOT = Path(__file__).resolve().parents[1]
PRECISIONS = ("float32", "bfloat16")
# precision and seed: losses in training and on dev
Curves = dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]


def make_corpora(params: Params, folder: Path) -> dict[str, AlignedCorpus]:
    """The study's generated text, train and dev, as tokens."""
    for path, text in generate_corpus(
        params.corpus.sample_words, params.corpus.sample_seed
    ).items():
        write_text(folder / path, text)
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
    params: Params, corpora: dict[str, AlignedCorpus], name: str, precision: str, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """A run's curve: the mean training loss between one row and the next, and the dev losses."""
    lm = params.lm.model_copy(update={"precision": precision})
    model = build_model(name, lm, params.tokenizer.vocabulary, 0, seed=seed)
    learnt, dev = (label_corpus(corpora[split], name, seed) for split in ("train", "dev"))
    rows: list[CurveRow] = []
    with tempfile.TemporaryDirectory() as folder:
        training = Training(
            model,
            learnt,
            lambda model, entities: mean_loss(model, dev, window=lm.window, entities=entities),
            lm,
            seed,
            CheckpointStore(Path(folder), 1),
            lambda index, row: rows.append(row),
        )
        training.run()
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="default %(default)s")
    parser.add_argument("--steps", type=int, help="left out: the study's")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error(f"--seeds {options.seeds}: at least 2, since seeds are the measure of noise")
    torch.set_num_threads(2)
    params = load(ROOT / "studies/sample/params.yaml")
    if options.steps is not None:
        params = params.model_copy(
            update={"lm": params.lm.model_copy(update={"steps": options.steps})}
        )
    seeds = range(1, options.seeds + 1)
    with tempfile.TemporaryDirectory() as folder:
        corpora = make_corpora(params, Path(folder))
    for name in ("gpt2", "gpt2e"):
        curves = {
            (p, seed): train(params, corpora, name, p, seed) for p in PRECISIONS for seed in seeds
        }
        for what, gaps in compare(curves, seeds).items():
            print(
                f"{name:6s} {what:27s} mean {mean(gaps):+.4f}, between {min(gaps):+.4f} and"
                f" {max(gaps):+.4f}"
            )
        ends = [curves["float32", seed][1][-1] for seed in seeds]
        print(
            f"{name:6s} dev loss in float32 {mean(ends):.4f}, standard deviation over seeds"
            f" {stdev(ends):.4f}"
        )


if __name__ == "__main__":
    main()
