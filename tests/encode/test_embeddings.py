"""Vectors of words and mentions against loops that read one word, sentence or window at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import lively_model
from written import LEXICON, join_parts, write_documents

from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.encoding import END, spelled_out
from entity_transformers.corpus.mentions import flatten
from entity_transformers.encode import (
    MENTION_ARRAYS,
    embed_mentions,
    embed_splits,
    embed_words,
    embed_words_in_context,
    number_on,
    split_documents,
)
from entity_transformers.encode.mentions import find_head, find_heads
from entity_transformers.encode.words import check_same
from entity_transformers.models.base import LanguageModel

GROUPS = {"nouns": ["NN", "NNP"], "pronouns": ["PRP", "PRP$"]}
WINDOW = 16


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return write_documents(7, longest=39, mentions=9)


@pytest.fixture(scope="module")
def tokenizer(documents):
    return learn_tokenizer(documents, 300, "natural")


@pytest.fixture(scope="module")
def corpus(documents, tokenizer):
    return align_split(documents, tokenizer, split="dev", policy="outermost", spacing="natural")


def build(kind: str, tokenizer, **switches: str) -> LanguageModel:
    return lively_model(kind, tokenizer.get_vocab_size(), window=WINDOW, **switches)


KINDS = ["gpt2", "gpt2e-hidden-last", "gpt2e-both-mean", "bert", "electra"]


@pytest.fixture(scope="module", params=KINDS)
def model(request, tokenizer):
    kind, *rest = request.param.split("-")
    return build(
        kind,
        tokenizer,
        **(dict(zip(("entity_values", "memory_write"), rest, strict=True)) if rest else {}),
    )


def read_plainly(model, ids, states=None) -> np.ndarray:
    with torch.no_grad():
        given = {} if states is None else {"entity_states": states[None]}
        name = {"bert": "bert", "electra": "electra"}.get(model.kind.name, "transformer")
        encoder = getattr(model.module, name)
        found = encoder(torch.tensor([ids]), use_cache=False, **given)
        return found.last_hidden_state[0].numpy()


def pool_plainly(hidden: np.ndarray, pooling: str) -> np.ndarray:
    return {"last": hidden[-1], "first": hidden[0], "mean": hidden.mean(0)}[pooling]


def assert_close(measured: np.ndarray, expected) -> None:
    """Equal up to the rounding of the float16 that vectors are stored in."""
    assert measured.dtype == np.float16
    np.testing.assert_allclose(
        measured.astype(np.float64),
        np.array(expected, np.float64).reshape(measured.shape),
        rtol=2e-3,
        atol=2e-3,
    )


@pytest.mark.parametrize("pooling", ["last", "first", "mean"])
def test_words_alone_equal_one_at_a_time(model, tokenizer, pooling):
    words = [*LEXICON, "extraordinary-harbourwalked", "é"]
    measured = embed_words(model, words, tokenizer, window=WINDOW, pooling=pooling, batch=4)
    assert_close(
        measured,
        [
            pool_plainly(read_plainly(model, tokenizer.encode(" " + word).ids), pooling)
            for word in words
        ],
    )


def test_a_word_that_spells_the_border_of_documents_is_text(model, tokenizer):
    border = tokenizer.token_to_id(END)
    measured = embed_words(
        model, [END, "harbour"], tokenizer, window=WINDOW, pooling="last", batch=4
    )
    with spelled_out(tokenizer):
        ids = tokenizer.encode(f" {END}").ids
    assert border not in ids
    assert_close(measured[:1], [read_plainly(model, ids[-(len(ids) % WINDOW or WINDOW) :])[-1]])
    assert tokenizer.encode(END).ids == [border]


def test_a_word_longer_than_the_window_is_read_in_parts(model, tokenizer):
    word = "zq" * 15
    ids = tokenizer.encode(" " + word).ids
    assert len(ids) > WINDOW
    parts = [ids[start : start + WINDOW] for start in range(0, len(ids), WINDOW)]
    for pooling, expected in (
        ("last", read_plainly(model, parts[-1])[-1]),
        ("first", read_plainly(model, parts[0])[0]),
    ):
        assert_close(
            embed_words(model, ["Ann", word], tokenizer, window=WINDOW, pooling=pooling, batch=4)[
                1
            ],
            expected,
        )


@pytest.mark.parametrize("pooling", ["last", "first", "mean"])
def test_words_in_sentences_equal_one_sentence_at_a_time(model, documents, corpus, pooling):
    expected = []
    for d, document in enumerate(documents):
        part = corpus.document(d)
        tokens, words = corpus.tokens[part], corpus.words[part]
        for sentence in document.sentences():
            inside = np.flatnonzero((words >= sentence.start) & (words < sentence.stop))
            chunks = [inside[start : start + WINDOW] for start in range(0, len(inside), WINDOW)]
            hidden = np.concatenate(
                [read_plainly(model, tokens[chunk].tolist()) for chunk in chunks]
            )
            expected += [pool_plainly(hidden[words[inside] == word], pooling) for word in sentence]
    assert_close(
        embed_words_in_context(
            model, documents, corpus, context="sentence", window=WINDOW, pooling=pooling, batch=3
        ),
        expected,
    )


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_words_in_documents_equal_one_window_at_a_time(model, documents, corpus, pooling):
    expected = []
    for d, document in enumerate(documents):
        part = corpus.document(d)
        tokens, words = corpus.tokens[part].tolist(), corpus.words[part]
        hidden = np.concatenate(
            [
                read_plainly(model, tokens[start : start + WINDOW])
                for start in range(0, len(tokens), WINDOW)
            ]
        )
        expected += [
            pool_plainly(hidden[words == word], pooling) for word in range(len(document.words))
        ]
    assert_close(
        embed_words_in_context(
            model, documents, corpus, context="document", window=WINDOW, pooling=pooling, batch=3
        ),
        expected,
    )


@pytest.mark.parametrize("kept", [0, 3, 6])
def test_more_documents_than_are_aligned_are_refused_before_they_are_cut(documents, corpus, kept):
    with pytest.raises(ValueError, match=f"7 documents, but {kept} are aligned"):
        next(split_documents(documents, corpus.head(kept), tokens=10))


@pytest.mark.parametrize("context", ["word", "sentence", "document"])
@pytest.mark.parametrize("tokens", [1, 5, 60])
def test_words_come_in_parts_that_make_the_whole(
    model, documents, corpus, tokenizer, context, tokens
):
    how = {"context": context, "window": WINDOW, "pooling": "mean", "batch": 3}
    splits = {"train": (documents[:4], corpus.head(4)), "dev": (documents, corpus)}
    whole = join_parts(embed_splits(model, splits, tokenizer, **how))
    parts = list(embed_splits(model, splits, tokenizer, **how, tokens=tokens))
    vectors = [part["vectors"] for part in parts if "vectors" in part]
    assert len(vectors) > 2 or (context, tokens) == ("word", 60)
    joined = join_parts(parts)
    assert joined.keys() == whole.keys() == {"vectors", "train", "dev"}
    for split in splits:
        assert joined[split].dtype == np.int32
        assert joined[split].tolist() == whole[split].tolist()
    assert_close(joined["vectors"], whole["vectors"])


@pytest.mark.parametrize(
    ("tags", "head"),
    [
        (["NNP", "NNP"], 1),  # John Smith
        (["DT", "NN", "IN", "NNP"], 1),  # the president of France
        (["NNP", ",", "NNP"], 0),  # Paris, France
        (["NNP", "POS", "JJ", "NN"], 3),  # John 's old dog
        (["PRP$", "NN", "WP", "VBD", "PRP"], 1),  # his friend who saw her
        (["DT", "IN", "PRP"], 2),  # all of them
        (["DT"], None),  # that
        (["VBD", "IN", "DT"], None),
        ([], None),
    ],
)
def test_find_head(tags, head):
    assert find_head(tags, frozenset({"NN", "NNP", "PRP", "PRP$"})) == head


def list_heads(documents) -> list[tuple[int, int, int, int]]:
    """(document, head word, entity over the split, group) of every kept mention with a head, from
    the documents' own mentions.
    """
    rows, base = [], 0
    for d, document in enumerate(documents):
        numbers: dict[int, int] = {}
        for mention in flatten(document.mentions, len(document.words), "outermost")[0]:
            entity = base + numbers.setdefault(mention.chain, len(numbers))
            head = find_head(
                document.tags[mention.start : mention.end], frozenset({"NN", "NNP", "PRP", "PRP$"})
            )
            if head is not None:
                word = mention.start + head
                rows.append((d, word, entity, 0 if document.tags[word] in GROUPS["nouns"] else 1))
        base += len(numbers)
    return rows


def test_heads_of_an_aligned_split_equal_those_of_its_documents(documents, corpus):
    heads = find_heads(corpus, GROUPS)
    assert list(
        zip(heads.document, heads.word, heads.entity, heads.group, strict=True)
    ) == list_heads(documents)
    for i, (d, word, _, _) in enumerate(list_heads(documents)):
        part = corpus.document(d)
        assert np.flatnonzero(heads.slots == i).tolist() == [
            part.start + t for t in np.flatnonzero(corpus.words[part] == word)
        ]


def read_document_plainly(model, corpus, d, entities) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Hidden states of a document window by window with a dictionary as the memory, and what the
    dictionary holds at its end.
    """
    part = corpus.document(d)
    tokens, ids = corpus.tokens[part].tolist(), corpus.gold[part].tolist()
    vectors, parts = {}, []
    mean = model.memory_write == "mean"
    for start in range(0, len(tokens), WINDOW):
        window = ids[start : start + WINDOW]
        states = (
            torch.stack([torch.tensor(vectors.get(e, np.ones(16, np.float32))) for e in window])
            if entities
            else None
        )
        parts.append(hidden := read_plainly(model, tokens[start : start + WINDOW], states))
        for entity in set(window) - {0}:
            last = first = max(t for t, e in enumerate(window) if e == entity)
            while mean and first > 0 and window[first - 1] == entity:
                first -= 1
            vectors[entity] = hidden[first : last + 1].mean(0)
    return np.concatenate(parts), vectors


