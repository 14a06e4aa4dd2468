"""The template language of the sample corpus, and the writer that turns a template into a tagged,
annotated sentence.

A template is a line of tokens separated by spaces:

- ``word`` or ``word/TAG``: a word; without a tag the lexicon has it;
- ``[one|two words|three]``: one of the alternatives, drawn at random;
- ``$name``: one of the templates of the rule ``name``;
- ``{LABEL`` ... ``}``: a named entity; ``<X`` ... ``>``: a mention of the entity X;
- ``@X``, ``@X:o``, ``@X:p``: a mention of X as subject, object, possessor; the writer picks name,
description or pronoun;
- ``@X:S``, ``@X:O``, ``@X:P``, ``@X:self``: a pronoun; ``@X:form``: that form of the entity;
- ``%X.fact``: a fact about X that is no mention of it;
- ````` ``X>Y ````` ... ``''``: X speaks to Y, so mentions of X are *I*, of Y *you*; a plain opening
quotes the same X again.

X may be a path through an entity's links, as in ``@X.pet``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from entity_transformers.corpus.sample.lexicon import find_tag

PRONOUNS: dict[str, dict[str, str]] = {
    "he": {"S": "he/PRP", "O": "him/PRP", "P": "his/PRP$", "self": "himself/PRP"},
    "she": {"S": "she/PRP", "O": "her/PRP", "P": "her/PRP$", "self": "herself/PRP"},
    "it": {"S": "it/PRP", "O": "it/PRP", "P": "its/PRP$", "self": "itself/PRP"},
    "they": {"S": "they/PRP", "O": "them/PRP", "P": "their/PRP$", "self": "themselves/PRP"},
    "I": {"S": "I/PRP", "O": "me/PRP", "P": "my/PRP$", "self": "myself/PRP"},
    "you": {"S": "you/PRP", "O": "you/PRP", "P": "your/PRP$", "self": "yourself/PRP"},
}
DEFINITE = ("the", "short")
HAVE_BE = frozenset(
    ("have", "has", "had", "having", "is", "are", "was", "were", "be", "been", "being")
)


@dataclass(eq=False, slots=True)
class Entity:
    """Somebody or something of a story.

    ``pronoun`` is he, she, it or they; ``forms`` are templates by name, among them ``new`` (first
    mention); ``again`` are the templates of later mentions; ``links`` lead to other entities;
    ``facts`` are templates that mention nobody. ``reduced``: may a pronoun stand for it wherever it
    is clear (people, animals, things) or only as the next subject (places).
    """

    pronoun: str
    forms: dict[str, str]
    again: tuple[str, ...]
    links: dict[str, Entity] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    reduced: bool = True


class Op(NamedTuple):
    """One compiled token: its kind, its text (word, path, label or rule), and its tag, form or
    alternatives.
    """

    kind: str
    text: str
    extra: str = ""
    options: tuple[tuple[Op, ...], ...] = ()


@dataclass(slots=True)
class Sentence:
    """Words with tags, and half-open spans over them: mentions ``(start, end, entity)``, named
    entities ``(start, end, label)``.
    """

    speaker: str
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    mentions: list[tuple[int, int, Entity]] = field(default_factory=list)
    named_entities: list[tuple[int, int, str]] = field(default_factory=list)


@lru_cache(maxsize=20_000)
def compile_template(template: str) -> tuple[Op, ...]:
    """The template's tokens as operations; a word without a tag that the lexicon lacks raises
    KeyError.
    """
    return tuple(_compile_token(token) for token in re.findall(r"\[[^\]]*\]|\S+", template))


def _compile_token(token: str) -> Op:
    if token[0] == "[":
        return Op(
            "choice",
            token,
            options=tuple(compile_template(option) for option in token[1:-1].split("|")),
        )
    if token[:2] == "``" and ">" in token:
        speaker, hearer = token[2:].split(">")
        return Op("speech", speaker, hearer)
    if token in ("}", ">", "``", "''"):
        return Op(token, token)
    if token[0] == "@":
        path, _, form = token[1:].partition(":")
        return Op("ref", path, form or "s")
    if token[0] == "%" and token[1:2].isalpha():
        path, _, fact = token[1:].rpartition(".")
        return Op("fact", path, fact)
    if token[0] in "{<" or (token[0] == "$" and token[1:2].isalpha()):
        return Op(token[0], token[1:])
    return Op("word", *find_tag(token))


def starts_with_vowel(word: str) -> bool:
    """Does the word sound as if it began with a vowel, so that *an* precedes it?"""
    lower = word.lower()
    if lower[0].isdigit():
        return lower[0] == "8" or lower in ("11", "18")
    if lower.startswith(("hour", "honest", "heir", "honor")):
        return True
    return lower[0] in "aeiou" and not lower.startswith(
        ("uni", "use", "usu", "eu", "one", "once", "ukulele")
    )


class Writer:
    """Writes the sentences of one part of a document, and remembers who has been mentioned and who
    is being talked about.
    """

    def __init__(
        self, rng: random.Random, rules: Mapping[str, Sequence[str]], cast: Mapping[str, Entity]
    ) -> None:
        self.rng = rng
        self.rules = rules
        self.cast = dict(cast)
        self._known: set[Entity] = set()
        self._topic: dict[str, Entity] = {}
        self._inside: list[Entity] = []

    def start_paragraph(self) -> None:
        """Forget who was talked about: the next mention of anybody is no pronoun."""
        self._topic = {}

    def write(self, template: str, speaker: str = "", hearer: str = "") -> Sentence:
        """One sentence; ``speaker`` and ``hearer`` are names in the cast where it is spoken."""
        self._roles = [(self.cast.get(speaker), self.cast.get(hearer))]
        self._voices = self._roles[0]
        self._said: dict[str, list[Entity]] = {}
        self._subjects: dict[str, Entity] = {}
        self._open: list[tuple[int, Entity]] = []
        self._sentence = Sentence(self.cast[speaker].facts["speaker"] if speaker else "-")
        self._expand(compile_template(template))
        self._topic = self._subjects
        self._capitalise()
        return self._sentence

    def find(self, path: str) -> Entity:
        """The entity at a path like ``X.pet``; the first name is looked up in the entity being
        described, then in the cast.
        """
        first, *rest = path.split(".")
        links = self._inside[-1].links if self._inside else {}
        entity = links.get(first) or self.cast[first]
        for name in rest:
            entity = entity.links[name]
        return entity

    def _expand(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if op.kind == "word":
                self._emit(op.text, op.extra)
            elif op.kind == "choice":
                self._expand(self.rng.choice(op.options))
            elif op.kind == "$":
                self._expand(compile_template(self.rng.choice(self.rules[op.text])))
            elif op.kind == "ref":
                self._refer(self.find(op.text), op.extra)
            elif op.kind == "fact":
                self._expand(compile_template(self.find(op.text).facts[op.extra]))
            else:
                self._mark(op)

    def _mark(self, op: Op) -> None:
        """Open or close a mention, a named entity or a quotation."""
        sentence, here = self._sentence, len(self._sentence.words)
        if op.kind == "{":
            sentence.named_entities.append((here, -1, op.text))
        elif op.kind == "}":
            start, _, label = sentence.named_entities[-1]
            sentence.named_entities[-1] = (start, here, label)
        elif op.kind == "<":
            entity = self.find(op.text)
            self._note(entity, "s")
            self._open.append((here, entity))
        elif op.kind == ">":
            start, entity = self._open.pop()
            sentence.mentions.append((start, here, entity))
        elif op.kind == "''":
            self._roles.pop()
            self._emit("''", "''")
        else:
            if op.kind == "speech":
                self._voices = (self.find(op.text), self.find(op.extra))
            self._roles.append(self._voices)
            self._emit("``", "``")

    def _refer(self, entity: Entity, form: str) -> None:
        """Mention the entity; an automatic form (s, o, p) becomes a pronoun where that is clear."""
        speaker, hearer = self._roles[-1]
        person = "I" if entity is speaker else "you" if entity is hearer else entity.pronoun
        template = self._template(entity, form, person)
        start = len(self._sentence.words)
        self._inside.append(entity)
        self._expand(compile_template(template))
        self._inside.pop()
        if person == entity.pronoun:
            self._note(entity, form)
        self._sentence.mentions.append((start, len(self._sentence.words), entity))

    def _template(self, entity: Entity, form: str, person: str) -> str:
        automatic = form in ("s", "o", "p")
        if not automatic and form not in PRONOUNS[person]:
            unknown = form in DEFINITE and "a" in entity.forms and entity not in self._known
            return entity.forms["new" if unknown else form]
        if not automatic or person != entity.pronoun or self._is_clear(entity, form):
            return PRONOUNS[person][form if form == "self" else form.upper()]
        noun = self.rng.choice(entity.again) if entity in self._known else entity.forms["new"]
        return f"{noun} 's/POS" if form == "p" else noun

    def _is_clear(self, entity: Entity, form: str) -> bool:
        """Would a pronoun be understood here? If so it is used always within a sentence, mostly
        across sentences.
        """
        said = self._said.get(entity.pronoun, [])
        if entity not in self._known or (
            not entity.reduced and (form != "s" or self._sentence.words[-1:] not in ([], [","]))
        ):
            return False
        if said:
            return entity.reduced and (
                all(other is entity for other in said) or (form != "s" and said[-1] is entity)
            )
        return self._topic.get(entity.pronoun) is entity and self.rng.random() < (
            0.65 if entity.reduced else 0.3
        )

    def _note(self, entity: Entity, form: str) -> None:
        self._known.add(entity)
        if form not in ("p", "P") and not self._open:
            self._subjects.setdefault(entity.pronoun, entity)
        self._said.setdefault(entity.pronoun, []).append(entity)

    def _emit(self, word: str, tag: str) -> None:
        words, tags = self._sentence.words, self._sentence.tags
        if words and words[-1] in ("a", "A") and tags[-1] == "DT" and starts_with_vowel(word):
            words[-1] += "n"
        if tag == "VBD":
            before = next(
                (w for w, t in zip(reversed(words), reversed(tags), strict=True) if t != "RB"), ""
            )
            tag = "VBN" if before in HAVE_BE else tag
        words.append(word)
        tags.append(tag)

    def _capitalise(self) -> None:
        """Capital letters at the beginning and after an opening quotation mark, unless the
        quotation only goes on.
        """
        words = self._sentence.words
        for index, word in enumerate(words):
            if (
                index == 0
                or words[index - 1] in ("?", "!")
                or (words[index - 1] == "``" and "''" not in words[:index])
            ):
                words[index] = word[:1].upper() + word[1:]
