"""What EntityNLM and SetLM share: decisions are learnt from documents that a model has read once,
and scored on others.

Dimensions: T predicted tokens of a document, W the model's width.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import get_cosine_schedule_with_warmup

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import compute_token_losses, read_document
from entity_transformers.logs import log_progress
from entity_transformers.models.base import LanguageModel
from entity_transformers.step import Rows, Run
from entity_transformers.tasks.mentions import cut_documents, find_layer

MOST = 500_000
"""The most tokens of a split; of a larger one, every k-th document is read."""
PARTS, TOKENS = 4, 256
"""Number of document parts in a training step, and of tokens in each part."""
WARMUP = 0.1
Trained = TypeVar("Trained", bound=nn.Module)
Tell = Callable[[np.ndarray, np.ndarray, torch.device], Any]
"""`entity_nlm.tell_story` or `set_lm.tell_sets`"""


@dataclass(frozen=True)
class ReadText:
    """A document as a model has read it.

    states  float32 [T, W]  the state before each predicted token
    tokens  int64 [T]
    plain   float64 [T]     nats of each token under the model
    words   number of words that these tokens belong to
    story   its decisions: `entity_nlm.Story` or `set_lm.Sets`
    """

    name: str
    states: Tensor
    tokens: Tensor
    plain: np.ndarray
    words: int
    story: Any

    @property
    def after(self) -> Tensor:
        """The states after the tokens [T, W]; the last token's is the one before it."""
        return torch.cat([self.states[1:], self.states[-1:]])


def normalise(states: Tensor) -> Tensor:
    """Normalise states [..., W] to mean 0 and variance 1, the same scale for every model."""
    return functional.layer_norm(states, states.shape[-1:])


