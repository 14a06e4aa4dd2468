"""LAMBADA (table 3): last word, last token and whole passage, each passage in one window, batched
by length.

The last-word score is lm-evaluation-harness's ``lambada`` rule, re-derived here: the context is all
before the last space without trailing white space, the target is the rest; both are cut from one
encoding of the passage; ``<|endoftext|>`` is put before a passage of one word, which has no other
context, and before no other; of a passage longer than the window the last ``window`` inputs are
kept; perplexity is exp(-mean over passages of the target's summed log-probability); a passage is
right if every target token is the argmax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import find_end, spelled_out
from entity_transformers.encode.reader import batch_by_length, compute_token_losses, gather, lay_out
from entity_transformers.logs import log_progress
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.tasks.perplexity import exp_or_none


@dataclass(frozen=True)
class Passage:
    """An encoded passage of n tokens: ``tokens`` int32 [n], each one's white-space word ``words``
    int32 [n], first token of the target.

    One of a single word starts with ``<|endoftext|>``, whose word is -1.
    """

    tokens: np.ndarray
    words: np.ndarray
    target: int


@dataclass(frozen=True)
class PassageScores:
    """What each of P passages scored, in nats (float64 [P]) and counts (int64 [P]).

    target_*  the last word: nats, tokens, target tokens that are not the argmax
    last_*    the last token: nats, not the argmax (0 or 1)
    passage_* every token but the first that the window holds
    word_*    the tokens of words that the window holds whole, and how many such words (the first
              word's first token is never predicted)
    truncated was the passage longer than the window without_context was the passage a single word,
    read after ``<|endoftext|>``

    A passage of one token, after which nothing is predicted, has zeros throughout and no part in
    any mean.
    """

    target_nll: np.ndarray
    target_tokens: np.ndarray
    target_misses: np.ndarray
    last_nll: np.ndarray
    last_misses: np.ndarray
    passage_nll: np.ndarray
    passage_tokens: np.ndarray
    word_nll: np.ndarray
    word_count: np.ndarray
    truncated: np.ndarray
    without_context: np.ndarray


def encode_passages(
    rows: Sequence[Mapping[str, Any]], tokenizer: Tokenizer, source: str = "lambada.jsonl"
) -> list[Passage]:
    """Encode rows of ``text`` and ``target_start``; a passage without a target raises ValueError
    with its line.
    """
    parts = [_split(row, f"{source}, line {i}") for i, row in enumerate(rows, start=1)]
    with spelled_out(tokenizer):
        encodings = tokenizer.encode_batch(
            [context + target for context, target in parts], add_special_tokens=False
        )
    end = find_end(tokenizer)
    return [
        _cut(context, context + target, encoding, end)
        for (context, target), encoding in zip(parts, encodings, strict=True)
    ]


def _split(row: Mapping[str, Any], where: str) -> tuple[str, str]:
    """Context and target, with the white space between them before the target: a single space,
    where there is no context.
    """
    context, target = row["text"][: row["target_start"]], row["text"][row["target_start"] :]
    if not target.strip():
        raise ValueError(
            f"{where}: {row['text'][:60]!r} has no last word to be predicted: remove it"
        )
    kept = context.rstrip()
    return kept, (context[len(kept) :] if kept else " ") + target


def _cut(context: str, text: str, encoding: Any, end: int) -> Passage:
    ends = np.array([end for _, end in encoding.offsets])
    word_starts = [match.start() for match in re.finditer(r"\S+", text)]
    words = np.maximum(np.searchsorted(word_starts, ends - 1, side="right") - 1, 0).astype(np.int32)
    if context:
        return Passage(np.array(encoding.ids, np.int32), words, int((ends <= len(context)).sum()))
    return Passage(np.array([end, *encoding.ids], np.int32), np.append(np.int32(-1), words), 1)


@torch.inference_mode()
def score_passages(
    model: LanguageModel, passages: Sequence[Passage], *, window: int, batch: int
) -> PassageScores:
    """Score every passage without entities, ``batch`` of similar length at a time, padded on the
    right.

    A target of more tokens than the window raises ValueError.
    """
    for i, passage in enumerate(passages, start=1):
        if len(passage.tokens) - passage.target > window:
            raise ValueError(
                f"passage {i}: its last word has {len(passage.tokens) - passage.target} tokens, the"
                f" window only {window}"
            )
    lengths = np.array([len(passage.tokens) for passage in passages], np.int64)
    kept = np.minimum(lengths, window + 1)
    columns: dict[str, np.ndarray] = {
        name: np.zeros(len(passages)) for name in PassageScores.__dataclass_fields__
    }
    for rows in log_progress(batch_by_length(kept - 1, batch), "batches of passages"):
        for name, values in _score_batch(model, [passages[i] for i in rows], kept[rows]).items():
            columns[name][rows] = values
    columns["truncated"] = lengths > window + 1
    columns["without_context"] = np.array(
        [(passage.words[:1] < 0).any() for passage in passages], bool
    )
    return PassageScores(
        **{
            name: values if name.endswith("nll") else values.astype(np.int64)
            for name, values in columns.items()
        }
    )


def _score_batch(
    model: LanguageModel, passages: Sequence[Passage], kept: np.ndarray
) -> dict[str, np.ndarray]:
    """Columns of `PassageScores` [B] for one batch; ``kept`` [B] tokens at the end of each passage
    are in the window.
    """
    cuts = [slice(len(p.tokens) - k, None) for p, k in zip(passages, kept, strict=True)]
    tokens = np.concatenate([p.tokens[cut] for p, cut in zip(passages, cuts, strict=True)])
    words = np.concatenate(
        [p.words[cut] - p.words[cut][0] for p, cut in zip(passages, cuts, strict=True)]
    )
    targets = np.array([p.target - cut.start for p, cut in zip(passages, cuts, strict=True)])
    where, valid = lay_out(np.cumsum(kept) - kept, kept - 1)
    row, step = np.nonzero(valid)
    nll, missed = _score_tokens(model, tokens, where, valid, in_target := step + 1 >= targets[row])
    return _sum_columns(
        row, nll, missed, in_target, step + 2 == kept[row], words[where[valid] + 1], len(passages)
    )


def _score_tokens(
    model: LanguageModel,
    tokens: np.ndarray,
    where: np.ndarray,
    valid: np.ndarray,
    judged: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Nats of the token after each valid position, and whether it is not the argmax (looked at only
    where ``judged``).
    """
    batch = Batch(gather(tokens, where, valid, model.device))
    hidden, _ = model.encode(batch, model.start(len(where)))
    hidden = hidden[torch.from_numpy(valid).to(model.device)]
    following = tokens[where[valid] + 1]
    nll = compute_token_losses(model, hidden, following).astype(np.float64)
    greedy = model.guess(hidden[torch.from_numpy(judged).to(model.device)]).cpu().numpy()
    missed = np.zeros(len(nll), bool)
    missed[judged] = greedy != following[judged]
    return nll, missed


def _sum_columns(
    row: np.ndarray,
    nll: np.ndarray,
    missed: np.ndarray,
    target: np.ndarray,
    last: np.ndarray,
    words: np.ndarray,
    count: int,
) -> dict[str, np.ndarray]:
    def add(values: np.ndarray, where: np.ndarray) -> np.ndarray:
        return np.bincount(row[where], weights=values[where], minlength=count)

    ones, everything, whole = np.ones(len(row)), np.ones(len(row), bool), words > 0
    return {
        "target_nll": add(nll, target), "target_tokens": add(ones, target),
        "target_misses": add(missed, target),
        "last_nll": add(nll, last), "last_misses": add(missed, last),
        "passage_nll": add(nll, everything), "passage_tokens": add(ones, everything),
        "word_nll": add(nll, whole), "word_count": add(words, last),
    }  # fmt: skip


def summarise_passages(scores: PassageScores) -> dict[str, Any]:
    """Scores of the last word, the last token and the whole passage. Without passages every mean is
    None.
    """
    judged = scores.target_tokens > 0
    n = int(judged.sum())
    tokens, words = int(scores.passage_tokens.sum()), int(scores.word_count.sum())
    return {
        "passages": n,
        "truncated": int(scores.truncated.sum()),
        "without_context": int(scores.without_context.sum()),
        "last_word": {
            "nll": float(scores.target_nll.sum()),
            "tokens": int(scores.target_tokens.sum()),
            "perplexity": _perplexity(scores.target_nll, n),
            "accuracy": float((scores.target_misses[judged] == 0).mean()) if n else None,
        },
        "last_token": {
            "perplexity": _perplexity(scores.last_nll, n),
            "accuracy": float((scores.last_misses[judged] == 0).mean()) if n else None,
        },
        "passage": {
            "tokens": tokens,
            "words": words,
            "perplexity_token": _perplexity(scores.passage_nll, tokens),
            "perplexity_word": _perplexity(scores.word_nll, words),
        },
    }


def _perplexity(nll: np.ndarray, count: int) -> float | None:
    return exp_or_none(float(nll.sum()) / count) if count else None


def passage_rows(scores: PassageScores) -> Iterator[dict[str, Any]]:
    """The nats of each passage's last word, for intervals over passages."""
    judged = zip(scores.target_nll.tolist(), scores.target_tokens > 0, strict=True)
    for number, (nats, is_judged) in enumerate(judged, start=1):
        if is_judged:
            about = {"split": "lambada", "entities": "off", "unit": str(number)}
            yield {"measure": "nll", "value": nats, "count": 1, **about}
