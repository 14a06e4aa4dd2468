"""The documents: links, commands, files and diffs are there, notebooks print what they show."""

import json
import re
import runpy
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from entity_transformers.cli import COMMANDS, main, make_parser
from entity_transformers.models.weights import FOLDER, PACKAGES, SMOLLM2
from entity_transformers.study.params import STEPS, load

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("*/README.md")]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.md"))
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
PLACES = r"(?:tests|workflow|benchmarks|docs|profiles|studies|src)/[\w/.-]+\.\w+"
OWN = {"letters", "mine", "netherfield", "novel", "NAME", "STUDY"}
"""Studies that a reader writes."""
LETTER = {"words": "Ada met her friend .".split(), "mentions": [[0, 1, 7], [2, 3, 7]]}
PRINTED = {
    "entity-transformers init netherfield --corpus docs/notebooks/netherfield.txt":
        "studies/netherfield.yaml",
    "entity-transformers init letters --corpus letters.jsonl": "studies/letters.yaml",
    "entity-transformers annotate book.txt --output book.jsonl --resolver names-pronouns":
        "book.jsonl",
}  # fmt: skip
"""Commands of the documents that run here as printed, offline, and a file that each writes."""
execute = runpy.run_path(str(ROOT / "workflow/notebooks.py"))["execute"]


def parametrize(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


current = parametrize(  # the others name what there was, too
    [page for page in PAGES if page.name != "CHANGELOG.md" and "log" not in page.parts]
)


@parametrize(PAGES)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?://)([^)\s]+)", page.read_text()):
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), link
        if anchor:  # as GitHub makes them
            heads = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in heads]
            assert anchor in anchors, link


