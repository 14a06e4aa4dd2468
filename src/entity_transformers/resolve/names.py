"""The resolver that needs no weights: it links names by spelling, titles and shared last words.

Mr. Darcy, Darcy and Fitzwilliam Darcy are one entity, Mr. Bennet, Mrs. Bennet and Miss Bennet are
three. Descriptions are left alone, and so are pronouns unless he and she are asked for. It makes
one pass over the words, and always gives the same answer.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
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
from entity_transformers.resolve.registry import Resolver

BEARERS = 16
"""How many of the latest entities with a name word are compared, to keep the time linear."""

REACH = 120
"""How many words back he and she look for a person, mentioned by name or by a pronoun."""

_INITIALS = re.compile(r"(?:[A-Z]\.)+|[A-Z]")
_POSSESSIVE = re.compile(r"['’]s?$")
_PRONOUNS = dict.fromkeys("he him his himself".split(), "m") | dict.fromkeys(
    "she her hers herself".split(), "f"
)

_ENDS = frozenset(". ? ! : ; ... … .... -- — ( [ * “ ‘ \" ' `` '' ” ’ ‘‘ ’’".split())
"""Marks after which a capital letter is no sign of a name."""


class Form(NamedTuple):
    """What the spelling of a word tells about it.

    key      lower case, without possessive and full stop
    capital  begins with a capital letter and may be part of a name
    title    is a title, e.g. Mr.
    initial  is an initial, e.g. J. or J.R.R.
    shouted  has two or more letters, all of them capitals
    """

    key: str
    capital: bool
    title: bool
    initial: bool
    shouted: bool


@lru_cache(1 << 16)
def read_form(word: str) -> Form:
    """Return the form of a word, which depends on the word alone."""
    initial = bool(_INITIALS.fullmatch(word)) and word != "I"
    bare = _POSSESSIVE.sub("", word) if len(word) > 2 else word
    key = bare.lower() if initial and len(bare) > 2 else bare.lower().rstrip(".")
    letters = sum(map(str.isalpha, word))
    capital = word[:1].isupper() and key not in NEVER and (initial or letters > 1)
    title = word[:1].isupper() and key in TITLES
    shouted = letters > 1 and word.isupper() and not initial
    return Form(key, capital, title, initial, shouted)


@dataclass
class Name:
    """What a name's words tell: ``given`` and ``last``, the first and last word of a full name, or
    ``alone``, a word that may be either. A name that is no person's has none of these: then only
    the same words refer to the same entity.

    suffix  what follows the name (II, Jr.)
    gender  m, f or ""; ``wed``: wife, maid, office or ""
    """

    given: str = ""
    last: str = ""
    alone: str = ""
    suffix: str = ""
    gender: str = ""
    wed: str = ""


@dataclass
class Entity(Name):
    """One entity, with what all the names that refer to it tell."""

    number: int = 0

    def may_be(self, name: Name) -> bool:
        """Tell whether the entity may have this name, which shares a word with one of its own."""
        for key in ("gender", "wed", "suffix"):
            ours, theirs = getattr(self, key), getattr(name, key)
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
        """Fill in what the name tells and earlier names did not."""
        for key, value in vars(name).items():
            setattr(self, key, getattr(self, key) or value)


def _same_given(one: str, other: str) -> bool:
    """Tell whether two given names are the same, or one is the other's initial."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    return len(short.rstrip(".")) == 1 and long.startswith(short[0])


class Register:
    """The entities found so far, by the names used for them, and the words of these names."""

    def __init__(self) -> None:
        self.count = 0
        self.words = set[str]()
        self.surfaces: dict[tuple[str, ...], Entity] = {}
        self._bearers: dict[str, OrderedDict[int, Entity]] = {}
        self._latest_person: dict[str, tuple[int, Entity]] = {}

    def find(self, surface: tuple[str, ...], at: int) -> int:
        """Return the number of the entity that the name at word ``at`` refers to: one called
        exactly so, else the latest that may have the name, else a new one.
        """
        name = parse_name(surface)
        entity = self.surfaces.get(surface) or self._latest(name)
        if entity is None:
            self.count += 1
            entity = Entity(number=self.count)
        entity.learn(name)
        for word in {name.given, name.last, name.alone} - {""}:
            bearers = self._bearers.setdefault(word, OrderedDict())
            bearers[entity.number] = entity
            bearers.move_to_end(entity.number)
            if len(bearers) > BEARERS:
                bearers.popitem(last=False)
        # a title, or a given and a last name, shows that this is a person
        if entity.gender or entity.wed or (entity.given and entity.last):
            self._latest_person[entity.gender] = (at, entity)
        self.words.update(set(surface) - TITLES.keys() - THINGS - WEAK)
        self.surfaces[surface] = entity
        return entity.number

    def find_person(self, gender: str, at: int) -> int | None:
        """Return the number of the person to whom he (m) or she (f) at word ``at`` refers: the
        latest of this or of unknown gender, which becomes this; None if nobody is within `REACH`.
        """
        found = [
            self._latest_person[key]
            for key in (gender, "")
            # a person whose gender has been learnt since is listed under that
            if key in self._latest_person and self._latest_person[key][1].gender == key
        ]
        last, person = max(found, key=lambda pair: pair[0], default=(at - REACH - 1, None))
        if person is None or at - last > REACH:
            return None
        person.gender = gender
        self._latest_person[gender] = (at, person)
        return person.number

    def _latest(self, name: Name) -> Entity | None:
        found = [
            entity
            for word in (name.given, name.alone, name.last)
            for entity in reversed(self._bearers.get(word, {}).values())
            if entity.may_be(name)
        ]
        return max(found, key=lambda entity: entity.gender == name.gender, default=None)


