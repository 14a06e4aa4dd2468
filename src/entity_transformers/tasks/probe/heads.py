"""What every attention head chooses, window by window: a layer's weights are reduced to choices
before the next layer runs.

Dimensions: L layers, H heads, B documents side by side, T tokens of a window, Q questions of the
split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import batch_by_length, plan_windows, read_windows
from entity_transformers.models.base import LanguageModel
from entity_transformers.tasks.probe.questions import (
    Questions,
    WindowQuestions,
    credit_choices,
    pool_attention,
)

Pooling = Literal["sum", "max"]
Key = tuple[str, str]  # (attention, entities), as in ("self", "off")


@dataclass(frozen=True)
class HeadScores:
    """What the heads of one attention answered.

    credits      float32 [L, H, Q]          1 where the head's choice is of the chain, 0 where not
                 (ties: a fraction)
    by_distance  float32 [L, H, Q] or None  the same for an attention that is the head's mean at
                 each distance (a control for position)
    profile      float64 [L, H, T]          the head's mean weight at each distance in tokens, over
                 the asking tokens' rows
    """

    credits: np.ndarray
    by_distance: np.ndarray | None
    profile: np.ndarray


class Recorder:
    """Turns the weights [B, H, T, T] of each layer into `HeadScores`; `begin` tells where the next
    window lies.
    """

    def __init__(
        self,
        model: LanguageModel,
        questions: Questions,
        *,
        window: int,
        pooling: Pooling,
        profile: np.ndarray | None,
    ) -> None:
        shape = (len(model.attention_modules()["self"]), model.heads)
        self.questions, self.pooling, self.profile = questions, pooling, profile
        self.credits = np.zeros((*shape, len(questions)), np.float32)
        self.by_distance = None if profile is None else np.zeros_like(self.credits)
        self.sums, self.counts = np.zeros((*shape, window)), np.zeros((shape[0], window), np.int64)
        self.asked: list[tuple[int, WindowQuestions]] = []

    def begin(self, firsts: np.ndarray) -> None:
        """First tokens int64 [B], in the split's arrays, of the next window of each document."""
        found = (
            (row, self.questions.windows.get(first)) for row, first in enumerate(firsts.tolist())
        )
        self.asked = [(row, asked) for row, asked in found if asked is not None]

    def see(self, layer: int, weights: Tensor | None) -> None:
        """The layer's weights [B, H, T, T] for this window; None where all visible tokens weigh the
        same.
        """
        for row, asked in self.asked:
            if weights is None:
                rows = _spread_evenly(
                    asked.queries,
                    int(max(asked.queries.max(), asked.tokens.max())) + 1,
                    self.credits.shape[1],
                )
            else:
                rows = (
                    weights[row][:, torch.from_numpy(asked.queries).to(weights.device)]
                    .float()
                    .cpu()
                    .numpy()
                )
            self.add(layer, rows, asked)

    def add(self, layer: int, rows: np.ndarray, asked: WindowQuestions) -> None:
        """The asking tokens' weights [H, Q', T] in one window of one document."""
        if not np.isfinite(rows).all():
            raise ValueError(
                f"an attention weight of layer {layer + 1} is not finite: the model diverged; train"
                " it again"
            )
        self.credits[layer][:, asked.numbers] = credit_choices(
            pool_attention(rows, asked, self.pooling), asked
        )
        distance = asked.queries[:, None] - np.arange(rows.shape[-1])
        _add_profile(self.sums[layer], self.counts[layer], rows, distance)
        if self.by_distance is not None and self.profile is not None:
            control = self.profile[layer][:, np.maximum(distance, 0)]
            self.by_distance[layer][:, asked.numbers] = credit_choices(
                pool_attention(control, asked, self.pooling), asked
            )

    def finish(self) -> HeadScores:
        """What was recorded; a distance that did not occur has weight 0."""
        return HeadScores(
            self.credits, self.by_distance, self.sums / np.maximum(self.counts, 1)[:, None]
        )


