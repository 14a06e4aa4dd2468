"""Decisions are learnt from documents that a model has read once, and scored on others.

Dimensions: T predicted tokens of a document, W the model's width.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import get_cosine_schedule_with_warmup

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import compute_token_losses
from entity_transformers.kinds import ModelEntry
from entity_transformers.logs import log_progress
from entity_transformers.models.base import LanguageModel
from entity_transformers.resolve.registry import follow_from_text
from entity_transformers.tasks.cache import read_documents
from entity_transformers.tasks.decisions.decider import Decider, Parts, normalise
from entity_transformers.tasks.decisions.story import Layout, Story, lay_out, tell_story
from entity_transformers.tasks.groups import find_layer

ROWS = 256
"""Predictions that are made at once."""
PARTS = 4
"""Parts of so many predictions, of any documents, in a training step."""
WARMUP = 0.1


@dataclass(frozen=True)
class ReadStory:
    """A document, and what the model made of it.

    states  float32 [T, W]  the state before each predicted token
    tokens  int64 [T]
    plain   float64 [T]     nats of each under the model
    words   words that these tokens are of
    """

    name: str
    states: Tensor
    tokens: np.ndarray
    plain: np.ndarray
    words: int
    story: Story
    layout: Layout

    @property
    def after(self) -> Tensor:
        """The states after the tokens [T, W]. Nothing was read after the last one: there it is the
        state before it, on which only what proposes decisions depends.
        """
        return torch.cat([self.states[1:], self.states[-1:]])


@dataclass(frozen=True)
class Setting:
    """How everything is trained: section decisions' values."""

    width: int
    longest: int
    steps: int
    learning_rates: Sequence[float]
    seed: int


class Shift(nn.Module):
    """What knows no entities: one learnt vector, added to every state."""

    def __init__(self, states: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.zeros(states))


Trained = TypeVar("Trained", bound=nn.Module)
Loss = Callable[[nn.Module, ReadStory, int, int], Tensor]
"""Nats per token of the tokens from one to another of a document."""


MOST = 500_000
"""Tokens of a split, whose stories are held whole: of more every k-th document is read."""


def name_labels(entry: ModelEntry) -> str:
    """The labels that the model reads while decisions are learnt from it: its own where these
    follow from the text, else none. One that holds labels back itself says words by them, past the
    states that decisions move, so it gets none either.
    """
    return entry.labels if follow_from_text(entry.labels) and not entry.lags else "none"


@torch.inference_mode()
def read_stories(
    model: LanguageModel,
    corpus: AlignedCorpus,
    layer: str,
    *,
    given: str = "none",
    window: int,
    longest: int,
) -> list[ReadStory]:
    """Every document of the split, read in windows that follow one another with the labels
    ``given``, ``none`` or some that follow from the text; its mentions are those of ``layer``,
    ``gold`` or ``resolver:NAME``. Labels that tell more raise ValueError: the decisions' own
    mentions would be among what the model has read.
    """
    if given != "none" and not follow_from_text(given):
        raise ValueError(
            f"labels {given!r} tell more than the text does: expected none, or"
            " lagged-resolver:NAME of a resolver whose name ends in -causal"
        )
    labels, spans = find_layer(corpus, layer)
    reads = {"window": window, "stride": window, "batch": 1}
    found = []
    for d, (states, targets) in enumerate(read_documents(model, give(corpus, given), **reads)):
        place = corpus.document(d)
        own = slice(place.start + 1, place.stop)  # <|endoftext|> is not predicted
        story = tell_story(labels[own], spans[own], longest)
        found.append(
            ReadStory(
                corpus.names[d],
                states,
                targets.astype(np.int64),
                compute_token_losses(model, states, targets).astype(np.float64),
                len(np.unique(corpus.words[own])),
                story,
                lay_out(story),
            )
        )
    return found


def decide(decider: Decider, text: ReadStory) -> tuple[Parts, Tensor]:
    """log p of the decisions of a document, and the embeddings of its entities."""
    embeddings = decider.follow(normalise(text.after), text.layout)
    return decider.score_story(normalise(text.states), embeddings, text.layout), embeddings


def propose(proposal: Decider, text: ReadStory) -> Parts:
    """The same of a proposal, which decides on a token that it has read."""
    after = normalise(text.after)
    return proposal.score_story(after, proposal.follow(after, text.layout), text.layout)


