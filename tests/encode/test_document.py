"""A document's reader against loops written out here, and against the scores of the study."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refused import refused
from tiny import VOCABULARY, WIDTH, lively_model, tiny_corpus, tiny_llama
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast
from written import document_of, teach

from entity_transformers import DocumentReader, EntityMemory, add_entity_attention
from entity_transformers.artifacts import read_tokenizer
from entity_transformers.cli.export import save_tokenizer
from entity_transformers.corpus.alignment import END
from entity_transformers.corpus.document import LONGEST_WORD, Mention
from entity_transformers.corpus.labels import give
from entity_transformers.corpus.marked import read_marked
from entity_transformers.corpus.mentions import flatten
from entity_transformers.corpus.tokens import Source
from entity_transformers.encode.document import ENCODES
from entity_transformers.encode.reader import plan_windows
from entity_transformers.models.base import Batch
from entity_transformers.models.ngram import Counts, NGram
from entity_transformers.tasks.perplexity import score_corpus

WINDOW = 8
CORPUS = tiny_corpus(documents=3, shortest=20)
TEXT = "[1 Anna] met [2 Bob] . [1 She] saw [2 him] and [3 a dog] . [3 It] saw [1 her] ."


def make_reader(adapted: bool = False, **how: Any) -> DocumentReader:
    model = lively_model("gpt2e", VOCABULARY, window=WINDOW, entity_values="both").module
    if adapted:  # a GPT-2 with entity attention and the same weights
        plain, weights = lively_model("gpt2", VOCABULARY, window=WINDOW), model.state_dict()
        model = add_entity_attention(plain.module, gate="none", values="both")
        model.load_state_dict(weights)
    return DocumentReader(model, **how)


def document(index: int) -> tuple[np.ndarray, np.ndarray]:
    part = CORPUS.document(index)
    return CORPUS.tokens[part].astype(np.int64), CORPUS.gold[part].astype(np.int64)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return teach(TEXT.replace("[", ""), 300, "every_word")


def read_by_hand(model, tokens, ids, stride: int, memory) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states [N, W] and those of the memory, one window after the other."""
    states = []
    for start, new, end in plan_windows(len(tokens), WINDOW, stride):
        window = torch.tensor(tokens[start:end])[None]
        labels = torch.tensor(ids[start:end])[None]
        hidden = model.transformer(window, entity_ids=labels, memory=memory).last_hidden_state
        fresh = slice(new - start, None)
        memory = memory.write(labels[:, fresh], hidden[:, fresh])
        states.append(hidden[0, fresh])
    return torch.cat(states), memory.states


@pytest.mark.parametrize(("adapted", "stride"), [*((False, n) for n in (WINDOW, 3, 1)), (True, 4)])
@torch.inference_mode()
def test_reading_equals_a_loop_over_windows(adapted: bool, stride: int) -> None:
    """Also where it goes on with the memory of an earlier one."""
    reader = make_reader(adapted, stride=stride)
    tokens, ids = document(0)
    found = reader.read(reader.encode_tokens(tokens, ids))
    start = EntityMemory(1, int(ids.max()), WIDTH)
    expected = read_by_hand(reader.model.module, tokens, ids, stride, start)
    torch.testing.assert_close((found.hidden, found.memory.states), expected, rtol=0, atol=1e-5)
    assert torch.equal(found.entity_states, found.memory.states[0, 1:])
    logits = expected[0][:-1] @ reader.model.output_weight.T
    losses = cross_entropy(logits, torch.tensor(tokens[1:]), reduction="none")
    np.testing.assert_allclose(found.losses[1:], losses.numpy(), rtol=0, atol=1e-5)
    assert found.losses[0] == 0
    assert found.loss == pytest.approx(losses.mean().item(), abs=1e-5)
    assert found.perplexity == pytest.approx(losses.mean().exp().item(), rel=1e-4)
    off = reader.read(reader.encode_tokens(tokens, ids), entities=False)
    assert np.abs(found.losses - off.losses).max() > 0.01
    none = reader.read(reader.encode_tokens(tokens))
    np.testing.assert_array_equal(off.losses, none.losses)
    second, more = document(1)
    alone, later = (
        reader.read(reader.encode_tokens(second, more), memory=memory)
        for memory in (None, found.memory)
    )
    memory = found.memory.grow(int(more.max()))
    expected = read_by_hand(reader.model.module, second, more, stride, memory)
    torch.testing.assert_close((later.hidden, later.memory.states), expected, rtol=0, atol=1e-5)
    assert not torch.allclose(alone.hidden, later.hidden, atol=1e-3)


