"""Stories: parts of a document, each a beginning, scenes and an ending about the same people."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from entity_transformers.corpus.sample import episodes, frames
from entity_transformers.corpus.sample.grammar import Entity, Sentence, Writer
from entity_transformers.corpus.sample.rules import RULES
from entity_transformers.corpus.sample.world import draw_cast, draw_extras

GENRES = ("nw", "mz", "wb", "bn", "mz", "bc", "tc", "nw", "pt")
FIRSTS = {
    "nw": frames.NEWS_FIRST,
    "bn": frames.NEWS_FIRST,
    "bc": frames.SHOW_FIRST,
    "tc": frames.SHOW_FIRST,
    "wb": frames.LETTER_FIRST,
}
LASTS = {
    "nw": frames.NEWS_LAST,
    "bn": frames.NEWS_LAST,
    "bc": frames.SHOW_LAST,
    "tc": frames.SHOW_LAST,
    "wb": frames.LETTER_LAST,
}
SCENES = {
    "nw": episodes.NEWS,
    "bn": episodes.NEWS,
    "bc": frames.TALKS,
    "tc": frames.TALKS,
    "pt": episodes.TIMELESS,
}
LINE = re.compile(r"(?P<optional>\? )?(?:(?P<speaker>\w+)>(?P<hearer>\w+)\| )?(?P<template>.+)")
WORDS_AFTER_LAST_SCENE = 40


def write_part(
    rng: random.Random, genre: str, cast: dict[str, Entity], words: int
) -> list[Sentence]:
    """One part of about ``words`` words (at least a beginning, one scene and an ending) about three
    people of the cast.
    """
    writer = Writer(rng, RULES, cast)
    people = rng.sample(["P0", "P1", "P2"], 3)
    talk = genre in ("bc", "tc")
    assign_roles(writer, people)
    sentences = list(_begin(writer, genre, people))
    scenes = _shuffle(rng, SCENES.get(genre, episodes.EVERYDAY))
    length = sum(len(sentence.words) for sentence in sentences)
    while length < words - WORDS_AFTER_LAST_SCENE:
        assign_roles(writer, people if talk else rng.sample(people, 3))
        scene = list(write_lines(writer, next(scenes)))
        length += sum(len(sentence.words) for sentence in scene)
        sentences += scene
    assign_roles(writer, people)
    return [*sentences, *write_lines(writer, rng.choice(LASTS.get(genre, frames.CLOSINGS)))]


def assign_roles(writer: Writer, people: Sequence[str]) -> None:
    """Give three people the roles X, Y, Z, and PAIR to the first two; in letters, W writes to V."""
    cast = writer.cast
    cast.update(zip("XYZ", (cast[person] for person in people), strict=True))
    pair = f"{cast['X'].forms['first']} and {cast['Y'].forms['first']}"
    cast["PAIR"] = Entity("they", {"new": pair}, (pair,))
    cast.update(draw_extras(writer.rng))


def write_lines(writer: Writer, lines: str) -> Iterator[Sentence]:
    """The sentences of a scene; lines marked ``?`` are left out at random, ``X>Y|`` names the
    speaker and the hearer.
    """
    writer.start_paragraph()
    for line in lines.strip().splitlines():
        match = LINE.fullmatch(line)
        assert match is not None, line
        if not match["optional"] or writer.rng.random() < 0.5:
            yield writer.write(match["template"], match["speaker"] or "", match["hearer"] or "")


def _begin(writer: Writer, genre: str, people: Sequence[str]) -> Iterator[Sentence]:
    """Who the three people are and what is worth knowing about each; conversations only greet."""
    rng = writer.rng
    if genre in FIRSTS:
        yield from write_lines(writer, rng.choice(FIRSTS[genre]))
    if genre in ("bc", "tc"):
        return
    facts = [rng.choice(group) for group in rng.sample(frames.FACTS, 5)]
    introductions = (frames.FIRST, frames.SECOND, frames.THIRD)
    for turn, lines in enumerate(introductions):
        assign_roles(writer, people)
        if turn or genre not in ("nw", "bn"):
            yield from write_lines(writer, rng.choice(lines))
        assign_roles(writer, [*people[turn:], *people[:turn]])
        for fact in facts[2 * turn : 2 * turn + 2]:
            yield writer.write(fact)


def _shuffle(rng: random.Random, scenes: Sequence[str]) -> Iterator[str]:
    """All scenes in random order, then again in another."""
    while True:
        yield from rng.sample(scenes, len(scenes))


def draw_story(rng: random.Random, genre: str, parts: Sequence[int]) -> list[list[Sentence]]:
    """A document of parts of the given lengths in words; the parts share the people."""
    cast = draw_cast(rng, 5)
    cast |= {"W": cast["P3"], "V": cast["P4"]}
    return [write_part(rng, genre, cast, words) for words in parts]
