"""What a step sees of a language model, whatever its kind: it reads windows, hands a state on from
one to the next, and scores the tokens that follow.

Dimensions: B documents or streams side by side, T tokens of a window, R rows of a memory, W width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from entity_transformers.corpus.windows import Window
from entity_transformers.kinds import Kind, ModelEntry

IGNORED = -100
CHUNK = 2048
BLOCK = {"cpu": 2048}
"""Words of a vocabulary whose logits are made at once, so that a CPU's cache holds them; elsewhere,
and of vocabularies below four blocks, all of them.
"""


def measure_losses(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood in nats, float32 [N], of targets [N] under the logits
    states [N, W] @ weight [V, W].T, block by block of the vocabulary; 0 where a target is -100.
    """
    size = BLOCK.get(weight.device.type, len(weight))
    if len(weight) <= 4 * size:
        logits = (states @ weight.T).float()
        return functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="none")
    sums, own, first = [], torch.zeros(len(targets), device=weight.device), 0
    for block in weight.split(size):
        logits = (states @ block.T).float()
        sums.append(logits.logsumexp(-1))
        place = targets - first
        found = logits.gather(-1, place.clamp(0, len(block) - 1)[:, None])[:, 0]
        own = torch.where((place >= 0) & (place < len(block)), found, own)
        first += len(block)
    return torch.where(targets == IGNORED, 0.0, torch.stack(sums, -1).logsumexp(-1) - own)


def find_blocks(model: nn.Module, count: int) -> list[nn.Module]:
    """The model's one list of ``count`` blocks; none or several raise ValueError."""
    lists = [
        module
        for module in model.modules()
        if isinstance(module, nn.ModuleList) and len(module) == count
    ]
    if len(lists) != 1:
        raise ValueError(
            f"{type(model).__name__} has {len(lists)} lists of {count} modules, expected 1: name"
            " its layers with blocks="
        )
    return list(lists[0])


@dataclass(frozen=True)
class Batch:
    """One window of B documents or streams side by side.

    tokens     int64 [B, T]
    entity_ids int64 [B, T]: the entity of each token as far as the model is given it, a row of its
               memory; 0, or None: no entity. For a "guided" kind in training alone
    positions  int64 [B, T]: where several documents are packed in a row, the place of each token
               in its own; None: one document per row
    fresh      bool [B, R]: rows of the memory whose document begins in this window; None: none
    begins     bool [B, T]: does a document begin with this token? Only for kinds without a window
               of their own (`LanguageModel.context` None); None: as the state says
    new        first column that no earlier window had: those before it are context, read again
    lengths    int64 [B]: tokens of each row before its padding; None: there is none. For kinds that
               see later tokens
    more       what else `LanguageModel.draw` gave, by name, each [B, ...]
    """

    tokens: Tensor
    entity_ids: Tensor | None = None
    positions: Tensor | None = None
    fresh: Tensor | None = None
    begins: Tensor | None = None
    new: int = 0
    lengths: Tensor | None = None
    more: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def valid(self) -> Tensor | None:
        """bool [B, T]: False at padding, which is on the right; None: there is none."""
        if self.lengths is None:
            return None
        places = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return places < self.lengths[:, None]


def find_together(positions: Tensor) -> Tensor:
    """Which tokens of a row are of one document, bool [B, T, T]: one begins at each position 0 of
    ``positions`` [B, T].
    """
    documents = (positions == 0).cumsum(1)
    return documents[:, :, None] == documents[:, None]


def refuse_context(batch: Batch, who: str) -> None:
    """ValueError for a window with tokens that an earlier one had."""
    if batch.new:
        raise ValueError(
            f"the first {batch.new} tokens of the window were read before: {who} reads each once"
        )


