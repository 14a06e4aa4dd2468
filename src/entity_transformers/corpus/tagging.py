"""Parts of speech of LAMBADA's target words (section 4.2), by a small tagger that is trained on the
corpus itself.

Nothing follows a target, so the tagger sees a word and the three before it, in training as on
LAMBADA: logistic regression on the word, its endings, its shape and its context (as Ratnaparkhi,
1996, without the tags before it). A word that training has once is learnt by its form and context
alone, as an unknown one will be read. Dev shows how far it can be trusted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from entity_transformers.corpus.document import Document
from entity_transformers.corpus.statistics import POS_GROUPS, find_group

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

GROUPS = POS_GROUPS[:4]
"""Nouns, proper nouns, pronouns, other."""
CONTEXT = 3
"""Words before a word that the tagger sees; "" stands before the start of a text."""
FEATURES = 2**20
EPOCHS = 8
SEED = 1
_QUOTES = {"``": '"', "''": '"', "“": '"', "”": '"', "‘": "'", "’": "'"}
_WORD = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’]\w+|``|''|\w+(?:-\w+)*|[^\w\s]")

Window = tuple[str, ...]


@dataclass(frozen=True)
class Tagger:
    """The model of a window's group, the words learnt as such, and whether case is ignored."""

    model: Any
    known: frozenset[str]
    lower_case: bool


def split_words(text: str) -> list[str]:
    """Words and marks of running text, about as the Treebank splits them: do n't, she 's."""
    return _WORD.findall(text)


def make_windows(words: Sequence[str], lower_case: bool) -> list[Window]:
    """Each word after the `CONTEXT` words before it, quotes and digits made alike."""
    padded = ["", "", "", *(_normalise(word, lower_case) for word in words)]
    return [tuple(padded[i : i + CONTEXT + 1]) for i in range(len(words))]


def _normalise(word: str, lower_case: bool) -> str:
    plain = re.sub(r"\d", "0", _QUOTES.get(word, word).replace("’", "'"))
    return plain.lower() if lower_case else plain


def list_features(window: Window, known: bool) -> list[str]:
    """Names of the features of a window's last word, of itself only if it is ``known``."""
    third, second, first, word = window
    features = [
        f"1 {first}",
        f"2 {second}",
        f"3 {third}",
        f"2+1 {second} {first}",
        f"1 ends {first[-3:]}",
        f"starts {word[:2]}",
    ]
    features += [
        f"shape {_shape(word)}",
        f"1+shape {first} {_shape(word)}",
        f"1+ends {first[-2:]} {word[-2:]}",
    ]
    features += [f"ends {word[-length:]}" for length in (1, 2, 3, 4)]
    own = (
        [f"word {word}", f"1+word {first} {word}"]
        if known
        else [f"rare {feature}" for feature in ("", *features)]
    )
    return features + own


def _shape(word: str) -> str:
    return re.sub(
        r"(.)\1+",
        r"\1",
        re.sub(r"[^\W\d_]", lambda letter: "X" if letter[0].isupper() else "x", word),
    )


def encode_windows(windows: Iterable[Window], known: frozenset[str]) -> csr_matrix:
    """Counts [windows, FEATURES] of the windows' hashed features."""
    from sklearn.feature_extraction import FeatureHasher

    hasher = FeatureHasher(FEATURES, input_type="string", alternate_sign=False)
    return hasher.transform(list_features(window, window[-1] in known) for window in windows)


def learn_tagger(documents: Iterable[Document], lower_case: bool) -> Tagger | None:
    """The tagger of the documents' words; None where fewer than two groups are tagged."""
    from sklearn.linear_model import SGDClassifier

    examples = [
        example for document in documents for example in _list_examples(document, lower_case)
    ]
    groups = [group for _, group, _ in examples]
    if len(set(groups)) < 2:
        return None
    times = Counter(window[-1] for window, _, _ in examples)
    known = frozenset(word for word, number in times.items() if number > 1)
    model = SGDClassifier(
        loss="log_loss", alpha=1e-6, max_iter=EPOCHS, tol=None, average=True, random_state=SEED
    )
    return Tagger(
        model.fit(encode_windows((window for window, _, _ in examples), known), groups),
        known,
        lower_case,
    )


