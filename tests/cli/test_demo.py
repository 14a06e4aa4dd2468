"""demo: what it prints is what the reader found, in colours only where they are wanted."""

import re
from pathlib import Path

import numpy as np
import pytest
from refused import fail
from tiny import ROOT, lively_model

from entity_transformers.cli import demo as command
from entity_transformers.cli import main
from entity_transformers.cli.demo import RESOLVER, open_model, render
from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.marked import read_marked
from entity_transformers.encode.document import DocumentReader
from entity_transformers.models.weights import PACKAGES, SMOLLM2, find_folder
from entity_transformers.tasks.demo import list_words, read_entities, read_names

EXAMPLE = (
    "[7 Anna] met [2 Bob] at [3 the station]. [7 She] gave [2 him] a book. [2 Bob] thanked [7 her],"
    " and [7 Anna] left [3 the station]."
)
SHA256 = PACKAGES[SMOLLM2.removeprefix("pip:")].sha256


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a study, whose tokenizer lies where the study's corpus does."""
    home = tmp_path_factory.mktemp("study")
    tokenizer = learn_tokenizer([read_marked(EXAMPLE)], 300, "natural")
    (home / "text/corpus").mkdir(parents=True)
    tokenizer.save(str(home / "text/corpus/tokenizer.json"))
    for kind, changes in {"gpt2": {}, "gpt2e": {"entity_values": "both"}}.items():
        model = lively_model(kind, tokenizer.get_vocab_size(), window=12, **changes)
        model.save(home / "models" / kind / "1")
    return home / "models" / "gpt2e" / "1"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    main(["demo", *words])
    return capsys.readouterr().out.splitlines()


def read_table(lines: list[str]) -> list[tuple[str, ...]]:
    """Word, entity, nats by way, and change of each row."""
    found = (re.match(r"(\S+) +(\d*)((?: +[\d.]+){2,3}) +([+-][\d.]+)   '", line) for line in lines)
    return [(row[1], row[2], *row[3].split(), row[4]) for row in found if row]


def test_the_pointer_that_git_holds_names_people(capsys):
    """As README says: names cost 1.7 nats per token less with its memory. What is more likely than
    not is what was expected.
    """
    *_, last = run(capsys, "--model", str(folder := ROOT / "results/pointer/model"))
    assert re.search(r"names \(16\): .* \(memory: -1\.7\d+, helps\)$", last)
    reader = DocumentReader.from_pretrained(folder, window=16)
    source = reader.encode("Mr. Darcy saw Jane Bennet . " * 12, RESOLVER)
    for way in read_entities(reader, source).values():
        likely = (way.losses < np.log(2)) & (source.words >= 0)
        assert way.expected[likely].tolist() == source.tokens[likely].tolist()
        assert likely.sum() > 9


def test_words_losses_and_names_are_those_of_the_reader(folder, capsys):
    lines = run(capsys, EXAMPLE, "--model", str(folder), "--window", "8", "--least", "0")
    about, known = " ".join(lines).split("Entities are as marked:")
    assert about.startswith(f"{folder} (GPT2E) reads the text in windows of 8 tokens: with")
    assert known.startswith("   2  Bob, him   3  the station   7  Anna, She, her ")
    reader = DocumentReader.from_pretrained(folder, window=8)
    source = reader.encode(EXAMPLE)
    on, off = reader.read(source), reader.read(source, entities=False)
    rows = read_table(lines)
    assert [row[0] for row in rows] == list(source.document.words)
    for index, (_, entity, *nats) in enumerate(rows):
        own = source.words == index
        with_memory, without = on.losses[own].sum(), off.losses[own].sum()
        assert int(entity or 0) == int(source.entity_ids[own][0])
        expected = (with_memory, without, with_memory - without)
        assert [float(value) for value in nats] == pytest.approx(expected, abs=0.006)
    total = f"nats per token, all ({len(source.tokens) - 1}): {on.loss:.3f} memory, {off.loss:.3f}"
    assert total in lines[-2]
    assert np.abs(on.losses - off.losses).max() > 0.001
    assert "\x1b" not in "".join(lines)  # no terminal


