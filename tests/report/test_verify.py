"""verify: what is wrong with a study's results is found and named, whatever it is."""

import csv
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from entity_transformers.artifacts import LARGEST, list_digests, write_json
from entity_transformers.cli.report import open_results, show_verdicts
from entity_transformers.report import frame
from entity_transformers.report.build import COMMITTED, build, find_wrong
from entity_transformers.step import MANIFEST
from entity_transformers.study.params import STEPS, load
from entity_transformers.study.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
STUDY = "books"
HELD = [path for path in ROOT.glob("results/*/measures.csv") if path.parent.name != "sample"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A copy of a study's results."""
    return Path(shutil.copytree(ROOT / "results" / STUDY, tmp_path / STUDY))


def move_into_place(results: Path) -> Path:
    """Where they are results/STUDY now."""
    (results.parent / "results").mkdir()
    results.rename(results.parent / "results" / STUDY)
    return results.parent


def find(results: Path) -> list[str]:
    return list(dict.fromkeys(find_wrong(load(ROOT / f"studies/{STUDY}.yaml"), results)))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def replace(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def amend(results: Path, **changes: object) -> None:
    manifest = json.loads((results / MANIFEST).read_text())
    write_json(results / MANIFEST, manifest | changes)


def note_values(results: Path, **others: object) -> None:
    """The values of the study, as new manifests have them."""
    known = Plan(load(ROOT / f"studies/{STUDY}.yaml")).values_of(STEPS["report"])
    amend(results, values=known | others)


DAMAGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "nothing": (lambda results: None, []),
    "number": (lambda results: flip(results / "curves.csv"), ["curves.csv: changed after"]),
    "gone": (lambda results: (results / "units.parquet").unlink(),
             ["units.parquet: missing", "README.md"]),
    "table": (lambda results: flip(results / "README.md"), ["README.md: differs from what"]),
    "utf-8": (lambda results: replace(results / "README.md", b"\xff"), ["README.md: differs from"]),
    "study": (lambda results: amend(results, study="other"),
        ["manifest.json: belongs to study other"]
    ),
    "empty": (lambda results: replace(results / MANIFEST, b"{}"), [f"{MANIFEST}: truncated"]),
    "list": (lambda results: replace(results / MANIFEST, b"[]"), [f"{MANIFEST}: holds a list"]),
    "cut": (lambda results: replace(results / MANIFEST, b'{"files"'), [f"{MANIFEST}: not JSON"]),
    "name": (lambda results: amend(results, runs={"nothing/a/1": {}}),
             ["damaged (KeyError: 'nothing')"]),
    "values": (note_values, []),
    "no values": (lambda results: amend(results, values=[]), [f"{MANIFEST}: truncated"]),
    "other value": (
        lambda results: note_values(results, **{"corpus.unit": "verse", "ner.gone": 1}),
        ["corpus.unit: 'chapter' in the study, but 'verse'", "ner.gone: None in the study, but 1"]
    ),
    "run": (lambda results: amend(results, runs={"corpus": 5}), [f"{MANIFEST}: truncated"]),
    "lines": (lambda results: note_values(results, **{"a\nb": 1}), ["a\\nb: None in the study"]),
    "large": (lambda results: os.truncate(results / "curves.csv", LARGEST + 1),
              ["curves.csv: more than 100,000", "curves.csv: more than 100,000,000 bytes: r"]),
    "large page": (lambda results: os.truncate(results / "README.md", LARGEST + 1),
                   ["README.md: differs from"]),
}  # fmt: skip


def spoil_units(results: Path, spoilt: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    path = results / "units.parquet"
    spoilt(pd.read_parquet(path)).to_parquet(path)


SEALED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no column": (lambda results: spoil_units(results, lambda data: data.drop(columns="unit")),
                  "units.parquet: cannot be read: no column unit"),
    "no numbers": (lambda results: spoil_units(results, lambda data: data.assign(value="x")),
                   "units.parquet: cannot be read: could not convert"),
    "many rows": (
        lambda results: spoil_units(results, lambda data: data.reindex(np.zeros(2_000, int))),
        "units.parquet: cannot be read: 2,000 rows, expected at most 1,000"),
    "no parquet": (lambda results: replace(results / "units.parquet", b"PAR1" * 20),
                   "units.parquet: cannot be read"),
    "no end": (lambda results: edit(results, ",1,", ",inf,"), "measures.csv: cannot convert float"),
    "a fraction": (lambda results: edit(results, ",1,", ",1.5,"), "measures.csv: cannot safely"),
    "an endless cell": (lambda results: edit(results, "\n", "\n" + 200_000 * "x"),
                        "measures.csv: field larger than field limit"),
    "no text": (lambda results: replace(results / "measures.csv", b"\xff\xfe"),
                "measures.csv: 'utf-8' codec"),
    "no line": (lambda results: replace(results / "curves.csv", b""),
                "curves.csv: the first columns are [], expected curve"),
}  # fmt: skip


