"""Damage between two commands: the next one says in one line what is not as it was written, and
makes no number of it.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from entity_transformers.artifacts import DIGESTS, read_json
from entity_transformers.cli import main

SAMPLE = Path(__file__).resolve().parents[2] / "studies" / "sample" / "params.yaml"
SMALL = {
    "corpus": {"sample_words": 6000},
    "tokenizer": {"vocabulary": 400},
    "lm": {
        **{"layers": 1, "heads": 2, "width": 16, "window": 32, "steps": 3, "warmup_steps": 1},
        **{"documents_per_step": 2, "validate_every": 3, "validation_documents": 2},
    },
    "perplexity": {"stride": 32},
}
STEPS = {
    "download-corpus": ["--cache", "work", "--output", "results/corpus/source.json"],
    "prepare-corpus": ["--source", "results/corpus/source.json", "--output", "results/corpus"],
    "train-tokenizer": [
        *("--corpus", "results/corpus", "--cache", "work"),
        *("--output", "results/corpus/tokenizer.json"),
    ],
    "align-corpus": [
        *("--corpus", "results/corpus", "--tokenizer", "results/corpus/tokenizer.json"),
        *("--output", "results/corpus"),
    ],
    "train-lm": [
        *("--corpus", "results/corpus", "--model", "gpt2", "--seed", "1"),
        *("--work", "work/lm", "--output", "results/lm/gpt2/1"),
    ],
    "score-perplexity": [
        *("--corpus", "results/corpus", "--lm", "results/lm/gpt2/1"),
        *("--model", "gpt2", "--seed", "1", "--output", "results/perplexity/gpt2/1"),
    ],
    "collect-measures": ["--results", "results", "--output", "results/report"],
}


def run(name: str) -> None:
    """The command, as a rule calls it in the study's folder."""
    main([name, "--params", "params.yaml", *STEPS[name]])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study up to the perplexity of one small model."""
    folder = tmp_path_factory.mktemp("study")
    values = yaml.safe_load(SAMPLE.read_text())
    for section, small in SMALL.items():
        values[section] |= small
    (folder / "params.yaml").write_text(yaml.safe_dump(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in list(STEPS)[:-1]:
            run(name)
    return folder


@pytest.fixture
def study(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(finished, tmp_path / "study")
    monkeypatch.chdir(tmp_path / "study")
    return tmp_path / "study"


@pytest.fixture
def fail(capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """What a command that must fail says, which is one line."""

    def call(name: str) -> str:
        with pytest.raises(SystemExit) as stop:
            run(name)
        assert stop.value.code == 2
        told = capsys.readouterr().err.strip()
        assert "\n" not in told
        return told

    return call


def flip(path: Path, place: int = -30) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_every_command_leaves_the_digests_of_all_that_it_wrote(study: Path) -> None:
    for folder in ("results/corpus", "results/lm/gpt2/1", "results/perplexity/gpt2/1"):
        files = {path.name for path in (study / folder).iterdir()} - {DIGESTS}
        assert read_json(study / folder / DIGESTS).keys() == files
        assert len(files) > 1
    assert not (study / "work" / DIGESTS).exists()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("prepare-corpus", "corpus/source.json"),
        ("train-tokenizer", "corpus/train.jsonl"),
        ("align-corpus", "corpus/test.jsonl"),
        ("align-corpus", "corpus/tokenizer.json"),
        ("train-lm", "corpus/dev.safetensors"),
        ("score-perplexity", "corpus/test.safetensors"),
        ("score-perplexity", "lm/gpt2/1/model.safetensors"),
        ("score-perplexity", "lm/gpt2/1/config.json"),
    ],
)
def test_one_flipped_bit_stops_the_command_that_reads_it(
    study: Path, fail: Callable[[str], str], name: str, file: str
) -> None:
    before = (study / "results/perplexity/gpt2/1/perplexity.json").read_bytes()
    flip(study / "results" / file)
    assert f"entity-transformers {name}: results/{file}: sha256 " in fail(name)
    assert (study / "results/perplexity/gpt2/1/perplexity.json").read_bytes() == before


def test_a_folder_without_digests_is_taken_as_it_is(study: Path) -> None:
    """Someone else's model: its weights give other numbers, and nobody vouched for them."""
    before = (study / "results/perplexity/gpt2/1/perplexity.json").read_bytes()
    flip(study / "results/lm/gpt2/1/model.safetensors", -1)
    (study / "results/lm/gpt2/1" / DIGESTS).unlink()
    run("score-perplexity")
    assert (study / "results/perplexity/gpt2/1/perplexity.json").read_bytes() != before


@pytest.mark.parametrize("file", ["lm/gpt2/1/metrics.json", "perplexity/gpt2/1/perplexity.json"])
def test_a_number_that_was_edited_by_hand_reaches_no_report(
    study: Path, fail: Callable[[str], str], file: str
) -> None:
    path = study / "results" / file
    values = json.loads(path.read_text())
    values["seed"] = 7
    path.write_text(json.dumps(values, indent=2, sort_keys=True))
    told = fail("collect-measures")
    assert f"collect-measures: results/{file}: sha256 " in told
    assert "delete it and run the step that writes it again" in told


def test_a_full_disk_in_align_corpus_is_one_line(
    study: Path, fail: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as of a file without a name

    monkeypatch.setattr("entity_transformers.streamed.ArrayWriter.append", full)
    told = fail("align-corpus")
    assert told.startswith("entity-transformers align-corpus: ")
    assert told.endswith("No space left on device: 'results/corpus/train.safetensors'")
