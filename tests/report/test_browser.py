"""The report in a real Chromium: no errors, nothing fetched, and what a reader does with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, chromium

from entity_transformers.report import figures, tables
from entity_transformers.report.excerpts import Excerpts, Page, Scores
from entity_transformers.report.page import render
from entity_transformers.report.results import Results

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
TOKENS = ("Ada", " met", " <img src=x onerror=alert(1)>", " </script>", " her")
LOSSES = (2.0, 3.0, 4.0, 5.0, 1.0)
READ = ((), (), ((1, 20),), (), ((1, 45),))
EXCERPTS = Excerpts(
    "test",
    (Page("doc/<b>one</b>", TOKENS, (1, 0, 0, 0, 1), {"1": "Ada <i>"}),),
    (
        Scores("gpt2", "off", 2, (LOSSES,)),
        Scores("gpt2e", "on", 2, (tuple(loss - 0.5 for loss in LOSSES),), (READ,)),
    ),
)
CONTRAST = (Path(__file__).parents[1] / "helpers/contrast.js").read_text("utf-8")
OPEN = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"


@pytest.fixture(scope="module")
def page(full: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = replace(full, pictures=replace(full.pictures, excerpts=EXCERPTS))
    images = {name: figures.render_png(one) for name, one in figures.build_all(results).items()}
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(render(results, tables.build_all(results), images), "utf-8")
    return file


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(autouse=True)
def clean(browser: Browser) -> Iterator[None]:
    browser.problems.clear()
    yield
    assert browser.problems == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_all_of_it_can_be_read(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width, dark)
    browser.run(OPEN)
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run(CONTRAST) == []
    drawn = "[...document.images].map((one) => one.complete && one.naturalWidth > 0)"
    assert set(browser.run(drawn)) == {True}


def test_the_theme_is_switched(browser: Browser, page: Path) -> None:
    browser.open(page)
    found = []
    for _ in range(3):
        browser.run("document.querySelector('#theme').click()")
        found.append(browser.run("getComputedStyle(document.body).backgroundColor"))
    light, dark = "rgb(255, 255, 255)", "rgb(18, 22, 28)"
    assert found == [light, dark, light]


def test_a_table_sorts_by_its_numbers(browser: Browser, page: Path) -> None:
    browser.open(page)
    name = browser.run(
        "[...document.querySelectorAll('table')].find((table) => table.id !== 'table1'"
        " && table.tBodies[0].rows.length > 5"
        " && table.tHead.rows[0].cells[1].className === 'number').id"
    )
    body = f"[...document.querySelectorAll('#{name} tbody tr')].map((row) => row.cells[1])"
    for sign in (1, -1):
        browser.run(f"document.querySelectorAll('#{name} th button')[1].click()")
        values = browser.run(f"{body}.map((cell) => cell.dataset.value ?? null)")
        numbers = [float(value) for value in values if value is not None]
        assert len(set(numbers)) > 2
        assert all(sign * one <= sign * other for one, other in pairwise(numbers))
        known = [value is not None for value in values]
        assert known == sorted(known, reverse=True)  # missing ones stand last


def test_documents_are_browsed_token_by_token(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run(OPEN)
    shades = (
        "[...document.querySelectorAll('.tokens span')].map((one) =>"
        " one.style.getPropertyValue('--heat') + one.style.getPropertyValue('--much'))"
    )
    assert browser.run("document.querySelector('.tokens').textContent") == "".join(TOKENS)
    assert [shade.replace(" ", "") for shade in browser.run(shades)] == ["var(--less)20"] * 5
    browser.run("document.querySelectorAll('.tokens span')[4].click()")
    assert browser.run("document.querySelector('.tokens + p').textContent") == (
        "“ her”: GPT2E, entities on 0.50 nats, GPT2 1.00. Part of Ada <i>."
        " Memory read before it: Ada <i> 45%."
    )
