"""init: a study of one's own corpus that holds, or a refusal before anything is written."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import refused
import yaml

from entity_transformers.cli import main
from entity_transformers.study import processor
from entity_transformers.study.params import load
from entity_transformers.study.plan import Plan

ROW = {"words": ["Ada", "met", "her", "friend", "."], "mentions": [[0, 1, 7], [2, 3, 7]]}
FULL = ROW | {"tags": ["NNP", "VBD", "PRP$", "NN", "."], "named_entities": [[0, 1, "PERSON"]]}
Write = Callable[..., Path]
STUDY, CORPUS = Path("studies/letters.yaml"), Path("studies/letters.jsonl")
FOUND = "resolver:names-causal"
UNLINKED = {key: value for key, value in FULL.items() if key != "mentions"}


@pytest.fixture
def write(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes rows, one of each split, to a file, and stands at the root of a checkout."""
    for name in ("params.yaml", "Snakefile"):
        shutil.copy(root / name, tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    def write(row: dict[str, Any], splits: tuple[str, ...] = ("train", "dev", "test")) -> Path:
        path = Path("elsewhere/letters.jsonl")
        rows = ({"name": f"{split}-{i}", "split": split} | row for i, split in enumerate(splits))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def run(path: Path) -> dict[str, Any]:
    main(["init", "letters", "--corpus", str(path)])
    return yaml.safe_load(STUDY.read_text())


def fail(path: Path, capsys: pytest.CaptureFixture[str], name: str = "letters") -> str:
    error = refused.fail(capsys, "init", name, "--corpus", str(path)).splitlines()[-1]
    assert not STUDY.exists()
    assert error.startswith("entity-transformers init: ")
    return error


@pytest.mark.parametrize(("row", "steps", "labels"), [
    (FULL, "corpus lm perplexity embeddings similarity probe ner report", "gold"),
    (ROW, "corpus lm perplexity report", "gold"),
    ({"words": ROW["words"]}, "corpus lm perplexity report", FOUND),
    (UNLINKED, "corpus lm perplexity embeddings ner report", FOUND),
])  # fmt: skip
def test_the_study_has_the_steps_that_the_text_can_fill(write, row, steps, labels):
    values = run(write(row))
    assert values["study"]["steps"] == steps.split()
    assert values["models"]["gpt2e"]["labels"] == labels
    assert values["corpus"]["path"] == "elsewhere/letters.jsonl"
    assert "data/letters/models/gpt2e/1/run.json" in Plan(load(STUDY), STUDY).records("train")
    lines = STUDY.read_text().splitlines()
    assert max(map(len, lines)) <= 100
    told = " ".join(line for line in lines if line.startswith("# No "))
    assert ("table 4" in told, "table 5" in told) == ("similarity" not in steps, "ner" not in steps)


def test_a_copy_of_the_checkout_finds_the_corpus(write: Write, tmp_path: Path) -> None:
    """Git has what lies in the checkout; anything else is named from the root."""
    outside = write(ROW).rename(tmp_path.with_suffix(".jsonl"))
    assert run(Path("..", outside.name))["corpus"]["path"] == str(outside)


def test_splits_that_are_not_there_are_taken_from_train(write: Write, capsys) -> None:
    """Into a new file; that one may be given, but not overwritten."""
    values = run(path := write(FULL, splits=("train",) * 40))
    assert values["corpus"] == {"format": "jsonl", "path": str(CORPUS), "resolvers": []}
    rows = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    assert [sum(row["split"] == one for row in rows) for one in ("dev", "test")] == [5, 5]
    assert len(rows) == 40
    STUDY.unlink()
    assert run(CORPUS)["corpus"] == values["corpus"]
    STUDY.unlink()
    path = path.rename(CORPUS)
    assert "a copy with dev and test would overwrite it" in fail(path, capsys)
    assert '"dev"' not in path.read_text()


def test_a_short_document_has_several_windows_and_what_shows_nothing_is_said(write, caplog):
    """Forty documents of 104 words, some 135 tokens; then of five words."""
    caplog.set_level("INFO")
    lm = run(write(ROW | {"words": ["word", "."] * 52}, splits=("train",) * 40))["lm"]
    assert lm["window"] == 32
    assert lm["steps"] == 200  # of a quarter of the tokens that a window of 128 would have
    assert not re.search("no verdict|fit in one window", caplog.text)
    told = ("4 test documents: no interval, no verdict below 5.",
            "Most documents fit in one window of 16 tokens: a memory is hardly read.")  # fmt: skip
    shutil.rmtree("studies")
    run(write(ROW, splits=("train", "dev", "test", "test", "test", "test")))
    for line in told:
        assert line in caplog.messages
        assert f"# {line}\n" in STUDY.read_text()


def test_one_plain_text_makes_a_study_and_the_format_is_printed(tmp_path, write, caplog, capsys):
    caplog.set_level("INFO")
    book = tmp_path / "book.txt"
    text = "It was a dark night.\n\nAnna met Bob, and Bob ran.\n\n" * 60
    book.write_text(text + "*** END OF THE PROJECT GUTENBERG EBOOK ***\n\n" + text)
    values = run(book)
    expected = {"format": "jsonl", "path": str(CORPUS), "resolvers": ["names-causal"]}
    assert values["corpus"] == expected
    assert values["lm"]["window"] == values["perplexity"]["stride"] == 16
    assert "read as text, since it is a *.txt file" in caplog.text
    assert "book.txt: 618 of its 1328 words are left out" in caplog.text
    counts = [line for line in caplog.messages if line.startswith(("train: ", "dev: ", "test: "))]
    assert len(counts) == 3
    assert all(re.fullmatch(r"\w+: documents 1, words [\d,]+", line) for line in counts)
    assert "No table 5: some split has no named_entities." in caplog.text
    assert "1 test document: no interval, no verdict below 5." in caplog.text
    assert capsys.readouterr().out.endswith("next: make study STUDY=letters\n")
    main(["check-study", "--study", str(STUDY)])
    assert json.loads(capsys.readouterr().out)["corpus"]["path"] == str(CORPUS)
    main(["run", "corpus", "--study", str(STUDY)])
    assert Path("data/letters/text/corpus/tokenizer.json").is_file()


def test_the_model_grows_with_the_corpus(write: Write) -> None:
    words = ["word", "."] * 30_000
    lm = run(write({"words": words}, splits=("train", "train", "dev", "test")))["lm"]
    assert (lm["width"], lm["window"]) == (192, 256)
    passes = lm["steps"] * lm["documents_per_step"] * lm["window"] / (1.3 * 120_000)
    assert passes == pytest.approx(8, rel=0.01)


@pytest.mark.parametrize("flags", ["avx2", "avx2 amx_bf16", None])
def test_it_trains_in_bfloat16_only_where_the_processor_has_it(write, monkeypatch, flags):
    """Elsewhere bfloat16, which the paper's study asks for, is some 16 times as slow."""
    cpu = Path("cpuinfo")
    if flags:
        cpu.write_text(f"flags\t: fpu {flags}\n")
    monkeypatch.setattr(processor, "CPU", cpu)
    monkeypatch.setattr(processor, "GPU", Path("gpus"))
    expected = "bfloat16" if flags and "bf16" in flags else "float32"
    assert run(write(ROW))["lm"]["precision"] == expected
    assert processor.warn_of_bfloat16(load(STUDY)) is None


def test_a_corpus_that_is_bad_or_too_short_is_refused_and_nothing_is_written(write, capsys):
    bad = write(ROW | {"mentions": [[0, 9, 1]]})
    assert "letters.jsonl, line 1, mentions[0]" in fail(bad, capsys)
    assert "no sentence of this text of 5 words" in fail(write(ROW, splits=("train",)), capsys)
    assert "no document of split 'train'" in fail(write(ROW, splits=("dev", "test")), capsys)
    assert "no such file" in fail(Path("absent.txt"), capsys)
    for name, content, told in (
        ("lambada_test.txt", b"she saw him\n" * 30, "format lambada has dev and test alone"),
        ("empty.jsonl", b"\n", "empty.jsonl, line 1: '', expected a text"),
        ("empty.txt", b"", "empty.txt: no text in this file, expected a book"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0", "a.png: an image, expected text"),
    ):
        Path(name).write_bytes(content)
        assert told in fail(Path(name), capsys)
    assert not Path("studies").exists()


def test_a_name_that_is_taken_or_no_checkout_is_told(tmp_path, write, capsys):
    path = write(ROW)
    assert "name 'My Letters', expected lower-case" in fail(path, capsys, name="My Letters")
    STUDY.parent.mkdir()
    STUDY.with_stem("mails").touch()
    for name in ("mails", "paper", "params"):
        assert "a study of that name is there" in fail(path, capsys, name=name)
    os.chdir(tmp_path / "elsewhere")
    assert "run this at its root" in fail(Path("letters.jsonl"), capsys)
