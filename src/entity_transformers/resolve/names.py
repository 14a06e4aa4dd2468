"""The resolver that needs no weights: names by their spelling, with titles and shared last words.

Mr. Darcy, Darcy and Fitzwilliam Darcy are one entity, Mr. Bennet, Mrs. Bennet and Miss Bennet are
three. Descriptions are left alone, and so are pronouns unless he and she are asked for. One pass
over the words, the same answer each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.resolve.lexicon import (
    ABBREVIATED,
    CIVIL,
    GIVEN,
    OF_HEADS,
    PARTICLES,
    THINGS,
    WEAK,
)
from entity_transformers.resolve.register import Evidence, Register, parse_name, read_form

_PRONOUNS = dict.fromkeys("he him his himself".split(), "m") | dict.fromkeys(
    "she her hers herself".split(), "f"
)

_ENDS = frozenset(". ? ! : ; ... … .... -- — ( [ * “ ‘ \" ' `` '' ” ’ ‘‘ ’’".split())
"""Marks after which a capital tells nothing."""


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
        self.evidence = Evidence()
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
            self.evidence.read(self.words[i], self.forms[i], self._opens(i))

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
        if not self._opens(at) or key in self.register.words or key in self.evidence.inner:
            return True
        if key in self.evidence.lower:
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
        if self.register.knows(parse_name(forms).surface):
            return True
        # capitals throughout: a heading, or somebody shouts, unless it is one short word alone
        beside = [i for i in (start - 1, end) if 0 <= i < len(self.words)]
        alone = not any(self.forms[i].shouted for i in beside)
        return len(forms) == 1 and alone and len(forms[0].key) <= 5
