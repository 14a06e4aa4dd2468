"""word2vec and fastText: gensim's own numbers, the same bytes twice, floret's words."""

import hashlib
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tiny import tiny_entry

from entity_transformers.models.static import skipgram
from entity_transformers.models.static.vectors import SubwordVectors, WordVectors

models = pytest.importorskip("gensim.models", reason="needs gensim, extra vectors")
SMALL: dict[str, Any] = {"width": 12, "min_count": 2, "epochs": 2}
CHANGES = {"word2vec": SMALL, "fasttext": SMALL | {"buckets": 300}}
UNKNOWN = ["zéabab", "naïve", "x", "a", "<>", "日本語", "Zoë's", "anti-disestablishment"]


def make_texts() -> list[list[str]]:
    """Texts of words that are the rarer the longer they are."""
    generator = np.random.default_rng(4)
    lexicon = [f"{'xyz'[i % 3]}é{'ab' * (i // 4)}{i}" for i in range(60)]
    ranks = generator.zipf(1.4, (30, 60)) % len(lexicon)
    lengths = generator.integers(1, 60, 30)
    return [[lexicon[r] for r in row[:length]] for row, length in zip(ranks, lengths, strict=True)]


def train(kind: str, texts: list[list[str]], seed: int = 7) -> tuple[WordVectors, int]:
    params = tiny_entry(kind, **CHANGES[kind]).lm
    return skipgram.train(texts, params, seed, lambda epoch, objective: None)


@pytest.mark.parametrize("kind", CHANGES)
def test_the_vectors_are_those_of_a_direct_call_of_gensim(kind: str) -> None:
    texts = make_texts()
    own = {"sg": 1, "negative": 5, "window": 5, "vector_size": 12, "min_count": 2, "epochs": 2}
    own |= {"seed": 7, "workers": 1, "sentences": texts}
    if kind == "word2vec":
        direct = models.Word2Vec(**own, sample=1e-3, alpha=0.025)
    else:
        direct = models.FastText(**own, sample=1e-4, alpha=0.05, bucket=300)
    vectors, fitted = train(kind, texts)
    assert list(vectors.words) == direct.wv.index_to_key
    np.testing.assert_array_equal(vectors.vectors, direct.wv.vectors)
    ngrams = 300 * 12 if kind == "fasttext" else 0
    assert fitted == direct.wv.vectors.size + direct.syn1neg.size + ngrams
    counts = {word: sum(text.count(word) for text in texts) for word in vectors.words}
    assert vectors.counts.tolist() == list(counts.values())
    if isinstance(vectors, SubwordVectors):  # an unknown word is gensim's mean of its n-grams
        expected = np.stack([direct.wv.get_vector(word) for word in UNKNOWN])
        np.testing.assert_allclose(vectors.look_up(UNKNOWN), expected, rtol=0, atol=1e-7)
    assert min(counts.values()) >= 2


AGAIN = """
import hashlib, json, sys
from entity_transformers.kinds import KINDS
for name, values in json.load(sys.stdin).items():
    kind = KINDS[name]
    params = kind.params.model_validate(values["params"])
    vectors = kind.module().train(values["texts"], params, 7, lambda epoch, objective: None)[0]
    array = vectors.look_up([*vectors.words, "unknown"])
    print(hashlib.sha256(array.tobytes()).hexdigest())
"""


def test_the_same_bytes_come_twice_in_another_process() -> None:
    """Which hashes text otherwise."""
    expected, asked = [], {}
    for kind in CHANGES:
        vectors = train(kind, make_texts())[0]
        array = vectors.look_up([*vectors.words, "unknown"])
        expected.append(hashlib.sha256(array.tobytes()).hexdigest())
        params = tiny_entry(kind, **CHANGES[kind]).lm.model_dump()
        asked[kind] = {"params": params, "texts": make_texts()}
    env = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    python, text = [sys.executable, "-c", AGAIN], json.dumps(asked)
    assert subprocess.check_output(python, env=env, input=text, text=True).split() == expected


def test_every_word_of_a_long_document_is_trained_on() -> None:
    """gensim alone leaves out what comes after the 10,000th."""
    generator = np.random.default_rng(1)
    text = [f"w{i}" for i in generator.integers(0, 50, 25_000)]
    params = tiny_entry("word2vec", width=2, min_count=1, sample=0.0, epochs=2, context=1).lm
    cut = [text[:10_000], text[10_000:20_000], text[20_000:], ["w1", "w2"]]
    whole, parts, alone = (
        skipgram.train(texts, params, 1, lambda *epoch: None)[0].vectors
        for texts in ([text, ["w1", "w2"]], cut, [text[:10_000], ["w1", "w2"]])
    )
    np.testing.assert_array_equal(whole, parts)
    assert not np.array_equal(whole, alone)


@pytest.mark.parametrize("sizes", [(3, 6), (2, 2), (1, 4)])
def test_the_same_n_gram_vectors_give_floret_s_words(sizes, tmp_path):
    """floret holds Facebook's fastText: from its matrix of words and n-grams its words follow."""
    floret = pytest.importorskip("floret", reason="needs floret, extra vectors")
    shortest, longest = sizes
    path = tmp_path / "text.txt"
    path.write_text("\n".join(" ".join(text) for text in make_texts()), encoding="utf-8")
    oracle = floret.train_unsupervised(
        str(path), model="skipgram", mode="fasttext", dim=8, minCount=1, bucket=400, epoch=20,
        minn=shortest, maxn=longest, thread=1, verbose=0,
    )  # fmt: skip
    words = oracle.get_words()
    ngrams = oracle.get_input_matrix()[len(words) :]
    assert ngrams.shape == (400, 8)
    none = np.zeros((0, 8), np.float32)
    vectors = SubwordVectors((), np.zeros(0, np.int64), none, ngrams, shortest, longest)
    unknown = [word for word in UNKNOWN if word not in words]
    expected = np.stack([oracle.get_word_vector(word) for word in unknown])
    np.testing.assert_allclose(vectors.look_up(unknown), expected, rtol=0, atol=1e-6)
    assert np.abs(expected).max() > 1e-2
