"""Command remember: a text file, a study's model, what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import lively_model

from entity_transformers.cli import main
from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.document import Document

TEXT = """Mr. Darcy saw Elizabeth at Netherfield, and Elizabeth saw Mr. Darcy. Jane was there.

Nobody spoke to Jane that day, so Jane went home with Elizabeth. It was a long way to go for her.
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book, and a study with a pointer."""
    folder = tmp_path_factory.mktemp("remember")
    (folder / "book.txt").write_text(TEXT * 3)
    words = tuple(TEXT.split())
    tokenizer = learn_tokenizer([Document("d", 0, "train", "", words, (0,))] * 2, 320, "natural")
    (folder / "text/corpus").mkdir(parents=True)
    tokenizer.save(str(folder / "text/corpus/tokenizer.json"))
    model = lively_model("gpt2-pointer", vocabulary=tokenizer.get_vocab_size(), window=32)
    model.save(folder / "models/gpt2-pointer/1")
    return folder


def remember(home: Path, *flags: str) -> None:
    model = home / "models/gpt2-pointer/1"
    main(["remember", str(home / "book.txt"), "--model", str(model), *flags])


def test_who_is_known_and_what_comes_next(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remember(home, "--write", "12", "--known", "3")
    whole = capsys.readouterr().out
    printed = whole.splitlines()
    assert "words read; 4 entities, 4 of them in the memory (4 forms each)" in printed[0]
    known = printed[3:6]
    assert [line.split()[0] for line in known] == ["Elizabeth", "Jane", "Mr."]
    assert [int(line.split()[-3]) for line in known] == [9, 9, 6]
    assert printed[7].split() == ["next", "with", "memory", "without"]
    shares = [float(line.split("%")[0].split()[-1]) for line in printed[8:16]]
    assert shares == sorted(shares, reverse=True)
    before, _, written = whole.partition("\n... ")[2].partition(" |")
    assert before.endswith("a long way to go for her .")
    assert len(written) > 5


def test_it_reads_as_far_as_it_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remember(home, "--write", "0", "--words", "9")
    printed = capsys.readouterr().out
    assert printed.startswith("book#0: 9 words read; 3 entities")
    assert "Jane" not in printed


def test_a_resolver_that_reads_on_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        remember(home, "--resolver", "names")
    assert "reads on before it decides" in capsys.readouterr().err
