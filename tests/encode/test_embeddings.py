"""Vectors of words and mentions against loops that read one word, sentence or window at a time."""

from typing import Any

import numpy as np
import pytest
import torch
from plainly import latest_run
from tiny import lively_model
from written import LEXICON, join_parts, write_documents

from entity_transformers.corpus.alignment import END, align_split, learn_tokenizer, spelled_out
from entity_transformers.corpus.mentions import flatten
from entity_transformers.encode import mentions, words
from entity_transformers.encode.mentions import MENTION_ARRAYS, find_head, find_heads, number_on
from entity_transformers.models.base import LanguageModel
from entity_transformers.models.static.vectors import WordVectors

GROUPS = {"nouns": ["NN", "NNP"], "pronouns": ["PRP", "PRP$"]}
TAGS = frozenset({"NN", "NNP", "PRP", "PRP$"})
MODELS = "gpt2 gpt2e-hidden-last gpt2e-both-mean bert electra elmo".split()
WINDOW = 16
HOW: dict[str, Any] = {"window": WINDOW, "batch": 3}
DOCUMENTS = write_documents(7, longest=39, mentions=9)
TOKENIZER = learn_tokenizer(DOCUMENTS, 300, "natural")
CORPUS = align_split(DOCUMENTS, TOKENIZER, split="dev", policy="outermost", spacing="natural")
TOKENS = [CORPUS.tokens[part].tolist() for part in CORPUS.slices]
PLACES = [CORPUS.words[part] for part in CORPUS.slices]
IDS = [CORPUS.gold[part].tolist() for part in CORPUS.slices]


def build(kind: str, **switches: str) -> LanguageModel:
    return lively_model(kind, TOKENIZER.get_vocab_size(), window=WINDOW, **switches)


@pytest.fixture(scope="module", params=MODELS)
def model(request) -> LanguageModel:
    kind, *rest = request.param.split("-")
    return build(kind, **dict(zip(("entity_values", "memory_write"), rest, strict=False)))


@torch.no_grad()
def read_plainly(model, ids, states=None, layers: bool = False) -> np.ndarray:
    """Vectors of tokens that are read alone; ``layers``: all of those that a tagger mixes."""
    if model.kind.name == "elmo":
        network, halves = model.module, []
        for half in (network.forward_half, network.backward_half):
            turn = (lambda x: x) if half is network.forward_half else (lambda x: x.flip(1))
            outputs = [turn(network.embeddings(torch.tensor([ids])))]
            for i, layer in enumerate(half.layers):
                read, _ = layer(outputs[-1])
                outputs.append(read + outputs[-1] if i else read)
            halves.append(torch.stack([turn(x)[0] for x in outputs], dim=1))
        found = torch.cat(halves, dim=-1)
        return (found.flatten(1) if layers else found[:, -1]).numpy()
    given = {} if states is None else {"entity_states": states[None]}
    read = model.module.base_model(torch.tensor([ids]), use_cache=False, **given)
    return read.last_hidden_state[0].numpy()


def read_in_parts(model, ids) -> np.ndarray:
    parts = [ids[start : start + WINDOW] for start in range(0, len(ids), WINDOW)]
    return np.concatenate([read_plainly(model, part, layers=True) for part in parts])


def assert_close(measured: np.ndarray, expected) -> None:
    """Equal up to the rounding of the float16 that vectors are stored in."""
    assert measured.dtype == np.float16
    wanted = np.array(expected, np.float64).reshape(measured.shape)
    np.testing.assert_allclose(measured.astype(np.float64), wanted, rtol=2e-3, atol=2e-3)


def test_words_alone_equal_one_at_a_time(model):
    """Also one that spells the border of documents, and one that is longer than the window."""
    given = [*LEXICON, "extraordinary-harbourwalked", "é", "zq" * 15, END]
    found = words.embed_words(model.encoder(layers=True), given, TOKENIZER, **HOW)
    with spelled_out(TOKENIZER):
        ids = [TOKENIZER.encode(f" {word}").ids for word in given]
    assert TOKENIZER.token_to_id(END) not in ids[-1]
    assert len(ids[-2]) > WINDOW
    assert_close(found, [read_in_parts(model, one)[-1] for one in ids])