def _list_examples(document: Document, lower_case: bool) -> Iterator[tuple[Window, str, bool]]:
    """Window, group and "is its sentence's last" of each word with a known part of speech."""
    if document.tags is None:
        return
    last = set(find_last_words(document))
    for i, (window, tag) in enumerate(
        zip(make_windows(document.words, lower_case), document.tags, strict=True)
    ):
        if (group := find_group(tag)) in GROUPS:
            yield window, group, i in last


def find_last_words(document: Document) -> list[int]:
    """The last word with a letter of each sentence: where a LAMBADA target stands."""
    found = (
        [i for i in sentence if any(map(str.isalpha, document.words[i]))][-1:]
        for sentence in document.sentences()
    )
    return [i for last in found for i in last]


def tag_windows(tagger: Tagger, windows: Sequence[Window]) -> list[str]:
    """The group of each window's last word."""
    return (
        [str(group) for group in tagger.model.predict(encode_windows(windows, tagger.known))]
        if windows
        else []
    )


def score_tagger(tagger: Tagger, documents: Iterable[Document]) -> dict[str, Any]:
    """`score_groups` of all words ("words") and of only the sentences' last ones ("last_words")."""
    examples = [
        example for document in documents for example in _list_examples(document, tagger.lower_case)
    ]
    found = tag_windows(tagger, [window for window, _, _ in examples])
    rows = [(gold, group, last) for (_, gold, last), group in zip(examples, found, strict=True)]
    return {
        "words": score_groups((gold, group) for gold, group, _ in rows),
        "last_words": score_groups((gold, group) for gold, group, last in rows if last),
    }


def score_groups(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Accuracy of (gold, found) groups, and n, recall and precision of each; None for 0/0."""
    counts = Counter(pairs)
    gold, found = Counter[str](), Counter[str]()
    for (true, guess), number in counts.items():
        gold[true] += number
        found[guess] += number
    right = {group: counts[group, group] for group in GROUPS}
    groups = {
        g: {
            "n": gold[g],
            "recall": _ratio(right[g], gold[g]),
            "precision": _ratio(right[g], found[g]),
        }
        for g in GROUPS
    }
    return {
        "n": gold.total(),
        "accuracy": _ratio(sum(right.values()), gold.total()),
        "groups": groups,
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def tag_targets(
    train: Iterable[Document], dev: Iterable[Document], passages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Groups of the passages' target words: {"n", "lower_case", "shares", "dev"}.

    ``passages`` are rows of `lambada.read_passages`. Capitals are not seen where most passages have
    none. ``shares`` are the groups' fractions of the targets and ``dev`` is `score_tagger`'s; both
    are None where train has no tags to learn from.
    """
    lower_case = 2 * sum(row["text"] != row["text"].lower() for row in passages) <= len(passages)
    tagger = learn_tagger(train, lower_case)
    if tagger is None:
        return {"n": len(passages), "lower_case": lower_case, "shares": None, "dev": None}
    found = Counter(tag_windows(tagger, [target_window(row, lower_case) for row in passages]))
    shares = {group: _ratio(found[group], len(passages)) for group in GROUPS}
    return {
        "n": len(passages),
        "lower_case": lower_case,
        "shares": shares,
        "dev": score_tagger(tagger, dev),
    }


def target_window(row: Mapping[str, Any], lower_case: bool) -> Window:
    """The target word of a passage after the words before it."""
    text, start = row["text"], row["target_start"]
    return make_windows([*split_words(text[:start]), text[start:]], lower_case)[-1]
