"""The report in a real Chromium: no errors, every picture, each control, contrast, keyboard, print,
and the same without scripts.
"""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, chromium

from entity_transformers.report import figures, tables, vector
from entity_transformers.report.excerpts import Excerpts, Page, Scores
from entity_transformers.report.page import render
from entity_transformers.report.readme import Listed
from entity_transformers.report.results import Results
from entity_transformers.report.site import render_site

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
WIDTHS = (1280, 390)
TOKENS = ("Ada", " met", " <img src=x onerror=alert(1)>", " </script>", " her", "\n")
PAGE = Page("doc/<b>one</b>", TOKENS, (1, 0, 0, 0, 1, 0), {"1": "Ada <i>"})
LOSSES = (2.0, 3.0, 4.0, 5.0, 1.0, 0.5)
EXCERPTS = Excerpts(
    "test",
    (PAGE, replace(PAGE, name="two", tokens=TOKENS[:2], entities=(1, 0))),
    (
        Scores("gpt2", "off", 2, (LOSSES, LOSSES[:2])),
        Scores(
            "gpt2e",
            "on",
            2,
            (tuple(loss - 0.5 for loss in LOSSES), (1.0, 4.0)),
            (((), (), ((1, 20),), (), ((1, 45),), ()), ((), ())),
        ),
    ),
)
CONTRAST = (Path(__file__).parents[1] / "helpers/contrast.js").read_text("utf-8")
OPEN = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"


@pytest.fixture(scope="module")
def results(full: Results) -> Results:
    return replace(full, pictures=replace(full.pictures, excerpts=EXCERPTS))