def _spread_evenly(queries: np.ndarray, tokens: int, heads: int) -> np.ndarray:
    """Weights [heads, Q, tokens] of a causal attention to equal keys."""
    visible = np.arange(tokens) <= queries[:, None]
    return np.broadcast_to(
        (visible / (queries[:, None] + 1)).astype(np.float32), (heads, *visible.shape)
    )


def _add_profile(
    sums: np.ndarray, counts: np.ndarray, rows: np.ndarray, distance: np.ndarray
) -> None:
    """Add weights [H, Q, T] at distances int64 [Q, T] (negative: not visible) to sums [H, window]
    and counts [window].
    """
    for row, apart in enumerate(distance):
        visible = apart >= 0
        sums[:, apart[visible]] += rows[:, row, visible]  # a row has each distance once
        counts[apart[visible]] += 1


@contextmanager
def watch(model: LanguageModel, attention: str, recorder: Recorder) -> Iterator[None]:
    """Hand the weights of every layer's ``attention`` (``self`` or ``entity``) to the recorder."""

    def see(layer: int, module: Any, arguments: Any, output: Any) -> None:
        if output[1] is None and attention == "self":
            raise ValueError(
                f"{type(module).__name__} gives no attention weights: set the model's attention to"
                " eager"
            )
        recorder.see(layer, output[1])

    modules = enumerate(model.attention_modules()[attention])
    handles = [module.register_forward_hook(partial(see, layer)) for layer, module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.inference_mode()
def score_heads(
    model: LanguageModel,
    corpus: AlignedCorpus,
    questions: Questions,
    *,
    window: int,
    batch: int,
    pooling: Pooling,
    profiles: Mapping[Key, np.ndarray] | None = None,
) -> dict[Key, HeadScores]:
    """What the heads of each attention answer: ``self`` with entities ``off`` and, for GPT2E,
    ``on``, and ``entity`` with them on.

    ``corpus`` has the labels that the model reads, ``questions`` the gold ones. ``profiles``: mean
    weights by distance [L, H, T] of another split, for the control. Attention is switched to the
    eager form, which gives its weights; one layer's [batch, H, window, window] are held at a time.
    A weight that is not finite raises ValueError.
    """
    model.show_attention()
    found: dict[Key, HeadScores] = {}
    for entities in ("off", "on") if "entity" in model.attention_modules() else ("off",):
        kinds = ("self", "entity") if entities == "on" else ("self",)
        given = {kind: None if profiles is None else profiles[kind, entities] for kind in kinds}
        recorders = {
            k: Recorder(model, questions, window=window, pooling=pooling, profile=given[k])
            for k in kinds
        }

        with ExitStack() as watching:
            for kind, recorder in recorders.items():
                watching.enter_context(watch(model, kind, recorder))
            text = corpus if entities == "on" else give(corpus, "none")
            _read(model, text, list(recorders.values()), window=window, batch=batch)
        found |= {(kind, entities): recorder.finish() for kind, recorder in recorders.items()}
    return found


def _read(
    model: LanguageModel,
    corpus: AlignedCorpus,
    recorders: Sequence[Recorder],
    *,
    window: int,
    batch: int,
) -> None:
    """Read the split, telling the recorders before each forward pass where its windows lie."""
    reader = read_windows(model, corpus, window=window, stride=window, batch=batch)
    for firsts in plan_firsts(corpus.offsets, window, batch):
        for recorder in recorders:
            recorder.begin(firsts)
        assert np.array_equal(next(reader).where[:, 0], firsts)


def plan_firsts(offsets: np.ndarray, window: int, batch: int) -> Iterator[np.ndarray]:
    """First tokens int64 [B] of the windows of each forward pass of `read_windows`, in its order,
    windows one after another.
    """
    lengths = np.diff(offsets)
    for documents in batch_by_length(lengths, batch):
        for start, _, _ in plan_windows(int(lengths[documents[0]]), window, window):
            yield offsets[documents[lengths[documents] > start]] + start
