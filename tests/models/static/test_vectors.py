"""Static vectors as they are kept: looked up, saved, read by gensim, and what is wrong told."""

from pathlib import Path

import numpy as np
import pytest

from entity_transformers.models.static.vectors import SubwordVectors, WordVectors, count_words, load

WORDS = ("the", "Zoë", "-LRB-", "…", "of")
KINDS = ("word2vec", "fasttext", "glove")


def make_vectors(kind: str = "word2vec") -> WordVectors:
    generator = np.random.default_rng(3)
    vectors = generator.normal(size=(len(WORDS), 6)).astype(np.float32)
    counts = np.array([9, 7, 5, 5, 2], np.int64)
    if kind != "fasttext":
        return WordVectors(WORDS, counts, vectors)
    ngrams = generator.normal(size=(50, 6)).astype(np.float32)
    return SubwordVectors(WORDS, counts, vectors, ngrams=ngrams, shortest=3, longest=6)


def test_a_word_has_its_row_and_an_unknown_one_zeros() -> None:
    vectors = make_vectors()
    found = vectors.look_up(["of", "of", "OF", "Zoë"])
    assert (found.dtype, vectors.width) == (np.float32, 6)
    np.testing.assert_array_equal(found[[0, 1, 3]], vectors.vectors[[4, 4, 1]])
    assert not found[2].any()
    assert vectors.look_up([]).shape == (0, 6)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_vectors_come_back_with_the_same_bits(kind: str, tmp_path: Path) -> None:
    vectors = make_vectors(kind)
    vectors.save(tmp_path, kind)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    loaded = load(tmp_path)
    assert type(loaded) is type(vectors)
    assert loaded.words == WORDS
    for name in ("vectors", "counts", *(["ngrams"] if kind == "fasttext" else [])):
        np.testing.assert_array_equal(getattr(vectors, name), getattr(loaded, name), strict=True)
    if isinstance(loaded, SubwordVectors):
        assert (loaded.shortest, loaded.longest) == (3, 6)


def test_a_folder_without_vectors_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere: no saved model there \(config\.json is"):
        load(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text('{"model_type": "lstm"}')
    with pytest.raises(ValueError, match="a model of type 'lstm', expected static word vectors"):
        load(tmp_path)


def test_gensim_reads_the_text_and_gets_the_same_bits(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models", reason="needs gensim, extra vectors")
    vectors = make_vectors()
    (tmp_path / "vectors.txt").write_text(vectors.render(), encoding="utf-8")
    keyed = models.KeyedVectors.load_word2vec_format(str(tmp_path / "vectors.txt"))
    assert tuple(keyed.index_to_key) == WORDS
    np.testing.assert_array_equal(keyed.vectors, vectors.vectors)


def test_words_are_counted_and_the_rare_ones_left_out() -> None:
    texts = [["b", "a", "c"], ["a", "b", "d"], ["c"]]
    assert list(count_words(texts, 2).items()) == [("b", 2), ("a", 2), ("c", 2)]
    assert list(count_words(texts, 1))[-1] == "d"
    message = "min_count is 3, but no training word occurs more than 2 times: lower it, or train on"
    with pytest.raises(ValueError, match=message):
        count_words(texts, 3)
    with pytest.raises(ValueError, match="more than 0 times"):
        count_words([], 1)