@pytest.mark.parametrize("pooling", ["last", "first", "mean"])
def test_mentions_equal_reading_plainly(model, documents, corpus, tokenizer, pooling):
    arrays = embed_mentions(
        model, documents, corpus, tokenizer, GROUPS, window=WINDOW, pooling=pooling, batch=3
    )
    rows = list_heads(documents)
    assert list(arrays) == list(MENTION_ARRAYS)
    assert arrays["entity"].tolist() == [entity for _, _, entity, _ in rows]
    assert arrays["group"].tolist() == [group for *_, group in rows]
    for mode in ("on", "off"):
        read = [
            read_document_plainly(model, corpus, d, mode == "on" and model.can("entities"))
            for d in range(len(documents))
        ]
        memory = [vectors[entity] for _, vectors in read for entity in sorted(vectors)]
        assert_close(arrays[f"memory_{mode}"], memory)
        words = [corpus.words[corpus.document(d)] for d in range(len(documents))]
        assert_close(
            arrays[f"context_{mode}"],
            [pool_plainly(read[d][0][words[d] == word], pooling) for d, word, _, _ in rows],
        )
        alone = []
        for d, word, entity, _ in rows:
            ids = tokenizer.encode(" " + documents[d].words[word]).ids
            given = mode == "on" and model.can("entities")
            states = (
                torch.tensor(arrays["memory_on"][entity].astype(np.float32)).expand(len(ids), -1)
                if given
                else None
            )
            alone.append(pool_plainly(read_plainly(model, ids, states), pooling))
        assert_close(arrays[f"word_{mode}"], alone)


