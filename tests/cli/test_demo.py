"""demo: what it prints is what the reader found, in colours only where they are wanted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import lively_model

from entity_transformers.cli import demo as command
from entity_transformers.cli import main
from entity_transformers.cli.demo import EXAMPLE, find_model, find_tokenizer, render
from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.marked import read_marked
from entity_transformers.encode.document import DocumentReader
from entity_transformers.tasks.demo import compare

WINDOW = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a study, whose tokenizer lies where the study's corpus does."""
    home = tmp_path_factory.mktemp("study")
    tokenizer = learn_tokenizer([read_marked(EXAMPLE)], 300, "natural")
    (home / "text/corpus").mkdir(parents=True)
    tokenizer.save(str(home / "text/corpus/tokenizer.json"))
    for kind in ("gpt2e", "gpt2"):
        changes = {"entity_values": "both"} if kind == "gpt2e" else {}
        model = lively_model(kind, tokenizer.get_vocab_size(), window=WINDOW, **changes)
        model.save(home / "models" / kind / "1")
    return home / "models" / "gpt2e" / "1"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    main(["demo", *words])
    return capsys.readouterr().out.splitlines()


def fail(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["demo", *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_words_losses_and_names_are_those_of_the_reader(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = run(capsys, "--model", str(folder), "--window", "8")
    assert lines[0] == f"{folder}: GPT2E, windows of 8 tokens; entities as marked"
    assert lines[1:4] == ["  1  Anna, She, her", "  2  Bob, him", "  3  the station"]
    reader = DocumentReader.load(folder, find_tokenizer(folder), window=8)
    source = reader.encode(EXAMPLE)
    on, off = reader.read(source), reader.read(source, entities=False)
    start = next(i for i, line in enumerate(lines) if line.startswith("word")) + 1
    assert source.document is not None
    for index, word in enumerate(source.document.words):
        own = source.words == index
        with_memory, without = on.losses[own].sum(), off.losses[own].sum()
        found = re.match(
            r"(\S+)\s+(\d*)\s+([\d.]+)\s+([\d.]+)\s+([+-][\d.]+)", lines[start + index]
        )
        assert found is not None
        assert found[1] == word
        assert int(found[2] or 0) == int(source.entity_ids[own][0])
        assert float(found[3]) == pytest.approx(with_memory, abs=0.006)
        assert float(found[4]) == pytest.approx(without, abs=0.006)
        assert float(found[5]) == pytest.approx(with_memory - without, abs=0.006)
    assert f"nats per token: {on.loss:.3f} with memory, {off.loss:.3f} without" in lines[-2]
    assert np.abs(on.losses - off.losses).max() > 0.001
    assert lines[-1].startswith("next: ")
    assert "\x1b" not in "".join(lines)  # no terminal


def test_the_next_token_s_chances_are_the_model_s(folder: Path) -> None:
    reader = DocumentReader.load(folder, find_tokenizer(folder), window=8)
    source = reader.encode(EXAMPLE)
    found = compare(reader, source, most=3)
    logits = reader.read(source).hidden[-1] @ reader.model.output_weight.T
    chances = np.sort(logits.double().softmax(-1).detach().numpy())[::-1]
    assert [guess.on for guess in found.guesses] == pytest.approx(chances[:3].tolist(), abs=1e-5)


def test_a_model_without_memory_is_read_alike_and_plain_text_is_resolved(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = str(folder.parents[1] / "gpt2" / "1")
    lines = run(capsys, "Anna met Bob. Bob thanked Anna.", "--model", plain)
    assert "(no difference)" in lines[-2]
    assert {line.split()[1] for line in lines[1:3]} == {"Anna", "Bob"}
    assert lines[0].endswith("; entities found by names-pronouns; a mark is [1 Anna]")


def test_entities_have_the_numbers_of_their_marks(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = run(capsys, "[7 Bob] met [2 Anna]. [2 She] saw [7 him].", "--model", str(folder))
    assert lines[1:3] == ["  2  Anna, She", "  7  Bob, him"]


def test_colours_say_where_the_memory_helps(folder: Path) -> None:
    reader = DocumentReader.load(folder, find_tokenizer(folder), window=8)
    found = compare(reader, reader.encode(EXAMPLE))
    painted, bare = (list(render(found, "x", colour)) for colour in (True, False))
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in painted] == bare
    for word, line in zip(found.words, painted[6:], strict=False):
        change = word.on - word.off
        code = "32" if change <= -0.005 else "31" if change >= 0.005 else None
        assert (f"\x1b[{code}m{change:+7.2f}" in line) == (code is not None)


def test_bad_input_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ("--model", str(folder))
    assert "character 1, near '[1 Anna met': the bracket [ is never closed" in fail(
        capsys, "[1 Anna met", *model
    )
    assert "no model there" in fail(capsys, "Anna", "--model", str(folder / "absent"))
    for text in ("", " \n"):
        assert "no words in it" in fail(capsys, text, *model)
    assert "the bracket ] closes no mention" in fail(capsys, "Anna] met [1 Bob].", *model)


def test_a_model_s_folder_may_lie_at_the_root(folder: Path) -> None:
    assert find_tokenizer(Path("/model")) == Path("/model/tokenizer.json")
    assert find_tokenizer(folder).is_file()


def test_the_sample_s_model_is_found_or_it_is_said_how_to_get_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "CHECKOUT", tmp_path / "checkout")
    with pytest.raises(FileNotFoundError, match="run make sample, or name a folder with --model"):
        find_model(None)
    home: Any = tmp_path / "checkout" / command.SAMPLE
    home.mkdir(parents=True)
    (home / "config.json").write_text("{}")
    assert find_model(None) == home
    assert find_model(folder) == folder