def edit(results: Path, old: str, new: str) -> None:
    path = results / "measures.csv"
    path.write_text(path.read_text().replace(old, new, 1))


def seal(damage: Callable[[Path], object]) -> Callable[[Path], object]:
    """The damage, and digests that fit it."""

    def spoil(results: Path) -> None:
        damage(results)
        amend(results, files=list_digests(results, COMMITTED))

    return spoil


DAMAGES |= {how: (seal(damage), [line]) for how, (damage, line) in SEALED.items()}


@pytest.mark.parametrize("how", DAMAGES)
def test_each_damage_is_a_line_with_the_file_s_name(how, results, monkeypatch):
    damage, expected = DAMAGES[how]
    monkeypatch.setattr(frame, "MOST_ROWS", 1_000 if how == "many rows" else frame.MOST_ROWS)
    damage(results)
    found = find(results)
    assert len(found) == len(expected)
    assert all(part in line for part, line in zip(expected, found, strict=True))
    assert "".join(found).isprintable()


def test_no_report_states_values_that_were_not_used(results: Path, monkeypatch) -> None:
    note_values(results, **{"corpus.unit": "verse"})
    before = (results / "README.md").read_bytes()
    with pytest.raises(ValueError, match=r"corpus\.unit: 'chapter' in the study.*: change it back"):
        build(load(ROOT / f"studies/{STUDY}.yaml"), results)
    assert (results / "README.md").read_bytes() == before
    monkeypatch.chdir(move_into_place(results))
    with pytest.raises(ValueError, match=r"corpus\.unit: 'chapter' in the study"):
        show_verdicts(ROOT / f"studies/{STUDY}.yaml")


@pytest.mark.parametrize("number", ["1e308", "-1", "0"])
def test_numbers_that_nothing_can_be_made_of_are_one_line(number: str, results: Path) -> None:
    """With digests that fit them: what arithmetic says of them names the results."""
    header, *rows = csv.reader((results / "measures.csv").read_text().splitlines())
    for row in rows:
        row[header.index("value")] = number
    lines = (",".join(row) + "\n" for row in (header, *rows))
    (results / "measures.csv").write_text("".join(lines))
    amend(results, files=list_digests(results, COMMITTED))
    with pytest.raises(ValueError, match=str(results)) as told:
        build(load(ROOT / f"studies/{STUDY}.yaml"), results)
    assert str(told.value) in find(results)


def test_pictures_that_no_page_can_be_made_of_are_one_line(results: Path) -> None:
    replace(results / "pictures.json", b'{"excerpts": {"pages": []}}')
    with pytest.raises(ValueError, match=r"damaged \(KeyError: 'scores'\)"):
        build(load(ROOT / f"studies/{STUDY}.yaml", {"report.bootstrap_samples": 100}), results)


def test_no_report_is_made_of_another_study_s_results(results: Path) -> None:
    shutil.copytree(ROOT / "results/controls", results, dirs_exist_ok=True)
    before = (results / "README.md").read_bytes()
    with pytest.raises(ValueError, match=r"manifest\.json: belongs to study controls, not books"):
        build(load(ROOT / f"studies/{STUDY}.yaml"), results)
    assert (results / "README.md").read_bytes() == before


def test_a_missing_table_of_numbers_is_named(results: Path, monkeypatch) -> None:
    (results / "measures.csv").unlink()
    monkeypatch.chdir(move_into_place(results))
    with pytest.raises(ValueError, match=r"results/books/measures\.csv is missing"):
        open_results(ROOT / f"studies/{STUDY}.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("study", sorted(path.parent.name for path in HELD))
def test_what_git_holds_of_a_study_is_what_is_made_of_its_numbers(study: str) -> None:
    assert list(find_wrong(load(ROOT / f"studies/{study}.yaml"), ROOT / "results" / study)) == []
