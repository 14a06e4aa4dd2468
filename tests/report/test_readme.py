"""The report as Markdown and the index of studies."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tiny_study import run

from entity_transformers.artifacts import write_text
from entity_transformers.cli import main
from entity_transformers.cli.index import list_public, list_studies
from entity_transformers.report.catalogue import list_captions
from entity_transformers.report.readme import Listed, write_index, write_readme
from entity_transformers.report.results import Results
from entity_transformers.report.tables import SHOWN, build_all

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = sorted(
    (ROOT / "studies" / file).parent
    for file in list_public(ROOT / "studies")
    if file.endswith("measures.csv")
)


def test_every_table_and_every_figure_that_was_drawn_is_there_once(full: Results) -> None:
    built, figures = build_all(full), ["figure2", "probe"]
    text = write_readme(full, built, figures)
    links = re.findall(r"\]\((.*?)\)", text)
    tables = [link for link in links if link.startswith("tables/")]
    assert sorted(tables) == sorted(f"tables/{name}.md" for name in built if name != "claims")
    assert [link for link in links if link.startswith("figures/")] == [
        f"figures/{name}.png" for name in figures
    ]
    assert "figures/figure3.png" not in text
    assert f"\n\n{list_captions()['figure2']}\n" in text
    for row in built["claims"].rows:
        assert f"| {row[0]} |" in text


def test_a_short_table_is_there_and_a_long_one_is_a_link(full: Results) -> None:
    built = build_all(full)
    text = write_readme(full, built, [])
    head = "| " + " | ".join(SHOWN["controls"]) + " |"
    assert text.count(head) == 1
    assert text.count("| " + " | ".join(SHOWN["table2"]) + " |") == 0  # too long
    assert f"[{built['table2'].title}](tables/table2.md): {built['table2'].measures}" in text


@pytest.mark.parametrize("report", COMMITTED, ids=lambda path: path.parents[1].name)
def test_the_links_of_committed_reports_lead_somewhere(report: Path) -> None:
    links = re.findall(r"\]\((.*?)\)", (report / "README.md").read_text("utf8"))
    assert links
    assert [link for link in links if not (report / link).is_file()] == []


def test_the_index_counts_verdicts() -> None:
    text = write_index(
        {
            "b": Listed("Second", ("holds", "not shown", "holds")),
            "a": Listed("First", None),
            "c": Listed("Third", ()),
        }
    )
    assert [line for line in text.splitlines() if line.startswith("| ")][1:] == [
        "| [b](b/results/report/README.md) | Second | 2 holds, 1 not shown |",
        "| [c](c/results/report/README.md) | Third | judges none |",
        "| study | what |",
        "| a | First |",
    ]
    assert "Without results" not in write_index({"c": Listed("Third", ())})


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    """Studies of a repository: with results, with results that git ignores, new, and private."""
    params = (ROOT / "studies/sample/params.yaml").read_text("utf8")
    for name in ("done", "sample", "new", "private"):
        write_text(tmp_path / "studies" / name / "params.yaml", params)
    for name in ("done", "sample", "private"):
        report = tmp_path / "studies" / name / "results/report"
        write_text(report / "measures.csv", "")
        write_text(report / "tables/claims.csv", "Claim,Here\nx,holds\ny,not shown\n")
    write_text(tmp_path / ".gitignore", "studies/sample/results/\nstudies/private\n")
    run("git", "init", "--quiet", folder=tmp_path)
    run("git", "add", "--all", folder=tmp_path)
    write_text(tmp_path / ".gitignore", "studies/sample/results/\n")
    return tmp_path / "studies"


def verdicts(studies: Path) -> dict[str, tuple[str, ...] | None]:
    return {name: one.verdicts for name, one in list_studies(studies).items()}


def test_what_git_does_not_track_is_not_in_the_index(studies: Path) -> None:
    known = {"done": ("holds", "not shown"), "new": None, "sample": None}
    assert verdicts(studies) == known
    write_text(studies / "new/results/report/measures.csv", "")  # not added yet
    assert verdicts(studies) == known


def test_without_git_the_index_lists_what_it_listed(studies: Path) -> None:
    """That of an unpacked archive, in which git was; without any, all studies."""
    main(["write-index", str(studies)])
    known = verdicts(studies)
    shutil.rmtree(studies.parent / ".git")
    assert verdicts(studies) == known
    (studies / "README.md").unlink()
    assert list(verdicts(studies)) == ["done", "new", "private", "sample"]


def test_an_index_that_changes_is_told(studies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["write-index", str(studies)])
    run("git", "add", "studies/private/params.yaml", folder=studies.parent)
    main(["write-index", str(studies)])
    main(["write-index", str(studies)])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{studies / 'README.md'} is written anew")
