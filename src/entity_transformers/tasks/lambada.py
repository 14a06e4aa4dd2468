"""LAMBADA (table 3): last word, last token and whole passage, each passage in one window.

The last-word score follows lm-evaluation-harness's ``lambada`` task, reimplemented here. The
context is everything before the last space, without trailing white space, and the target is the
rest; both are cut from one encoding of the passage. Only a passage of one word, which has no
context, has ``<|endoftext|>`` put before it. Of a passage longer than the window, the last
``window`` inputs are kept. Perplexity is exp(-mean over passages of the target's summed
log-probability); a passage is right if every target token is the argmax.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import find_end, spelled_out
from entity_transformers.corpus.labels import give
from entity_transformers.corpus.tokens import join_sources
from entity_transformers.encode.reader import compute_token_losses, read_windows
from entity_transformers.encode.states import Above
from entity_transformers.models.base import LanguageModel
from entity_transformers.step import Rows
from entity_transformers.tasks.perplexity import exp_or_none


@dataclass(frozen=True)
class Passage:
    """An encoded passage: ``tokens`` int32 [n], the white-space word of each, ``words`` int32 [n],
    and the first token of the target. A single word follows ``<|endoftext|>``, whose word is -1.
    """

    tokens: np.ndarray
    words: np.ndarray
    target: int


def encode_passages(rows: Sequence[Mapping[str, Any]], tokenizer: Tokenizer) -> list[Passage]:
    """Encode rows that have ``text`` and ``target_start``."""
    contexts = [len(row["text"][: row["target_start"]].rstrip()) for row in rows]
    texts = [
        row["text"] if context else " " + row["text"][row["target_start"] :]
        for row, context in zip(rows, contexts, strict=True)
    ]
    with spelled_out(tokenizer):
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    found = []
    for text, context, encoding in zip(texts, contexts, encodings, strict=True):
        tokens, ends = np.array(encoding.ids, np.int32), np.array(encoding.offsets)[:, 1]
        starts = [match.start() for match in re.finditer(r"\S+", text)]
        words = np.maximum(np.searchsorted(starts, ends - 1, side="right") - 1, 0).astype(np.int32)
        target = int((ends <= context).sum())
        if not context:
            end = find_end(tokenizer)
            tokens, words, target = np.insert(tokens, 0, end), np.insert(words, 0, -1), 1
        found.append(Passage(tokens, words, target))
    return found


@torch.inference_mode()
def score_passages(
    model: LanguageModel,
    passages: Sequence[Passage],
    *,
    window: int,
    batch: int,
    above: Above | None = None,
) -> pd.DataFrame:
    """Score every passage without entities, ``batch`` of similar length at a time: a row per
    passage, in nats and counts. If states of the lower blocks are kept, ``above`` gives the model
    and the text that read them.

    target_*   the last word: nats, tokens, target tokens that are not the argmax
    last_*     the last token: nats, not the argmax (0 or 1)
    passage_*  every token in the window but the first
    word_*     the tokens of words that lie wholly in the window, and the number of such words (the
               first word's first token is never predicted)
    truncated        was the passage longer than the window?
    without_context  was it a single word, read after ``<|endoftext|>``?

    A target of more tokens than the window raises ValueError.
    """
    for i, passage in enumerate(passages, start=1):
        if len(passage.tokens) - passage.target > window:
            raise ValueError(
                f"passage {i}: its last word has {len(passage.tokens) - passage.target} tokens, but"
                f" the window has only {window}"
            )
    lengths = np.array([len(passage.tokens) for passage in passages], np.int64)
    cuts = np.maximum(lengths - window - 1, 0)  # the last token is not an input
    kept = [p.tokens[cut:] for p, cut in zip(passages, cuts, strict=True)]
    corpus = give(join_sources([(tokens, np.zeros(len(tokens))) for tokens in kept]), "none")
    words = np.concatenate(
        [p.words[cut:] - p.words[cut] for p, cut in zip(passages, cuts, strict=True)]
    )
    row = np.repeat(np.arange(len(passages)), lengths - cuts)
    place = np.arange(len(row)) - corpus.offsets[row]
    target = place >= (np.array([p.target for p in passages]) - cuts)[row]
    last, every = place == (lengths - cuts - 1)[row], place > 0
    nll, missed = np.zeros(len(row)), np.zeros(len(row), bool)
    model, text = (model, corpus) if above is None else above(corpus, window)
    for reading in read_windows(model, text, window=window, stride=window, batch=batch):
        where, hidden = reading.predict()
        nll[where] = compute_token_losses(model, hidden, corpus.tokens[where])
        if (asked := target[where]).any():
            guesses = model.guess(hidden[torch.from_numpy(asked).to(hidden.device)]).cpu().numpy()
            missed[where[asked]] = guesses != corpus.tokens[where[asked]]

    def add(values: np.ndarray, among: np.ndarray) -> np.ndarray:
        return np.bincount(row[among], values[among], minlength=len(passages))

    def count(values: np.ndarray, among: np.ndarray) -> np.ndarray:
        return add(values, among).astype(np.int64)

    ones = np.ones(len(row))
    return pd.DataFrame(
        {
            "target_nll": add(nll, target),
            "target_tokens": count(ones, target),
            "target_misses": count(missed, target),
            "last_nll": add(nll, last),
            "last_misses": count(missed, last),
            "passage_nll": add(nll, every),
            "passage_tokens": count(ones, every),
            "word_nll": add(nll, every & (words > 0)),
            "word_count": count(words, last),
            "truncated": cuts > 0,
            "without_context": [bool((passage.words[:1] < 0).any()) for passage in passages],
        }
    )


def passage_rows(scores: pd.DataFrame) -> Rows:
    """Yield the scores of last words, last tokens and passages, and those of each last word."""
    n, total = len(scores), {name: scores[name].to_numpy().sum().item() for name in scores}
    total["passages"] = n
    for name in ("passages", "truncated", "without_context"):
        yield {"measure": name, "value": total[name], "split": "lambada"}
    off = {"split": "lambada", "entities": "off"}
    tokens = total["target_tokens"]
    yield {"measure": "last_word_nll", "value": total["target_nll"], "count": tokens, **off}
    for part, name in (("last_word", "target"), ("last_token", "last")):
        right = float((scores[f"{name}_misses"] == 0).mean())
        perplexity = exp_or_none(total[f"{name}_nll"] / n)
        yield {"measure": f"{part}_perplexity", "value": perplexity, "count": n, **off}
        yield {"measure": f"{part}_accuracy", "value": right, "count": n, **off}
    for measure, part, count in (
        ("perplexity", "passage", "passage_tokens"),
        ("perplexity_word", "word", "word_count"),
    ):
        value = exp_or_none(total[f"{part}_nll"] / total[count])
        yield {"measure": measure, "value": value, "count": total[count], **off}
    for number, nats in scores["target_nll"].items():
        about = {**off, "unit": str(number + 1)}
        yield {"measure": "nll", "value": nats, "count": 1, **about}
        missed = scores["target_misses"][number]
        yield {"measure": "right", "value": float(missed == 0), "count": 1, **about}
