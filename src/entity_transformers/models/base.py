"""The interface of language models of every kind: a model reads windows, passes a state from one to
the next, and scores the tokens that follow.

Dimensions: B documents or streams side by side, T tokens of a window, R rows of a memory, W width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

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
"""Words whose logits are computed at once, to fit into a CPU's cache; on other devices, and for
vocabularies of at most four blocks, all of them."""


def measure_losses(states: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Return the negative log-likelihoods in nats, float32 [N], of targets [N] under the logits
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
    """Return the model's only list of ``count`` blocks; none or several raise ValueError."""
    lists = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == count]
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
    entity_ids int64 [B, T]: the row of the memory for the entity of each token, as far as the model
               is given labels; 0, or None: no entity. For a "guided" kind in training alone
    positions  int64 [B, T]: the position of each token in its own document, where several
               documents are packed into a row; None: one document per row
    fresh      bool [B, R]: rows of the memory whose document begins in this window; None: none
    begins     bool [B, T]: does a document begin with this token? Only for kinds without a longest
               window (`LanguageModel.context` None); None: the window continues from the state
    new        first column that no earlier window had: those before it are context, read again
    lengths    int64 [B]: tokens of each row before its padding; None: no padding. For kinds that
               see later tokens
    more       further output of `LanguageModel.draw`, by name, each [B, ...]
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
        """bool [B, T]: False at padding, which is on the right; None: no padding."""
        if self.lengths is None:
            return None
        places = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return places < self.lengths[:, None]


def find_together(positions: Tensor) -> Tensor:
    """Return which tokens of a row share a document, bool [B, T, T]; a document begins wherever
    ``positions`` [B, T] is 0.
    """
    documents = (positions == 0).cumsum(1)
    return documents[:, :, None] == documents[:, None]


def refuse_context(batch: Batch, who: str) -> None:
    """Raise ValueError for a window that repeats tokens of an earlier one."""
    if batch.new:
        raise ValueError(
            f"the first {batch.new} tokens of the window were already read: {who} reads none twice"
        )


@dataclass(frozen=True)
class State:
    """What a model passes from one window to the next, as a value that is never changed in place;
    `EntityMemory` has the same methods. Fields that are tensors are [B, ...].

    This base class passes on nothing. The two below belong to the window just read; no state
    derived from this one has them.

    penalty   scalar: a term, summed over the window's tokens, that training adds to the losses;
              no logged loss includes it
    backward  a backward half's predictions: hidden states [B, T, W], tokens [B, T], -100 for none.
              Training minimises the mean of both directions' losses and logs the forward one
    """

    penalty: Tensor | None = field(default=None, kw_only=True)
    backward: tuple[Tensor, Tensor] | None = field(default=None, kw_only=True)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return a state whose tensors [B, ...] are ``change(tensor)``."""
        own = replace(self, penalty=None, backward=None)
        tensors = {name: change(v) for name, v in vars(own).items() if isinstance(v, Tensor)}
        return replace(own, **cast(Any, tensors))

    def reset(self, rows: Tensor) -> Self:
        """Return the state with the rows (bool [B]) zeroed, as at the start of a document."""
        return self._map(lambda own: own.masked_fill(rows.view(-1, *[1] * (own.ndim - 1)), 0))

    def detach(self) -> Self:
        """Return the state without gradient, so that none flows back into earlier windows."""
        return self._map(Tensor.detach)

    def select(self, rows: Tensor | slice) -> Self:
        """Return the state of the documents ``rows``: int64 indices, bool [B] or a slice."""
        return self._map(lambda own: own[rows.to(own.device) if isinstance(rows, Tensor) else rows])

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each [B, ...]."""
        return {k: v for k, v in vars(self.detach()).items() if isinstance(v, Tensor)}

    def replace(self, tensors: Mapping[str, Tensor]) -> Self:
        """Return the state with its tensors replaced by those that `tensors` returned."""
        own = self.detach()
        changed = {name: tensors[name].to(tensor) for name, tensor in own.tensors().items()}
        return replace(own, **cast(Any, changed))


