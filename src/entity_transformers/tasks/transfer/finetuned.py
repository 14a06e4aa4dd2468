"""A language model with new embeddings and a linear head: GPT-1's L3 = L2 + λ L1.

Dimensions: E examples, S their sequences (one, two, or one for each answer), T tokens, W width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from entity_transformers.corpus.tasks import Task
from entity_transformers.models.base import IGNORED, Batch, LanguageModel
from entity_transformers.tasks.transfer.inputs import NEW, Inputs

STANDARD_DEVIATION = 0.02
_LAYER = re.compile(r"(?:^|\.)(?:h|layer|layers|lstm)\.(\d+)\.")
_EMBEDDING = re.compile(r"(^|\.)(wte|wpe|tokens_embed|positions_embed|word_embedding|embeddings)\.")


@dataclass(frozen=True)
class Losses:
    """``task``: L2, the mean over examples; ``words``: L1, nats per token, of sequences' means."""

    task: Tensor
    words: Tensor


class Head(nn.Module):
    """Dropout, and a linear layer from the state of [extract] to a number for each label, or to
    one for a candidate.
    """

    def __init__(self, width: int, task: Task, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, len(task.labels) or 1)
        nn.init.normal_(self.linear.weight, std=STANDARD_DEVIATION)
        nn.init.zeros_(self.linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Numbers [..., labels] of states [..., W]."""
        result: Tensor = self.linear(self.dropout(states))
        return result


class Finetuned(nn.Module):
    """A model whose vocabulary has start, delimiter and extract at its end, and its head. Their
    embeddings and the head's weights are drawn from torch's present state.
    """

    def __init__(
        self, model: LanguageModel, task: Task, dropout: float, half: bool = False
    ) -> None:
        """``half``: the model, not its head, computes in bfloat16."""
        super().__init__()
        self.first = len(find_embeddings(model))
        extend_vocabulary(model)
        self.model, self.task, self.reduced = model, task, half
        self.module = model.module
        self.head = Head(model.width, task, dropout).to(model.device)

    def read(self, examples: Sequence[Inputs], words: bool = True) -> tuple[Tensor, Tensor]:
        """What the head says, [E, labels] or of choices [E, answers] (numbers [E, 1]); and the nats
        per token of each sequence [S], those after [start], zeros without ``words`` and of a model
        that sees later tokens.

        Examples with different numbers of candidates are padded with -inf.
        """
        rows = [torch.tensor(row) for example in examples for row in example.sequences]
        lengths = torch.tensor([len(row) for row in rows], device=self.model.device)
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.model.device)
        nats = torch.zeros(len(rows), device=tokens.device)
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self.reduced):
            hidden = self._encode(tokens, lengths, examples)
            if words and self.model.can("causal"):
                there = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
                targets = torch.where(there[:, 1:], tokens[:, 1:], IGNORED)
                nats = self.model.nats(hidden[:, :-1], targets).sum(1) / (lengths - 1)
        states = hidden.float()[torch.arange(len(rows), device=tokens.device), lengths - 1]
        parts = states.split([len(example.sequences) for example in examples])
        if self.task.shape == "pronoun":
            scores = [self.head(part)[:, 0] for part in parts]
            said = nn.utils.rnn.pad_sequence(scores, batch_first=True, padding_value=-torch.inf)
        else:
            said = self.head(torch.stack([part.sum(0) for part in parts]))
        return said, nats

    def _encode(self, tokens: Tensor, lengths: Tensor, examples: Sequence[Inputs]) -> Tensor:
        """Final hidden states [S, T, W] of sequences of so many tokens [S] and padding. With
        entities sequences are read twice: first the one of two texts that stands first, which
        leaves its entities in the memory, then all with that memory, without a gradient through
        it, as in pretraining.
        """
        rows = [torch.tensor(row) for example in examples for row in example.entities]
        both_sides = not self.model.can("causal")  # such a model must be told what is padding
        if not rows:
            whole = Batch(tokens, lengths=lengths if both_sides else None)
            return self.model.encode(whole, self.model.start(len(tokens)))[0]
        labels = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(tokens.device)
        read = torch.tensor([count for one in examples for count in one.read])
        places = torch.arange(tokens.shape[1])
        before = (places < read[:, None]).to(tokens.device)
        empty = self.model.start(len(tokens), int(labels.max()))
        context, whole = Batch(tokens, labels * before), Batch(tokens, labels)
        if both_sides:
            read = read.to(tokens.device)
            context = replace(context, lengths=torch.where(read > 0, read, lengths))
            whole = replace(whole, lengths=lengths)
        first, memory = self.model.encode(context, empty)
        second, _ = self.model.encode(whole, memory.detach())
        return torch.where(before[..., None], first, second)

    def losses(self, examples: Sequence[Inputs], words: bool = True) -> Losses:
        """Cross-entropy of the labels, and of the words: 0 where they are not asked for."""
        said, nats = self.read(examples, words)
        labels = torch.tensor([example.label for example in examples], device=said.device)
        return Losses(functional.cross_entropy(said, labels), nats.mean())


def find_embeddings(model: LanguageModel) -> Tensor:
    """The model's matrix of embeddings [tokens, W], a BERT's with its mask."""
    if model.can("causal"):
        return model.output_weight
    module: Any = model.module
    weight: Tensor = module.get_input_embeddings().weight
    return weight


def extend_vocabulary(model: LanguageModel, more: int = NEW) -> None:
    """Add embeddings from N(0, 0.02) to the model's, wherever it holds that matrix."""
    old = find_embeddings(model)
    drawn = STANDARD_DEVIATION * torch.randn(more, old.shape[1])
    new = nn.Parameter(torch.cat([old.detach(), drawn.to(old)]))
    for module in model.module.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter is old:
                setattr(module, name, new)
                if isinstance(module, nn.Embedding):
                    module.num_embeddings = len(new)


def keep_layers(model: LanguageModel, fresh: LanguageModel, layers: int) -> None:
    """Put the weights of ``fresh`` in the place of all but the model's embeddings and its first
    ``layers`` layers. More layers than it has, or names that tell no layers: ValueError.
    """
    own = dict(model.module.named_parameters())
    place = {name: _find_layer(name) for name in own}
    count = len({layer for layer in place.values() if layer is not None})
    if layers > count or not count:
        raise ValueError(
            f"transfer.layers {layers}: {model.kind.label} has {count} layers to transfer"
        )
    with torch.no_grad():
        for name, parameter in fresh.module.named_parameters():
            layer = place[name]
            above = layers < count and not _EMBEDDING.search(name)
            if above if layer is None else layer >= layers:
                own[name].copy_(parameter)


def _find_layer(name: str) -> int | None:
    """The layer that a weight belongs to, from 0; None: to none."""
    match = _LAYER.search(name)
    return int(match[1]) if match else None