@torch.inference_mode()
def test_marks_keep_their_numbers_from_text_to_text(tokenizer: Any) -> None:
    """Whoever is named first in the second text is still who was meant."""
    reader = make_reader(tokenizer=tokenizer)
    reader.model.module.resize_token_embeddings(tokenizer.get_vocab_size())
    earlier = reader.read("[1 Anna] met [2 Bob] .")
    more = reader.encode("[2 He] saw [1 her] and [4 a dog] .")
    assert [e for e in more.entity_ids.tolist() if e][:1] == [2]
    assert {*more.entity_ids.tolist()} == {0, 1, 2, 4}
    by_hand = reader.encode_tokens(more.tokens, more.entity_ids)
    found = reader.read("[2 He] saw [1 her] and [4 a dog] .", memory=earlier.memory)
    np.testing.assert_array_equal(found.losses, reader.read(by_hand, memory=earlier.memory).losses)
    only = reader.read("[2 He] left .", memory=earlier.memory)
    assert torch.equal(only.entity_states[0], earlier.entity_states[0])  # Anna is not named
    assert not torch.equal(only.entity_states[1], earlier.entity_states[1])
    swapped = reader.read("[1 He] saw [2 her] and [4 a dog] .", memory=earlier.memory)
    assert np.abs(swapped.losses - found.losses).max() > 1e-5
    written = reader.generate("[2 Bob] met [1 Anna] .", max_new_tokens=2, new_entities=2)
    assert written.entity_ids[-2:].tolist() == [2, 2]


@pytest.mark.parametrize("kind", ["gpt2e", "gpt2", "gpt2-pointer", "lstm"])
def test_losses_are_those_of_the_study(kind: str) -> None:
    model = lively_model(kind, VOCABULARY, window=WINDOW)
    reader = DocumentReader(model, window=WINDOW, stride=4)
    expected = score_corpus(model, give(CORPUS, "gold"), window=WINDOW, stride=4, batch=3)
    for index, part in enumerate(CORPUS.slices):
        found = reader.read(reader.encode_tokens(*document(index))).losses
        np.testing.assert_allclose(found, expected[part], rtol=0, atol=2e-5)