class LanguageModel(ABC):
    """A language model of some kind around a torch ``module``.

    ``kind`` lists its capabilities: the attention methods are for models that can "attend", the
    losses for those that are "causal" (losses of the tokens that follow) or "masked" (losses of the
    tokens at the hidden states' own positions). `find_class` finds the class of a kind.
    """

    kind: ClassVar[Kind]
    module: Any
    width: int
    context: int | None = None
    """Tokens of the longest window; None: no limit, since the state carries all context."""
    memory_write: str = "last"
    """Which hidden state of a mention represents its entity: its last token's, or the mean."""
    mask: Any
    """The id of the mask token, for kinds that are trained on masked tokens."""
    compiled: bool = False
    """Does torch compile what `encode` runs?"""
    objective: str = "causal"
    """What training minimises: "causal", the nats of each next token; under another name, the loss
    that `draw` and `sum_losses` define.
    """

    @classmethod
    def build(cls, entry: ModelEntry, vocabulary: int, end: int, seed: int) -> LanguageModel:
        """Build as in `build_model`; raise ValueError for weights of another type or shape."""
        raise NotImplementedError(f"{cls.kind.label} cannot be built from an entry")

    @classmethod
    def load(cls, folder: Path) -> LanguageModel:
        """Load a model in float32; FileNotFoundError if none is saved, ValueError for another."""
        raise NotImplementedError(f"{cls.kind.label} cannot be loaded from a folder")

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors, from which `load` restores the model."""

    def start(self, rows: int, entities: int = 0) -> Any:
        """Return the state of ``rows`` documents before any token, of ``entities`` at most each."""
        return State()

    @abstractmethod
    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        """Return the final hidden states [B, T, W] of a window and the state after it."""

    @property
    def output_weight(self) -> Tensor:
        """The matrix [vocabulary, W] whose product with a hidden state gives the logits."""
        weight: Tensor = self.module.get_output_embeddings().weight
        return weight

    @property
    def vocabulary(self) -> int:
        """The number of tokens that it knows."""
        return len(self.output_weight)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores of every token [..., V], whose softmax is its probability."""
        return hidden @ self.output_weight.T

    def guess(self, hidden: Tensor) -> Tensor:
        """Return the likeliest token for each hidden state [..., W]: int64 [...]."""
        return self.logits(hidden).argmax(-1)

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return the negative log-likelihoods in nats, float32 [B, T], of the targets [B, T], in
        chunks of 2,048 tokens; 0 where a target is -100. A kind with its own `logits` overrides
        this method as well.
        """
        weight = self.output_weight
        states, wanted = hidden.flatten(0, -2).split(CHUNK), targets.flatten().split(CHUNK)
        parts = zip(states, wanted, strict=True)
        losses = [measure_losses(part.to(weight.dtype), weight, ids) for part, ids in parts]
        return torch.cat(losses).view(targets.shape)

    def draw(self, window: Window, params: Any, generator: np.random.Generator) -> Window:
        """For kinds with another objective: return the window as training with the ``params`` of
        the entry shows it, with targets of -100 where nothing is predicted.
        """
        return window

    def sum_losses(
        self, batch: Batch, targets: Tensor, state: Any, share: float, params: Any
    ) -> tuple[Tensor, Any]:
        """For kinds with another objective: return the summed losses of a window from `draw` and
        the state after it. A step minimises their sum divided by its predicted targets, whose share
        among all tokens of the step is ``share``.
        """
        raise NotImplementedError(f"{self.kind.label} is trained to predict the next token")

    def encoder(self, layers: bool = False) -> LanguageModel:
        """Return the model whose `encode` gives the vectors of words and mentions: this one, unless
        the kind predicts from other states than these. ``layers``: for a tagger; the vectors of
        several layers side by side if the kind has "layers".
        """
        return self

    def split_layers(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """Split vectors [N, width] of an `encoder` with ``layers`` into the arrays that a tagger
        reads: ``vectors`` [N, width], or [N, layers, width] to be mixed; maybe ``later``
        [N, width], for its second BiLSTM.
        """
        return {"vectors": vectors}

    def attention_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        """Return the modules of each attention ("self", "entity"), one per layer; after
        `show_attention` was called, they return (output, weights [B, H, T, T] or None).
        """
        raise NotImplementedError(f"{self.kind.label} does not return attention weights")

    def show_attention(self) -> None:
        """From now on, compute attention in the form that also returns its weights."""
        raise NotImplementedError(f"{self.kind.label} does not return attention weights")

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """The modules that `encode` calls one after another, each on the output of the one before;
        none for kinds whose layers a tagger cannot mix.
        """
        return ()

    def block_states(self, found: Any) -> Tensor:
        """Return the hidden states [B, T, W] in a block's first input or in its output."""
        states: Tensor = found[0] if isinstance(found, tuple | list) else found
        return states

    @property
    def parts(self) -> Sequence[nn.Module]:
        """The modules that `encode` calls: the units that are compiled or recomputed."""
        return [self.module]

    def compile(self, mode: str) -> None:
        """Have torch compile what `encode` runs."""
        self.compiled = True
        for part in self.parts:
            part.compile(mode=mode)

    def attend_packed(self) -> None:  # noqa: B027 - for most kinds there is nothing to do
        """From now on, attend without a dense mask in windows in which documents begin, and without
        dropout of weights. A model that reads no mask does not change.
        """

    def checkpoint_activations(self) -> None:
        """Recompute activations in the backward pass instead of keeping them."""
        for part in self.parts:
            part.forward = partial(checkpoint, part.forward, use_reentrant=False)

    def can(self, *needs: str) -> bool:
        """Has its kind all these capabilities?"""
        return self.kind.can.issuperset(needs)

    def to(self, device: torch.device | str) -> Self:
        """Move the model to the device and return it."""
        self.module.to(device)
        return self

    def eval(self) -> Self:
        """Switch off dropout and return the model."""
        self.module.eval()
        return self

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.module.parameters()).device

    def count_parameters(self) -> int:
        """Count the trainable parameters, tied weights once."""
        return sum(parameter.numel() for parameter in self.module.parameters())


def find_class(kind: Kind) -> type[LanguageModel]:
    """Return the class of a kind, which its own module defines."""
    return next(
        one
        for one in vars(kind.module()).values()
        if isinstance(one, type) and one.__module__ == kind.home and vars(one).get("kind") is kind
    )


def build_model(entry: ModelEntry, vocabulary: int, end: int, *, seed: int) -> LanguageModel:
    """Build the entry's model with random weights from ``seed``, or with its ``initial_weights``.

    ``vocabulary``: number of tokens of the tokenizer; ``end``: the id of ``<|endoftext|>``.
    """
    return find_class(entry.kind).build(entry, vocabulary, end, seed)


def load_model(folder: Path, kind: Kind, device: torch.device | str = "cpu") -> LanguageModel:
    """Load a saved model for evaluation, in float32 unless its weights are pretrained ones that
    were taken over; FileNotFoundError if none is saved there.
    """
    return find_class(kind).load(folder).to(device).eval()