def test_a_model_without_memory_is_read_beside_names_and_recent_tokens(folder, capsys):
    """And the names of a plain text are found."""
    plain = str(folder.parents[1] / "gpt2" / "1")
    text = " ".join(["Anna met Bob. Bob thanked Anna."] * 4)
    flags = ("--model", plain, "--window", "8", "--kept", "4", "--least", "0")
    lines = run(capsys, text, *flags)
    end = lines.index("")
    about = " ".join(lines[: end - 2])
    assert "windows of 8 tokens: beside 4 tokens of the names that have left the window" in about
    assert about.endswith("Entities are found by names-causal; [1 Anna] would mark one:")
    assert {line.split()[1] for line in lines[end - 2 : end]} == {"Anna", "Bob"}
    reader = DocumentReader.from_pretrained(plain, window=8, stride=4)
    source, ways = read_names(reader, reader.encode(text, RESOLVER).document, None, 4)
    assert list(ways) == ["names", "window", "recent"]
    rows = read_table(lines)
    assert len(rows) == 32
    for index, (*_, names, window, recent, change) in enumerate(rows):
        nats = [float(way.losses[source.words == index].sum()) for way in ways.values()]
        printed = [float(value) for value in (names, window, recent, change)]
        assert printed == pytest.approx([*nats, nats[0] - nats[1]], abs=0.006)
    assert len({way.losses.tobytes() for way in ways.values()}) == 3


def test_what_changes_little_is_summed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (EXAMPLE, "--model", str(folder), "--window", "8", "--least")
    whole, lines = read_table(run(capsys, *flags, "0")), run(capsys, *flags, "0.03")
    left_out = [row for row in whole if row not in read_table(lines)]
    assert 0 < len(left_out) < len(whole)
    told = r"\((\d+) words that change by less .* nats, ([+-][\d.]+) together"
    count, total = re.search(told, "\n".join(lines)).groups()
    assert int(count) == len(left_out)
    assert float(total) == pytest.approx(sum(float(row[-1]) for row in left_out), abs=0.1)


def test_colours_say_where_the_memory_helps(folder: Path) -> None:
    reader = DocumentReader.from_pretrained(folder, window=8)
    source = reader.encode(EXAMPLE)
    ways = read_entities(reader, source)
    words = list_words(reader, source, ways)
    painted, bare = (list(render(words, source, ways, 0, colour)) for colour in (True, False))
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in painted] == bare
    for word, line in zip(words, painted[5:], strict=False):
        change = word.nats[0] - word.nats[1]
        code = "32" if change <= -0.005 else "31" if change >= 0.005 else None
        assert (f"\x1b[{code}m{change:+9.2f}" in line) == (code is not None)


def test_bad_input_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, model, told in (
        ("[1 Anna met", folder, "character 1, near '[1 Anna met': the bracket [ is never closed"),
        ("Anna] met [1 Bob].", folder, "the bracket ] does not close a mention"),
        (" \n", folder, "it has no words"),
        ("Anna", folder / "absent", "no model there"),
        (str(folder / "config.json"), folder, "is a file, expected a text"),
    ):
        error = fail(capsys, "demo", text, "--model", str(model))
        assert told in error
        assert error.count("\n") == 1


def test_the_default_is_a_model_that_can_read_then_the_sample_s(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "can_read", lambda name: False)
    install = r"pip install 'entity-transformers\[smollm2\]', or name one with --model"
    with pytest.raises(FileNotFoundError, match=install):
        open_model(None)
    study = Path(command.SAMPLE).parents[2]
    study.parent.mkdir()
    study.symlink_to(folder.parents[2])
    assert open_model(None)[0] == command.SAMPLE
    assert open_model(str(folder))[0] == str(folder)


@pytest.mark.skipif(not find_folder(SHA256).is_dir(), reason="SmolLM2 is not unpacked here")
def test_names_help_in_the_passage_that_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys)
    assert lines[0].startswith("Bartleby, the Scrivener")
    assert min(float(row[-1]) for row in read_table(lines) if row[0] == "Nippers") < -5
    assert float(re.search(r"\(names: ([+-][\d.]+), helps\)", lines[-1])[1]) < -1
