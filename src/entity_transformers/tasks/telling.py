"""A text that tells its chains: after each later mention of an entity, the words of its first
mention are added in brackets if they are different: ``Then he (Fred Rollins) gave Ann Lee's mother
her (Ann Lee's) keys``. A causal resolver finds the mentions. In the control, the brackets stand at
the same places, but each has the words of another entity.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from entity_transformers.corpus.document import Document
from entity_transformers.corpus.splitting import split_annotated
from entity_transformers.corpus.tasks.pronouns import GENDERS, is_possessive
from entity_transformers.resolve.names import find_names
from entity_transformers.resolve.registry import resolve
from entity_transformers.step import Rows, Run
from entity_transformers.tasks.lambada import encode_passages, score_passages

_RESOLVER = find_names(causal=True, pronouns=True)
_POSSESSIVE = re.compile(r"['’]s\b")


def tell_chains(text: str, until: int, generator: np.random.Generator | None = None) -> str | None:
    """Return the text up to the character ``until`` with its chains told, as far as they are known
    there, or with a ``generator`` other entities named before. None: there is nothing to tell.
    """
    told, at = "", 0
    for place, own, others in find_later(text[:until]):
        if others:
            name = own if generator is None else others[generator.integers(len(others))]
            told, at = f"{told}{text[at:place]} ({name})", place
    return told + text[at:until] if told else None


def find_later(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the mentions that need an explanation: the character after each, the words of its
    entity's first mention, which differ from its own, and those of the other entities named so far.
    """
    words, places, *_ = split_annotated(text, ())
    document = Document("text", 0, "test", "", tuple(words), (0,))
    firsts: dict[int, str] = {}
    for mention in resolve(_RESOLVER, document).mentions if words else ():
        start, end = places[mention.start][0], places[mention.end - 1][1]
        called = text[start:end]
        first = firsts.setdefault(mention.chain, called)
        if called.lower().removeprefix("the ") == first.lower().removeprefix("the "):
            continue
        has = _POSSESSIVE.match(text, end)
        end = has.end() if has else end
        pronoun = called.lower() in GENDERS and is_possessive(called, text[end:])
        ending = "'s" if has or pronoun else ""
        others = [f"{name}{ending}" for name in firsts.values() if name != first]
        yield end, f"{first}{ending}", others


def tell_each(
    texts: Sequence[tuple[str, int]], seed: int
) -> tuple[list[int], dict[str, list[tuple[str, int]]]]:
    """From texts, each with the character before which its chains are told, return the indices of
    those with something to tell, and these unchanged (``nothing``), with their ``chains`` told, and
    with those of ``others``, drawn by the seed; each with the character's new place.
    """
    numbers: list[int] = []
    found: dict[str, list[tuple[str, int]]] = {"nothing": [], "chains": [], "others": []}
    for number, (text, end) in enumerate(texts):
        chains = tell_chains(text, end)
        others = tell_chains(text, end, np.random.default_rng([seed, number]))
        if chains is not None and others is not None:
            numbers.append(number)
            for own, before in zip(found.values(), (text[:end], chains, others), strict=True):
                own.append((before + text[end:], len(before)))
    return numbers, found


def score_told(run: Run, passages: Sequence[Mapping[str, Any]]) -> Rows:
    """Yield how many passages have something to tell, and how their last words are predicted."""
    given = [(row["text"], row["target_start"]) for row in passages]
    numbers, texts = tell_each(given, run.seed or 0)
    yield {"measure": "told", "value": len(numbers), "count": len(passages), "split": "lambada"}
    if not numbers:
        return
    how: dict[str, Any] = {"window": run.entry.lm.window, "batch": run.params.perplexity.batch}
    for told, own in texts.items():
        rows = [{"text": text, "target_start": start} for text, start in own]

        def score(rows: list[dict[str, Any]] = rows) -> dict[str, list[Any]]:
            scores = score_passages(run.trained, encode_passages(rows, run.tokenizer), **how)
            return scores[["target_nll", "target_misses"]].to_dict("list")

        found = pd.DataFrame(run.once(score, rows))
        about = {"split": "lambada", "told": told}
        nats, right = found["target_nll"], (found["target_misses"] == 0).astype(int)
        yield {"measure": "accuracy", "value": float(right.mean()), "count": len(rows), **about}
        yield {"measure": "nats", "value": float(nats.mean()), "count": len(rows), **about}
        for number, one, is_right in zip(numbers, nats, right.tolist(), strict=True):
            unit = {"count": 1, "unit": str(number + 1), **about}
            yield {"measure": "nll", "value": one, **unit}
            yield {"measure": "correct", "value": is_right, **unit}
