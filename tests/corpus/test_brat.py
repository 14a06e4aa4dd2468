"""brat's standoff: chains from relations and equivalences, words cut at spans, what is refused."""

from pathlib import Path

import pytest
from conll_files import write
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.corpus.splitting import split_annotated

TEXT = "Ada Byron met the\nunBritish “Mary” .\n\nShe and she\n"
ANN = (
    "T1\tPerson 0 9\tAda Byron\nT2\tPerson 29 33\tMary\n"
    "T3\tPerson 38 41\tShe\nT5\tPerson 46 49\tshe\nT6\tNation 20 27\tBritish\n"
    "T7\tPerson 14 17;20 27\tthe British\n"
    "R1\tCoreference Arg1:T5 Arg2:T3\t\n"
    "R2\tPart Arg1:T6 Arg2:T3\n"
    "*\tEquiv T3 T1\n"
    "E1\tBirth:T1\nA1\tSure T1\n#1\tAnnotatorNotes T1\tsic\n\n"
)


def write_pair(folder: Path, text: str = TEXT, ann: str = ANN) -> Path:
    write(folder / "a.txt", text)
    return write(folder / "a.ann", ann)


@pytest.mark.parametrize("given", ["a.ann", "a.txt", ""])
def test_a_document_is_read_from_either_file_or_its_folder(tmp_path: Path, given: str) -> None:
    write_pair(tmp_path)
    assert detect_format(tmp_path / given)[0] == "brat"
    if not given:
        write(tmp_path / "b.txt", "No annotations.")
    corpus = read_corpus("brat", tmp_path / given)
    assert list(corpus) == [
        Document(
            name="a", part=0, split="train", genre="",
            words=tuple("Ada Byron met the un British “ Mary ” . She and she".split()),
            sentence_starts=(0, 4, 10),
            mentions=(
                Mention(0, 2, 1), Mention(3, 6, 7), Mention(5, 6, 6), Mention(7, 8, 2),
                Mention(10, 11, 1), Mention(12, 13, 1),
            ),
            space_after=(*(True,) * 4, False, True, False, False, *(True,) * 5),
        )
    ]  # fmt: skip
    assert corpus.ledger.counts == {
        "relations_of_other_types": 1, "annotations_of_other_kinds": 3,
        "discontinuous_mentions": 1, **({} if given else {"texts_without_annotations": 1}),
    }  # fmt: skip


@pytest.mark.parametrize("ann", ["T1\tPerson 0 3\tAda\n", "T1\tPerson 1 4\tAda\n", ""])
def test_a_byte_order_mark_is_no_word_whether_offsets_count_it(tmp_path: Path, ann: str) -> None:
    [document] = read_corpus("brat", write_pair(tmp_path, f"\ufeff{TEXT}", ann))
    assert document.words[:2] == ("Ada", "Byron")
    assert document.mentions == ((Mention(0, 1, 1),) if ann else ())


@pytest.mark.parametrize(("ann", "message"), [
    ("T1\tPerson 0 3\tEve\n", r"a.ann, line 1: 'Eve', but the text has 'Ada' there"),
    ("T1\tPerson 90 93\tAda\n", r"a.ann, line 1: 'Ada', but the text has '' there"),
    ("T1\tPerson 0 3\tAda\nR1\tCoref Arg1:T1 Arg2:T9\n", r"a.ann, line 2: 'T9', expected a span"),
    ("T1\tPerson 0 3\tAda\nT1\tPerson 0 3\tAda\n", r"a.ann, line 2: a second T1"),
    ("T1\tPerson 0\tAda\n", r"a.ann, line 1: .*expected an annotation such as T1"),
    ("MENTION\tT0\n", r"a.ann, line 1: 'MENTION\\tT0', expected an annotation"),
])  # fmt: skip
def test_bad_input_is_named_with_its_place(tmp_path: Path, ann: str, message: str) -> None:
    with refused(message):
        list(read_corpus("brat", write_pair(tmp_path, ann=ann)))


def test_annotations_without_a_text_or_words_are_refused(tmp_path: Path) -> None:
    path = write_pair(tmp_path, text=" \n", ann="")
    with refused(r"a.txt: no words in this text"):
        list(read_corpus("brat", path))
    path.with_suffix(".txt").unlink()
    with refused(r"a.txt: No such file"):
        list(read_corpus("brat", path))


@given(st.text("ab.' \n", max_size=30), st.data())
def test_a_span_s_words_are_its_characters(text: str, data: st.DataObject) -> None:
    """Whatever is marked comes back from the words, but for white space."""
    places = st.integers(0, len(text))
    spans = data.draw(st.lists(st.tuples(places, places).map(sorted), max_size=5))
    found = split_annotated(text, spans)
    for (start, end), (first, last) in zip(spans, found.spans, strict=True):
        assert "".join(found.words[first:last]) == "".join(text[start:end].split())
    pairs = zip(found.words, found.spaces, strict=True)
    assert "".join(word + " " * space for word, space in pairs).split() == text.split()
    lines = [line.split()[0] for line in text.split("\n") if line.split()]
    for start, line in zip(found.starts, lines, strict=True):
        assert line.startswith(found.words[start])
