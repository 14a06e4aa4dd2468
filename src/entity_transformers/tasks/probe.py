"""Which attention heads point from a mention to an earlier mention of its chain (section 6's
outlook, after Clark et al. 2019)? The question is asked for each later mention in a window: which
of the earlier mentions in that window belong to its chain?

A mention is represented by the tokens of its head word. Attention is that of the last of them, and
is summed over those of an earlier mention.

Dimensions: L layers, H heads, B documents side by side, T tokens of a window, M mentions of a
window, K their probed tokens, Q questions (of the split where no window is named).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.labels import give
from entity_transformers.encode.mentions import Place, find_places
from entity_transformers.encode.reader import read_windows
from entity_transformers.models.base import LanguageModel
from entity_transformers.step import Rows

BASELINES = ("nearest", "same_head", "chance")
TIE = 1e-6
Key = tuple[str, str]
"""An attention and whether the model is given entities, as in ("self", "off")."""
Best = tuple[int, int] | None
"""Layer and head, counted from 0."""


@dataclass(frozen=True)
class WindowQuestions:
    """The questions of one window, whose tokens are counted from 0; mentions are in reading order.

    numbers        int64 [Q]     the questions' numbers in the split
    askers         int64 [Q]     the mentions that ask, out of the M
    queries        int64 [Q]     last probed token of the mention that asks
    tokens         int64 [K]     probed tokens of the M mentions, mention after mention
    firsts         int64 [M]     where each mention begins in ``tokens``
    earlier, same  bool [Q, M]   is the mention a candidate (earlier than the asking one), and is it
                   of the asking mention's chain
    """

    numbers: np.ndarray
    askers: np.ndarray
    queries: np.ndarray
    tokens: np.ndarray
    firsts: np.ndarray
    earlier: np.ndarray
    same: np.ndarray


@dataclass(frozen=True)
class Questions:
    """All questions of a split.

    split, names   of the split, and of its documents
    windows  the windows with questions, by their first token in the split's arrays
    table    a row per question: its document, the group of the asking mention's head word (-1:
             none), the number of candidates, and for each baseline (`BASELINES`) 1 if it chooses
             right, a fraction if it can only guess
    groups   of head words, by which answers are reported
    mentions, later   number of mentions; of those whose entity was mentioned before in the document
    """

    split: str
    names: Sequence[str]
    windows: Mapping[int, WindowQuestions]
    table: pd.DataFrame
    groups: Sequence[str]
    mentions: int
    later: int

    @cached_property
    def masks(self) -> dict[str, np.ndarray]:
        """The questions of each group, bool [Q] by name: ``all``, the groups, ``other``."""
        group = self.table["group"].to_numpy()
        masks = {"all": np.ones(len(group), bool)}
        masks |= {name: group == g for g, name in enumerate(self.groups)}
        return masks | {"other": group < 0}


def ask(
    documents: Sequence[Document],
    corpus: AlignedCorpus,
    groups: Mapping[str, Sequence[str]],
    *,
    window: int,
) -> Questions:
    """Return the questions of a split that is read in consecutive windows of ``window`` tokens. A
    later mention is asked about if an earlier one of its entity lies in its window; mentions whose
    probed tokens cross a window's edge are neither asked about nor candidates.
    """
    places = list(find_places(corpus, groups))

    def find_first(place: Place) -> int:
        offset = int(corpus.offsets[place.document])
        return offset + (place.start - offset) // window * window

    windows: dict[int, WindowQuestions] = {}
    rows: list[tuple[float, ...]] = []
    for first, mentions in groupby(places, find_first):
        inside = [place for place in mentions if place.end <= first + window]
        asked = _ask_window(inside, first, len(rows))
        if len(asked.numbers):
            windows[first] = asked
            words = [documents[place.document].words[place.word].lower() for place in inside]
            answers = _score_baselines(words, asked).tolist()
            for i, one in zip(asked.askers.tolist(), answers, strict=True):
                rows.append((inside[i].document, inside[i].group, i, *one))
    columns = ["document", "group", "candidates", *BASELINES]
    kinds = dict.fromkeys(columns[:3], "int64") | dict.fromkeys(BASELINES, "float64")
    table = pd.DataFrame(rows, columns=columns).astype(kinds)
    later = len(places) - len({(place.document, place.entity) for place in places})
    return Questions(corpus.split, corpus.names, windows, table, [*groups], len(places), later)


def _ask_window(inside: Sequence[Place], first: int, number: int) -> WindowQuestions:
    """Return the questions of the window from token ``first`` on, numbered from ``number``."""
    spans = [(place.start - first, place.end - first, place.entity) for place in inside]
    starts, ends, entity = np.array(spans, np.int64).reshape(-1, 3).T
    earlier = np.tri(len(spans), k=-1, dtype=bool)
    same = entity[:, None] == entity[None, :]
    askers = np.flatnonzero((earlier & same).any(1))
    tokens = [token for start, end, _ in spans for token in range(start, end)]
    return WindowQuestions(
        numbers=number + np.arange(len(askers)),
        askers=askers,
        queries=ends[askers] - 1,
        tokens=np.array(tokens, np.int64),
        firsts=np.cumsum([0, *(ends - starts)[:-1]]),
        earlier=earlier[askers],
        same=same[askers],
    )


def _score_baselines(words: Sequence[str], asked: WindowQuestions) -> np.ndarray:
    """Return what the `BASELINES` choose right, float64 [Q, 3], from the M mentions' head words:
    the nearest earlier mention; the nearest with the same head word, else the nearest; any one.
    """
    nearest = np.broadcast_to(np.arange(1.0, len(words) + 1), asked.same.shape)
    alike = (np.array(words)[:, None] == np.array(words)[None, :])[asked.askers]
    forms = (nearest, nearest + len(words) * alike, np.ones(asked.same.shape))
    return np.stack([credit_choices(form, asked) for form in forms], axis=-1)


def credit_choices(scores: np.ndarray, asked: WindowQuestions) -> np.ndarray:
    """Tell whether the candidate with the highest score (none is negative) belongs to the asking
    mention's chain, [..., Q, M] to [..., Q]. Of candidates with equal scores (up to a relative
    1e-6) one is drawn at random, so the credit is the share of them that are right.
    """
    masked = np.where(asked.earlier, scores, -1.0)
    chosen = asked.earlier & (masked >= masked.max(-1, keepdims=True) * (1 - TIE))
    return (chosen & asked.same).sum(-1) / chosen.sum(-1)


class HeadScores:
    """The answers of the heads of one attention, float32 [L, H, Q] each.

    correct      1 where the head's choice is of the chain, 0 where not (ties: a fraction)
    by_distance  with a ``profile`` alone: the same for an attention that is the head's mean at each
                 distance, ``profile``, on another split (a control for position)
    """

    def __init__(
        self,
        model: LanguageModel,
        questions: Questions,
        *,
        window: int,
        profile: np.ndarray | None = None,
    ) -> None:
        heads = model.module.config.num_attention_heads
        shape = (len(model.attention_modules()["self"]), heads)
        self.questions, self.given = questions, profile
        names = ("correct",) if profile is None else ("correct", "by_distance")
        size = (*shape, len(questions.table))
        self.answers = {name: np.zeros(size, np.float32) for name in names}
        self.sums, self.counts = np.zeros((*shape, window)), np.zeros((shape[0], window), np.int64)

    @property
    def profile(self) -> np.ndarray:
        """The heads' mean weights at each distance in tokens, float64 [L, H, T], else 0."""
        return np.asarray(self.sums / np.maximum(self.counts, 1)[:, None])

    def see(self, layer: int, weights: Tensor | None, firsts: np.ndarray) -> None:
        """Score a layer's weights [B, H, T, T] in windows that begin at the tokens ``firsts``,
        int64 [B], of the split's arrays; ``weights`` are None if all visible tokens weigh the same.
        """
        for row, first in enumerate(firsts.tolist()):
            asked = self.questions.windows.get(first)
            if asked is None:
                continue
            if weights is None:
                last = int(max(asked.queries.max(), asked.tokens.max())) + 1
                even = np.arange(last) <= asked.queries[:, None]
                even = (even / (asked.queries[:, None] + 1)).astype(np.float32)
                rows = np.broadcast_to(even, (self.sums.shape[1], *even.shape))
            else:
                queries = torch.from_numpy(asked.queries).to(weights.device)
                rows = weights[row][:, queries].float().cpu().numpy()
                if not np.isfinite(rows).all():
                    raise ValueError(
                        f"an attention weight of layer {layer + 1} is not finite,"
                        " so the model diverged: train it again"
                    )
            distance = asked.queries[:, None] - np.arange(rows.shape[-1])
            shown = {"correct": rows}
            if self.given is not None:
                shown["by_distance"] = self.given[layer][:, np.maximum(distance, 0)]
            for name, attention in shown.items():
                pooled = np.add.reduceat(attention[..., asked.tokens], asked.firsts, axis=-1)
                self.answers[name][layer][:, asked.numbers] = credit_choices(pooled, asked)
            for number, apart in enumerate(distance):
                visible = apart >= 0
                self.sums[layer][:, apart[visible]] += rows[:, number, visible]  # no duplicates
                self.counts[layer][apart[visible]] += 1