@pytest.mark.parametrize("context", ["sentence", "document"])
def test_words_in_context_equal_one_sentence_or_window_at_a_time(model, context):
    expected = []
    for d, document in enumerate(DOCUMENTS):
        spans = [range(-1, len(document.words))]
        for span in document.sentences() if context == "sentence" else spans:
            inside = np.flatnonzero((PLACES[d] >= span.start) & (PLACES[d] < span.stop))
            hidden = read_in_parts(model, [TOKENS[d][i] for i in inside])
            places = PLACES[d][inside]
            expected += [hidden[places == word][-1] for word in span if word >= 0]
    encoder, how = model.encoder(layers=True), {"context": context, **HOW}
    assert_close(words.embed_words_in_context(encoder, DOCUMENTS, CORPUS, **how), expected)


@pytest.mark.parametrize("context", ["word", "sentence", "document"])
@pytest.mark.parametrize("tokens", [1, 60])
def test_words_come_in_parts_that_make_the_whole(model, context, tokens):
    """One row for each distinct word where it is read alone; an empty split has its rows too."""
    how = {"context": context, **HOW}
    splits = {"none": ([], CORPUS.head(0)), "train": (DOCUMENTS[:4], CORPUS.head(4))}
    splits["dev"] = DOCUMENTS, CORPUS
    whole = join_parts(words.embed_splits(model, splits, TOKENIZER, **how))
    joined = join_parts(words.embed_splits(model, splits, TOKENIZER, **how, tokens=tokens))
    assert joined.keys() == whole.keys() == {"vectors", *splits}
    own = {name: [w for one in part for w in one.words] for name, (part, _) in splits.items()}
    for name in splits:
        assert joined[name].dtype == np.int32
        assert joined[name].tolist() == whole[name].tolist()
        assert len(joined[name]) == len(own[name])
    assert_close(joined["vectors"], whole["vectors"])
    distinct = list(dict.fromkeys(own["train"] + own["dev"]))
    if context == "word":
        assert [distinct[i] for i in whole["dev"]] == own["dev"]
        assert_close(whole["vectors"], words.embed_words(model, distinct, TOKENIZER, **HOW))


@pytest.mark.parametrize(("tags", "head"), [
    (["NNP", "NNP"], 1),  # John Smith
    (["DT", "NN", "IN", "NNP"], 1),  # the president of France
    (["NNP", ",", "NNP"], 0),  # Paris, France
    (["NNP", "POS", "JJ", "NN"], 3),  # John 's old dog
    (["PRP$", "NN", "WP", "VBD", "PRP"], 1),  # his friend who saw her
    (["DT", "IN", "PRP"], 2),  # all of them
    (["VBD", "IN", "DT"], None), ([], None),
])  # fmt: skip
def test_find_head(tags, head):
    assert find_head(tags, TAGS) == head


def list_heads() -> list[tuple[int, int, int, int]]:
    """(document, head word, entity over the split, group) of every kept mention with a head."""
    rows, base = [], 0
    for d, document in enumerate(DOCUMENTS):
        numbers: dict[int, int] = {}
        for mention in flatten(document.mentions, len(document.words), "outermost")[0]:
            entity = base + numbers.setdefault(mention.chain, len(numbers))
            head = find_head(document.tags[mention.start : mention.end], TAGS)
            if head is not None:
                word = mention.start + head
                rows.append((d, word, entity, 0 if document.tags[word] in GROUPS["nouns"] else 1))
        base += len(numbers)
    return rows


def test_heads_of_an_aligned_split_equal_those_of_its_documents():
    places, entity = find_heads(CORPUS, GROUPS)
    pairs = zip(places, entity, strict=True)
    assert [(one.document, one.word, e, one.group) for one, e in pairs] == list_heads()
    for one in places:
        start = CORPUS.document(one.document).start
        expected = [start + t for t in np.flatnonzero(PLACES[one.document] == one.word)]
        assert [*range(one.start, one.end)] == expected


def read_document_plainly(model, d, entities) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """States window by window with a dictionary as the memory, and what that holds at the end."""
    vectors, parts = {}, []
    for start in range(0, len(TOKENS[d]), WINDOW):
        window = IDS[d][start : start + WINDOW]
        known = [torch.tensor(vectors.get(e, np.ones(16, np.float32))) for e in window]
        states = torch.stack(known) if entities else None
        hidden = read_plainly(model, TOKENS[d][start : start + WINDOW], states)
        if model.kind.name == "elmo":
            ahead = read_plainly(model, TOKENS[d])[start : start + WINDOW, :16]
            hidden = np.concatenate([ahead, hidden[:, 16:]], 1)
        parts.append(hidden)
        for entity in set(window) - {0}:
            vectors[entity] = hidden[latest_run(window, entity, model.memory_write)].mean(0)
    return np.concatenate(parts), vectors