def find_context(text: ReadStory, embeddings: Tensor) -> Tensor:
    """The embedding that each word depends on [T, K]."""
    return embeddings[torch.from_numpy(text.layout.given).to(embeddings.device)]


def joint_loss(model: LanguageModel) -> Loss:
    """Nats of words and decisions."""

    def loss(decider: nn.Module, text: ReadStory, start: int, end: int) -> Tensor:
        assert isinstance(decider, Decider)
        decisions, embeddings = decide(decider, text)
        states = decider.score_words(text.states, find_context(text, embeddings))
        words = _nats(model, states[start:end], text, start, end)
        return (words - decisions.total()[start:end]).mean()

    return loss


def proposal_loss(proposal: nn.Module, text: ReadStory, start: int, end: int) -> Tensor:
    """Nats of the decisions alone."""
    assert isinstance(proposal, Decider)
    return -propose(proposal, text).total()[start:end].mean()


def shift_loss(model: LanguageModel) -> Loss:
    """Nats of the words."""

    def loss(shift: nn.Module, text: ReadStory, start: int, end: int) -> Tensor:
        assert isinstance(shift, Shift)
        return _nats(model, text.states[start:end] + shift.vector, text, start, end).mean()

    return loss


def _nats(model: LanguageModel, states: Tensor, text: ReadStory, start: int, end: int) -> Tensor:
    targets = torch.from_numpy(text.tokens[start:end]).to(states.device)
    return model.nats(states[None], targets[None])[0]


def learn(
    make: Callable[[], Trained],
    loss: Loss,
    train: Sequence[ReadStory],
    choose: Sequence[ReadStory],
    setting: Setting,
    name: str,
) -> tuple[Trained, float]:
    """What `make` makes after AdamW with linear warm-up and cosine, parts of the texts in random
    order, with the learning rate of the least loss on ``choose``; and that rate.
    """
    trials = []
    for rate in setting.learning_rates:
        torch.manual_seed(setting.seed)
        module = make().to(train[0].states.device)
        optimiser = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=0.0)
        schedule = get_cosine_schedule_with_warmup(
            optimiser, round(WARMUP * setting.steps), setting.steps
        )
        parts = _draw_parts(train, setting.seed)
        for _ in log_progress(range(setting.steps), f"training {name}, rate {rate:g}"):
            for _ in range(PARTS):
                (loss(module, *next(parts)) / PARTS).backward()
            optimiser.step()
            optimiser.zero_grad()
            schedule.step()
        trials.append((module.eval().requires_grad_(False), rate, _mean(module, loss, choose)))
    found = [trial for trial in trials if math.isfinite(trial[2])]
    if not found:
        rates = ", ".join(map(str, setting.learning_rates))
        raise ValueError(f"{name}: no finite loss with the learning rates {rates}: lower them")
    module, rate, _ = min(found, key=lambda trial: trial[2])
    return module, rate


def _draw_parts(texts: Sequence[ReadStory], seed: int) -> Iterator[tuple[ReadStory, int, int]]:
    """Parts of so many tokens, with their ends, in random order, pass after pass."""
    parts = [
        (text, start, min(start + ROWS, len(text.tokens)))
        for text in texts
        for start in range(0, len(text.tokens), ROWS)
    ]
    if not parts:
        raise ValueError("no document of train has a token to learn decisions from")
    generator = random.Random(seed)
    while True:
        generator.shuffle(parts)
        yield from parts


@torch.inference_mode()
def _mean(module: nn.Module, loss: Loss, texts: Sequence[ReadStory]) -> float:
    sizes = [len(text.tokens) for text in texts]
    losses = [float(loss(module, text, 0, n)) for text, n in zip(texts, sizes, strict=True)]
    return float(np.average(losses, weights=sizes))


@torch.inference_mode()
def score_story(model: LanguageModel, decider: Decider, text: ReadStory) -> dict[str, float]:
    """Nats of a document by part: words given the decisions, begins, entities, lengths."""
    decisions, embeddings = decide(decider, text)
    states = decider.score_words(text.states, find_context(text, embeddings))
    words = compute_token_losses(model, states, text.tokens).astype(np.float64)
    named = {name: -float(part.double().sum()) for name, part in decisions._asdict().items()}
    return {"words": float(words.sum()), **named}


@torch.inference_mode()
def score_shift(model: LanguageModel, shift: Shift, text: ReadStory) -> float:
    """Nats of a document's words with that vector added to every state."""
    losses = compute_token_losses(model, text.states + shift.vector, text.tokens)
    return float(losses.astype(np.float64).sum())
