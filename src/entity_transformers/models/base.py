"""What a step sees of a language model, whatever its kind: it reads windows, hands a state on from
one to the next, and scores the tokens that follow.

Dimensions: B documents or streams side by side, T tokens of a window, R rows of a memory, W width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional

from entity_transformers.artifacts import check, read_json
from entity_transformers.corpus.windows import Window
from entity_transformers.kinds import Kind

IGNORED = -100
CHUNK = 2048
INDEX = "model.safetensors.index.json"
PATTERNS = ("config.json", "model*.safetensors", INDEX)


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


def refuse_context(batch: Batch, who: str) -> None:
    """ValueError for a window with tokens that an earlier one had."""
    if batch.new:
        raise ValueError(
            f"the first {batch.new} tokens of the window were read before: {who} reads each once"
        )


class State(Protocol):
    """What a model hands on from one window to the next: a value, never changed in place.

    `EntityMemory` is GPT2E's; a recurrent network's is its (h, c).
    """

    def reset(self, rows: Tensor) -> State:
        """As at the start of a document: the rows bool [B], or single vectors bool [B, R]."""

    def detach(self) -> State:
        """Without gradient: later windows no longer reach the ones read so far."""

    def select(self, rows: Tensor | slice) -> State:
        """The documents ``rows``: int64 indices, bool [B] or a slice."""

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps, each [B, ...]."""

    def replace(self, tensors: Mapping[str, Tensor]) -> State:
        """The same with the tensors of `tensors`."""


class Nothing:
    """The state of a model that hands nothing on."""

    def reset(self, rows: Tensor) -> Nothing:
        """Itself."""
        return self

    def detach(self) -> Nothing:
        """Itself."""
        return self

    def select(self, rows: Tensor | slice) -> Nothing:
        """Itself."""
        return self

    def tensors(self) -> dict[str, Tensor]:
        """None."""
        return {}

    def replace(self, tensors: Mapping[str, Tensor]) -> Nothing:
        """Itself."""
        return self


class LanguageModel(ABC):
    """A model of some kind around its torch ``module``; `build` and `load` of its home make one.

    Which of the capabilities it has, its ``kind`` says; `attention_modules` is for those that can
    "attend", the losses for those that are "causal" (of the tokens that follow) or "masked" (of
    those in the hidden states' own place).
    """

    kind: ClassVar[Kind]
    module: nn.Module
    width: int
    context: int | None
    """Tokens of the longest window; None: no limit, the state carries everything."""
    memory_write: str = "last"
    """Which state of a mention stands for its entity: of its last token, or the mean."""
    mask: int
    """The token that stands for a hidden one, for kinds that are "masked"."""
    objective: str = "causal"
    """What training minimises: "causal", the nats of each next token; another name stands for what
    `draw` and `sum_losses` say.
    """

    def start(self, rows: int, entities: int = 0) -> Any:
        """The state of ``rows`` documents, of at most ``entities`` entities each, before any
        token.
        """
        return Nothing()

    @abstractmethod
    def encode(self, batch: Batch, state: Any) -> tuple[Tensor, Any]:
        """Final hidden states [B, T, W] of a window, and the state that it leaves."""

    @property
    def output_weight(self) -> Tensor:
        """The matrix [vocabulary, W] whose product with a hidden state gives the logits."""
        raise NotImplementedError(f"{self.kind.label} predicts no next token")

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors, from which `load` of the kind's home makes it
        again.
        """

    def draw(self, window: Window, params: Any, generator: np.random.Generator) -> Window:
        """What training shows of a window, its targets -100 where nothing is predicted: for an
        objective of its own. ``params``: those of the entry's kind.
        """
        raise NotImplementedError(f"{self.kind.label} learns each next token")

    def sum_losses(
        self, batch: Batch, targets: Tensor, state: Any, share: float, params: Any
    ) -> tuple[Tensor, Any]:
        """The losses of a window that `draw` gave, and the state that it leaves: for an objective
        of its own, which is their sum over a step divided by the targets that are predicted.

        ``share``: those targets among all tokens of the step.
        """
        raise NotImplementedError(f"{self.kind.label} learns each next token")

    def penalty(self, state: Any) -> Tensor | None:
        """What training adds to the losses of the window that left ``state``: a sum over its
        tokens; None: nothing. It is no part of any loss that is logged.
        """
        return None

    def backward_half(self, state: Any) -> tuple[Tensor, Tensor] | None:
        """Of a model that learns to predict from right to left as well, what it predicted so in the
        window that left ``state``: hidden states [B, T, W] and tokens [B, T], -100 for none. The
        mean of both directions' losses is then minimised, and the forward one is logged.
        """
        return None

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

    def nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood in nats, float32 [B, T], of the targets [B, T]; 0 where one is
        -100. In chunks of 2,048 tokens.
        """
        parts = zip(
            hidden.reshape(-1, hidden.shape[-1]).split(CHUNK),
            targets.reshape(-1).split(CHUNK),
            strict=True,
        )
        weight = self.output_weight
        losses = [
            functional.cross_entropy(
                (states @ weight.T).float(), wanted, ignore_index=IGNORED, reduction="none"
            )
            for states, wanted in parts
        ]
        return torch.cat(losses).view(targets.shape)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of every next token [..., V], whose softmax is its probability."""
        return hidden @ self.output_weight.T

    def guess(self, hidden: Tensor) -> Tensor:
        """The likeliest next token after each hidden state [..., W]: int64 [...]."""
        return (hidden @ self.output_weight.T).argmax(-1)

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

    def compile(self, mode: str) -> None:
        """Have torch compile what `encode` runs."""
        self.module.compile(mode=mode)

    def attend_packed(self) -> None:  # noqa: B027 - for most kinds there is nothing to do
        """Attend without a mask in windows in which documents begin, from now on, and without
        dropout of weights. A model that reads no mask stays as it is.
        """

    def checkpoint_activations(self) -> None:
        """Compute activations again in the backward pass."""
        raise NotImplementedError(f"{self.kind.label} has no gradient checkpointing")

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


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Around the loading of a saved model, whose weights are read from safetensors alone.

    FileNotFoundError where no model was saved; ValueError for weights of another format (a pickle
    can run code), and for files that are damaged or not those of the folder's sha256.json.
    """
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"{folder}: no saved model there (config.json is missing): train it first, or correct"
            " the path"
        )
    files = list_weights(folder)
    index = folder / INDEX
    shards = read_json(index).get("weight_map", {}).values() if index.is_file() else []
    if not set(shards) <= {file.name for file in files} or not any(map(_is_weights, files)):
        others = sorted({*shards} | {f.name for f in folder.iterdir()} - {f.name for f in files})
        raise ValueError(
            f"{folder}: no model*.safetensors with all its weights (there is"
            f" {', '.join(others) or 'nothing else'}), and nothing else is loaded, since a pickle"
            " can run code: save it with transformers as safetensors"
        )
    for file in files:
        check(file)
    try:
        yield
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{folder}: weights that can't be read ({error}): save it again") from None


def list_weights(folder: Path | None) -> list[Path]:
    """The files that a model is loaded from; none for None."""
    return sorted(path for name in PATTERNS for path in folder.glob(name)) if folder else []


def _is_weights(path: Path) -> bool:
    return path.suffix == ".safetensors"
