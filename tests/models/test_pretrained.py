"""Kind pretrained against transformers' own passes over the same weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, tiny_corpus, tiny_gpt2, tiny_llama
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.nn import functional
from transformers import AutoModelForCausalLM, BertConfig, BertModel
from written import write_documents

from entity_transformers.artifacts import read_json, write_json
from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.encode.words import (
    begin_sequences,
    embed_words,
    embed_words_in_context,
)
from entity_transformers.kinds import KINDS, resolve
from entity_transformers.models.base import Batch
from entity_transformers.models.pretrained import (
    PretrainedEncoder,
    PretrainedLM,
    check_fit,
    check_tokens,
    store,
)
from entity_transformers.tasks.perplexity import score_corpus

CORPUS = tiny_corpus(4, seed=3, split="dev")
TOKENS = torch.from_numpy(CORPUS.tokens[:12].astype(np.int64))[None]


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model of transformers with random weights, far from zero."""
    torch.manual_seed(5)
    if request.param == "llama":
        module = tiny_llama(num_hidden_layers=8, tie_word_embeddings=True)
    else:
        module = tiny_gpt2(vocab_size=VOCABULARY, n_layer=8, n_head=4, initializer_range=0.3)
    path = tmp_path_factory.mktemp(request.param)
    module.save_pretrained(path)
    return path


def make_words(count: int) -> Tokenizer:
    """A tokenizer of so many words."""
    return Tokenizer(WordLevel({f"w{i}": i for i in range(count)}, unk_token="w0"))


@pytest.fixture
def model(folder: Path) -> PretrainedLM:
    return PretrainedLM.load(folder).eval()


@pytest.fixture(scope="module")
def plain(folder: Path) -> Any:
    """The model as transformers loads it."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.no_grad()
def plain_losses(plain: Any, tokens: np.ndarray) -> torch.Tensor:
    """Nats of each token but the first, by transformers' own logits."""
    ids = torch.from_numpy(tokens.astype(np.int64))[None]
    return functional.cross_entropy(plain(ids).logits[0, :-1], ids[0, 1:], reduction="none")


@pytest.mark.parametrize(("window", "stride"), [(8, 4), (8, 8), (64, 64)])
def test_windows_are_those_of_the_strided_recipe(model, plain, window, stride):
    """Of transformers' page on perplexity; a window of 64 holds a whole document."""
    found = score_corpus(model, CORPUS, window=window, stride=stride, batch=2)
    for part in map(CORPUS.document, range(2)):
        tokens, expected, previous = CORPUS.tokens[part], [], 1
        for begin in range(0, max(1, len(tokens) - window - 1 + stride), stride):
            end = min(begin + window + 1, len(tokens))
            losses = plain_losses(plain, tokens[begin:end])
            expected += losses[len(losses) - (end - previous) :].tolist()
            previous = end
        np.testing.assert_allclose(found[part][1:], expected, rtol=1e-5, atol=1e-5)


def test_in_bfloat16_states_are_float32_and_losses_close(folder, plain, tmp_path):
    half = PretrainedLM.load(folder, torch.bfloat16)
    half.save(tmp_path)
    again = PretrainedLM.load(tmp_path).eval()
    assert again.output_weight.dtype == torch.bfloat16
    hidden, _ = again.encode(Batch(TOKENS), again.start(1))
    assert hidden.dtype == torch.float32
    losses = again.nats(hidden[:, :-1], TOKENS[:, 1:])[0]
    assert (losses - plain_losses(plain, CORPUS.tokens[:12])).abs().max() < 0.5


def test_the_probe_sees_the_weights_of_every_head(model: PretrainedLM) -> None:
    weights: list[torch.Tensor] = []
    model.show_attention()
    modules = model.attention_modules()["self"]
    assert (len(modules), model.module.config.num_attention_heads) == (8, 4)
    for module in modules:
        module.register_forward_hook(lambda _module, _inputs, output: weights.append(output[1]))
    with torch.no_grad():
        model.encode(Batch(TOKENS), model.start(1))
    sums = torch.stack([one.sum(-1) for one in weights])
    torch.testing.assert_close(sums, torch.ones(8, 1, 4, 12))
    assert {one.shape for one in weights} == {(1, 4, 12, 12)}


def test_a_word_without_a_token_has_its_neighbours_vector(model: PretrainedLM) -> None:
    text = CORPUS.part(slice(0, 1))
    words = text.words.copy()
    words[words == 4] = 3  # its token belongs to the word before it
    count = int(words.max()) + 1
    document = Document(text.names[0].removesuffix("#0"), 0, "dev", "nw", ("a",) * count, (0,), ())
    how = {"context": "document", "window": 64, "batch": 1}
    found = embed_words_in_context(model, [document], replace(text, words=words), **how)
    assert found.any(1).all()
    np.testing.assert_array_equal(found[4], found[3])
    assert not np.array_equal(found[5], found[3])


