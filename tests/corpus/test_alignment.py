"""Tokens carry their word's entity: against decoding, spaCy's alignment and the paper's table 1."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spacy.training import Alignment
from tokenizers import Tokenizer, models
from written import document_of, teach

from entity_transformers.artifacts import write_arrays
from entity_transformers.corpus import alignment
from entity_transformers.corpus.alignment import END, AlignedCorpus, align_split, spaced_words
from entity_transformers.corpus.labels import give

TEXT = """`` The U.S. underestimated Noriega all along '' says Ambler Moss a former Ambassador to
Panama . `` He has mastered the art""".split()
CHAINS = [(1, 3, 73), (4, 5, 82), (9, 16, 50), (15, 16, 60), (18, 19, 82)]
BORDERS = st.sampled_from([END, f"{END}{END}", f"a{END}b", END.upper(), "<|endof", "text|>"])
SPACINGS = st.sampled_from(["natural", "every_word"])


def align(documents, tokenizer: Tokenizer, spacing: str = "natural", **how) -> AlignedCorpus:
    how |= {"split": "dev", "policy": "outermost", "spacing": spacing}
    return align_split(documents, tokenizer, **how)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return teach(" ".join(TEXT * 5))


@pytest.fixture(scope="module", params=["trained", "gpt2"])
def any_tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "trained":
        return request.getfixturevalue("tokenizer")
    return alignment.load_gpt2_tokenizer(request.getfixturevalue("shared_data") / "gpt2-bpe")


def test_table_1_gives_each_word_the_outermost_entity() -> None:
    labels = alignment.word_labels(document_of(TEXT, CHAINS), "outermost")
    assert [int(column[-1]) for column in labels] == [0, -1]  # of tokens outside any word
    entity, mention = (column[:-1] for column in labels)
    assert entity.tolist() == [0, 1, 1, 0, 2, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 0, 0, 2, 0, 0, 0, 0]
    kept = {-1: [0, 3, *range(5, 9), 16, 17, *range(19, 23)], 0: [1, 2], 1: [4], 2: [*range(9, 16)]}
    places = {number: np.flatnonzero(mention == number).tolist() for number in (-1, 0, 1, 2, 3)}
    assert places == kept | {3: [18]}


def test_natural_spacing_follows_the_treebank_conventions() -> None:
    first = "`` I do n't ( really ) know , '' said Ann 's son ."
    words = [*first.split(), *'It cost $ 5 , or 3 % : " cheap " !'.split()]
    text = "".join(spaced_words(document_of(words), "natural"))
    assert text == '"I don\'t (really) know," said Ann\'s son. It cost $5, or 3%: "cheap"!'


def lists_of_words(codec: str) -> st.SearchStrategy[list[str]]:
    characters = st.characters(codec=codec, exclude_categories=("Z", "C"))
    texts = st.text(characters, min_size=1, max_size=8)
    return st.lists(texts | BORDERS | st.sampled_from(TEXT), min_size=1, max_size=30)


@settings(max_examples=60)
@given(words=lists_of_words("utf-8"), spacing=SPACINGS)
def test_decoding_returns_the_text_and_no_token_loses_its_word(any_tokenizer, words, spacing):
    document, tokenizer = document_of(words), any_tokenizer
    aligned = align([document], tokenizer, spacing)
    assert np.flatnonzero(aligned.tokens == tokenizer.token_to_id(END)).tolist() == [0]
    parts = spaced_words(document, spacing)
    decoded = tokenizer.decode(aligned.tokens[1:].tolist(), skip_special_tokens=False)
    assert decoded == "".join(parts)
    assert aligned.words[0] == -1
    assert sorted(set(aligned.words[1:].tolist())) == list(range(len(words)))
    for word, part in enumerate(parts):
        own = aligned.words == word
        assert tokenizer.decode(aligned.tokens[own].tolist()) == part
        assert aligned.bytes[own].sum() == len(part.encode())


@settings(max_examples=60)
@given(words=lists_of_words("ascii"), spacing=SPACINGS)
@example(words=TEXT, spacing="natural")
def test_spacy_alignment_agrees(any_tokenizer: Tokenizer, words: list[str], spacing: str) -> None:
    """In ASCII, where each token is a text of its own."""
    document = document_of(words)
    aligned = align([document], any_tokenizer, spacing)
    tokens = [any_tokenizer.decode([token]).strip() for token in aligned.tokens[1:].tolist()]
    kept = [i for i, token in enumerate(tokens) if token]
    parts = [part.strip() for part in spaced_words(document, spacing)]
    found = Alignment.from_strings([tokens[i] for i in kept], parts)
    for row, index in enumerate(kept):
        assert found.x2y[row].tolist() == [aligned.words[1 + index]]


def test_a_word_that_spells_the_border_is_text_and_the_tokenizer_stays_as_it_was(shared_data):
    tokenizer = alignment.load_gpt2_tokenizer(shared_data / "gpt2-bpe")
    saved = tokenizer.to_str()
    aligned = align([document_of(["a", END])], tokenizer)
    assert aligned.tokens.tolist() == [50256, 64, 1279, 91, 437, 1659, 5239, 91, 29]
    assert aligned.words.tolist() == [-1, 0, *[1] * 7]
    assert (tokenizer.to_str(), tokenizer.encode_special_tokens) == (saved, False)
    assert tokenizer.encode(END).ids == [50256]
    assert tokenizer.get_vocab_size() == 50_257


def test_arrays_and_the_layers_of_resolvers_come_back_from_the_file(tmp_path, tokenizer):
    documents = [document_of(TEXT, CHAINS), document_of(["Hello", "."], tags=("UH", "."))]
    aligned = align(documents, tokenizer)
    assert (aligned.given, aligned.layer, aligned.layers) == (None, "none", {})
    found = np.where(aligned.gold == 1, 1, 0).astype(np.int32)
    annotated = give(replace(aligned, layers={"resolver:names": found}), "resolver:names")
    write_arrays(tmp_path / "dev.safetensors", *annotated.arrays())
    loaded = AlignedCorpus.load(tmp_path / "dev.safetensors")
    columns = ("tokens", "gold", "mentions", "words", "tags", "bytes", "offsets")
    for name in ("split", "names", "tag_names", *columns):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(aligned, name))
    assert (loaded.given, loaded.layer, list(loaded.layers)) == (None, "none", ["resolver:names"])
    np.testing.assert_array_equal(loaded.layers["resolver:names"], found)
    assert [loaded.tag_names[t] for t in loaded.tags[loaded.document(1)]][-1] == "."
    counts = alignment.summarise(aligned)
    assert alignment.summarise(loaded) == counts
    names = ("documents", "words", "entities", "mentions", "tokens_in_mentions")
    assert [counts[name] for name in names] == [2, 25, 3, 4, (aligned.gold > 0).sum()]


@pytest.mark.parametrize("most", [1, 6, 12, 30, 1000])
def test_parts_are_whole_documents_that_follow_one_another(tokenizer, most: int) -> None:
    aligned = align([document_of(TEXT[:n], CHAINS[: n > 2]) for n in (5, 3, 9, 1, 4)], tokenizer)
    whole = give(replace(aligned, layers={"resolver:names": aligned.gold * 2}), "gold")
    slices = list(whole.parts(most))
    assert [d for part in slices for d in range(5)[part]] == list(range(5))
    parts = [whole.part(part) for part in slices]
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        assert len(part.tokens) <= most or len(part) == 1
        assert following is None or len(part.tokens) + following.offsets[1] > most
        assert part.offsets[0] == 0
        assert part.offsets[-1] == len(part.tokens)
    for name in ("tokens", "gold", "mentions", "words", "tags", "bytes", "given"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    layers = np.concatenate([part.layers["resolver:names"] for part in parts])
    np.testing.assert_array_equal(layers, aligned.gold * 2)
    assert sum((part.names for part in parts), ()) == whole.names


@pytest.mark.parametrize("arrays", [
    {}, {"documents": np.zeros(1, int)}, {"documents": np.zeros(1, int), "x": np.zeros(1)},
])  # fmt: skip
@pytest.mark.parametrize("metadata", [{}, {"split": "dev", "names": [], "tags": []}])
def test_another_kind_of_file_is_named(tmp_path, arrays: dict, metadata: dict) -> None:
    write_arrays(tmp_path / "dev.safetensors", arrays, metadata)
    told = r"dev\.safetensors: not an aligned corpus of this version .*: run step corpus again"
    with pytest.raises(ValueError, match=told):
        AlignedCorpus.load(tmp_path / "dev.safetensors")


def test_missing_or_cut_gpt2_files_are_named(tmp_path) -> None:
    told = r"has no encoder.json or vocab.json: set tokenizer.path"
    with pytest.raises(FileNotFoundError, match=told):
        alignment.load_gpt2_tokenizer(tmp_path)
    (tmp_path / "encoder.json").write_text('{"a": 0')
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\n")
    told = r"encoder\.json, .*vocab\.bpe: not GPT-2's two files, or truncated"
    with pytest.raises(ValueError, match=told):
        alignment.load_gpt2_tokenizer(tmp_path)


@settings(max_examples=60)
@given(words=lists_of_words("utf-8"), spacing=SPACINGS)
@example(words=["do", "n't", "well", "-", "known", ".", "''"], spacing="natural")
def test_running_text_is_aligned_by_characters(any_tokenizer, words, spacing):
    """Against the words' own characters: a token is of the word that has most of them."""
    document, parts = document_of(words), spaced_words(document_of(words), spacing)
    aligned = align([document], any_tokenizer, spacing, running_text=True)
    text = "".join(parts)
    with alignment.spelled_out(any_tokenizer):
        expected = any_tokenizer.encode(text)
    assert aligned.tokens.tolist() == [any_tokenizer.token_to_id(END), *expected.ids]
    owner = [word for word, part in enumerate(parts) for _ in part]
    for word, (start, end) in zip(aligned.words[1:].tolist(), expected.offsets, strict=True):
        counts = Counter(owner[start:end])
        assert counts[word] == max(counts.values())
    assert aligned.bytes.sum() == len(text.encode())
    if text.isascii():
        assert aligned.bytes[1:].tolist() == [end - start for start, end in expected.offsets]


def test_a_tokenizer_without_offsets_or_border_is_refused() -> None:
    bare = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(ValueError, match=r"none of <\|endoftext\|>, .* to begin a document with"):
        align([document_of(["a"])], bare, running_text=True)