def spell_out(forms: Sequence[Form]) -> tuple[str, ...]:
    """Return the surface of a name: its words in lower case, without the article."""
    return tuple(form.key for form in forms if form.key not in {"the", ""})


def parse_name(surface: Sequence[str]) -> Name:
    """Take a name apart into titles, words and suffix; particles are left out."""
    titles = [*takewhile(TITLES.__contains__, surface)]
    words = [*surface[len(titles) :]]
    gender = next((TITLES[title][0] for title in titles if TITLES[title][0]), "")
    wed = next((TITLES[title][1] for title in titles if TITLES[title][1]), "")
    suffix = ""
    if len(words) > 1 and words[-1] in SUFFIXES:
        suffix = words.pop().removeprefix("esq")
    if titles and words[:1] == ["of"]:  # Duke of Wellington
        return Name(last=words[-1], gender=gender, wed=wed)
    words = [word for word in words if word not in PARTICLES] or words
    if not words or "of" in words:
        return Name()
    if len(words) > 1 and not titles and (words[-1] in THINGS or words[0] in FIRST_OF_THINGS):
        return Name()
    if len(words) == 1 and titles and titles[-1] in LAST_ONLY:
        return Name(last=words[0], suffix=suffix, gender=gender, wed=wed)
    gender = gender or GIVEN.get(words[0], "")
    if len(words) == 1:
        return Name(alone=words[0], suffix=suffix, gender=gender, wed=wed)
    return Name(given=words[0], last=words[-1], suffix=suffix, gender=gender, wed=wed)


def find_names(causal: bool = False, pronouns: bool = False) -> Resolver:
    """Return resolver ``names``, or names-pronouns, names-causal or names-pronouns-causal. It reads
    only words and sentence starts; mentions are in reading order and never overlap, and entities
    are numbered from 1 by first appearance.

    causal    a mention and its entity depend only on the text before it and on the word right after
              it, which shows that the name has ended; otherwise the whole document tells which
              capitals at sentence starts are names
    pronouns  he and she, in all their cases, refer to the latest person of their gender; other
              pronouns are left alone
    """
    name = "names" + "-pronouns" * pronouns + "-causal" * causal
    return Resolver(name, lambda document: list(_Reading(document, causal, pronouns)))


class _Reading:
    """One pass over a document."""

    def __init__(self, document: Document, causal: bool, pronouns: bool) -> None:
        self.words = document.words
        self.starts = frozenset(document.sentence_starts)
        self.forms = [read_form(word) for word in self.words]
        self.causal = causal
        self.pronouns = _PRONOUNS if pronouns else {}
        # evidence on capitals at sentence starts: the words seen in lower case, and those seen
        # with a capital elsewhere
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
                number = self.register.find(spell_out(self.forms[at:end]), at)
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
        """Tell whether any word would have a capital here."""
        return at in self.starts or self.words[at - 1] in _ENDS

    def _goes_on(self, at: int) -> bool:
        """Tell whether there is a word here in the same sentence as the one before."""
        return at < len(self.words) and at not in self.starts

    def _match(self, at: int) -> tuple[int, bool]:
        """Return where reading goes on, and whether the words until there are a name."""
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
        """Return the same for names like Duke of Wellington, ``at`` being the second word."""
        if not (self._goes_on(at) and self.words[at] == "of"):
            return at, False
        end = self._skip_words(at + 1)
        return (end, True) if end > at + 1 else (at, False)

    def _skip_titles(self, at: int) -> int:
        """Return the index of the first word after the titles that stand here."""
        end = at
        while (end == at or self._goes_on(end)) and self.forms[end].title:
            end += 1
            stop = self._goes_on(end) and self.words[end] == "."
            end += stop and self.forms[end - 1].key in ABBREVIATED
        return end

    def _skip_words(self, at: int, title: str = "") -> int:
        """Return the index after the words that continue a name here; ``title`` precedes them."""
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
        """Tell whether a name may begin with the capitalised word here."""
        key = self.forms[at].key
        if not self._opens(at) or key in self.register.words or key in self.inner:
            return True
        if key in self.lower:
            return False
        if key in GIVEN or not self._goes_on(at + 1):
            return key in GIVEN
        # no evidence: a name if another capital follows, unless that is a known name by itself
        following = self.forms[at + 1]
        return following.capital and following.key not in self.register.words

    def _is_name(self, start: int, end: int) -> bool:
        """Tell whether these words, which have no title, are a name by themselves."""
        forms = self.forms[start:end]
        if all(form.key in WEAK or form.initial for form in forms):
            return len(forms) > 1 and forms[-1].key in THINGS  # British Museum
        if not all(form.shouted or form.initial for form in forms):
            return True
        if spell_out(forms) in self.register.surfaces:
            return True
        # all in capitals: a heading or shouting, unless it is a single short word on its own
        beside = [i for i in (start - 1, end) if 0 <= i < len(self.words)]
        alone = not any(self.forms[i].shouted for i in beside)
        return len(forms) == 1 and alone and len(forms[0].key) <= 5
