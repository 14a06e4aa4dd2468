"""A resolver's answers as documents and as labels of tokens."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from written import document_of

from entity_transformers.artifacts import write_json_lines
from entity_transformers.cli import main
from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.document import Mention, to_row
from entity_transformers.corpus.prepare import add_layer
from entity_transformers.corpus.readers import read_corpus
from entity_transformers.resolve.registry import ResolverError, annotate, make_resolver

TEXTS = (
    "then Mr. Darcy bowed to Jane and Jane smiled at Darcy .",
    "so Ada Byron wrote ; later Ada slept .",
)
DOCUMENTS = [document_of(text, [(0, 3, 1)], name=f"d{i}") for i, text in enumerate(TEXTS)]
TOKENIZER = learn_tokenizer(DOCUMENTS, 300, "natural")
ALIGNED = {"split": "train", "policy": "outermost", "spacing": "natural"}
CORPUS = align_split(DOCUMENTS, TOKENIZER, **ALIGNED)
NARROW = """#begin document (d0); part 000
d0 0 0 then -
d0 0 1 Mr. (7
d0 0 2 Darcy 7)
#end document
#begin document (d1); part 000
0 so -
1 Ada (3)
#end document
"""


def test_the_layer_is_gold_of_the_resolver_s_documents() -> None:
    resolver = make_resolver("names")
    layered, counts = add_layer(CORPUS, DOCUMENTS, resolver, "outermost")
    labels = layered.layers["resolver:names"]
    again = align_split(list(annotate(DOCUMENTS, resolver, None, Counter())), TOKENIZER, **ALIGNED)
    assert labels.dtype == CORPUS.gold.dtype
    assert labels.tolist() == again.gold.tolist() != CORPUS.gold.tolist()
    assert np.array_equal(layered.gold, CORPUS.gold)
    assert counts == {"documents": 2, "words": 21, "mentions": 6, "entities": 3}
    own = CORPUS.document(0)
    per_word = dict(zip(CORPUS.words[own].tolist(), labels[own].tolist(), strict=True))
    assert per_word == dict(enumerate([0, 0, 1, 1, 0, 0, 2, 0, 2, 0, 0, 1, 0], start=-1))


def test_a_last_word_without_a_token_of_its_own_is_no_other_document() -> None:
    """In a running text one token may stand for the last two words."""
    first = CORPUS.document(0)
    cut = CORPUS.take(CORPUS.names[:1], np.array([0, first.stop - 1]), slice(0, first.stop - 1))
    assert cut.words.max() + 1 < len(DOCUMENTS[0].words)
    layered, _ = add_layer(cut, DOCUMENTS[:1], make_resolver("names"), "outermost")
    whole, _ = add_layer(CORPUS, DOCUMENTS, make_resolver("names"), "outermost")
    names = [one.layers["resolver:names"].tolist() for one in (layered, whole)]
    assert names[0] == names[1][: first.stop - 1]


def test_chains_are_taken_from_a_file(tmp_path):
    """Of 5 columns and of 3; of the only document, whatever its name."""
    rows = [replace(one, words=one.words[:n]) for one, n in zip(DOCUMENTS, (3, 2), strict=True)]
    (tmp_path / "answers.txt").write_text(NARROW)
    resolver = make_resolver(f"file:{tmp_path / 'answers.txt'}")
    found = [one.mentions for one in annotate(rows, resolver, None, Counter())]
    assert found == [(Mention(1, 3, 7),), (Mention(1, 2, 3),)]
    with pytest.raises(ResolverError, match=r"answers.txt: no document d2#0, expected the names"):
        resolver.resolve(replace(rows[0], name="d2"))
    with pytest.raises(ResolverError, match=r"document d0#0, word 3: 'Darcy', but 'Bingley'"):
        resolver.resolve(replace(rows[0], words=("then", "Mr.", "Bingley")))
    with pytest.raises(ResolverError, match=r"d0#0, word 4: '', but 'bowed' in the annotated"):
        resolver.resolve(replace(rows[0], words=("then", "Mr.", "Darcy", "bowed")))
    (tmp_path / "one.conll").write_text(NARROW.partition("#begin document (d1)")[0])
    assert make_resolver(f"file:{tmp_path / 'one.conll'}").resolve(replace(rows[0], name="d2"))


def test_annotated_documents_are_read_as_a_corpus(tmp_path, caplog):
    caplog.set_level("INFO")
    write_json_lines(tmp_path / "own.jsonl", map(to_row, DOCUMENTS))
    path = tmp_path / "mine.jsonl"
    main(["annotate", str(tmp_path / "own.jsonl"), "--output", str(path)])
    read = list(read_corpus("jsonl", path))
    assert [d.words for d in read] == [d.words for d in DOCUMENTS]
    spans = (1, 3, 1), (5, 6, 2), (7, 8, 2), (10, 11, 1)
    assert read[0].mentions == tuple(Mention(*span) for span in spans)
    assert caplog.messages == ["2 documents, 21 words, 6 mentions, 3 entities"]