def test_a_word_alone_sees_no_entity_unless_values_come_from_it(documents, corpus, tokenizer):
    """One entity over the whole input: uniform attention over hidden values, whatever the entity
    holds (the paper's equal columns).
    """
    how = {"window": WINDOW, "pooling": "last", "batch": 3}
    models = (build("gpt2e", tokenizer, entity_values=values) for values in ("hidden", "both"))
    hidden, both = (embed_mentions(m, documents, corpus, tokenizer, GROUPS, **how) for m in models)
    assert_close(hidden["word_on"], hidden["word_off"])
    assert abs(hidden["context_on"].astype(float) - hidden["context_off"]).max() > 0.05
    assert abs(both["word_on"].astype(float) - both["word_off"]).max() > 0.05


@pytest.mark.parametrize("tokens", [1, 60])
def test_mentions_of_parts_are_those_of_the_whole(model, documents, corpus, tokenizer, tokens):
    """What a part takes to itself, entities, chains and memories, never leaves its document."""
    how = {"window": WINDOW, "pooling": "last", "batch": 3}
    whole = embed_mentions(model, documents, corpus, tokenizer, GROUPS, **how)
    parts = list(corpus.parts(tokens))
    assert len(parts) > 2
    joined = join_parts(
        number_on(
            embed_mentions(model, documents[part], corpus.part(part), tokenizer, GROUPS, **how)
            for part in parts
        )
    )
    assert joined["entity"].tolist() == whole["entity"].tolist()
    assert joined["group"].tolist() == whole["group"].tolist()
    for name in MENTION_ARRAYS[:-2]:
        assert_close(joined[name], whole[name])


def test_other_documents_than_the_aligned_ones_are_refused(documents, corpus):
    with pytest.raises(ValueError, match="document 0: 'doc1#0' is aligned as 'doc0#0'"):
        check_same(documents[1:], corpus)
    with pytest.raises(ValueError, match="6 documents, but 7 are aligned"):
        check_same(documents[:6], corpus)
