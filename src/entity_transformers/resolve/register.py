"""The names that a text has used so far, and which entity a further one belongs to."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from entity_transformers.resolve.lexicon import (
    FIRST_OF_THINGS,
    GIVEN,
    LAST_ONLY,
    NEVER,
    PARTICLES,
    SUFFIXES,
    THINGS,
    TITLES,
    WEAK,
)

BEARERS = 16
"""The latest entities that are looked at for a name word: keeps the time linear."""

REACH = 120
"""Words over which he and she look back for somebody, by name or by a pronoun."""

_INITIALS = re.compile(r"(?:[A-Z]\.)+|[A-Z]")
_POSSESSIVE = re.compile(r"['’]s?$")


class Form(NamedTuple):
    """What a word's spelling tells.

    key      lower case, without possessive and full stop
    capital  begins with a capital letter and may be part of a name
    title    is a title, e.g. Mr.
    initial  is an initial, e.g. J. or J.R.R.
    shouted  is of capitals alone, and more than one
    """

    key: str
    capital: bool
    title: bool
    initial: bool
    shouted: bool


@lru_cache(1 << 16)
def read_form(word: str) -> Form:
    """The form of a word, from the word alone."""
    initial = bool(_INITIALS.fullmatch(word)) and word != "I"
    bare = _POSSESSIVE.sub("", word) if len(word) > 2 else word
    key = bare.lower() if initial and len(bare) > 2 else bare.lower().rstrip(".")
    letters = sum(map(str.isalpha, word))
    capital = word[:1].isupper() and key not in NEVER and (initial or letters > 1)
    title = word[:1].isupper() and key in TITLES
    shouted = letters > 1 and word.isupper() and not initial
    return Form(key, capital, title, initial, shouted)


@dataclass
class Evidence:
    """Spellings that tell whether a capital at a sentence's start is a name's: ``lower``, seen in
    lower case; ``inner``, seen with a capital where no sentence starts.
    """

    lower: set[str] = field(default_factory=set)
    inner: set[str] = field(default_factory=set)

    def read(self, word: str, form: Form, opening: bool) -> None:
        """Take note of a word; ``opening``: a capital would tell nothing there."""
        if word.islower():
            self.lower.add(form.key)
        elif form.capital and not opening and not form.shouted:
            self.inner.add(form.key)


@dataclass(frozen=True)
class Name:
    """What a span's words say: ``surface``, all of them in lower case without the article; the
    first and the last word of a full name, or ``alone``, a single one that may be either.

    suffix  what follows the name (II, Jr.)
    gender  m, f or ""; ``wed``: wife, maid or ""
    thing   no person: it is only ever called by the same words
    """

    surface: tuple[str, ...]
    given: str = ""
    last: str = ""
    alone: str = ""
    suffix: str = ""
    gender: str = ""
    wed: str = ""
    thing: bool = False


@dataclass
class Entity:
    """What the names that it was called by say of one entity, as in `Name`."""

    number: int
    given: str = ""
    last: str = ""
    alone: str = ""
    suffix: str = ""
    gender: str = ""
    wed: str = ""

    def may_be(self, name: Name) -> bool:
        """May it be called by the name, which shares a word with one of its own?"""
        for ours, theirs in (
            (self.gender, name.gender),
            (self.wed, name.wed),
            (self.suffix, name.suffix),
        ):
            if ours and theirs and ours != theirs:
                return False
        if name.given:
            if self.given and self.last:
                return self.last == name.last and _same_given(self.given, name.given)
            if self.last:
                return self.last == name.last
            return self.alone == name.given or (self.alone == name.last and name.gender != "f")
        if name.last:
            return name.last in (self.last, self.alone)
        if name.alone in (self.alone, self.given):
            return True
        # women are called by a last name with a title, or by a given name
        return name.alone == self.last and (bool(name.gender) or self.gender != "f")

    @property
    def is_person(self) -> bool:
        """Was it called by a title, or by a given and a last name?"""
        return bool(self.gender or self.wed or (self.given and self.last))

    def learn(self, name: Name) -> None:
        """Add what the name says."""
        for key in ("given", "last", "alone", "suffix", "gender", "wed"):
            setattr(self, key, getattr(self, key) or getattr(name, key))


def _same_given(one: str, other: str) -> bool:
    """Are two given names the same, or one the other's initial?"""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    return len(short.rstrip(".")) == 1 and long.startswith(short[0])