@pytest.fixture(scope="module")
def page(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = figures.build_all(results)
    images = {name: figures.render_png(figure) for name, figure in built.items()}
    drawings = {name: vector.draw(figure, name) for name, figure in built.items()}
    del drawings["embeddings_both"]  # as of a clone, which has its picture alone
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(render(results, tables.build_all(results), images, drawings), "utf-8")
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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_all_of_it_can_be_read(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width, dark)
    closed = browser.run("document.documentElement.scrollHeight")
    browser.run(OPEN)
    assert browser.run("document.documentElement.scrollHeight") > 2 * closed
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run(CONTRAST) == []
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (not dark)


def test_low_contrast_would_be_told(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("document.querySelector('h1').style.color = '#8a8a8a'")  # 3.45 by the formula
    assert [text.split()[-1] for text in browser.run(CONTRAST)] == ["3.45"]


def test_every_picture_is_drawn(browser: Browser, page: Path, results: Results) -> None:
    browser.open(page)
    browser.run(OPEN)
    pictures = browser.run(
        "[...document.querySelectorAll('figure .picture')].map((one) => {"
        " const image = one.querySelector('svg, img'); const box = image.getBoundingClientRect();"
        " return [image.tagName, box.width > 300 && box.height > 60 && (image.complete ?? true)"
        " && (image.naturalWidth ?? 1) > 0]; })"
    )
    assert len(pictures) == len(figures.build_all(results))
    assert [name for name, drawn in pictures if not drawn] == []
    assert [name for name, _ in pictures].count("IMG") == 1
    rooms = browser.run(
        "[...document.querySelectorAll('figure clipPath rect')].map((room) =>"
        " Math.min(room.width.baseVal.value, room.height.baseVal.value))"
    )
    assert len(rooms) >= 4
    assert min(rooms) > 20  # what is cut to a room of nothing is not seen


def test_the_theme_is_switched_and_kept(browser: Browser, page: Path) -> None:
    browser.open(page)
    found = []
    for _ in range(3):
        browser.run("document.querySelector('.tools button').click()")
        found.append(
            browser.run(
                "[document.querySelector('.tools button').textContent,"
                " getComputedStyle(document.body).backgroundColor]"
            )
        )
    light, dark = "rgb(255, 255, 255)", "rgb(18, 22, 28)"
    assert found == [["Theme: light", light], ["Theme: dark", dark], ["Theme: auto", light]]


def test_the_contents_stay_in_view_and_open_what_they_name(browser: Browser, page: Path) -> None:
    for width in WIDTHS:
        browser.open(page, width)
        browser.run("document.documentElement.style.scrollBehavior = 'auto'")
        browser.run("document.querySelector('nav a[href=\"#step-ner\"]').click()")
        browser.run("new Promise((done) => setTimeout(done, 300))")
        assert browser.run("document.querySelector('#step-ner details').open")
        top = browser.run("document.querySelector('#step-ner').getBoundingClientRect().top")
        assert -5 <= top <= 150
        nav = browser.run("document.querySelector('nav').getBoundingClientRect().top")
        assert nav == 0
    browser.run("[...document.querySelectorAll('.tools button')][1].click()")
    assert browser.run("document.querySelectorAll('details.part:not([open])').length") == 0


def test_a_table_sorts_by_its_numbers(browser: Browser, page: Path) -> None:
    browser.open(page)
    name = browser.run(
        "[...document.querySelectorAll('.measured table')].find((table) =>"
        " table.tBodies[0].rows.length > 5 && table.id !== 'table1'"
        " && table.tHead.rows[0].cells[1].className === 'number').id"
    )
    head = f"document.querySelectorAll('#{name} th button')[1]"
    body = f"[...document.querySelectorAll('#{name} tbody tr')].map((row) => row.cells[1])"
    for order, sign in (("ascending", 1), ("descending", -1)):
        browser.run(f"{head}.click()")
        assert browser.run(f"{head}.parentElement.getAttribute('aria-sort')") == order
        values = browser.run(f"{body}.map((cell) => cell.dataset.value ?? null)")
        numbers = [float(value) for value in values if value is not None]
        assert len(set(numbers)) > 2
        assert all(sign * one <= sign * other for one, other in pairwise(numbers))
        known = [value is not None for value in values]
        assert known == sorted(known, reverse=True)  # missing ones stand last


def test_a_table_is_filtered_and_copied(browser: Browser, page: Path, results: Results) -> None:
    browser.open(page)
    browser.send(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    browser.send("Emulation.setFocusEmulationEnabled", enabled=True)
    browser.run(OPEN)
    built = tables.build_all(results)["perplexity_by_class"]
    field = "document.querySelector('#perplexity_by_class').closest('.measured')"
    browser.run(
        f"{{ const f = {field}.querySelector('input'); f.value = 'later GPT2E';"
        " f.dispatchEvent(new Event('input')); }"
    )
    wanted = [
        [str(cell).replace("−", "-") for cell in row]
        for row in built.rows
        if all(word in " ".join(map(str, row)).lower() for word in ("later", "gpt2e"))
    ]
    assert 0 < len(wanted) < len(built.rows)
    assert browser.run("document.getElementById('said').textContent") == (
        f"{len(wanted)} of {len(built.rows)} rows"
    )
    copied = {}
    for form in ("CSV", "LaTeX"):
        button = (
            f"[...{field}.querySelectorAll('button')].find((b) => b.textContent === 'Copy {form}')"
        )
        browser.run(f"{button}.click()")
        copied[form] = browser.run("navigator.clipboard.readText()")
        assert browser.run("document.getElementById('said').textContent") == f"{form} copied"
    rows = list(csv.reader(io.StringIO(copied["CSV"])))
    assert rows == [[column.replace("−", "-") for column in built.columns], *wanted]
    lines = copied["LaTeX"].splitlines()
    shape = re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", lines[0])
    assert shape
    assert len(shape[1]) == len(built.columns)
    assert lines[1] == r"\toprule"
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert len(lines) == 6 + len(wanted)
    for line in (lines[2], *lines[4:-2]):
        assert line.endswith(r" \\")
        assert len(re.split(r"(?<!\\)&", line)) == len(built.columns)
        assert not re.search(r"(?<!\\)[%#_]|[−±]", line)


def test_latex_escapes_what_tex_reads(browser: Browser, page: Path) -> None:
    browser.open(page)
    found = browser.run(
        r"writeLatex([['a & b', '50%'], ['x_1 #{2}', '−3 ± 1 \\ ~^$']], [false, true])"
    )
    assert found.splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"a \& b & 50\% \\",
        r"\midrule",
        r"x\_1 \#\{2\} & $-$3 $\pm$ 1 \textbackslash{} \textasciitilde{}\textasciicircum{}\$ \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_point_tells_its_values(
    browser: Browser, page: Path, results: Results, width: int
) -> None:
    browser.open(page, width)
    browser.run(OPEN)
    browser.run("document.documentElement.style.scrollBehavior = 'auto'")
    picture = "document.querySelector('#step-lm figure .picture')"
    browser.run(f"{picture}.scrollIntoView({{ block: 'center' }})")
    figure = figures.build_all(results)["figure2"]
    marks = vector.draw(figure, "figure2").marks
    across, down, text = marks[3]
    box = browser.run(
        f"(() => {{ const b = {picture}.querySelector('svg').getBoundingClientRect();"
        " return [b.left, b.top, b.width, b.height]; })()"
    )
    browser.point(box[0] + box[2] * across, box[1] + box[3] * down)
    shown = (
        "[...document.querySelectorAll('.tip')].filter((t) => !t.hidden).map((t) => t.textContent)"
    )
    assert browser.run(shown) == [text]
    loss = results.of(results.entries[0])[0].curve
    assert re.fullmatch(r"[\w -]+: step [\d,]+, nats per token [\d.]+", text)
    assert len(loss["step"]) > 3
    browser.run(f"{picture}.focus()")
    browser.press("ArrowRight")
    assert browser.run(shown) == [marks[4][2]]
    assert browser.run("document.getElementById('said').textContent") == marks[4][2]
    browser.press("Escape")
    assert browser.run(shown) == []


def choose(browser: Browser, label: str, option: str) -> None:
    browser.run(
        "{ const select = [...document.querySelectorAll('#browser label')].find((l) =>"
        f" l.textContent.startsWith('{label}')).querySelector('select');"
        " select.value = [...select.options].find((o) =>"
        f" o.textContent.startsWith('{option}')).value;"
        " select.dispatchEvent(new Event('change')); }"
    )


def shades(browser: Browser) -> list[list[str]]:
    found: list[list[str]] = browser.run(
        "[...document.querySelectorAll('.tokens span')].map((s) =>"
        " [s.style.getPropertyValue('--heat'), s.style.getPropertyValue('--much')])"
    )
    return found


def test_documents_are_browsed_token_by_token(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run(OPEN)
    spans = "[...document.querySelectorAll('.tokens span')]"
    summary = "document.querySelector('#browser > p:last-child').textContent"
    assert browser.run(f"{spans}.map((s) => s.textContent)") == list(TOKENS)  # HTML is text
    assert (
        browser.run("document.querySelectorAll('#browser img, #browser i, #browser b').length") == 0
    )
    assert shades(browser) == [["var(--less)", "20"]] * 6
    assert browser.run(summary) == (
        "Whole excerpt, 6 tokens: GPT2E, entities on 2.08 nats per token, GPT2 2.58,"
        " difference −0.50."
    )
    choose(browser, "Shade", "memory read")
    assert shades(browser) == [["var(--read)", much] for much in "0 0 20 0 45 0".split()]
    choose(browser, "Shade", "loss of the other")
    assert [much for _, much in shades(browser)] == ["10", "15", "20", "25", "5", "3"]
    choose(browser, "Entity", "1 Ada")
    assert browser.run(f"{spans}.map((s) => s.className)") == [
        "mention chosen", "", "", "", "mention chosen", ""
    ]  # fmt: skip
    assert browser.run(summary).startswith("Entity 1, 2 tokens: GPT2E, entities on 1.00")
    browser.run("document.querySelector('.tokens').focus()")
    for _ in range(5):
        browser.press("ArrowRight")
    assert browser.run("document.querySelector('.told').textContent") == (
        "“her”: GPT2E, entities on 0.50 nats, GPT2 1.00, difference −0.50."
        " Part of entity 1, Ada <i>. Memory read before it: 1 Ada <i> 45%."
    )
    choose(browser, "Document", "two")
    assert browser.run(f"{spans}.length") == 2
    assert browser.run("document.querySelector('.told').textContent").startswith("Point at")
    choose(browser, "Shade", "difference")
    assert shades(browser) == [["var(--less)", "40"], ["var(--more)", "40"]]
    assert browser.run(CONTRAST) == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_fullest_shades_can_be_read(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, dark=dark)
    browser.run(OPEN)
    for colour in ("--more", "--less", "--read"):
        browser.run(
            "for (const span of document.querySelectorAll('.tokens span')) {"
            f" span.style.setProperty('--heat', 'var({colour})');"
            " span.style.setProperty('--much', 60); }"
        )
        assert browser.run(CONTRAST) == []


def test_a_screen_reader_meets_names(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run(OPEN)
    browser.send("Accessibility.enable")
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    browser.send("Accessibility.disable")
    asked = {"button", "combobox", "searchbox", "link", "image", "region", "textbox"}
    met = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and node["role"]["value"] in asked
    ]
    assert {role for role, _ in met} >= {
        "button",
        "combobox",
        "searchbox",
        "link",
        "region",
        "image",
    }
    assert [role for role, name in met if not name.strip()] == []


def test_without_scripts_everything_is_there(browser: Browser, page: Path) -> None:
    browser.open(page, scripts=False)
    browser.run(OPEN)
    text = browser.run("document.body.innerText")
    assert "Ada met <img src=x onerror=alert(1)> </script> her" in text
    assert "Mean loss by document" not in text
    assert browser.run("document.querySelectorAll('#excerpt_losses tbody tr').length") == 2
    assert browser.run("document.querySelector('.tools').checkVisibility()") is False
    assert browser.run("document.querySelector('#browser').checkVisibility()") is False


def test_it_prints_whole(browser: Browser, page: Path) -> None:
    browser.open(page)
    pdf = base64.b64decode(browser.send("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert pages > 5  # what was closed on the screen is printed
    assert (
        browser.run("document.querySelectorAll('details.part[open]').length") == 0
    )  # and closed again


def test_the_page_is_small(page: Path) -> None:
    assert page.stat().st_size < 8e6


def test_the_index_of_studies(browser: Browser, tmp_path: Path) -> None:
    studies = {
        "b": Listed("Second <b>", ("holds", "not shown", "holds"), ("GPT2", "GPT2E"), 3),
        "a": Listed("First", None),
    }
    file = tmp_path / "index.html"
    file.write_text(render_site(studies, {"b": "b.html"}), "utf-8")
    for width in WIDTHS:
        browser.open(file, width, dark=True)
        assert browser.run(CONTRAST) == []
        assert browser.run("document.documentElement.scrollWidth") == width
    rows = (
        "[...document.querySelectorAll('#index tbody tr')].map((row) =>"
        " [...row.cells].map((cell) => cell.textContent))"
    )
    assert browser.run(rows) == [["b", "Second <b>", "GPT2, GPT2E", "3", "2", "0", "1", "0"]]
    links = "[...document.querySelectorAll('#index a')].map((a) => a.getAttribute('href'))"
    assert browser.run(links) == ["b.html"]
    waiting = "[...document.querySelectorAll('dt, dd')].map((one) => one.textContent)"
    assert browser.run(waiting) == ["a", "First"]
