"""Parts of speech of LAMBADA's target words (section 4.2), by a small tagger that is trained on the
corpus itself.

Nothing follows a target, so the tagger sees a word and the three before it, in training as on
LAMBADA: logistic regression on the word, its endings, its shape and its context (as Ratnaparkhi,
1996, without the tags before it). A word that occurs once in training is learnt by its form and
context alone, as an unknown word will be tagged. Scores on dev show how far to trust the tagger.
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
"""Words before a word that the tagger sees; "" pads the start of a text."""
FEATURES = 2**20
EPOCHS = 8
SEED = 1
_QUOTES = {"``": '"', "''": '"', "“": '"', "”": '"', "‘": "'", "’": "'"}
_WORD = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’]\w+|``|''|\w+(?:-\w+)*|[^\w\s]")
Window = tuple[str, ...]


@dataclass(frozen=True)
class Tagger:
    """The model of a window's group, the words it learnt as such, and whether case is ignored."""

    model: Any
    known: frozenset[str]
    lower_case: bool

    def tag(self, windows: Sequence[Window]) -> list[str]:
        """Return the group of each window's last word."""
        if not windows:
            return []
        return list(map(str, self.model.predict(encode_windows(windows, self.known))))


def split_words(text: str) -> list[str]:
    """Split running text into words and marks, about as the Treebank does: do n't, she 's."""
    return _WORD.findall(text)


def make_windows(words: Sequence[str], lower_case: bool) -> list[Window]:
    """Return each word after the `CONTEXT` words before it, quotes and digits normalised."""
    padded = [""] * CONTEXT
    for word in words:
        plain = re.sub(r"\d", "0", _QUOTES.get(word, word).replace("’", "'"))
        padded.append(plain.lower() if lower_case else plain)
    return [tuple(padded[i : i + CONTEXT + 1]) for i in range(len(words))]


def list_features(window: Window, known: bool) -> list[str]:
    """Name the features of a window's last word, which is itself a feature only if ``known``."""
    third, second, first, word = window
    letters = re.sub(r"[^\W\d_]", lambda letter: "X" if letter[0].isupper() else "x", word)
    shape = re.sub(r"(.)\1+", r"\1", letters)
    features = [
        f"1 {first}",
        f"2 {second}",
        f"3 {third}",
        f"2+1 {second} {first}",
        f"1 ends {first[-3:]}",
        f"starts {word[:2]}",
        f"shape {shape}",
        f"1+shape {first} {shape}",
        f"1+ends {first[-2:]} {word[-2:]}",
        *(f"ends {word[-length:]}" for length in (1, 2, 3, 4)),
    ]
    if known:
        return [*features, f"word {word}", f"1+word {first} {word}"]
    return [*features, *(f"rare {feature}" for feature in ("", *features))]


def encode_windows(windows: Iterable[Window], known: frozenset[str]) -> csr_matrix:
    """Count the hashed features of the windows: a matrix [windows, FEATURES]."""
    from sklearn.feature_extraction import FeatureHasher

    hasher = FeatureHasher(FEATURES, input_type="string", alternate_sign=False)
    return hasher.transform(list_features(window, window[-1] in known) for window in windows)


def learn_tagger(documents: Iterable[Document], lower_case: bool) -> Tagger | None:
    """Train the tagger on the documents' words; None if fewer than two groups are tagged."""
    from sklearn.linear_model import SGDClassifier

    examples = list(_list_examples(documents, lower_case))
    windows, groups = [one[0] for one in examples], [one[1] for one in examples]
    if len(set(groups)) < 2:
        return None
    times = Counter(window[-1] for window in windows)
    known = frozenset(word for word, number in times.items() if number > 1)
    model = SGDClassifier(
        loss="log_loss", alpha=1e-6, max_iter=EPOCHS, tol=None, average=True, random_state=SEED
    )
    return Tagger(model.fit(encode_windows(windows, known), groups), known, lower_case)


def _list_examples(
    documents: Iterable[Document], lower_case: bool
) -> Iterator[tuple[Window, str, bool]]:
    """Yield each word with a known tag: its window, its group, and whether it ends its sentence."""
    for document in documents:
        if document.tags is not None:
            last = set(find_last_words(document))
            windows = make_windows(document.words, lower_case)
            for i, (window, tag) in enumerate(zip(windows, document.tags, strict=True)):
                if (group := find_group(tag)) in GROUPS:
                    yield window, group, i in last


def find_last_words(document: Document) -> list[int]:
    """Return the last word with a letter of each sentence: where a LAMBADA target stands."""
    found = (
        [i for i in sentence if any(map(str.isalpha, document.words[i]))][-1:]
        for sentence in document.sentences()
    )
    return [i for last in found for i in last]


def score_tagger(tagger: Tagger, documents: Iterable[Document]) -> dict[str, Any]:
    """Apply `score_groups` to all words ("words") and to sentence-final ones ("last_words")."""
    examples = list(_list_examples(documents, tagger.lower_case))
    found = tagger.tag([window for window, _, _ in examples])
    rows = [(gold, group, last) for (_, gold, last), group in zip(examples, found, strict=True)]
    return {
        "words": score_groups((gold, group) for gold, group, _ in rows),
        "last_words": score_groups((gold, group) for gold, group, last in rows if last),
    }


def score_groups(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Score pairs (gold, found): accuracy, and n, recall and precision by group; None for 0/0."""
    rows = list(pairs)
    gold, found = (Counter(row[side] for row in rows) for side in range(2))
    right = Counter(true for true, guess in rows if true == guess)
    groups = {
        group: {
            "n": gold[group],
            "recall": _ratio(right[group], gold[group]),
            "precision": _ratio(right[group], found[group]),
        }
        for group in GROUPS
    }
    return {"n": len(rows), "accuracy": _ratio(right.total(), len(rows)), "groups": groups}


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def tag_targets(
    train: Iterable[Document], dev: Iterable[Document], passages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Tag the passages' target words: {"n", "lower_case", "shares", "dev"}.

    ``passages`` are rows of `lambada.parse_passages`. Case is ignored unless most passages have
    capitals. ``shares`` are the groups' fractions of the targets and ``dev`` is `score_tagger`'s;
    both are None if train has no tags to learn from.
    """
    lower_case = 2 * sum(row["text"] != row["text"].lower() for row in passages) <= len(passages)
    tagger, n = learn_tagger(train, lower_case), len(passages)
    if tagger is None:
        return {"n": n, "lower_case": lower_case, "shares": None, "dev": None}
    found = Counter(tagger.tag([target_window(row, lower_case) for row in passages]))
    shares = {group: _ratio(found[group], n) for group in GROUPS}
    return {"n": n, "lower_case": lower_case, "shares": shares, "dev": score_tagger(tagger, dev)}


def target_window(row: Mapping[str, Any], lower_case: bool) -> Window:
    """Return the window of a passage's target word."""
    text, start = row["text"], row["target_start"]
    return make_windows([*split_words(text[:start]), text[start:]], lower_case)[-1]