class Register:
    """The entities so far, found by the words of their names."""

    def __init__(self) -> None:
        self.count = 0
        self.words: set[str] = set()
        self._surfaces: dict[tuple[str, ...], Entity] = {}
        self._bearers: dict[str, OrderedDict[int, Entity]] = {}
        self._latest_person: dict[str, tuple[int, Entity]] = {}

    def knows(self, surface: tuple[str, ...]) -> bool:
        """Was an entity called exactly so?"""
        return surface in self._surfaces

    def find(self, name: Name, at: int) -> int:
        """Number of the entity that the name at word ``at`` is taken for: one called exactly so,
        else the latest that may be, else a new one.
        """
        entity = self._surfaces.get(name.surface) or self._latest(name)
        if entity is None:
            self.count += 1
            entity = Entity(self.count)
        if not name.thing:
            entity.learn(name)
            for word in {name.given, name.last, name.alone} - {""}:
                bearers = self._bearers.setdefault(word, OrderedDict())
                bearers[entity.number] = entity
                bearers.move_to_end(entity.number)
                if len(bearers) > BEARERS:
                    bearers.popitem(last=False)
            if entity.is_person:
                self._latest_person[entity.gender] = (at, entity)
        self.words.update(set(name.surface) - TITLES.keys() - THINGS - WEAK)
        self._surfaces[name.surface] = entity
        return entity.number

    def find_person(self, gender: str, at: int) -> int | None:
        """Number of the person that he (m) or she (f) at word ``at`` is taken for: the latest of
        that or of unknown gender, whose it is from now on; None where `REACH` holds nobody.
        """
        found = [
            self._latest_person[key]
            for key in (gender, "")
            # whose gender has been learnt since is found by it, if at all
            if key in self._latest_person and self._latest_person[key][1].gender == key
        ]
        last, person = max(found, key=lambda pair: pair[0], default=(at - REACH - 1, None))
        if person is None or at - last > REACH:
            return None
        person.gender = gender
        self._latest_person[gender] = (at, person)
        return person.number

    def _latest(self, name: Name) -> Entity | None:
        """The latest entity that may have the name; a known equal gender wins."""
        if name.thing:
            return None
        found = [
            entity
            for word in (name.given, name.alone, name.last)
            for entity in reversed(self._bearers.get(word, {}).values())
            if entity.may_be(name)
        ]
        return max(found, key=lambda entity: entity.gender == name.gender, default=None)


def parse_name(forms: Sequence[Form]) -> Name:
    """A span's words taken apart: titles, name, suffix; particles are part of the surface alone."""
    keys = [form.key for form in forms if form.key not in {"the", ""}]
    first = next((i for i, key in enumerate(keys) if key not in TITLES), len(keys))
    titles, words = keys[:first], keys[first:]
    surface = tuple(keys)
    gender = next((TITLES[title][0] for title in titles if TITLES[title][0]), "")
    wed = next((TITLES[title][1] for title in titles if TITLES[title][1]), "")
    suffix = ""
    if len(words) > 1 and words[-1] in SUFFIXES:
        suffix = words.pop().removeprefix("esq")
    if titles and words[:1] == ["of"]:  # Duke of Wellington
        return Name(surface, last=words[-1], gender=gender, wed=wed)
    words = [word for word in words if word not in PARTICLES] or words
    if not words or "of" in words:
        return Name(surface, thing=True)
    if len(words) > 1:
        if not titles and (words[-1] in THINGS or words[0] in FIRST_OF_THINGS):
            return Name(surface, thing=True)
        gender = gender or GIVEN.get(words[0], "")
        return Name(surface, words[0], words[-1], "", suffix, gender, wed)
    if titles and titles[-1] in LAST_ONLY:
        return Name(surface, last=words[0], suffix=suffix, gender=gender, wed=wed)
    gender = gender or GIVEN.get(words[0], "")
    return Name(surface, alone=words[0], suffix=suffix, gender=gender, wed=wed)
