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
from tiny_study import make_study

from entity_transformers.artifacts import LARGEST, list_digests, write_json
from entity_transformers.cli.report import open_results, show_verdicts
from entity_transformers.report import frame
from entity_transformers.report.build import COMMITTED, build, collect, find_wrong
from entity_transformers.report.pictures import Pictures
from entity_transformers.step import MANIFEST, Run
from entity_transformers.study.params import STEPS, load
from entity_transformers.study.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
STUDY = "books"
FILE = ROOT / f"studies/{STUDY}.yaml"
HELD = [path for path in ROOT.glob("results/*/measures.csv") if path.parent.name != "sample"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A copy of a study's results."""
    return Path(shutil.copytree(ROOT / "results" / STUDY, tmp_path / STUDY))


def find(results: Path) -> list[str]:
    return list(dict.fromkeys(find_wrong(load(FILE), results)))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def amend(results: Path, **changes: object) -> None:
    manifest = json.loads((results / MANIFEST).read_text())
    write_json(results / MANIFEST, manifest | changes)


def note_values(results: Path, **others: object) -> None:
    """The values of the study, as new manifests have them."""
    amend(results, values=Plan(load(FILE)).values_of(STEPS["report"]) | others)


DAMAGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "nothing": (lambda results: None, []),
    "number": (lambda results: flip(results / "curves.csv"), ["curves.csv: changed after"]),
    "gone": (lambda results: (results / "units.parquet").unlink(),
             ["units.parquet: missing", "README.md"]),
    "table": (lambda results: flip(results / "README.md"), ["README.md: differs from what"]),
    "utf-8": (lambda results: (results / "README.md").write_bytes(b"\xff"),
              ["README.md: differs from"]),
    "study": (lambda results: amend(results, study="b"), [f"{MANIFEST}: belongs to study b, not"]),
    "empty": (lambda results: (results / MANIFEST).write_text("{}"), [f"{MANIFEST}: truncated"]),
    "list": (lambda results: (results / MANIFEST).write_text("[]"), [f"{MANIFEST}: holds a list"]),
    "cut": (lambda results: (results / MANIFEST).write_text('{"fi'), [f"{MANIFEST}: not JSON"]),
    "name": (lambda results: amend(results, runs={"nix/a/1": {}}), ["damaged (KeyError: 'nix')"]),
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
    "no parquet": (lambda results: (results / "units.parquet").write_bytes(b"PAR1" * 20),
                   "units.parquet: cannot be read"),
    "no end": (lambda results: edit(results, ",1,", ",inf,"), "measures.csv: cannot convert float"),
    "a fraction": (lambda results: edit(results, ",1,", ",1.5,"), "measures.csv: cannot safely"),
    "an endless cell": (lambda results: edit(results, "\n", "\n" + 200_000 * "x"),
                        "measures.csv: field larger than field limit"),
    "no text": (lambda results: (results / "measures.csv").write_bytes(b"\xff\xfe"),
                "measures.csv: 'utf-8' codec"),
    "no line": (lambda results: (results / "curves.csv").write_bytes(b""),
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


@pytest.mark.parametrize(("damage", "told"), [
    (lambda results: note_values(results, **{"corpus.unit": "verse"}),
     r"corpus\.unit: 'chapter' in the study.*: change it back"),
    (lambda results: shutil.copytree(ROOT / "results/controls", results, dirs_exist_ok=True),
     r"manifest\.json: belongs to study controls, not books"),
    (lambda results: (results / "pictures.json").write_text('{"excerpts": {"pages": []}}'),
     r"damaged \(KeyError: 'scores'\)"),
])  # fmt: skip
def test_no_report_is_made_of_values_or_results_that_do_not_fit(results, damage, told):
    damage(results)
    before = (results / "README.md").read_bytes()
    with pytest.raises(ValueError, match=told):
        build(load(FILE, {"report.bootstrap_samples": 100}), results)
    assert (results / "README.md").read_bytes() == before


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
        build(load(FILE), results)
    assert str(told.value) in find(results)


def test_commands_name_values_that_were_not_used_and_a_missing_table(results, monkeypatch):
    note_values(results, **{"corpus.unit": "verse"})
    (results.parent / "results").mkdir()
    results = results.rename(results.parent / "results" / STUDY)
    monkeypatch.chdir(results.parents[1])
    with pytest.raises(ValueError, match=r"corpus\.unit: 'chapter' in the study"):
        show_verdicts(FILE)
    (results / "measures.csv").unlink()
    with pytest.raises(ValueError, match=r"results/books/measures\.csv is missing"):
        open_results(FILE)


def test_the_manifest_names_runs_of_seed_0_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    empty = {"_read_rows": (), "_gather_pictures": Pictures(), "artifacts.read_record": {}}
    for name, nothing in empty.items():
        monkeypatch.setattr(f"{collect.__module__}.{name}", lambda _, it=nothing: it)
    path = make_study(tmp_path, "study: {steps: [corpus, lm, report], seeds: [0]}\n")
    collect(Run(load(path), STEPS["report"]))
    runs = json.loads(Path("results/tiny", MANIFEST).read_text())["runs"]
    assert {"corpus", "lm/gpt2/0"} <= runs.keys()


@pytest.mark.slow
@pytest.mark.parametrize("study", sorted(path.parent.name for path in HELD))
def test_what_git_holds_of_a_study_is_what_is_made_of_its_numbers(study: str) -> None:
    assert list(find_wrong(load(ROOT / f"studies/{study}.yaml"), ROOT / "results" / study)) == []