def find_latest(entity: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return each of these entities' latest token before each token, int64 [T, N]; -1: none yet."""
    places = np.where(entity[:, None] == ids, np.arange(len(entity))[:, None], -1)
    return np.maximum.accumulate(np.vstack([np.full((1, len(ids)), -1), places]))[:-1]


@torch.no_grad()
def read_texts(
    model: LanguageModel, corpus: AlignedCorpus, layer: str, tell: Tell, *, window: int
) -> list[ReadText]:
    """Read every document in consecutive windows, without labels, which would give the decisions
    away; ``tell`` makes them from the mentions of ``layer``, ``gold`` or ``resolver:NAME``.
    """
    labels, spans = find_layer(corpus, layer)
    text, found = give(corpus, "none"), []
    for d in range(len(corpus)):
        alone, place = text.part(slice(d, d + 1)), corpus.document(d)
        read, _, _ = read_document(model, alone, window=window, stride=window)
        states = read[:-1].float()  # nothing is predicted after the last token
        own = slice(place.start + 1, place.stop)  # <|endoftext|> is not predicted
        plain = compute_token_losses(model, states, corpus.tokens[own]).astype(np.float64)
        targets = torch.from_numpy(corpus.tokens[own].astype(np.int64)).to(states.device)
        words = len(np.unique(corpus.words[own]))
        story = tell(labels[own], spans[own], states.device)
        found.append(ReadText(corpus.names[d], states, targets, plain, words, story))
    return found


def word_nats(model: LanguageModel, states: Tensor, tokens: Tensor) -> Tensor:
    """Return the nats of tokens [n] after states [n, W], with what gradients need."""
    return model.nats(states[None], tokens[None])[0]


@torch.inference_mode()
def sum_words(model: LanguageModel, states: Tensor, text: ReadText) -> float:
    """Return the nats of a document's words after ``states``, which replace the model's."""
    nats = compute_token_losses(model, states, text.tokens.cpu().numpy())
    return float(nats.astype(np.float64).sum())


class Shift(nn.Module):
    """A baseline without entities: one learnt vector that is added to every state."""

    def __init__(self, states: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.zeros(states))

    def nats(self, model: LanguageModel, text: ReadText, start: int, end: int) -> Tensor:
        """Return the nats of the words from token ``start`` to ``end``."""
        return word_nats(model, text.states[start:end] + self.vector, text.tokens[start:end])


def _draw_parts(texts: Sequence[ReadText], seed: int) -> Iterator[tuple[ReadText, int, int]]:
    """Yield parts of `TOKENS` tokens, with start and end, in random order, pass after pass."""
    parts = [
        (text, start, min(start + TOKENS, len(text.tokens)))
        for text in texts
        for start in range(0, len(text.tokens), TOKENS)
    ]
    if not parts:
        raise ValueError("the train documents have no tokens to learn decisions from")
    generator = random.Random(seed)
    while True:
        generator.shuffle(parts)
        yield from parts


@dataclass
class Splits:
    """The documents that a step's ``section`` names, as its model reads them: ``train``, ``choose``
    and ``texts``, which are scored; and the learning rate chosen for each trained module.
    """

    model: LanguageModel
    section: Any
    seed: int
    train: Sequence[ReadText]
    choose: Sequence[ReadText]
    texts: Sequence[ReadText]
    rates: dict[str, float] = field(default_factory=dict)

    @property
    def words(self) -> int:
        """Number of words of the scored texts."""
        return sum(text.words for text in self.texts)

    def learn(self, name: str, make: Callable[[], Trained], nats: Callable[..., Tensor]) -> Trained:
        """Train what ``make`` makes with AdamW, linear warm-up and a cosine schedule on parts of
        the texts in random order, at each learning rate; return the module with the least loss on
        ``choose``. ``nats`` gives the loss of each token of a document from one to another.
        """
        model, steps, rates = self.model, self.section.steps, self.section.learning_rates
        best: tuple[float, Trained, float] | None = None
        whole = [(text, 0, len(text.tokens)) for text in self.choose]
        for rate in rates:
            torch.manual_seed(self.seed)
            module = make().to(model.device)
            optimiser = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=0.0)
            schedule = get_cosine_schedule_with_warmup(optimiser, round(WARMUP * steps), steps)
            parts = _draw_parts(self.train, self.seed)
            for _ in log_progress(range(steps), f"training {name}, rate {rate:g}"):
                for _ in range(PARTS):
                    (nats(module, model, *next(parts)).mean() / PARTS).backward()
                optimiser.step()
                optimiser.zero_grad()
                schedule.step()
            module.eval().requires_grad_(False)
            with torch.inference_mode():
                found = [float(nats(module, model, *one).mean()) for one in whole]
            loss = float(np.average(found, weights=[end for *_, end in whole]))
            if math.isfinite(loss) and (best is None or loss < best[0]):
                best = loss, module, rate
        if best is None:
            tried = ", ".join(map(str, rates))
            told = f"no finite loss at any of the learning rates {tried}: lower them"
            raise ValueError(f"{name}: {told}")
        _, module, self.rates[name] = best
        return module

    def score_baselines(self) -> dict[str, list[float]]:
        """Return the nats of each text under the model alone, and with a learnt vector."""
        shift = self.learn("shift", lambda: Shift(self.model.width), Shift.nats)
        shifted = [sum_words(self.model, text.states + shift.vector, text) for text in self.texts]
        return {"plain": [float(text.plain.sum()) for text in self.texts], "shift": shifted}

    def describe(
        self, nats: Sequence[float], about: Mapping[str, Any], is_cost: bool = False
    ) -> Rows:
        """Yield the loss per token, the perplexity per word unless this is a cost, and the nats."""
        sizes = [len(text.tokens) for text in self.texts]
        total, tokens = math.fsum(nats), sum(sizes)
        where = {"split": self.section.report, **about}
        yield {"measure": "loss", "value": total / tokens, "count": tokens, **where}
        if not is_cost:
            perplexity = math.exp(total / self.words)
            yield {"measure": "perplexity_word", "value": perplexity, "count": self.words, **where}
        for text, value, size in zip(self.texts, nats, sizes, strict=True):
            yield {"measure": "nll", "value": value, "count": size, "unit": text.name, **where}

    def describe_rates(self) -> Rows:
        """Yield the learning rates."""
        for name, value in self.rates.items():
            about = {"split": self.section.report, "trained": name}
            yield {"measure": "learning_rate", "value": value, **about}


def read_splits(run: Run, tell: Tell) -> Splits:
    """Read the documents that a run's section names."""
    section, model = run.section, run.trained
    model.module.requires_grad_(False)
    splits = [
        cut_documents(run.split(split), section.tokens, MOST)
        for split in ("train", section.choose, section.report)
    ]
    how: Any = {"window": run.entry.lm.window}
    train, choose, texts = (
        read_texts(model, split, section.labels, tell, **how) for split in splits
    )
    return Splits(model, section, run.seed, train, choose, texts)