Heads = Mapping[Key, HeadScores]


@contextmanager
def watch(model: LanguageModel, attention: str) -> Iterator[dict[int, Tensor | None]]:
    """Record ``attention``'s latest weights by layer; None: all visible tokens weigh the same."""
    latest: dict[int, Tensor | None] = {}

    def see(layer: int, module: Any, arguments: Any, output: Any) -> None:
        if output[1] is None and attention == "self":
            raise ValueError(
                f"{type(module).__name__} does not return attention weights: set the model's"
                " attention to eager"
            )
        latest[layer] = output[1]

    modules = enumerate(model.attention_modules()[attention])
    handles = [module.register_forward_hook(partial(see, layer)) for layer, module in modules]
    try:
        yield latest
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
    profiles: Mapping[Key, np.ndarray] | None = None,
) -> dict[Key, HeadScores]:
    """Return the answers of the heads of each attention: ``self`` with entities ``off`` and, for
    GPT2E, ``on``, and ``entity`` with them on. ``corpus`` has the labels that the model reads,
    ``questions`` the gold ones; ``profiles``: mean weights by distance [L, H, T] on another split,
    for the control. The model's attention is switched to eager, which returns its weights, held for
    one forward pass. A weight that is not finite raises ValueError.
    """
    model.show_attention()
    found: dict[Key, HeadScores] = {}
    for entities in ("off", "on") if "entity" in model.attention_modules() else ("off",):
        keys = [(kind, entities) for kind in ("self", "entity")[: 1 + (entities == "on")]]
        for key in keys:
            profile = (profiles or {}).get(key)
            found[key] = HeadScores(model, questions, window=window, profile=profile)
        text = corpus if entities == "on" else give(corpus, "none")
        with ExitStack() as watching:
            seen = {key: watching.enter_context(watch(model, key[0])) for key in keys}
            for reading in read_windows(model, text, window=window, stride=window, batch=batch):
                for key, weights in seen.items():
                    for layer, one in weights.items():
                        found[key].see(layer, one, reading.where[:, 0])
    return found