@current
def test_every_command_and_every_file_that_is_named_is_there(page: Path) -> None:
    text = page.read_text()
    commands = re.findall(r"(?:^|`|\$ )entity-transformers ([a-z][a-z-]+)", text, re.MULTILINE)
    assert {*commands} <= COMMANDS.keys()
    assert {*re.findall(r"entity-transformers run\s+([a-z_]+)", text)} <= STEPS.keys()
    assert {*re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)} <= {*TARGETS}
    named = re.findall(rf"(?<![\w/:])({PLACES})", text)
    assert [n for n in named if not (ROOT / n).exists() and Path(n).stem not in OWN] == []
    studies = {*re.findall(r"STUDY=(\w[\w-]*)|@([a-z][\w-]*)`", text)}
    names = {name for pair in studies for name in pair if name} - OWN
    assert [name for name in names if not (ROOT / f"studies/{name}.yaml").exists()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/findings.md"])
def test_every_number_is_on_a_results_page_that_its_section_links(name: str) -> None:
    """With three digits or more after the point, but those of studies that are removed."""
    page = ROOT / name
    checked = 0
    for section in re.split(r"^(?=## )", page.read_text(), flags=re.MULTILINE):
        if section.startswith(("## Removed", "## Using", "## Limitations")):
            continue
        links = {*re.findall(r"\](?:\(|: )((?:\.\./)?results/[\w-]+/README\.md)", section)}
        pages = "\n".join((page.parent / link).read_text() for link in links).replace(",", "")
        shown = [float(one) + 1e-9 for one in re.findall(r"\d+\.\d+", pages)]
        for number in re.findall(r"[−+]?\d+\.\d{3,}(?!\d)", section):
            digits = len(number.partition(".")[2])
            rounded = {round(one, digits) for one in shown}
            assert round(float(number.lstrip("−+")), digits) in rounded, number
            checked += 1
    assert checked > 8


def test_the_site_has_every_document_in_its_navigation() -> None:
    listed = re.findall(r"- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert {f"docs/{page.name}" for page in DOCS.glob("*.md")} <= {*listed}
    assert [name for name in listed if not (ROOT / name).is_file()] == []
    assert len([*DOCS.glob("*.md")]) <= 12


def list_blocks(language: str) -> Iterator[tuple[Path, str]]:
    """The fenced blocks of a language in what is no log, and their pages."""
    for page in PAGES:
        if "log" not in page.parts and page.name != "CHANGELOG.md":
            for text in re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S):
                yield page, text


def list_commands() -> set[str]:
    """Each command of the documents as one line, without its comment."""
    blocks = "\n".join(text for _, text in list_blocks("(?:bash|console)"))
    lines = blocks.replace("\\\n", "").splitlines()
    return {" ".join(line.partition(" # ")[0].split()) for line in lines} - {""}


@pytest.mark.parametrize(
    "command", sorted(one for one in list_commands() if one.startswith("entity-transformers "))
)
def test_every_command_of_the_package_is_understood(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    _, name, *words = shlex.split(command)
    assert make_parser([name]).parse_args([name, *words]).command == name


@pytest.mark.parametrize("command", PRINTED)
def test_a_command_runs_as_printed(command, tmp_path, monkeypatch):
    for name in ("params.yaml", "Snakefile", "docs/notebooks/netherfield.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    rows = [LETTER | {"name": name, "split": name} for name in ("train", "dev", "test")]
    Path("letters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("book.txt").write_text("Ada met Bob. She gave him a book.\n")
    assert command in list_commands()
    main(shlex.split(command)[1:])
    assert Path(PRINTED[command]).stat().st_size > 0


def find_diffs() -> Iterator[tuple[str, list[str]]]:
    """The file that each diff of CONTRIBUTING.md is of, and the lines that it adds."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for block in re.findall(r"```diff\n(.*?)```", text, re.DOTALL):
        head, *lines = block.splitlines()
        added = [line[1:].strip() for line in lines if line.startswith("+")]
        yield head.split()[-1], [line for line in added if line not in ("", "...")]


@pytest.mark.parametrize(("file", "added"), [*find_diffs()])
def test_the_diffs_of_contributing_stand_in_the_code(file: str, added: list[str]) -> None:
    where = ROOT / ("" if file.startswith(("studies", "params")) else "src/entity_transformers")
    path = where / file.removeprefix("src/entity_transformers/")
    assert {*added} <= {line.strip() for line in path.read_text().splitlines()}
    assert added


def test_the_studies_that_own_corpus_shows_are_ones(tmp_path: Path) -> None:
    """The one by hand, and the further seeds and models that its reader may add."""
    more, whole = re.findall(r"```yaml\n(.*?)```", (DOCS / "own-corpus.md").read_text(), re.DOTALL)
    for name in ("params.yaml", "studies/ontogum.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    for name, values, model in (("mine", whole, "gpt2e-bptt"), ("novel", more, "gpt2-matched")):
        file = tmp_path / f"studies/{name}.yaml"
        file.write_text(values)
        found = load(file)
        assert found.study.seeds == (1, 2, 3)
        assert {"gpt2", "gpt2e", model} <= found.models.keys()


def test_every_study_has_a_line_that_says_what_it_is_for() -> None:
    listed = re.findall(r"^\| \[([\w-]+)\]", (ROOT / "studies/README.md").read_text(), re.MULTILINE)
    assert {*listed} == {"paper", *(file.stem for file in ROOT.glob("studies/*.yaml"))}


def test_a_block_s_output_stands_below_it() -> None:
    page = "A.\n\n```python\na = 2\n```\n\nB.\n\n```python\nprint(a, '\\n', a * 3)\n```\n\n{}C.\n"
    found = execute(page.format(""))
    assert found == page.format("```text\n2\n 6\n```\n\n")
    assert execute(found) == found  # and is not appended


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_prints_what_it_shows(page: Path) -> None:
    unpacked = ROOT / FOLDER / PACKAGES[SMOLLM2.removeprefix("pip:")].sha256[:16]
    if SMOLLM2 in page.read_text() and not unpacked.is_dir():
        pytest.skip(f"needs weights that take minutes to fetch and unpack: {SMOLLM2}")
    assert execute(page.read_text()) == page.read_text()
