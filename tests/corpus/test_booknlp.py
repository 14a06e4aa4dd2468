"""BookNLP's two files of a book: words, spaces, tags, chains and names, and what is refused."""

from pathlib import Path

import pytest
from conll_files import write
from refused import refused

from entity_transformers.corpus.document import Document, Mention, NamedEntity
from entity_transformers.corpus.readers import detect_format, read_corpus

HEAD = """paragraph_ID sentence_ID token_ID_within_sentence token_ID_within_document word lemma
byte_onset byte_offset POS_tag fine_POS_tag dependency_relation syntactic_head_ID event""".split()
TOKENS = [
    "0 0 0 0 Ada Ada 0 3 PROPN NNP nsubj 2 O",
    "0 0 1 1 Byron Byron 4 9 PROPN NNP nsubj 2 O",
    '0 0 2 2 " " 9 10 PUNCT `` punct 2 O',
    "0 1 0 3 She she 12 15 PRON PRP nsubj 3 O",
]
ENTITIES = [
    "7\t0\t1\tPROP\tPER\tAda Byron", "9\t1\t1\tPROP\tPER\tByron", "7\t3\t3\tPRON\tPER\tShe",
    "-1\t2\t2\tNOM\tFAC\t\"",
]  # fmt: skip


def write_book(folder: Path, changes: dict[str, str] | None = None) -> Path:
    tokens = "".join("\t".join(row) + "\n" for row in [HEAD, *map(str.split, TOKENS)])
    entities = "COREF\tstart_token\tend_token\tprop\tcat\ttext\n" + "\n".join(ENTITIES) + "\n"
    for old, new in (changes or {}).items():
        assert (old in tokens) != (old in entities)
        tokens, entities = tokens.replace(old, new, 1), entities.replace(old, new, 1)
    write(folder / "emma.entities", entities)
    return write(folder / "emma.tokens", tokens)


@pytest.mark.parametrize("given", ["emma.tokens", "emma.entities", ""])
def test_a_book_is_read_from_either_file_or_its_folder(tmp_path: Path, given: str) -> None:
    write_book(tmp_path)
    write(tmp_path / "emma.txt", "Ada")  # beside it, as BookNLP's input often is
    assert detect_format(tmp_path / given)[0] == "booknlp"
    corpus = read_corpus("booknlp", tmp_path / given)
    assert list(corpus) == [
        Document(
            name="emma", part=0, split="train", genre="", words=("Ada", "Byron", '"', "She"),
            sentence_starts=(0, 3),
            mentions=(Mention(0, 2, 7), Mention(1, 2, 9), Mention(3, 4, 7)),
            tags=("NNP", "NNP", "``", "PRP"),
            space_after=(True, False, True, True),
            named_entities=(NamedEntity(0, 2, "PER"),),
        )
    ]  # fmt: skip
    assert corpus.ledger.counts == {"entities_without_chain": 1, "named_entities_inside_others": 1}


@pytest.mark.parametrize(("changes", "message"), [
    ({"word\tlemma": "w\tlemma"}, r"emma.tokens, line 1: .*names of BookNLP's columns.* word"),
    ({"0\t1\t1\tByron": "0\t1\t2\tByron"}, r"emma.tokens, line 3: .* is 2, expected 1"),
    ({"\tShe\t": "\tS he\t"}, r"emma.tokens, line 5: 'S he', expected a string without white"),
    ({"\t4\t9\t": "\t4\tx\t"}, r"emma.tokens, line 3: 'x', expected a number"),
    ({"nsubj\t3\tO\n": "\n"}, r"emma.tokens, line 5: 11 columns, expected 13"),
    ({"7\t3\t3": "7\t3\t4"}, r"emma.entities, line 4: start_token 3 and end_token 4, .*of 4"),
    ({"9\t1\t1": "\u0663\t1\t1"}, r"emma.entities, line 3: '\\u0663', expected a number"),
])  # fmt: skip
def test_bad_input_is_named_with_its_place(tmp_path, changes, message):
    with refused(message):
        list(read_corpus("booknlp", write_book(tmp_path, changes)))


def test_a_book_without_its_other_file_or_without_words_is_refused(tmp_path: Path) -> None:
    path = write_book(tmp_path)
    path.write_text("\t".join(HEAD) + "\n")
    with refused(r"emma.tokens: no words in this file"):
        list(read_corpus("booknlp", path))
    path.with_suffix(".entities").unlink()
    with refused(r"emma.entities: no such file, but BookNLP writes one per book"):
        list(read_corpus("booknlp", tmp_path, bad_documents="skip"))
    with refused(r"no file matches \*.tokens"):
        read_corpus("booknlp", write(tmp_path / "x" / "a.txt", "a").parent)


def test_books_have_the_names_and_splits_of_their_paths(tmp_path: Path) -> None:
    for folder in ("train/a", "dev/a"):
        write_book(tmp_path / folder)
    corpus = read_corpus("booknlp", tmp_path, exclude=["dev/*"])
    assert [(d.name, d.split) for d in corpus] == [("train/a/emma", "train")]
    assert corpus.ledger.excluded == ["dev/a/emma"]