@dataclass(frozen=True)
class State:
    """What a model hands on from one window to the next: a value, never changed in place. Without
    further fields: nothing. `EntityMemory` has the same methods.

    Fields that are tensors are [B, ...]; the two below are of the window just read, and no state
    made from this one has them.

    penalty   scalar: what training adds to the window's losses, a sum over its tokens; it is no
              part of any loss that is logged
    backward  what a backward half predicted: hidden states [B, T, W] and tokens [B, T], -100 for
              none. The mean of both directions' losses is minimised, and the forward one is logged
    """

    penalty: Tensor | None = field(default=None, kw_only=True)
    backward: tuple[Tensor, Tensor] | None = field(default=None, kw_only=True)

    def map(self, change: Callable[[str, Tensor], Tensor]) -> Self:
        """With each tensor [B, ...] changed, which ``change`` is given with its name."""
        values: dict[str, Any] = vars(replace(self, penalty=None, backward=None))
        values = {k: change(k, v) if isinstance(v, Tensor) else v for k, v in values.items()}
        return replace(self, **values)

    def reset(self, rows: Tensor) -> Self:
        """As at the start of a document, zeros: the rows bool [B]."""
        return self.map(lambda _, own: own.masked_fill(rows.view(-1, *[1] * (own.ndim - 1)), 0))

    def detach(self) -> Self:
        """Without gradient: later windows no longer reach the ones read so far."""
        return self.map(lambda _, own: own.detach())

    def select(self, rows: Tensor | slice) -> Self:
        """The documents ``rows``: int64 indices, bool [B] or a slice."""
        return self.map(
            lambda _, own: own[rows.to(own.device) if isinstance(rows, Tensor) else rows]
        )

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps, each [B, ...]."""
        return {k: v for k, v in vars(self.detach()).items() if isinstance(v, Tensor)}

    def replace(self, tensors: Mapping[str, Tensor]) -> Self:
        """The same with the tensors of `tensors`."""
        return self.map(lambda name, own: tensors[name].to(own))


class LanguageModel(ABC):
    """A model of some kind around its torch ``module``.

    ``kind`` says what it is capable of: attention is for models that can "attend", the losses are
    for those that are "causal" (of the tokens that follow) or "masked" (of those in the hidden
    states' own places). `find_class` finds that of a kind in the kind's module.
    """

    kind: ClassVar[Kind]
    module: Any
    width: int
    context: int | None = None
    """Tokens of the longest window; None: no limit, the state carries everything."""
    memory_write: str = "last"
    """Which state of a mention stands for its entity: that of its last token, or the mean."""
    mask: Any
    """The token that stands for a hidden one, for kinds that are "masked"."""
    compiled: bool = False
    """Does torch compile what `encode` runs?"""
    objective: str = "causal"
    """What training minimises: "causal", the nats of each next token; with another name, what
    `draw` and `sum_losses` say.
    """

    @classmethod
    def build(cls, entry: ModelEntry, vocabulary: int, end: int, seed: int) -> LanguageModel:
        """As `build_model`; a folder without a model of this type and shape raises ValueError."""
        raise NotImplementedError(f"{cls.kind.label} is not built from an entry")

    @classmethod
    def load(cls, folder: Path) -> LanguageModel:
        """A saved model in float32; none saved there: FileNotFoundError, another: ValueError."""
        raise NotImplementedError(f"{cls.kind.label} is not loaded from a folder")

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors, from which `load` makes it again."""

    def start(self, rows: int, entities: int = 0) -> Any:
        """The state of ``rows`` documents, of at most ``entities`` entities each, before any
        token.
        """
        return State()

    @abstractmethod
    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        """Final hidden states [B, T, W] of a window, and the state that it leaves."""

    @property
    def output_weight(self) -> Tensor:
        """The matrix [vocabulary, W] whose product with a hidden state gives the logits."""
        weight: Tensor = self.module.get_output_embeddings().weight
        return weight

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of every token [..., V], whose softmax is its probability."""
        return hidden @ self.output_weight.T

    def guess(self, hidden: Tensor) -> Tensor:
        """The likeliest token of each hidden state [..., W]: int64 [...]."""
        return self.logits(hidden).argmax(-1)

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood in nats, float32 [B, T], of the targets [B, T]; 0 where one is
        -100. In chunks of 2,048 tokens.
        """
        parts = zip(
            hidden.reshape(-1, hidden.shape[-1]).split(CHUNK),
            targets.reshape(-1).split(CHUNK),
            strict=True,
        )
        losses = [self.score(states, wanted) for states, wanted in parts]
        return torch.cat(losses).view(targets.shape)

    def score(self, states: Tensor, targets: Tensor) -> Tensor:
        """The same of hidden states [N, W] and targets [N], all at once. A kind that overrides
        `logits` overrides this as well.
        """
        weight = self.output_weight
        return measure_losses(states.to(weight.dtype), weight, targets)

    def draw(self, window: Window, params: Any, generator: np.random.Generator) -> Window:
        """What training shows of a window, its targets -100 where nothing is predicted: for an
        objective of its own. ``params``: those of the entry's kind.
        """
        return window

    def sum_losses(
        self, batch: Batch, targets: Tensor, state: Any, share: float, params: Any
    ) -> tuple[Tensor, Any]:
        """The losses of a window that `draw` gave, and the state that it leaves: for an objective
        of its own, which is their sum over a step divided by the targets that are predicted.

        ``share``: those targets among all tokens of the step.
        """
        raise NotImplementedError(f"{self.kind.label} learns each next token")

    def encoder(self, layers: bool = False) -> LanguageModel:
        """The model whose `encode` gives the vectors of words and mentions: itself, but for a kind
        that has others than those it predicts from. ``layers``: for a tagger, of a kind that has
        "layers" several side by side.
        """
        return self

    def split_layers(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays that a tagger reads, of vectors [N, width] of an `encoder` with ``layers``:
        ``vectors`` [N, width], or [N, layers, width], which it mixes; maybe ``later`` [N, width],
        for its second BiLSTM.
        """
        return {"vectors": vectors}

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        """Modules by attention ("self", "entity"), one per layer, which return (output, weights
        [B, H, T, T] or None) once `show_attention` was called.
        """
        raise NotImplementedError(f"{self.kind.label} gives no attention weights")

    def show_attention(self) -> None:
        """Compute attention in the form that gives its weights, from now on."""
        raise NotImplementedError(f"{self.kind.label} gives no attention weights")

    @property
    def heads(self) -> int:
        """Attention heads per layer."""
        raise NotImplementedError(f"{self.kind.label} has no attention heads")

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """The modules that `encode` calls one after another, each on the states that the one before
        gave; none for kinds whose layers a tagger cannot mix.
        """
        return ()

    def block_states(self, found: Any) -> Tensor:
        """The hidden states [B, T, W] in what a block is given first, or in what it gives."""
        states: Tensor = found[0] if isinstance(found, tuple | list) else found
        return states

    @property
    def parts(self) -> Sequence[nn.Module]:
        """The modules that `encode` calls: what is compiled, or computed again."""
        return [self.module]

    def compile(self, mode: str) -> None:
        """Have torch compile what `encode` runs."""
        self.compiled = True
        for part in self.parts:
            part.compile(mode=mode)

    def attend_packed(self) -> None:  # noqa: B027 - for most kinds there is nothing to do
        """Attend without a mask in windows in which documents begin, from now on, and without
        dropout of weights. A model that reads no mask stays as it is.
        """

    def checkpoint_activations(self) -> None:
        """Compute activations again in the backward pass."""
        for part in self.parts:
            part.forward = partial(checkpoint, part.forward, use_reentrant=False)

    def can(self, *needs: str) -> bool:
        """Has its kind all these capabilities?"""
        return self.kind.can.issuperset(needs)

    def to(self, device: torch.device | str) -> LanguageModel:
        """Itself, on the device."""
        self.module.to(device)
        return self

    def eval(self) -> LanguageModel:
        """Itself, without dropout."""
        self.module.eval()
        return self

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.module.parameters()).device

    def count_parameters(self) -> int:
        """Trainable numbers, tied weights once."""
        return sum(parameter.numel() for parameter in self.module.parameters())


def find_class(kind: Kind) -> type[LanguageModel]:
    """The class of the kind's own module whose ``kind`` it is."""
    return next(
        one
        for one in vars(kind.module()).values()
        if isinstance(one, type) and one.__module__ == kind.home and vars(one).get("kind") is kind
    )


def build_model(entry: ModelEntry, vocabulary: int, end: int, *, seed: int) -> LanguageModel:
    """The entry's model with random weights from ``seed``, or those of its ``initial_weights``.

    ``vocabulary``: tokens of the encoder; ``end``: the id of ``<|endoftext|>``.
    """
    return find_class(entry.kind).build(entry, vocabulary, end, seed)


def load_model(folder: Path, kind: Kind, device: torch.device | str = "cpu") -> LanguageModel:
    """A saved model in float32, ready to evaluate; none saved there: FileNotFoundError."""
    return find_class(kind).load(folder).to(device).eval()
