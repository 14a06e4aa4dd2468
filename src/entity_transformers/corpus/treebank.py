"""Words and tags as the Penn Treebank and OntoNotes write them, made those of running text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from entity_transformers.corpus.document import WordError
from entity_transformers.corpus.lines import shown

UNKNOWN = frozenset(("-", "_"))
"""What stands in a column that is not annotated."""
_SKELETON = "[WORD]"
_ORIGINALS = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "-AMP-": "&", "/.": ".", "/?": "?",
}  # fmt: skip


def restore_words(words: Sequence[str]) -> tuple[str, ...]:
    """Words as in running text: brackets and ``/.``, ``/?`` for what they stand for.

    WordError for one with white space inside and for a skeleton's ``[WORD]``.
    """
    kinds = list(dict.fromkeys(words))
    if _SKELETON in kinds or " ".join(kinds).split() != kinds:
        raise _fault(words, _is_bad_word, _describe_word)
    if _ORIGINALS.keys().isdisjoint(kinds):
        return tuple(words)
    return tuple(_ORIGINALS.get(word, word) for word in words)


def restore_tags(tags: Sequence[str]) -> tuple[str, ...] | None:
    """Tags as written, ``XX`` (OntoNotes' own sign) where one is missing, None where all are.

    WordError for one with white space inside.
    """
    kinds = set(tags)
    if kinds <= UNKNOWN:
        return None
    if any(map(_is_spaced, kinds)):
        raise _fault(tags, _is_spaced, _describe_tag)
    if kinds.isdisjoint(UNKNOWN):
        return tuple(tags)
    return tuple("XX" if tag in UNKNOWN else tag for tag in tags)


def _fault(
    values: Sequence[str], is_bad: Callable[[str], bool], describe: Callable[[str], str]
) -> WordError:
    word = next(i for i, value in enumerate(values) if is_bad(value))
    return WordError(word, describe(values[word]))


def _is_spaced(value: str) -> bool:
    return value.split() != [value]


def _is_bad_word(word: str) -> bool:
    return word == _SKELETON or _is_spaced(word)


def _describe_word(word: str) -> str:
    if word == _SKELETON:
        return (
            f"the word is {_SKELETON}, a skeleton without text: run skeleton2conll with the LDC's"
            " OntoNotes release first"
        )
    return f"the word is {shown(word)}, expected one without white space"


def _describe_tag(tag: str) -> str:
    return f"the tag is {shown(tag)}, expected one without white space, or -"