@pytest.mark.parametrize("stride", [WINDOW, 3])
@pytest.mark.parametrize("length", [3, WINDOW, WINDOW + 1, 19])
def test_what_is_written_equals_reading_anew_for_each_token(length: int, stride: int) -> None:
    reader = make_reader(stride=stride)
    torch.manual_seed(2)  # with the embeddings as its head it would repeat its last token
    head = reader.model.module.lm_head
    head.weight = torch.nn.Parameter(torch.randn_like(head.weight))
    tokens, ids = (array[:length] for array in document(0))

    def rule(sofar: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        assert sofar.shape[1] == known.shape[1] + 1 > length  # it sees the whole document
        return torch.where(sofar[:, -1] % 3 == 0, known[:, 1], sofar[:, -1] % 5)

    source = reader.encode_tokens(tokens, ids)
    how = {"max_new_tokens": 15, "do_sample": False, "eos_token_id": None}
    found = reader.generate(source, new_entities=rule, **how)
    slow, given = list(tokens), list(ids)
    for _ in range(15):
        hidden = reader.read(reader.encode_tokens(slow, given)).hidden
        slow.append(int(reader.model.guess(hidden[-1])))
        new = rule(torch.tensor([slow]), torch.tensor([given]))
        given.append(int(new))
    assert found.tokens.tolist() == slow
    assert found.entity_ids.tolist() == given
    assert len(set(slow[length:])) > 1
    off = reader.generate(source, entities=False, **how)
    if length == 19:  # enough has been written by then
        assert off.tokens.tolist() != found.tokens.tolist()
    assert not off.entity_ids[length:].any()


@pytest.mark.parametrize("stop", [
    {"eos_token_id": [3, 5]}, {"stop_strings": ["%"]},
    {"stopping_criteria": [lambda tokens, _: tokens[:, -1] == 5]},
], ids=lambda stop: min(stop))  # fmt: skip
@pytest.mark.parametrize(("length", "stride"), [(WINDOW, 1), (WINDOW, WINDOW), (3, WINDOW)])
def test_a_text_ends_with_the_first_token_that_ends_it(length, stride, stop, tokenizer) -> None:
    """Also if it is the last one of a window."""
    reader = make_reader(stride=stride)
    tokens, ids = (array[:length] for array in document(0))
    assert tokenizer.id_to_token(5) == "%"
    reader.model.module.config.eos_token_id = [3, 5]
    how = {"tokenizer": PreTrainedTokenizerFast(tokenizer_object=tokenizer), "do_sample": False}
    how["logits_processor"] = [lambda _, scores: scores.index_fill(1, torch.tensor([5]), 1e9)]
    found = reader.generate(reader.encode_tokens(tokens, ids), **how, **stop)
    assert found.tokens.tolist() == [*tokens, 5]


def test_marks_mentions_and_a_resolver_say_whose_each_token_is(tokenizer: Any) -> None:
    model = lively_model("gpt2e", tokenizer.get_vocab_size(), window=WINDOW)
    reader = DocumentReader(model, tokenizer)
    marked = reader.encode(TEXT)
    assert reader.decode(marked.tokens[1:]).startswith("Anna met Bob . She saw")
    owners = dict(zip(marked.document.words, _by_word(marked), strict=False))
    assert [owners[word] for word in "Anna She her Bob him met".split()] == [1, 1, 1, 2, 2, 0]
    assert _by_word(reader.encode(document_of("Anna met Bob", [(2, 3, 9)]))) == [0, 0, 1]
    plain = reader.encode("Anna met Bob. Then Anna left Bob.", resolver="names-causal")
    owners = dict(zip(plain.document.words, _by_word(plain), strict=False))
    assert 0 == owners["left"] < min(owners["Anna"], owners["Bob"])
    assert owners["Anna"] != owners["Bob"]


def _by_word(source: Source) -> list[int]:
    return [int(source.entity_ids[source.words == i][0]) for i in range(source.words.max() + 1)]


def test_marks_nest_and_other_brackets_are_text() -> None:
    found = read_marked(r"[1 the mother of [2 Bob]]'s dog [sic], [1 she]. \[7 a\]")
    assert " ".join(found.words) == "the mother of Bob 's dog [ sic ] , she . [ 7 a ]"
    assert found.mentions == (Mention(0, 4, 1), Mention(3, 4, 2), Mention(10, 11, 1))
    pairs = zip(found.words, found.space_after, strict=True)
    text = "".join(word + " " * space for word, space in pairs)
    assert text == "the mother of Bob's dog [sic], she. [7 a]"


@pytest.mark.parametrize(("text", "message"), [
    ("Ann [1 met Bob", r"character 5, near 'Ann \[1 met Bob': the bracket \[ is never closed"),
    ("Ann [1 ] met", r"the mention \[1 \] has no words"),
    ("", "it has no words"),
    ("Al and [0 Ann]", r"character 8, .*: the bracket \[ has the number 0, expected an entity"),
    ("[10000 Ann]", "has the number 10000, expected an entity from 1 to 9,999"),
    (f"[{'7' * 5000} Ann]", "has the number 77777777777777777777, expected an entity"),
    ("[1 Ann] [1]", r"character 9, .* does not open a mention: expected a number from 1 up"),
    ("[1 Ann] [2Bob]", "character 9, .* does not open a mention"),
])  # fmt: skip
def test_unbalanced_marks_say_where(text: str, message: str) -> None:
    with refused(message):
        read_marked(text)


def test_many_marks_and_deep_ones_are_read_in_linear_time() -> None:
    """In less than a second; in quadratic time it would be minutes."""
    started = time.process_time()
    beside = read_marked("[1 Anna] met [2 Bob] . " * 20_000).mentions
    assert beside[-1] == Mention(79_998, 79_999, 2)
    nested = read_marked("[1 a " * 20_000 + "]" * 20_000).mentions
    assert nested[-1] == Mention(19_999, 20_000, 1)
    assert flatten(nested, 20_000, "outermost")[1]["mentions"] == 19_999
    assert time.process_time() - started < 20


@pytest.mark.parametrize("given", ["object", "file"])
def test_a_tokenizer_neither_cuts_nor_fills_nor_varies_a_text(given, tokenizer, tmp_path):
    """As a tokenizer does that was made for batches of another model's training."""
    expected = make_reader(tokenizer=tokenizer).encode(TEXT)
    changed = type(tokenizer).from_str(tokenizer.to_str())
    changed.enable_truncation(4)
    changed.enable_padding(length=64)
    changed.model.dropout = 1.0
    assert changed.encode("Anna").ids != tokenizer.encode("Anna").ids
    changed.save(str(tmp_path / "tokenizer.json"))
    before = changed.to_str()
    found = read_tokenizer(tmp_path / "tokenizer.json") if given == "file" else changed
    assert make_reader(tokenizer=found).encode(TEXT).tokens.tolist() == expected.tokens.tolist()
    assert changed.to_str() == before


def test_a_text_that_cannot_be_read_is_refused_with_its_place(tokenizer: Any) -> None:
    reader, half = make_reader(tokenizer=tokenizer), "Ada waved \ud83d and left."
    longest = f"[1 Ada] met {'x' * (LONGEST_WORD + 1)}"
    for text, resolver, message in (
        (half, None, r"text, character 11: surrogate U\+D83D is not UTF-8"),
        (half, "names", r"text, character 11: surrogate U\+D83D is not UTF-8"),
        (document_of(half), None, "d#0, word 3, character 1: surrogate"),
        (longest, None, r"text, word 4: [\d,]+ characters without"),
        ("x" * 10_000_000, "names", r"text, word 1: [\d,]+ characters without"),
    ):
        with refused(message):
            reader.read(text, resolver)


PAIR = document_of("a b")


@pytest.mark.parametrize(("ask", "message"), [
    (lambda few, _: make_reader(window=9), "window 9, stride 9: expected .* <= window <= 8 tokens"),
    (lambda few, _: make_reader(stride=0), "window 8, stride 0: expected 1 <= stride"),
    (lambda few, _: few.encode_tokens([0, 1, 2], [0, 1]), "3 tokens and 2 entity ids"),
    (lambda few, _: few.encode_tokens([0, 99999]), r"token 99999, expected ids from 0 to \d+"),
    (lambda few, _: few.encode(TEXT), "no tokenizer: give one"),
    (lambda few, _: few.encode(b"Ada"), "bytes: expected a text, or a Document"),
    (lambda few, _: few.generate(TEXT, num_return_sequences=2), "one document is generated: leave"),
    (lambda _, own: own.read("Anna"), r"token \d+, expected ids from"),
    (lambda _, own: own.encode(replace(PAIR, words=(), sentence_starts=())), "d#0: it has no word"),
    (lambda *_: replace(PAIR, tags=("NN",)), "d#0, tags: 1 values, expected 2"),
    (lambda *_: replace(PAIR, space_after=(True,)), "d#0, space_after: 1 values, expected 2"),
    (lambda *_: DocumentReader(3), "int: expected a causal model of transformers"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(ask: Any, message: str, tokenizer: Any) -> None:
    with pytest.raises(ValueError, match=message):
        ask(make_reader(), make_reader(tokenizer=tokenizer))


def test_a_folder_without_a_model_or_a_tokenizer_is_named(tmp_path: Path, tokenizer: Any) -> None:
    with pytest.raises(FileNotFoundError, match="no model there"):
        DocumentReader.from_pretrained(tmp_path)
    make_reader().model.module.save_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no such file: give the path of a tok"):
        DocumentReader.from_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert DocumentReader.from_pretrained(tmp_path).model.kind.name == "gpt2e"


@pytest.mark.parametrize("encodes", ["text", "words"])
@torch.no_grad()
def test_a_text_is_encoded_as_the_model_was_trained(tmp_path: Path, encodes: str) -> None:
    """A model of others on running text, in the precision that is asked for; ours on words."""
    words = "well - known and well - read"
    spaces = (False, False, True, True, False, False, True)
    document = document_of(words, space_after=spaces)
    encoder = Tokenizer(models.BPE())
    encoder.decoder = decoders.ByteLevel()
    encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=[END], show_progress=False)
    encoder.train_from_iterator(["well-known and well-read"] * 3, trainer)
    model = tiny_llama(vocab_size=300, max_position_embeddings=32)
    model.save_pretrained(tmp_path)
    save_tokenizer(encoder, tmp_path, 32, **{ENCODES: encodes})
    reader = DocumentReader.from_pretrained(tmp_path)
    read = reader.read(document)
    whole = encoder.encode("well-known and well-read").ids
    tokens = read.source.tokens
    assert (tokens[1:].tolist() == whole) == (encodes == "text")
    assert reader.decode(tokens) == "well-known and well-read"
    labels = torch.from_numpy(tokens)[None]
    assert read.loss == pytest.approx(float(model(labels, labels=labels).loss), rel=1e-5)
    half = DocumentReader.from_pretrained(tmp_path, precision="bfloat16", running_text=True)
    assert half.encode(document).tokens[1:].tolist() == whole
    assert half.model.module.dtype == torch.bfloat16
    assert half.read(document).hidden.dtype == torch.float32


@pytest.mark.parametrize("kind", ["lstm", "ngram"])
def test_a_model_of_this_package_is_loaded_and_read(kind, tokenizer: Any, tmp_path: Path) -> None:
    """Which transformers knows nothing of; it writes no text."""
    size = tokenizer.get_vocab_size()
    counts = Counts.of([np.array(tokenizer.encode(TEXT).ids)], 3, size, 0)
    model = lively_model("lstm", size) if kind == "lstm" else NGram(counts, 0)
    model.save(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    reader = DocumentReader.from_pretrained(tmp_path, window=WINDOW)
    source = reader.encode(TEXT)
    tokens = torch.from_numpy(source.tokens)[None]
    with torch.no_grad():
        hidden, _ = model.encode(Batch(tokens), model.start(1))
        expected = cross_entropy(model.logits(hidden)[0, :-1], tokens[0, 1:])
    assert reader.read(source).loss == pytest.approx(float(expected), rel=1e-5)
    with pytest.raises(ValueError, match="cannot generate text"):
        reader.generate(source)
