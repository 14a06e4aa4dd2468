"""verify: nothing that was changed after it was written goes unseen, and what can't be checked is
told.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from entity_transformers.artifacts import DIGESTS, seal, write_json, write_text
from entity_transformers.cli import main, report
from entity_transformers.cli.verify import Findings, check_manifests, dvc_md5
from entity_transformers.report import tables
from entity_transformers.report.measures import Tree, collect
from entity_transformers.study.params import load

Verify = Callable[[], tuple[int, list[str]]]
RUN = "results/lm/gpt2/1"
CORPUS = "results/corpus"


@pytest.fixture(scope="module")
def published(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git has of two models of the controls, with fewer resamples and the tables that follow;
    two files of a corpus, digests of all, and a dvc.lock that names a file and a folder.
    """
    study = tmp_path_factory.mktemp("published")
    shutil.copytree(root / "studies/controls/results", study / "results")
    values = yaml.safe_load((root / "studies/controls/params.yaml").read_text())
    values["report"]["bootstrap_samples"] = 20
    values["study"]["seeds"] = [1, 2]
    values["models"] = {name: values["models"][name] for name in ("gpt2", "gpt2e")}
    (study / "params.yaml").write_text(yaml.safe_dump(values))
    for name in ("train.safetensors", "tokenizer.json"):
        (study / CORPUS / name).write_bytes(name.encode())
    for path in (study / "results").rglob("manifest.json"):
        manifest = json.loads(path.read_text())
        manifest["inputs"] |= {
            name: hashlib.sha256(name.encode()).hexdigest()
            for name in ("train.safetensors", "tokenizer.json")
        }
        write_json(path, manifest)
    for path in (study / "results").rglob(DIGESTS):
        path.unlink()
    params = load(study / "params.yaml")
    runs = tuple((model, seed) for model in params.models for seed in params.study.seeds)
    measures = collect(Tree(study / "results", runs), report.list_steps(params)).render()
    write_text(study / "results/report/measures.csv", measures)
    gathered = report.gather(params, study / "results")
    made = {
        "tables": report.render_tables(tables.build_all(gathered)),
        "metrics": report.render_metrics(gathered),
    }
    for folder, texts in made.items():
        shutil.rmtree(study / "results/report" / folder)
        for name, text in texts.items():
            write_text(study / "results/report" / folder / name, text)
    seal(path for path in list((study / "results").rglob("*")) if path.is_file())
    named = [f"{CORPUS}/train.safetensors", "results/report/tables"]
    # Snakemake's mark in a folder, which .dvcignore names or does not
    for name in ("tables", "figures"):
        (study / "results/report" / name / ".snakemake_timestamp").touch()
    entries = [{"path": name, "md5": dvc_md5(study / name), "hash": "md5"} for name in named]
    md5 = dvc_md5(study / "results/report/figures", hidden=True)
    entries.append({"path": "results/report/figures", "md5": md5, "hash": "md5"})
    lock = {"schema": "2.0", "stages": {"corpus": {"outs": entries}, "lm": {"deps": entries[:1]}}}
    (study / "dvc.lock").write_text(json.dumps(lock))
    return study


@pytest.fixture
def study(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "study"))


