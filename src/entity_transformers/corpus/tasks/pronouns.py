"""How a candidate is written in a pronoun's place: with 's or without, in lower case or not."""

import re

GENDERS = {
    **dict.fromkeys(("he", "him", "his", "himself"), "masculine"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "feminine"),
}
"""The gender of a pronoun, as GAP and WinoBias annotate it."""
_POSSESSIVE = frozenset(("my", "his", "our", "their", "its", "hers"))
_ARTICLES = frozenset(("the", "a", "an", "she", "he", "it", "they", "my", "his", "her", "their"))
_NO_NOUN = frozenset(
    (
        "to for and or but because that if when while as at in on with from by about of into over"
        " up out down after before since until who which where why how what so then than a an the"
        " this these some any all it he she they him them his is was were are be been had has have"
        " did does do would could will can may might should not again back away too also either"
        " yet still there here now soon just although though through during without under against"
        " behind around off across along toward towards inside onto upon via despite like more"
        " very really once home well alone something nothing someone one every many later"
    ).split()
)
"""Words that begin no noun phrase after a possessive."""


def is_possessive(pronoun: str, following: str) -> bool:
    """Whether the pronoun stands for a possessor. *her* is an object if a mark, a function word or
    a word in -ly follows, otherwise a possessive.
    """
    if pronoun.lower() != "her":
        return pronoun.lower() in _POSSESSIVE
    word = re.match(r"\s*([\w'-]*)", following)
    found = word[1].lower() if word else ""
    return bool(found.strip("'")) and found not in _NO_NOUN and not found.endswith("ly")


def write_option(candidate: str, before: str, possessive: bool) -> str:
    """Write a candidate as it stands after the text ``before``: its article is capitalised only at
    the start of a sentence, and a possessor takes 's.

    This is the rule of lm-evaluation-harness for wsc273; there only a full stop ends a sentence.
    """
    first, space, rest = candidate.partition(" ")
    if first.lower() in _ARTICLES and space:
        begins = not before.strip() or before.rstrip()[-1] in ".!?"
        first = first.capitalize() if begins else first.lower()
    return first + space + rest + ("'s" if possessive else "")
