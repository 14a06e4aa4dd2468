"""The resolver that needs no weights: names by their spelling, with titles and shared last words.

Mr. Darcy, Darcy and Fitzwilliam Darcy are one entity, Mr. Bennet, Mrs. Bennet and Miss Bennet are
three. Descriptions are left alone, and so are pronouns unless he and she are asked for. One pass
over the words, the same answer each time.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve.lexicon import (
    ABBREVIATED,
    CIVIL,
    FIRST_OF_THINGS,
    GIVEN,
    LAST_ONLY,
    NEVER,
    OF_HEADS,
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
_PRONOUNS = dict.fromkeys("he him his himself".split(), "m") | dict.fromkeys(
    "she her hers herself".split(), "f"
)

_ENDS = frozenset(". ? ! : ; ... … .... -- — ( [ * “ ‘ \" ' `` '' ” ’ ‘‘ ’’".split())
"""Marks after which a capital tells nothing."""


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
    """The entities so far, by what they were called, and the words of their names."""

    def __init__(self) -> None:
        self.count = 0
        self.words: set[str] = set()
        self.surfaces: dict[tuple[str, ...], Entity] = {}
        self._bearers: dict[str, OrderedDict[int, Entity]] = {}
        self._latest_person: dict[str, tuple[int, Entity]] = {}

    def find(self, name: Name, at: int) -> int:
        """Number of the entity that the name at word ``at`` is taken for: one called exactly so,
        else the latest that may be, else a new one.
        """
        entity = self.surfaces.get(name.surface) or self._latest(name)
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
            # a person is called by a title, or by a given and a last name
            if entity.gender or entity.wed or (entity.given and entity.last):
                self._latest_person[entity.gender] = (at, entity)
        self.words.update(set(name.surface) - TITLES.keys() - THINGS - WEAK)
        self.surfaces[name.surface] = entity
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


@dataclass(frozen=True)
class Names:
    """Resolver ``names``.

    causal    a mention and its entity depend on what stands before and on the word right after it,
              which tells that the name has ended; otherwise the whole document tells which capitals
              at sentence starts are names
    pronouns  he and she, in all their cases, are the latest person of their gender; other pronouns
              are left alone
    """

    causal: bool = False
    pronouns: bool = False

    @property
    def name(self) -> str:
        """names, names-pronouns, names-causal or names-pronouns-causal."""
        return "names" + "-pronouns" * self.pronouns + "-causal" * self.causal

    def resolve(self, document: Document) -> list[Mention]:
        """Mentions in reading order, which never overlap; entities are numbered from 1 by first
        appearance. Words and sentence starts are all that is read.
        """
        return list(_Reading(document, self.causal, self.pronouns))


class _Reading:
    """One pass over a document."""

    def __init__(self, document: Document, causal: bool, pronouns: bool) -> None:
        self.words = document.words
        self.starts = frozenset(document.sentence_starts)
        self.forms = [read_form(word) for word in self.words]
        self.causal = causal
        self.pronouns = _PRONOUNS if pronouns else {}
        # spellings that tell whether a capital at a sentence's start is a name's: seen in lower
        # case, and with a capital where no sentence starts
        self.lower, self.inner = set[str](), set[str]()
        self.register = Register()
        if not causal:
            self._read(0, len(self.words))

    def __iter__(self) -> Iterator[Mention]:
        at = done = 0
        while at < len(self.words):
            end, found = self._match(at)
            if self.causal:
                self._read(at, end)
            if found:
                article = at > done and self._goes_on(at) and self.words[at - 1].lower() == "the"
                number = self.register.find(parse_name(self.forms[at:end]), at)
                yield Mention(at - article, end, number)
                done = end
            elif gender := self.pronouns.get(self.forms[at].key):
                person = self.register.find_person(gender, at)
                if person is not None:
                    yield Mention(at, end, person)
            at = end

    def _read(self, start: int, end: int) -> None:
        for i in range(start, end):
            form = self.forms[i]
            if self.words[i].islower():
                self.lower.add(form.key)
            elif form.capital and not form.shouted and not self._opens(i):
                self.inner.add(form.key)

    def _opens(self, at: int) -> bool:
        """Would any word have a capital here?"""
        return at in self.starts or self.words[at - 1] in _ENDS

    def _goes_on(self, at: int) -> bool:
        """Is there a word here, of the same sentence as the one before?"""
        return at < len(self.words) and at not in self.starts

    def _match(self, at: int) -> tuple[int, bool]:
        """Where the reading goes on, and is what lies between a name?"""
        name = self._skip_titles(at)
        if name == at:
            form = self.forms[at]
            if not (form.capital and self._may_begin(at)):
                return at + 1, False
            end = self._skip_words(at + 1)
        else:
            end = self._skip_words(name, self.forms[name - 1].key or self.forms[name - 2].key)
        if end == at + 1 and self.forms[at].key in OF_HEADS:
            return self._match_of(end)
        if end == name:
            return name, False
        return end, name > at or self._is_name(at, end)

    def _match_of(self, at: int) -> tuple[int, bool]:
        """The same after the first word of Duke of Wellington, which is no name by itself."""
        if not (self._goes_on(at) and self.words[at] == "of"):
            return at, False
        end = self._skip_words(at + 1)
        return (end, True) if end > at + 1 else (at, False)

    def _skip_titles(self, at: int) -> int:
        """The first word after the titles that stand here."""
        end = at
        while (end == at or self._goes_on(end)) and self.forms[end].title:
            end += 1
            stop = self._goes_on(end) and self.words[end] == "."
            end += stop and self.forms[end - 1].key in ABBREVIATED
        return end

    def _skip_words(self, at: int, title: str = "") -> int:
        """The first word after those that go on with a name here; ``title``: the word before."""
        end = at
        while self._goes_on(end):
            word, form = self.words[end], self.forms[end]
            if form.title and word.endswith("."):
                break
            after_title = end == at and title in CIVIL and word[:1].isupper() and word != "I"
            if not (form.capital or after_title or word in PARTICLES):
                break
            end += 1
        return end

    def _may_begin(self, at: int) -> bool:
        """Is the capital one that a name may begin with?"""
        key = self.forms[at].key
        if not self._opens(at) or key in self.register.words or key in self.inner:
            return True
        if key in self.lower:
            return False
        if key in GIVEN or not self._goes_on(at + 1):
            return key in GIVEN
        # seen neither way: the first of several capitals, unless the second is a name by itself
        following = self.forms[at + 1]
        return following.capital and following.key not in self.register.words

    def _is_name(self, start: int, end: int) -> bool:
        """Are the words, without a title, a name by themselves?"""
        forms = self.forms[start:end]
        if all(form.key in WEAK or form.initial for form in forms):
            return len(forms) > 1 and forms[-1].key in THINGS  # British Museum
        if not all(form.shouted or form.initial for form in forms):
            return True
        if parse_name(forms).surface in self.register.surfaces:
            return True
        # capitals throughout: a heading, or somebody shouts, unless it is one short word alone
        beside = [i for i in (start - 1, end) if 0 <= i < len(self.words)]
        alone = not any(self.forms[i].shouted for i in beside)
        return len(forms) == 1 and alone and len(forms[0].key) <= 5
