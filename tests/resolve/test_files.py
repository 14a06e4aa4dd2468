"""A user's own file as the answer: both formats, what is found in them and what is refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from entity_transformers.corpus.document import CorpusError, Document, Mention
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.corpus.readers.ontogum import read as read_folder
from entity_transformers.resolve.base import ResolverError, resolve
from entity_transformers.resolve.files import Answers
from entity_transformers.resolve.registry import make_resolver

WORDS = ("Ada", "met", "her", "friend", ".")
DOCUMENT = Document("letter", 0, "train", "", WORDS, (0,))


def conll(name: str = "letter", words: tuple[str, ...] = WORDS, part: str = "; part 000") -> str:
    cells = ("(7)", "-", "(8|(7)", "8)", "-")
    rows = "".join(
        f"{name}\t0\t{i}\t{word}{'	-' * 8}\t{cells[i % 5]}\n" for i, word in enumerate(words)
    )
    return f"#begin document ({name}){part}\n{rows}\n#end document\n"


def corefud(name: str = "letter", words: tuple[str, ...] = WORDS, order: str = "eid-etype") -> str:
    cells = ("Entity=(e7-person)", "_", "Entity=(e8-person(e7-person)", "Entity=e8)", "_")
    head = f"# newdoc id = {name}\n# global.Entity = {order}\n"
    rows = "".join(
        f"{i + 1}\t{word}{'	_' * 7}\t{cells[i % 5]}\n" for i, word in enumerate(words)
    )
    return f"{head}{rows}\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_conll_2012(tmp_path: Path) -> None:
    answers = make_resolver("file", path=write(tmp_path / "a.conll", conll()))
    assert (answers.name, answers.causal) == ("file", False)
    kept = resolve(answers, DOCUMENT, "keep").document.mentions
    assert kept == (Mention(0, 1, 7), Mention(2, 4, 8), Mention(2, 3, 7))


def test_corefud(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conllu", corefud("other") + corefud().replace("# global", "# x"))
    answers = Answers(path, name="mine")
    kept = resolve(answers, DOCUMENT, "keep").document.mentions
    assert kept == (Mention(0, 1, 1), Mention(2, 4, 2), Mention(2, 3, 1))
    assert (answers.name, answers.unused()) == ("mine", ["other#0"])


def test_corefud_pieces_and_empty_words_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cells = ("Entity=(e1[1/2]-x)", "_", "_", "Entity=(e1[2/2]-x", "Entity=e1[2/2])")
    rows = [f"{i + 1}\t{word}{'	_' * 7}\t{cells[i]}\n" for i, word in enumerate(WORDS)]
    rows.insert(2, f"2.1\tshe{'	_' * 7}\tEntity=(e2-x)\n")
    path = write(tmp_path / "a.conllu", "# newdoc id = letter\n" + "".join(rows) + "\n")
    with caplog.at_level(logging.WARNING):
        assert Answers(path).resolve(DOCUMENT) == (Mention(0, 5, 1),)
    assert "1 mentions of several pieces, taken with what lies between" in caplog.text
    assert "1 mentions of words that the text does not have, left out" in caplog.text


def test_documents_are_found_by_name(tmp_path: Path) -> None:
    alone = Answers(write(tmp_path / "a.conll", conll("whatever")))
    assert len(alone.resolve(DOCUMENT)) == 3
    both = Answers(write(tmp_path / "b.conll", conll("letter", part="; part 002") + conll("b")))
    assert len(both.resolve(DOCUMENT)) == 3
    neither = Answers(write(tmp_path / "c.conll", conll("a") + conll("b")))
    with pytest.raises(
        ResolverError, match=r"c.conll: no answer for document letter#0; it has a#0"
    ):
        neither.resolve(DOCUMENT)
    with pytest.raises(
        ResolverError, match=r"d.conll, line 10: document a#0 stands twice .* line 2:"
    ):
        Answers(write(tmp_path / "d.conll", conll("a") + conll("a")))


OTHER = (*WORDS[:3], "brother", ".")
OTHER_WORDS = {
    "a.conll": (
        conll(words=OTHER),
        r"line 5: the word is 'brother', expected 'friend', word 3 of document letter#0",
    ),
    "a.conllu": (corefud("x", OTHER) + corefud(words=OTHER), r"line 14: the word is 'brother'"),
    "b.conll": (conll(words=WORDS[:4]), r"line 5: 4 words, expected 5"),
}


@pytest.mark.parametrize("name", OTHER_WORDS)
def test_other_words_are_refused(tmp_path: Path, name: str) -> None:
    text, error = OTHER_WORDS[name]
    with pytest.raises(ResolverError, match=f"{name}, {error}"):
        Answers(write(tmp_path / name, text)).resolve(DOCUMENT)


FIRST = corefud("x")  # line numbers are the file's, not the document's
BAD_FILES = {
    "bracket.conll": (conll().replace("8)", "9)"), r", line 4, column coreference.*\(8 opens"),
    "cut.conll": (conll().replace("#end document\n", ""), r", line 7: .* has no #end document"),
    "bracket.conllu": (
        FIRST + corefud().replace("e8)", "e9)"),
        r", line 13, column 10: Entity='\(e8-person\(e7-person\)': one of its brackets",
    ),
    "cell.conllu": (
        FIRST + corefud().replace("=(e7-person)", "=)(e7"),
        r", line 11, column 10: Entity='\)\(e7': expected such as",
    ),
    "columns.conllu": (
        FIRST + corefud().replace("\tmet\t", "\tmet "),
        r", line 12: 9 columns",
    ),
    "page.conllu": ("<!DOCTYPE html>\n", r", line 1: a web page, expected #begin"),
    "text.conllu": ("Ada met her friend.\n", r", line 1: 'Ada met her friend.', expected"),
    "empty.conllu": ("", r", line 1: '', expected"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused(tmp_path: Path, name: str) -> None:
    text, error = BAD_FILES[name]
    with pytest.raises(CorpusError, match=name + error):
        Answers(write(tmp_path / name, text))


def test_a_folder_without_answers(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no file matches \*_conll, \*.conll, \*.conllu"):
        Answers(tmp_path)


def test_litbank_and_ontogum_answer_for_themselves(shared_data: Path) -> None:
    """Gold read back as an answer is gold."""
    folder = shared_data / "litbank" / "coref" / "conll"
    answers = Answers(folder)
    for document in read_corpus("litbank", shared_data / "litbank", exclude=("[2-9]*", "1[2-9]*")):
        assert set(answers.resolve(document)) == set(document.mentions)
    name = "GUM_bio_byron"
    path = shared_data / "gum" / "coref" / "ontogum" / "conllu" / f"{name}.conllu.gz"
    ledger = Ledger(exclude=("GENTLE*", "GUM_[!b]*", "GUM_bio_[!b]*"), policy="skip")
    document = next(d for d in read_folder(shared_data / "gum", ledger) if d.name == name)
    found = Answers(path).resolve(document)
    spans = {(m.start, m.end) for m in document.mentions}
    assert {(m.start, m.end) for m in found} == spans
    assert len({m.chain for m in found}) == len({m.chain for m in document.mentions})
