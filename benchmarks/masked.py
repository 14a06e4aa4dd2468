"""Training speed of BERT, ELECTRA and XLNet, compared with a plain loop over transformers' models.

4 layers, width 256, 256-token windows, batch 8, as in training.py; a row's number is the
vocabulary. The plain loops read whole windows of one document and hide 15 % of the tokens by a draw
of torch; BERT's is BertForMaskedLM and its own loss, ELECTRA's an ElectraForMaskedLM whose softmax
is sampled and an ElectraForPreTraining with the same embeddings and lambda. XLNet's is an
XLNetLMHeadModel that predicts the last sixth of a random order, with a memory of a window. Ours cut
their windows where documents meet, and attend within them.

    python benchmarks/masked.py
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import SPEEDS, Report, Sides, interleave, make_parser
from entity_transformers.models.xlnet import build_config
from torch import Tensor
from training import (
    GPT2_VOCABULARY,
    STEPS,
    VOCABULARY,
    WINDOW,
    draw_lengths,
    draw_windows,
    make_corpus,
    make_entry,
    make_training,
    plain_loop,
)
from transformers import (
    BertConfig,
    BertForMaskedLM,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    XLNetLMHeadModel,
)

from entity_transformers.models.base import IGNORED
from entity_transformers.models.bert import shape
from entity_transformers.models.electra import shrink

RATE, LAMBDA = 0.15, 50.0
Losses = Callable[[Tensor], Tensor]


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
    model, kept = XLNetLMHeadModel(build_config(entry, vocabulary, 0)), list[Any]()
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


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, __file__, rounds=5, steps=STEPS)
    parser.add_argument(
        "--vocabularies", type=int, nargs="+", default=[VOCABULARY, GPT2_VOCABULARY]
    )
    options = parser.parse_args()
    report, sides, pairs = Report(__doc__, SPEEDS, options), Sides(), []
    with tempfile.TemporaryDirectory() as folder:
        for vocabulary, kind in itertools.product(options.vocabularies, PLAIN):
            corpus, name = make_corpus(draw_lengths(), vocabulary), f"{kind} {vocabulary}"
            run = make_training(make_entry(kind), corpus, Path(folder) / name, vocabulary)
            draw = draw_windows(corpus, 8, WINDOW)
            sides[name] = run.train_step
            sides[f"plain {name}"] = plain_loop(*PLAIN[kind](vocabulary), draw)
            pairs.append((name, f"plain {name}", 0.95))
        times = interleave(sides, options.rounds, calls=options.steps)
    report.speeds(times, dict.fromkeys(sides, 8 * WINDOW), pairs)
    report.write()


if __name__ == "__main__":
    main()