def embed_mentions(encoder, documents=DOCUMENTS, corpus=CORPUS) -> dict[str, np.ndarray]:
    return mentions.embed_mentions(encoder, documents, corpus, TOKENIZER, GROUPS, **HOW)


def test_mentions_equal_reading_plainly(model):
    arrays = embed_mentions(model.encoder())
    rows = list_heads()
    assert list(arrays) == list(MENTION_ARRAYS)
    assert arrays["entity"].tolist() == [entity for _, _, entity, _ in rows]
    assert arrays["group"].tolist() == [group for *_, group in rows]
    for mode in ("on", "off"):
        given = mode == "on" and model.can("entities")
        read = [read_document_plainly(model, d, given) for d in range(len(DOCUMENTS))]
        memory = [vectors[entity] for _, vectors in read for entity in sorted(vectors)]
        assert_close(arrays[f"memory_{mode}"], memory)
        context = [read[d][0][PLACES[d] == word][-1] for d, word, _, _ in rows]
        assert_close(arrays[f"context_{mode}"], context)
        alone = []
        for d, word, entity, _ in rows:
            ids = TOKENIZER.encode(" " + DOCUMENTS[d].words[word]).ids
            vector = torch.tensor(arrays["memory_on"][entity].astype(np.float32))
            states = vector.expand(len(ids), -1) if given else None
            alone.append(read_plainly(model, ids, states)[-1])
        assert_close(arrays[f"word_{mode}"], alone)


def test_a_word_alone_sees_no_entity_unless_values_come_from_it():
    """Attention over hidden values, whatever the entity holds: the paper's equal columns."""
    models = (build("gpt2e", entity_values=values) for values in ("hidden", "both"))
    hidden, both = map(embed_mentions, models)
    assert_close(hidden["word_on"], hidden["word_off"])
    assert abs(hidden["context_on"].astype(float) - hidden["context_off"]).max() > 0.05
    assert abs(both["word_on"].astype(float) - both["word_off"]).max() > 0.05


@pytest.mark.parametrize("tokens", [1, 60])
def test_mentions_of_parts_are_those_of_the_whole(model, tokens):
    """What a part takes to itself, entities, chains and memories, never leaves its document."""
    encoder, parts = model.encoder(), list(CORPUS.parts(tokens))
    whole = embed_mentions(encoder)
    assert len(parts) > 2
    found = (embed_mentions(encoder, DOCUMENTS[part], CORPUS.part(part)) for part in parts)
    joined = join_parts(number_on(found))
    assert joined["entity"].tolist() == whole["entity"].tolist()
    assert joined["group"].tolist() == whole["group"].tolist()
    for name in MENTION_ARRAYS[:-2]:
        assert_close(joined[name], whole[name])


def test_static_mentions_have_the_vectors_of_head_words_and_of_their_entities_last_words():
    vectors = np.random.default_rng(5).normal(size=(len(LEXICON), 7)).astype(np.float32)
    table = WordVectors(tuple(LEXICON), np.ones(len(LEXICON), np.int64), vectors)
    rows, ends = list_heads(), []
    for d, document in enumerate(DOCUMENTS):
        latest = {entity: document.words[PLACES[d][t]] for t, entity in enumerate(IDS[d])}
        ends += [latest[entity] for entity in sorted(latest) if entity]
    heads = [DOCUMENTS[d].words[word] for d, word, _, _ in rows]
    rank = list(LEXICON).index
    word, memory = (vectors[[*map(rank, own)]].astype(np.float16) for own in (heads, ends))
    entity, group = np.array([row[2:] for row in rows]).T
    expected = (*[word] * 4, *[memory] * 2, entity.astype(np.int32), group.astype(np.uint8))
    found = mentions.embed_static_mentions(table, DOCUMENTS, CORPUS, GROUPS)
    assert list(found) == list(MENTION_ARRAYS)
    for name, array in zip(MENTION_ARRAYS, expected, strict=True):
        np.testing.assert_array_equal(found[name], array, err_msg=name, strict=True)
    assert len(heads) > len(ends) > 10
