"""Training speed of AWD-LSTM, compared with a plain loop over fastai's, and evaluation speed of
Transformer-XL with its memory, compared with a model that reads its whole window again after so
many tokens.

fastai's AWD_LSTM has its decoder, the penalties AR and TAR and as many dropouts; both sides read 20
streams in windows of 70 tokens with AdamW. Without fastai its rows are left out with a sentence.
Transformer-XL reads 256 tokens and remembers as many. The peer is the same model without a memory:
its windows of 256 tokens begin anew 1, 16 or 256 tokens further on and score what is new in them.
With 1, as Dai et al. (2019, section 4.4) evaluate a transformer, every token has 255 before it;
with 256 half of that.

    python benchmarks/recurrence.py
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import SPEEDS, Report, Sides, interleave, make_parser
from torch import Tensor
from torch.nn import functional
from training import VOCABULARY, draw_lengths, make_corpus, make_entry, make_training, plain_loop

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.models.base import Batch, LanguageModel, build_model

STREAMS, WINDOW, STEPS = 20, 70, 2
AWD = {
    "layers": 3, "width": 200, "hidden": 400, "weight_drop": 0.5, "embedding_dropout": 0.1,
    "input_dropout": 0.4, "hidden_dropout": 0.25, "output_dropout": 0.4,
    "activation_penalty": 2.0, "temporal_penalty": 1.0,
}  # fmt: skip
"""The rates of the paper's program, half of its widths."""
ROWS, CONTEXT, STRIDES = 8, 256, (1, 16, 256)
TARGET, TARGET_XL = 0.95, 10.0


def fastai_step(corpus: AlignedCorpus) -> Callable[[], None]:
    """A step of the peer: windows that follow one another in as many streams."""
    awd = import_module("fastai.text.models.awdlstm")
    core = import_module("fastai.text.models.core")
    names = {"emb_sz": "width", "n_hid": "hidden", "n_layers": "layers", "weight_p": "weight_drop"}
    names |= {f"{part}_p": f"{part}_dropout" for part in ("input", "hidden", "output")}
    names |= {"embed_p": "embedding_dropout"}
    config = awd.awd_lstm_lm_config | {theirs: AWD[ours] for theirs, ours in names.items()}
    model = core.get_language_model(awd.AWD_LSTM, VOCABULARY, config)
    streams = torch.from_numpy(corpus.tokens.astype(np.int64))
    streams = streams[: len(streams) // STREAMS * STREAMS].view(STREAMS, -1)
    places = itertools.cycle(range(0, streams.shape[1] - WINDOW, WINDOW))

    def draw() -> Tensor:
        place = next(places)
        return streams[:, place : place + WINDOW + 1]

    def lose(tokens: Tensor) -> Tensor:
        logits, raw, dropped = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss = loss + AWD["activation_penalty"] * dropped.pow(2).mean()
        return loss + AWD["temporal_penalty"] * (raw[:, 1:] - raw[:, :-1]).pow(2).mean()

    return plain_loop(model, lose, draw)


def make_readers(memory: int, size: Mapping[str, Any], vocabulary: int) -> list[LanguageModel]:
    """The same Transformer-XL with so many tokens of memory, and with none."""
    models = []
    for tokens in (memory, 0):
        entry = make_entry("transformer-xl", window=memory, memory_tokens=tokens, **size)
        models.append(build_model(entry, vocabulary, 0, seed=1).eval())
    return models


@torch.no_grad()
def read_on(model: LanguageModel, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Nats [B, T] of tokens [B, T + 1] but the first, and the state after them."""
    hidden, state = model.encode(Batch(tokens[:, :-1]), state)
    return model.nats(hidden, tokens[:, 1:]), state


@torch.no_grad()
def read_anew(model: LanguageModel, tokens: Tensor, new: int) -> Tensor:
    """Nats [B, new] of the last of tokens [B, T + 1], from a window that begins with the first."""
    hidden, _ = model.encode(Batch(tokens[:, :-1]), model.start(len(tokens)))
    return model.nats(hidden[:, -new:], tokens[:, -new:])


def compare_lstm(report: Report, rounds: int) -> None:
    """AWD-LSTM's rows."""
    if find_spec("fastai") is None:
        print("awd-lstm is left out: fastai is not installed (pip install fastai)")
        return
    corpus = make_corpus(draw_lengths())
    entry = make_entry("lstm", window=WINDOW, documents_per_step=STREAMS, **AWD)
    with tempfile.TemporaryDirectory() as folder:
        run = make_training(entry, corpus, Path(folder))
        sides = {"awd-lstm": run.train_step, "fastai": fastai_step(corpus)}
        times = interleave(sides, rounds, calls=STEPS)
    report.speeds(times, dict.fromkeys(sides, STREAMS * WINDOW), [("awd-lstm", "fastai", TARGET)])


def compare_segments(report: Report, rounds: int) -> None:
    """Transformer-XL's rows."""
    with_memory, without = make_readers(
        CONTEXT, {"layers": 4, "heads": 4, "width": 256}, VOCABULARY
    )
    tokens = torch.randint(1, VOCABULARY, (ROWS, 2 * CONTEXT + 1))
    _, state = read_on(with_memory, tokens[:, : CONTEXT + 1], with_memory.start(ROWS))
    window = tokens[:, CONTEXT:]
    name = "transformer-xl"
    sides: Sides = {name: lambda: read_on(with_memory, window, state)}
    for stride in STRIDES:
        sides[f"reread every {stride}"] = partial(read_anew, without, window, stride)
    times = interleave(sides, rounds)
    scored = {name: ROWS * CONTEXT} | {f"reread every {n}": ROWS * n for n in STRIDES}
    pairs = [(name, f"reread every {n}", TARGET_XL if n == 1 else None) for n in STRIDES]
    report.speeds(times, scored, pairs)


def main() -> None:
    """Measure and print."""
    options = make_parser(__doc__, __file__, rounds=7).parse_args()
    packages = ("torch", "transformers", "numpy", *["fastai"] * (find_spec("fastai") is not None))
    report = Report(__doc__, SPEEDS, options, packages)
    compare_lstm(report, options.rounds)
    compare_segments(report, options.rounds)
    report.write()


if __name__ == "__main__":
    main()
