from __future__ import annotations

import base64
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from entity_transformers.report import tables
from entity_transformers.report.catalogue import CATALOGUE, list_captions
from entity_transformers.report.page import render
from entity_transformers.report.results import Results
from entity_transformers.report.verdict import judge_entities

Study = Callable[..., Any]
CONTROLS = ("gpt2e-unlabelled", "gpt2e-shuffled", "gpt2-matched")
VOID = {"meta", "img", "br", "hr", "link", "input"}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="
)


class Page(HTMLParser):
    """Collects what a browser would: open tags must close in order; every resource, anchor and text
    is kept.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.resources: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "data", "poster", "action"):
                self.resources.append(value or "")
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def make(results: Results) -> tuple[str, Page]:
    drawn = dict.fromkeys(list_captions(), PIXEL)
    text = render(results, tables.build_all(results), drawn)
    return text, Page(text)


@pytest.fixture(scope="module")
def page(full: Results) -> tuple[str, Page]:
    return make(full)


def test_it_is_well_formed(page: tuple[str, Page]) -> None:
    text, parsed = page
    assert parsed.stack == []
    assert text.startswith("<!doctype html>")
    assert len(parsed.ids) == len(set(parsed.ids))


def test_nothing_is_loaded_from_elsewhere(full: Results, page: tuple[str, Page]) -> None:
    text, parsed = page
    assert all(source.startswith("data:image/png;base64,") for source in parsed.resources)
    figures = [name for step in full.steps for name in CATALOGUE[step].figures]
    assert len(parsed.resources) == len(figures) - 1  # recall is not in the fixture
    assert parsed.tags.isdisjoint({"link", "iframe", "object"})
    assert not re.search(r"https?://|url\(|@import|fetch\(", text)


def test_every_link_has_its_target(full: Results, page: tuple[str, Page]) -> None:
    _, parsed = page
    shown = {f"step-{step}" for step in full.steps if CATALOGUE[step].tables}
    links = {link.removeprefix("#") for link in parsed.links}
    shown -= {"step-recall"}  # not in the fixture
    assert links == {"verdict", "manifest", *shown}
    assert links <= set(parsed.ids)


def test_the_numbers_of_the_tables_are_on_the_page(full: Results, page: tuple[str, Page]) -> None:
    words = set(page[1].words)
    for name, table in tables.build_all(full).items():
        if name != "claims":
            assert {str(cell) for row in table.rows for cell in row if str(cell)} <= words


@pytest.mark.parametrize("models", [("gpt2", "gpt2e", *CONTROLS), ("gpt2", "gpt2e")])
def test_each_verdict_reaches_the_headline(study: Study, models: tuple[str, ...]) -> None:
    results = study(models)
    text, _ = make(results)
    status = judge_entities(results).status.replace(" ", "-")
    assert f'class="verdict {status}"' in text


def test_text_of_the_study_is_escaped(page: tuple[str, Page]) -> None:
    text, parsed = page
    assert "<made-up>" not in text
    assert "E.T. on <made-up> data" in parsed.words
    assert "made-up" not in parsed.tags


def test_an_empty_study_has_a_page(empty: Study) -> None:
    results = empty()
    text = render(results, tables.build_all(results), {})
    assert Page(text).stack == []