def choose_head(correct: np.ndarray, mask: np.ndarray) -> Best:
    """Return the layer and head, from 0, with the most right answers [L, H, Q] to the questions of
    ``mask``, the first in a tie; None without questions.
    """
    if not mask.any():
        return None
    totals = correct[..., mask].sum(-1, dtype=np.float64)
    layer, head = np.unravel_index(int(totals.argmax()), totals.shape)
    return int(layer), int(head)


def choose_heads(heads: Heads, questions: Questions) -> dict[Key, dict[str, Best]]:
    """Return the best head of every attention for every group."""
    return {
        key: {
            name: choose_head(scores.answers["correct"], mask)
            for name, mask in questions.masks.items()
        }
        for key, scores in heads.items()
    }


def _share(answers: np.ndarray, mask: np.ndarray) -> float | None:
    """Return the mean of ``answers`` [Q] over the questions of ``mask``; None without any."""
    return float(answers[mask].mean(dtype=np.float64)) if mask.any() else None


def question_rows(questions: Questions) -> Rows:
    """Yield one split's counts: documents, mentions, those whose entity was mentioned before in the
    document (later), those of them with such a mention in the same window (asked), the share of the
    others and the mean number of candidates; and, by group, the accuracy of each baseline.
    """
    table, later = questions.table, questions.later
    counts = {
        "documents": len(questions.names),
        "mentions": questions.mentions,
        "mentions_later": later,
        "mentions_asked": len(table),
        "mentions_left_out": 1 - len(table) / later if later else None,
        "candidates": float(table["candidates"].mean()) if len(table) else None,
    }
    for name, value in counts.items():
        yield {"measure": name, "value": value, "split": questions.split}
    for group, mask in questions.masks.items():
        about = {"split": questions.split, "group": group, "count": int(mask.sum())}
        for name in BASELINES:
            share = _share(table[name].to_numpy(), mask)
            yield {"measure": f"accuracy_{name}", "value": share, **about}