@pytest.fixture
def verify(study: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    """The exit code, and the lines that are printed."""

    def call() -> tuple[int, list[str]]:
        capsys.readouterr()
        code = 0
        try:
            main(["verify", str(study)])
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, capsys.readouterr().out.splitlines()

    return call


def test_a_study_as_it_was_written_is_right(study: Path, verify: Verify) -> None:
    code, lines = verify()
    assert code == 0
    files = [path for path in (study / "results").rglob("*") if path.is_file()]
    checked = len([path for path in files if path.name not in (DIGESTS, ".snakemake_timestamp")])
    assert int(lines[0].removeprefix(f"{study}: ").split()[0]) > checked
    assert lines[0].endswith("checked and right, 0 wrong")
    assert lines[1] == f"not there, so not checked: {CORPUS}/dev.safetensors"  # of the manifests
    assert len(lines) == 2


def test_without_the_metrics_their_table_is_not_checked(study: Path, verify: Verify) -> None:
    """Of a study without a dvc.lock git has the measures and not what they are made of."""
    (study / CORPUS / "alignment.json").unlink()
    code, lines = verify()
    assert code == 0
    assert "what results/report/measures.csv is made of" in lines[1]


def test_without_results_there_is_nothing_to_verify(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, told in (
        (root / "studies/systems-gpu", "nothing to verify: it has no results yet: make study"),
        (tmp_path / "none", "no params.yaml in it, expected the folder of a study"),
        (root / "studies/books/params.yaml", "no params.yaml in it, expected the folder of a"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["verify", str(folder)])
        assert stop.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"entity-transformers verify: {folder}: {told}")


def test_what_has_no_digest_is_told(study: Path, verify: Verify) -> None:
    (study / "results/ner/gpt2/1" / DIGESTS).unlink()
    code, lines = verify()
    assert code == 0
    assert lines[-1].startswith(
        "in no sha256.json, so not checked by one: results/ner/gpt2/1/documents.csv, "
    )


def test_why_there_is_no_lock_is_told(study: Path, verify: Verify) -> None:
    (study / "dvc.lock").unlink()
    code, lines = verify()
    assert code == 0
    assert lines[-1].startswith("no dvc.lock: ")
    assert not any("dvc.lock" in line for line in lines[:-1])


@pytest.mark.parametrize(
    ("name", "old", "new", "wrong"),
    [
        (f"{RUN}/manifest.json", '"device"', '"Device"', {f"{RUN}/{DIGESTS})"}),
        (
            f"{RUN}/curve.csv",
            "step,",
            "step ,",
            {f"{RUN}/{DIGESTS})", "the tables can't be made again"},
        ),
        (f"{RUN}/{DIGESTS}", '"curve.csv": "', '"curve.csv": "0', {f"{RUN}/{DIGESTS})"}),
        (
            "results/report/tables/table2.csv",
            "GPT2E",
            "GPT3E",
            {f"tables/{DIGESTS})", "stage corpus)", "table2.csv, line "},
        ),
        (
            "results/report/measures.csv",
            "perplexity",
            "complexity",
            {f"report/{DIGESTS})", "measures.csv, line "},
        ),
        (f"{CORPUS}/train.safetensors", "train", "trait", {"stage corpus)", "manifest.json)"}),
    ],
)
def test_what_was_changed_is_wrong(
    study: Path, verify: Verify, name: str, old: str, new: str, wrong: set[str]
) -> None:
    text = (study / name).read_text()
    assert old in text
    (study / name).write_text(text.replace(old, new, 1))
    code, lines = verify()
    assert code == 1
    told = [line for line in lines if line.startswith("wrong: ")]
    assert all(any(part in line for line in told) for part in wrong)
    assert any(line.startswith(f"wrong: {name}: sha256 ") for line in told) or DIGESTS in name


def test_a_table_that_no_measure_gives_is_wrong(study: Path, verify: Verify) -> None:
    """Also where its digest was written with it."""
    folder, metrics = study / "results/report/tables", study / "results/report/metrics"
    (folder / "planted.md").write_text("| GPT2E | 1.0 |\n")
    (folder / "table2.md").write_text((folder / "table2.md").read_text().replace("GPT2E", "G"))
    (metrics / "planted.json").write_text("{}")
    (metrics / "gpt2.json").write_text('{"perplexity": 1.0}')
    seal([folder / "planted.md", folder / "table2.md", *metrics.glob("*.json")])
    code, lines = verify()
    assert code == 1
    assert "wrong: results/report/tables/planted.md: nothing of this study" in lines
    assert "wrong: results/report/metrics/planted.json: nothing of this study" in lines
    assert any("metrics/gpt2.json, line 1" in line for line in lines)
    assert any("(made again from measures.csv)" in line and "table2.md" in line for line in lines)


def test_a_manifest_is_compared_with_digests_where_the_file_is_not_there(
    study: Path, verify: Verify
) -> None:
    (study / CORPUS / "train.safetensors").unlink()
    assert verify()[0] == 0
    digests = json.loads((study / CORPUS / DIGESTS).read_text())
    write_json(study / CORPUS / DIGESTS, digests | {"train.safetensors": "0" * 64})
    code, lines = verify()
    assert code == 1
    assert lines[0].startswith(f"wrong: {CORPUS}/{DIGESTS}: train.safetensors: sha256 000")


def test_a_static_models_documents_are_the_corpus_not_beside_its_first_weights(
    study: Path, root: Path
) -> None:
    values = yaml.safe_load((root / "studies/systems/params.yaml").read_text())
    values["models"] = {"word2vec": values["models"]["word2vec"]}
    values["study"] |= {"seeds": [1], "steps": ["corpus", "lm"]}
    values["root"] = str(root)
    (study / "params.yaml").write_text(yaml.safe_dump(values))
    (study / CORPUS / "train.jsonl").write_text("{}")
    expected = hashlib.sha256(b"{}").hexdigest()
    write_json(study / "results/lm/word2vec/1/manifest.json", {"inputs": {"train.jsonl": expected}})
    found = Findings(study)
    check_manifests(load(study / "params.yaml"), found)
    assert (found.right, found.wrong, found.absent) == (1, [], set())