def test_what_a_pretrained_model_reads_begins_with_the_border_of_documents() -> None:
    """What stands first is where attention rests in large models, and not a word's vector."""
    documents = write_documents(3, longest=30, mentions=2)
    tokenizer = learn_tokenizer(documents, 300, "natural")
    corpus = align_split(documents, tokenizer, split="dev", policy="outermost", spacing="natural")
    model = PretrainedLM(tiny_gpt2(vocab_size=tokenizer.get_vocab_size(), initializer_range=0.3))
    end, how = int(corpus.tokens[0]), {"window": 64, "batch": 2}

    def read(ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            hidden, _ = model.encode(Batch(torch.tensor([[end, *ids]])), model.start(1))
        return hidden[0, 1:].numpy()

    words = ["a", "harbourwalked"]
    found = embed_words(model, words, tokenizer, **how)
    expected = [read(tokenizer.encode(f" {word}").ids)[-1] for word in words]
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)

    found, at = embed_words_in_context(model, documents, corpus, context="sentence", **how), 0
    for d, document in enumerate(documents):
        tokens, places = corpus.tokens[corpus.document(d)], corpus.words[corpus.document(d)]
        for span in document.sentences():
            inside = np.flatnonzero((places >= span.start) & (places < span.stop))
            hidden = read(tokens[inside].tolist())
            for word in span:
                own = hidden[places[inside] == word][-1]
                np.testing.assert_allclose(found[at], own, rtol=2e-3, atol=2e-3)
                at += 1
    assert at == len(found)


def test_a_border_is_put_before_each_part_of_a_sequence_that_has_none() -> None:
    tokens, bounds = np.array([9, 1, 2, 3, 4, 5, 6]), np.array([0, 4, 7])
    empty = begin_sequences(tokens, np.arange(7), np.array([0, 0, 4, 7, 7]), end=9, window=8)
    assert empty[2].tolist() == [0, 0, 4, 8, 8]
    found = begin_sequences(tokens, np.arange(7), bounds, end=9, window=4)
    assert [part.tolist() for part in found] == [
        [9, 1, 2, 9, 3, 9, 4, 5, 6],
        [0, 1, 2, 3, 3, 4, 4, 5, 6],  # whose it is, so that an entity's vector finds it
        [0, 3, 5, 9],
    ]


def test_what_does_not_fit_the_model_is_named(model: PretrainedLM) -> None:
    values = {"kind": "pretrained", "initial_weights": "x", "precision": "float32"}
    fits, longer = (resolve("a", {"a": {**values, "window": n}}, {}, {}, KINDS) for n in (64, 65))
    own, larger = (make_words(count) for count in (VOCABULARY, VOCABULARY + 1))
    check_fit(model, fits, own)
    with pytest.raises(ValueError, match=r"models\.a\.window: 65, but the model has only 64"):
        check_fit(model, longer, own)
    with pytest.raises(ValueError, match=r"models\.a: .* 41 tokens, but the model has 40: give"):
        check_fit(model, fits, larger)
    check_tokens(fits, own, make_words(VOCABULARY))
    # fewer tokens than the model's would be read without an error, as other words
    with pytest.raises(ValueError, match=r"models\.a: the study's tokens are not those of x: set"):
        check_tokens(fits, own, make_words(VOCABULARY - 1))


@pytest.mark.parametrize("why", ["a bias", "logits_scaling"])
def test_logits_that_are_more_than_a_product_of_states_are_refused(why: str) -> None:
    module = tiny_llama()
    if why == "a bias":
        module.lm_head.bias = torch.nn.Parameter(torch.zeros(VOCABULARY))
    else:
        module.config.logits_scaling = 8.0
    with pytest.raises(ValueError, match=rf"^LlamaForCausalLM: .* hidden states \({why}\): write"):
        PretrainedLM(module)


def test_an_encoder_sees_both_sides_and_no_padding(tmp_path: Path) -> None:
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=24, max_position_embeddings=64, initializer_range=0.3,
    )  # fmt: skip
    BertModel(config).save_pretrained(tmp_path)
    model = PretrainedEncoder.load(tmp_path).eval()
    tokens = TOKENS.view(2, 6)
    lengths = torch.tensor([6, 4])
    with torch.no_grad():
        found, _ = model.encode(Batch(tokens, lengths=lengths), model.start(2))
        for row, length in enumerate(lengths):
            alone = model.module(tokens[row : row + 1, :length]).last_hidden_state[0]
            torch.testing.assert_close(found[row, :length], alone)
        later = tokens.clone()
        later[0, 5] += 1
        other, _ = model.encode(Batch(later, lengths=lengths), model.start(2))
    assert not torch.equal(other[0, 0], found[0, 0])


@pytest.mark.parametrize(("precision", "stored", "said", "linked"), [
    ("float32", "float32", {"dtype": "float32"}, True),
    ("bfloat16", "bfloat16", {}, True),
    ("float32", "float32", {"torch_dtype": "bfloat16"}, False),
    ("float32", "float16", {"dtype": "float16"}, False),
    ("bfloat16", "float32", {"dtype": "float32"}, False),
])  # fmt: skip
def test_weights_are_linked_if_precision_fits(folder, tmp_path, precision, stored, said, linked):
    """And where config.json does not say another, in which later steps would read them."""
    source, dtype = tmp_path / "source", getattr(torch, precision)
    PretrainedLM.load(folder, getattr(torch, stored)).save(source)
    config = read_json(source / "config.json")
    write_json(source / "config.json", {k: v for k, v in config.items() if k != "dtype"} | said)
    model = PretrainedLM.load(source, dtype)
    store(model, source, tmp_path / "stored", precision)
    weights = tmp_path / "stored" / "model.safetensors"
    assert weights.samefile(source / "model.safetensors") == linked
    again = PretrainedLM.load(tmp_path / "stored")
    assert again.output_weight.dtype == dtype
    torch.testing.assert_close(again.output_weight, model.output_weight, rtol=0, atol=0)