def choice_rows(
    chosen: Mapping[Key, Mapping[str, Best]],
    heads: tuple[Heads, Heads],
    questions: tuple[Questions, Questions],
) -> Rows:
    """Yield, by attention and group, the head chosen on the first split (from 1), its accuracy
    there and on the other split, and on the latter the accuracy of its mean weights by distance and
    of the head that is best there (biased, to show how much the choice matters).
    """
    for (attention, entities), best in chosen.items():
        here, there = (side[attention, entities].answers for side in heads)
        control = there.get("by_distance")
        for group, head in best.items():
            first, second = masks = [asked.masks[group] for asked in questions]
            top = head and choose_head(there["correct"], second)
            values = {
                "layer": head and head[0] + 1,
                "head": head and head[1] + 1,
                "chosen_accuracy": head and _share(here["correct"][head], first),
                "accuracy": head and _share(there["correct"][head], second),
                "accuracy_by_distance": (
                    None if head is None or control is None else _share(control[head], second)
                ),
                "best_accuracy": top and _share(there["correct"][top], second),
            }
            for name, value in values.items():
                side = name != "chosen_accuracy"
                count = int(masks[side].sum()) if "accuracy" in name else None
                about = {"split": questions[side].split, "group": group, "count": count}
                about |= {"attention": attention, "entities": entities}
                yield {"measure": name, "value": value, **about}


def head_rows(heads: Heads, questions: Questions) -> Rows:
    """Yield the right answers of every head and, if known, of its mean weights at each distance."""
    for (attention, entities), scores in heads.items():
        for layer, head in np.ndindex(scores.answers["correct"].shape[:2]):
            where = {"split": questions.split, "attention": attention, "entities": entities}
            where |= {"layer": layer + 1, "head": head + 1}
            for name, mask in questions.masks.items():
                about = {**where, "group": name, "count": int(mask.sum())}
                for measure, answers in scores.answers.items():
                    right = float(answers[layer, head, mask].sum(dtype=np.float64))
                    yield {"measure": f"head_{measure}", "value": round(right, 6), **about}


def document_rows(
    chosen: Mapping[Key, Mapping[str, Best]], heads: Heads, questions: Questions
) -> Rows:
    """Yield the right answers of chosen heads and baselines in each document with a question."""
    for (attention, entities), best in chosen.items():
        about = {"split": questions.split, "attention": attention, "entities": entities}
        answers = heads[attention, entities].answers
        for group, head in best.items():
            if head is None:
                continue
            right = {name: one[head].astype(float) for name, one in answers.items()}
            answered = questions.table.assign(**right)[questions.masks[group]]
            by_document = answered.groupby("document")
            found = by_document[[*answers, *BASELINES]].agg("sum").round(6)
            counts = by_document.size()
            for d, sums in found.iterrows():
                own = {"count": int(counts[d]), "group": group, "unit": questions.names[d], **about}
                for measure, total in sums.items():
                    yield {"measure": measure, "value": float(total), **own}
