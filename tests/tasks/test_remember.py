"""A text that is read beside what a policy keeps, and written on, against plain forward passes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny import lively_model
from torch.nn.functional import cross_entropy

from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.encode.document import DocumentReader
from entity_transformers.resolve.names import find_names
from entity_transformers.tasks.remember import TextMemory, keep_nothing

WORDS = (
    "Mr. Darcy saw Elizabeth Bennet at Netherfield . Elizabeth did not see Mr. Darcy . Jane Bennet"
    " was there too , and Darcy spoke to Jane . Elizabeth laughed ."
).split()
WINDOW, STRIDE, BUDGET = 16, 8, 12


def make_document(count: int = len(WORDS)) -> Document:
    spaces = tuple(following not in ".," for following in [*WORDS[1:], "."])[:count]
    return Document("d", 0, "train", "", tuple(WORDS[:count]), (0,), space_after=spaces)


TOKENIZER = learn_tokenizer([make_document()] * 3, 290, "natural")


@pytest.fixture
def reader() -> DocumentReader:
    model = lively_model("gpt2", TOKENIZER.get_vocab_size(), window=32)
    return DocumentReader(model.module, TOKENIZER, window=WINDOW, stride=STRIDE)


def make_memory(reader: DocumentReader, count: int = len(WORDS), **how: Any) -> TextMemory:
    resolver = find_names(causal=True)
    return TextMemory(reader, make_document(count), resolver, **{"budget": BUDGET, **how})


@torch.no_grad()
def test_losses_and_guesses_are_those_of_a_plain_loop(reader: DocumentReader) -> None:
    memory = make_memory(reader)
    tokens = torch.from_numpy(memory.source.tokens)
    ways = {"names": memory.keep, "recent": memory.keep_recent, "alone": keep_nothing}
    steps = list(memory.read(ways))
    assert [done for done, _ in steps][-1] == len(tokens)
    found = steps[-1][1]
    for name, keep in ways.items():
        end = 0
        while end < len(tokens) - 1:
            new, end = end, min(end + (STRIDE if end else WINDOW), len(tokens) - 1)
            start = max(0, new + STRIDE - WINDOW) if new else 0
            places = [*keep(start).tolist(), *range(start, end)]
            logits = reader.model.module(tokens[places][None]).logits[0, -(end - new) :]
            targets = slice(new + 1, end + 1)
            losses = cross_entropy(logits, tokens[targets], reduction="none")
            np.testing.assert_allclose(found[name].losses[targets], losses, rtol=1e-4, atol=1e-5)
            assert found[name].expected[targets].tolist() == logits.argmax(-1).tolist()
    assert np.abs(found["names"].losses - found["alone"].losses).max() > 0.01
    assert np.abs(found["names"].losses - found["recent"].losses).max() > 0.01


def test_who_is_known_and_what_is_kept(reader: DocumentReader) -> None:
    memory = make_memory(reader, budget=4)
    assert [(one.forms, one.mentions, one.ago) for one in memory.known()] == [
        (("Elizabeth", "Elizabeth Bennet"), 3, 2),
        (("Jane", "Jane Bennet"), 2, 4),
        (("Darcy", "Mr. Darcy"), 3, 7),
        (("Netherfield",), 1, 23),
    ]
    places = memory.keep(len(memory.past))
    assert len(places) == 4
    assert set(memory.source.words[places]) <= {
        word for m in memory.document.mentions for word in range(m.start, m.end)
    }
    kept = {memory.past.spans[place] for place in places}
    forms = [" ".join(WORDS[m.start : m.end]) for m in memory.document.mentions]
    for one in memory.known():
        assert one.kept == any(i in kept for i, form in enumerate(forms) if form in one.forms)
    assert len({one.kept for one in memory.known()}) == 2


def test_a_nested_mention_is_kept_if_its_words_are(reader: DocumentReader) -> None:
    text = "[4 [1 Jane] Bennet] saw [2 Bob]. Then [3 Carl] came to them."
    memory = TextMemory(reader, text, budget=0)
    memory.budget = int((memory.past.spans > 0).sum())
    assert reader.decode(memory.kept) == " Bob Carl"
    assert {one.forms[0] for one in memory.known() if one.kept} == {"Bob", "Carl"}
    memory.budget = BUDGET
    assert all(one.kept for one in memory.known())


def test_what_surprised_the_model_is_kept(reader: DocumentReader) -> None:
    """Of the text alone, and of one that was extended, where its beginning is not read again."""
    longer = make_memory(reader, policy="surprising").extend(" ".join(WORDS[9:]))
    for memory in (make_memory(reader, policy="surprising"), longer):
        *_, (_, found) = memory.read({"alone": keep_nothing})
        paid = found["alone"].losses
        np.testing.assert_allclose(memory.nats, paid, rtol=1e-4, atol=1e-5)
        for place in (0, BUDGET, len(paid) - 5, len(paid)):
            expected = sorted(sorted(range(place), key=lambda p: -paid[p])[:BUDGET])
            assert memory.keep(place).tolist() == expected


def test_what_is_kept_depends_on_the_text_before_alone(reader: DocumentReader) -> None:
    whole, cut = make_memory(reader), make_memory(reader, 24)
    for place in range(len(cut.past)):
        assert whole.keep(place).tolist() == cut.keep(place).tolist()


@pytest.mark.parametrize("remembers", [True, False])
@torch.no_grad()
def test_it_writes_what_the_model_writes_after_what_is_kept(reader, remembers):
    """More than a window has room for: what was written is read and kept like the rest."""
    memory, module = make_memory(reader), reader.model.module
    module.config.eos_token_id = module.generation_config.eos_token_id = [0, 9]
    # white space and parts of characters would be read with what follows
    left_out = [i for i in range(290) if TOKENIZER.decode([i])[-1:] in ("", " ", "\n", "\ufffd")]
    how = {"suppress_tokens": left_out, "do_sample": False}
    expected, now = "", memory
    for size in (STRIDE, 4):
        start = len(now.past) - (WINDOW - STRIDE)
        kept = now.keep(start).tolist() if remembers else []
        tokens = now.source.tokens[[*kept, *range(start, len(now.past))]].tolist()
        for _ in range(size):
            logits = module(torch.tensor([tokens])).logits[0, -1]
            logits[[*module.config.eos_token_id, *left_out]] = -np.inf
            tokens.append(int(logits.argmax()))
        expected += reader.decode(tokens[-size:])
        now = memory.extend(expected)
    assert memory.continue_text(STRIDE + 4, 1, remembers=remembers, **how) == expected


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_what_it_has_written_is_read_as_it_stands(reader: DocumentReader, stride: int) -> None:
    """Even if a window ends inside a word or a character."""
    reader.window, reader.stride = 32, stride
    script, seen = TOKENIZER.encode("herfield, né  €").ids, []

    def write(tokens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        seen.append([*tokens[0].tolist(), *script[len(seen) :]])
        return scores.index_fill(1, torch.tensor(script[len(seen) - 1]), 1e9)

    memory = TextMemory(reader, "[1 Jane] saw Net", budget=0)
    how = {"logits_processor": [write], "do_sample": False}
    assert memory.continue_text(len(script), 1, **how) == "herfield, né  €"
    assert all(reader.decode(tokens).endswith(" Netherfield, né  €") for tokens in seen)


def test_drawing_is_settled_by_the_seed(reader: DocumentReader) -> None:
    memory = make_memory(reader)
    one, same, other = (memory.continue_text(20, seed, do_sample=True) for seed in (1, 1, 2))
    assert one == same != other


def test_more_text_is_read_like_the_rest(reader: DocumentReader) -> None:
    longer = make_memory(reader, 25).extend(" and Darcy spoke to Jane. Elizabeth\nlaughed.")
    whole = make_memory(reader, 19).extend(" and Darcy spoke to Jane. Elizabeth laughed.")
    assert longer.document.words[25:27] == ("and", "Darcy")
    assert " ".join(whole.document.words[-9:]) == "and Darcy spoke to Jane . Elizabeth laughed ."
    assert {one.forms[0] for one in whole.known()} >= {"Jane", "Darcy"}


@pytest.mark.parametrize("resolver", [None, "names-causal"])
def test_the_mentions_of_a_text_with_marks_are_kept(reader, resolver):
    text = "[7 Darcy] saw [2 Elizabeth] at [3 Netherfield]. [2 She] did not see [7 him] there."
    memory = TextMemory(reader, text, resolver, budget=BUDGET)
    assert [one.mentions for one in memory.known()] == [2, 2, 1]
    assert set(memory.past.entities[memory.keep(len(memory.past))]) <= {2, 3, 7}
    longer = memory.extend(" Elizabeth laughed.")
    assert [one.mentions for one in longer.known()] == [2, 2, 1]
    places = longer.keep(len(longer.past))
    assert reader.decode(longer.kept) == reader.decode(longer.source.tokens[places])


def test_what_it_cannot_read_or_write_is_said(reader: DocumentReader) -> None:
    """Half an emoji with its place; more is refused in the tests of command remember."""
    with pytest.raises(ValueError, match="d#0: has no words to read"):
        make_memory(reader, count=0)
    with pytest.raises(ValueError, match=r"text, character 5: surrogate U\+D83D is not UTF-8"):
        make_memory(reader).extend("and \ud83d")
    lstm = DocumentReader(lively_model("lstm", TOKENIZER.get_vocab_size()), TOKENIZER, window=8)
    with pytest.raises(ValueError, match="LSTM cannot generate text"):
        TextMemory(lstm, replace(make_document())).continue_text(3, 1)
