"""Training steps of BERT, ELECTRA and XLNet against a plain loop over transformers' models: tokens
per second, as ratios.

4 layers, width 256, 256-token windows, batch 8, as in training.py; a row's number is the
vocabulary. The plain loops read whole windows of one document and hide 15 % of the tokens by a draw
of torch; BERT's is BertForMaskedLM and its own loss, ELECTRA's an ElectraForMaskedLM whose softmax
is sampled and an ElectraForPreTraining with the same embeddings and lambda. XLNet's is an
XLNetLMHeadModel that predicts the last sixth of a random order, with a memory of a window. Ours cut
their windows where documents meet, and attend within them.

    python benchmarks/masked.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Column, Report, interleave, make_parser, ratios
from torch import Tensor
from training import (
    GPT2_VOCABULARY,
    SAMPLE,
    STEPS,
    VOCABULARY,
    WINDOW,
    draw_lengths,
    make_corpus,
    make_training,
    resize,
)
from transformers import (
    BertConfig,
    BertForMaskedLM,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    XLNetLMHeadModel,
)

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.kinds import KINDS, ModelEntry, resolve
from entity_transformers.models.base import IGNORED
from entity_transformers.models.bert import shape
from entity_transformers.models.electra import shrink
from entity_transformers.models.xlnet import build_config

RATE, LAMBDA = 0.15, 50.0
COLUMNS = {
    "speed": Column("speed", "tokens/s"),
    "cpu": Column("ratio in CPU time", "ratio", spread=True),
    "ratio": Column("ratio", "ratio", spread=True),
}
Losses = Callable[[Tensor], Tensor]


def make_entry(kind: str, **changes: Any) -> ModelEntry:
    """An entry of that kind in the size of the comparison."""
    found = resolve(kind, {kind: {"kind": kind}}, SAMPLE.lm.model_dump(), SAMPLE.kinds, KINDS)
    size = {
        "layers": 4,
        "heads": 4,
        "width": 256,
        "window": WINDOW,
        "documents_per_step": 8,
        "dropout": 0.0,
        "steps": 400,
        "warmup_steps": 0,
        "validate_every": 400,
        "learning_rate": 1e-4,
    }
    return resize(found, **(size | changes))


def hide(tokens: Tensor, vocabulary: int, mask_share: float) -> tuple[Tensor, Tensor]:
    """Tokens with some hidden, and the labels there, as transformers' collator makes them: the mask
    with ``mask_share``, else half random tokens, half the token itself.
    """
    chosen = torch.rand(tokens.shape) < RATE
    masked = chosen & (torch.rand(tokens.shape) < mask_share)
    random = chosen & ~masked & (torch.rand(tokens.shape) < 0.5)
    shown = torch.where(random, torch.randint(vocabulary, tokens.shape), tokens)
    return shown.masked_fill(masked, vocabulary), tokens.masked_fill(~chosen, IGNORED)


def plain_bert(vocabulary: int) -> tuple[torch.nn.Module, Losses]:
    """transformers' model, and its loss on tokens."""
    model = BertForMaskedLM(BertConfig(**shape(make_entry("bert").lm, vocabulary, 0)))

    def lose(tokens: Tensor) -> Tensor:
        shown, labels = hide(tokens, vocabulary, 0.8)
        return model(shown, labels=labels).loss

    return model, lose


def plain_electra(vocabulary: int) -> tuple[torch.nn.Module, Losses]:
    """transformers' two models with one embedding, and their joint loss on tokens."""
    lm = make_entry("electra").lm
    config = ElectraConfig(**shape(lm, vocabulary, 0), embedding_size=lm.width)
    generator, discriminator = ElectraForMaskedLM(shrink(config)), ElectraForPreTraining(config)
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.tie_weights()

    def lose(tokens: Tensor) -> Tensor:
        shown, labels = hide(tokens, vocabulary, 1.0)
        chosen, answer = labels != IGNORED, generator(shown, labels=labels)
        with torch.no_grad():
            sampled = torch.multinomial(answer.logits[chosen].softmax(-1), 1)[:, 0]
        filled = tokens.masked_scatter(chosen, sampled)
        told = discriminator(filled, labels=(filled != tokens).long())
        return answer.loss + LAMBDA * told.loss

    return torch.nn.ModuleList([generator, discriminator]), lose


def plain_xlnet(vocabulary: int) -> tuple[torch.nn.Module, Losses]:
    """transformers' model with masks of a random order, its memory handed on."""
    entry = make_entry("xlnet")
    model, kept = XLNetLMHeadModel(build_config(entry, vocabulary, 0)), []
    count = round(WINDOW / entry.lm.partial_prediction)

    def lose(tokens: Tensor) -> Tensor:
        order = torch.rand(tokens.shape).argsort(1)
        asked = order[:, -count:]
        ranks = torch.full(tokens.shape, -1).scatter(1, asked, torch.arange(count).expand_as(asked))
        unseen = (ranks[:, None] >= 0) & (ranks[:, None] >= ranks[:, :, None])
        places = torch.nn.functional.one_hot(asked, WINDOW).float()
        given = model(
            tokens,
            perm_mask=unseen.float(),
            target_mapping=places,
            mems=kept[-1] if kept else None,
            labels=tokens.gather(1, asked),
        )
        kept[:] = [[layer.detach() for layer in given.mems]]
        return given.loss

    return model, lose


PLAIN = {"bert": plain_bert, "electra": plain_electra, "xlnet": plain_xlnet}


def plain_step(kind: str, corpus: AlignedCorpus, vocabulary: int) -> Callable[[], None]:
    """A step of the plain loop: AdamW, clipping, whole windows from anywhere."""
    model, lose = PLAIN[kind](vocabulary)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = np.random.default_rng(1)

    def step() -> None:
        starts = generator.integers(0, len(corpus.tokens) - WINDOW, 8)
        rows = np.stack([corpus.tokens[start : start + WINDOW] for start in starts])
        lose(torch.from_numpy(rows.astype(np.int64))).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def make_sides(folder: Path, vocabularies: Sequence[int]) -> dict[str, Callable[[], None]]:
    """One step of every side."""
    sides = {}
    for vocabulary in vocabularies:
        corpus = make_corpus(draw_lengths(), vocabulary)
        for kind in PLAIN:
            name = f"{kind} {vocabulary}"
            run = make_training(make_entry(kind), corpus, folder / name, vocabulary)
            sides[name] = run.train_step
            sides[f"plain {name}"] = plain_step(kind, corpus, vocabulary)
    return sides


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, __file__)
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    parser.add_argument("--steps", type=int, default=STEPS, help="of a round; default %(default)s")
    parser.add_argument(
        "--vocabularies", type=int, nargs="+", default=[VOCABULARY, GPT2_VOCABULARY]
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report = Report(__doc__, COLUMNS, options)
    with tempfile.TemporaryDirectory() as folder:
        sides = make_sides(Path(folder), options.vocabularies)
        times = interleave(sides, options.rounds, calls=options.steps)
    speed = {side: [8 * WINDOW / seconds for seconds in times[side].wall] for side in sides}
    for side, values in speed.items():
        report.row(side, speed=values)
    for side in (side for side in sides if not side.startswith("plain")):
        plain = f"plain {side}"
        cpu = ratios(times[plain].cpu, times[side].cpu)
        found = ratios(speed[side], speed[plain])
        report.row(f"{side} / plain", cpu=cpu, ratio=found, ratio_of=plain, at_least=0.95)
    report.write()


if __name__ == "__main__":
    main()
