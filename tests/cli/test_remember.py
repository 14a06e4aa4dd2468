"""Command remember: a text file, a model, what is printed."""

import logging
import re
from pathlib import Path

import pytest
import torch
from conll_files import conll, write
from tiny import lively_model
from written import teach

from entity_transformers.cli import main
from entity_transformers.cli import remember as command

TEXT = """Mr. Darcy saw Elizabeth at Netherfield, and Elizabeth saw Mr. Darcy. Jane was there.

Nobody spoke to Jane that day, so Jane went home with Elizabeth. It was a long way to go for her.
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remember")
    (folder / "book.txt").write_text(TEXT * 3)
    tokenizer = teach(TEXT * 2, 320)
    (folder / "text/corpus").mkdir(parents=True)
    tokenizer.save(str(folder / "text/corpus/tokenizer.json"))
    model = lively_model("gpt2", vocabulary=tokenizer.get_vocab_size(), window=48)
    model.save(folder / "models/gpt2/1")
    return folder


def remember(home: Path, *flags: str) -> None:
    small = ("--model", str(home / "models/gpt2/1"), "--window", "32", "--kept", "8")
    main(["remember", str(home / "book.txt"), *small, *flags])


def test_who_is_known_what_is_kept_and_how_it_goes_on(home, capsys, caplog, monkeypatch):
    monkeypatch.setattr(command, "EVERY", 0.0)
    with caplog.at_level(logging.INFO):
        remember(home, "--write", "12", "--known", "3")
    printed = capsys.readouterr().out
    assert re.search(r"^book#0: \d+ tokens, read by .*/gpt2/1 in windows of 32 beside 8", printed)
    assert re.search(r"\d of \d+ tokens, nats per token: \d\.\d+ beside half names", caplog.text)
    losses = re.findall(r"^(\S.*?) +(\d+\.\d{3}) +(\d+\.\d{3})$", printed, re.MULTILINE)
    named = ["beside half names", "beside as many recent tokens", "window alone"]
    assert [name for name, *_ in losses] == named
    assert len({loss for _, loss, _ in losses}) == 3
    known = re.findall(r"^(\S.*?) +(\d+) +\d+  (?:yes|no)$", printed, re.MULTILINE)
    assert known == [("Elizabeth", "9"), ("Jane", "9"), ("Mr. Darcy", "6")]
    kept = re.search(r"kept: (\d+) tokens, (\d+) bytes:", printed)
    assert 0 < int(kept[1]) <= 8
    assert int(kept[2]) == 4 * int(kept[1])
    for name in ("with what is kept", "window alone"):
        before, _, written = printed.partition(f"\n{name}: ...")[2].partition(" |")
        assert before.endswith("to go for her.")
        assert len(written.splitlines()[0]) > 5


def test_a_character_of_two_windows_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    printer = command._Printer(tokenizer := teach("né"), skip_prompt=True)
    for token in tokenizer.encode("né €").ids:
        printer.put(torch.tensor([[1, 2]]))
        printer.put(torch.tensor([token]))
        printer.end()
    command.TextStreamer.end(printer)
    assert capsys.readouterr().out == "né €"


def test_it_reads_as_far_as_it_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remember(home, "--write", "0", "--tokens", "14")
    printed = capsys.readouterr().out
    assert 14 <= int(re.match(r"book#0: (\d+) tokens", printed)[1]) < 24  # the last word is whole
    assert "Jane" not in printed


def test_the_parts_of_a_document_are_joined_without_their_annotation(tmp_path: Path) -> None:
    document = command._read(write(tmp_path / "a.v4_gold_conll", conll("a", parts=2)), 100)
    assert document.words == ("Ada", "Byron", "'s", "dog") * 4
    assert not any((document.mentions, document.tags, document.named_entities))


@pytest.mark.parametrize(("flags", "message"), [
    (("--resolver", "names"), "resolver names reads ahead, but generated text"),
    (("--window", "47"), "a window of 47 tokens plus 8 kept ones, but .* at most 48"),
    (("--policy", "nouns"), "policy 'nouns', expected one of recent, names"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_line(home, capsys, flags, message):
    with pytest.raises(SystemExit):
        remember(home, *flags)
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert error.count("\n") == 1
