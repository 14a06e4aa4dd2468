"""A trained pointer into a few tokens, kept by some policy, beside the window of an unchanged
model: the learnt counterpart of the continuous cache of `tasks.kept_cache`.

With h_t the model's final state (normalised to mean 0 and variance 1), and entry i the state h_i
before a kept token x_i, the scores of the entry and of the model are

    s_i = Q h_t · K h_i / sqrt(D),  s_0 = u · h_t + v

and one softmax over the model and all entries mixes p(w) = (1 - g) p_LM(w) + g sum over the entries
of a_i [x_i = w], as in a pointer sentinel mixture (Merity et al., 2017, equations 3 to 6). An entry
holds K h_i, in float16, and the token. Q, K, u and v are learnt on one fold of the texts for the
other, so that each text is judged once.

Dimensions: C windows of a text, T new tokens of each, M entries, W width, D the pointer's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from entity_transformers.encode.reader import lay_out, plan_windows
from entity_transformers.logs import log_progress
from entity_transformers.models.pointer.pointer import MARGIN, NOTHING
from entity_transformers.step import Rows
from entity_transformers.tasks import text_memory
from entity_transformers.tasks.kept_cache import fold_texts, read_texts
from entity_transformers.tasks.text_memory import Keep, Reading


@dataclass(frozen=True)
class Entries:
    """What is kept beside each window of a text.

    where    int64 [C, T]  the inputs that are new in it; the tokens after them are predicted
    valid    bool [C, T]   False where the text has ended
    entries  int64 [C, M]  places of the states before the kept tokens; -1: none
    """

    where: Tensor
    valid: Tensor
    entries: Tensor


def lay_entries(length: int, keep: Keep, window: int, stride: int) -> Entries:
    """Return the entries of a text's windows, without those that have no text before them."""
    plans = [one for one in plan_windows(length - 1, window, stride) if one[0]]
    kept = [keep(start) for start, _, _ in plans]
    kept = [places[places > 0] - 1 for places in kept]
    most = max([1, *map(len, kept)])
    padded = [np.pad(one, (0, most - len(one)), constant_values=-1) for one in kept]
    first = np.array([new for _, new, _ in plans], np.int64)
    where, valid = lay_out(first, np.array([end - new for _, new, end in plans], np.int64))
    laid = np.array(padded, np.int64).reshape(len(plans), most)
    return Entries(torch.from_numpy(where), torch.from_numpy(valid), torch.from_numpy(laid))


class KeptPointer(nn.Module):
    """The pointer's parameters Q, K, u and v."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.query, self.key = (nn.Linear(width, size, bias=False) for _ in range(2))
        self.model = nn.Linear(width, 1)
        nn.init.orthogonal_(self.query.weight)
        self.key.load_state_dict(self.query.state_dict())  # similar states have larger scores
        nn.init.normal_(self.model.weight, std=0.02 / math.sqrt(width))
        nn.init.constant_(self.model.bias, min(size, width) / math.sqrt(size) + MARGIN)

    def hold(self, states: Tensor) -> Tensor:
        """Return what is held of states [..., W], float16 [..., D]."""
        kept: Tensor = self.key(states).half()
        return kept

    def forward(self, states: Tensor, tokens: Tensor, nats: Tensor, kept: Entries) -> Tensor:
        """Return the nats [n] of the tokens after the valid inputs. ``states`` float32 [N, W] are
        normalised; ``nats`` [N] are those of each token under the model alone.
        """
        there = kept.entries.clamp_min(0)
        query, key = self.query(states)[kept.where], self.hold(states)[there].float()
        scores = query @ key.mT / math.sqrt(self.key.out_features)
        scores = scores.masked_fill((kept.entries < 0)[:, None], NOTHING)
        alone = self.model(states)[kept.where]
        total = torch.logaddexp(alone, scores.logsumexp(-1, keepdim=True))[..., 0]
        same = tokens[there + 1][:, None] == tokens[kept.where + 1][..., None]
        copied = scores.masked_fill(~same, NOTHING).logsumexp(-1)
        said = alone[..., 0] - nats[kept.where + 1]
        return (total - torch.logaddexp(said, copied))[kept.valid]


Text = tuple[Tensor, Tensor, Tensor, Entries]
"""A text's normalised states, its tokens, their nats under the model alone, and what is kept."""


def train_pointer(texts: Sequence[Text], section: Any, seed: int) -> KeptPointer:
    """Train a pointer by Adam, a step per text; texts no longer than a window teach nothing."""
    torch.manual_seed(seed)
    pointer = KeptPointer(texts[0][0].shape[1], section.size)
    optimizer = torch.optim.Adam(pointer.parameters(), lr=section.learning_rate)
    draw, texts = np.random.default_rng(seed), [text for text in texts if text[3].valid.any()]
    for _ in range(section.epochs):
        for d in draw.permutation(len(texts)):
            pointer(*texts[d]).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return pointer


def score_pointers(reading: Reading) -> Rows:
    """Yield the rows of step kept_pointer, means over the pointers of several seeds."""
    corpus, section = reading.corpus, reading.section
    folds, base, read = fold_texts(corpus.names), np.zeros(len(corpus.tokens)), []
    for own, states, nats, keeps in read_texts(reading):
        base[own] = nats
        normal = functional.layer_norm(states.float(), states.shape[-1:]).cpu()
        laid = [lay_entries(len(nats), keep, reading.window, reading.stride) for keep in keeps]
        read.append((own, normal, torch.from_numpy(nats), laid))
    yield from reading.list_rows(text_memory.NOTHING, 0, base)
    for k in log_progress(range(len(reading.keys)), f"window {reading.window}: pointers"):
        texts = [
            (normal, torch.from_numpy(corpus.tokens[own].astype(np.int64)), nats, laid[k])
            for own, normal, nats, laid in read
        ]
        found = np.tile(base, (section.trainings, 1))
        for number, fold in product(range(section.trainings), (False, True)):
            learnt = [text for text, other in zip(texts, folds, strict=True) if other != fold]
            pointer = train_pointer(learnt, section, reading.seed + number)
            for (own, *_), text, mine in zip(read, texts, folds, strict=True):
                if mine == fold:
                    with torch.inference_mode():
                        places = own.start + 1 + text[3].where[text[3].valid].numpy()
                        found[number, places] = pointer(*text).numpy()
        entry = pointer.hold(texts[0][0][0]).nbytes + corpus.tokens.itemsize
        sizes = [(laid[k].entries >= 0).sum(1) for *_, laid in read]
        most = max((int(one.max()) for one in sizes if len(one)), default=0)
        yield from reading.list_rows(reading.keys[k], most * entry, found.mean(0))
