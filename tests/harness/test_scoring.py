"""Continuations with and without a memory, against the reader and one pass per token."""

import sys

import numpy as np
import pytest
import torch
from tiny import lively_model, tiny_gpt2, tiny_llama

from entity_transformers.encode.document import DocumentReader
from entity_transformers.harness import scoring
from entity_transformers.harness.__main__ import main
from entity_transformers.harness.scoring import Pair, find_groups, score_pairs, score_text
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.pretrained import PretrainedLM

WINDOW = 12


def draw(length: int, seed: int) -> tuple[list[int], list[int]]:
    random = np.random.default_rng(seed)
    entities = np.where(random.random(length) < 0.4, random.integers(1, 4, length), 0)
    return random.integers(1, 40, length).tolist(), entities.tolist()


def make_pair(length: int, wanted: int, seed: int, reads: bool) -> Pair:
    tokens, entities = draw(length + wanted, seed)
    known = [*entities[: length - 1], 0]  # what the last one would write is no part of the oracles
    return Pair(tokens[:length], tokens[length:], known if reads else [0] * length)


def predict(model: LanguageModel, tokens: list[int], labels: list[int] | None, memory: object):
    known = None if labels is None else torch.tensor([labels])
    hidden, _ = model.encode(Batch(torch.tensor([tokens]), known), memory)
    return model.logits(hidden[:, -1:])[0, 0]


@pytest.mark.parametrize("kind", ["gpt2e", "gpt2-pointer"])
@pytest.mark.parametrize("reads", [True, False])
def test_pairs_are_scored_with_the_memory_of_what_the_window_leaves_out(kind, reads, monkeypatch):
    """The memory is the document reader's; then one forward pass per token of the continuation.
    The likeliest word is greedy, and so is no word at all.
    """
    monkeypatch.setattr(scoring, "GUESSED", 5)  # as if the words were many
    model = lively_model(kind, window=WINDOW)
    shapes = [(40, 3), (25, 3), (24, 3), (31, 3), (4, 3), (9, 1), (1, 5), (8, 5), (12, 1), (6, 4)]
    shapes += [(1, 0), (2, 0)]
    pairs = [make_pair(*shape, seed=sum(shape), reads=reads) for shape in shapes]
    reader = DocumentReader(model, window=WINDOW)
    found, likely = score_pairs(model, pairs, window=WINDOW, batch=4), []
    for pair, score in zip(pairs, found, strict=True):
        tokens, labels = list(pair.given), list(pair.entities)
        # as many inputs as the last token's window leaves to the first one
        cut = max(0, len(tokens) + len(pair.wanted) - 1 - WINDOW)
        source = reader.encode_tokens(tokens, labels)
        memory = reader.read(source, entities=reads).memory
        total, greedy = 0.0, True
        for token in pair.wanted:
            logits = predict(model, tokens[cut:], labels[cut:] if reads else None, memory)
            total += float(torch.log_softmax(logits.double(), -1)[token])
            greedy &= int(logits.argmax()) == token
            tokens, labels = [*tokens, token], [*labels, 0]
        assert score == (pytest.approx(total, rel=1e-5), greedy)
        if len(pair.wanted) == 1:
            likely.append(Pair(pair.given, [int(logits.argmax())], pair.entities))
    assert all(greedy for _, greedy in score_pairs(model, likely, window=WINDOW, batch=2))
    if reads:
        off = [Pair(pair.given, pair.wanted) for pair in pairs]
        without = score_pairs(model, off, window=WINDOW, batch=4)
        gaps = [a[0] - b[0] for a, b in zip(found, without, strict=True)]
        assert min(map(abs, gaps[:4])) > 1e-3


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("length", [1, 12, 13, 24, 41])
def test_a_whole_text_is_scored_in_windows_with_the_memory_of_those_before(length, reads):
    model = lively_model("gpt2e", window=WINDOW)
    tokens, entities = draw(length, length)
    inputs, labels = [0, *tokens[:-1]], [0, *entities[:-1]]
    memory, total = model.start(1, max(entities)), 0.0
    with torch.no_grad():
        for new in range(0, length, WINDOW):
            end = min(length, new + WINDOW)
            start = max(0, end - WINDOW)
            for place in range(new, end):
                known = labels[start : place + 1] if reads else None
                logits = predict(model, inputs[start : place + 1], known, memory)
                total += float(torch.log_softmax(logits.double(), -1)[tokens[place]])
            if reads:
                part = torch.tensor([inputs[start:end]]), torch.tensor([labels[start:end]])
                _, memory = model.encode(Batch(*part, new=new - start), memory)
    found = score_text(model, tokens, entities if reads else [], prefix=0, window=WINDOW)
    assert found == pytest.approx(total, rel=1e-5)


def test_a_continuation_longer_than_the_window_is_told() -> None:
    model = lively_model("gpt2e", window=WINDOW)
    with pytest.raises(ValueError, match=r"continuation of 13 tokens.*at most 12"):
        score_pairs(model, [make_pair(2, 13, 0, False)], window=WINDOW, batch=1)


def test_where_the_harness_is_not_installed_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval.__main__", None)
    with pytest.raises(SystemExit, match=r"pip install '.\[lm-eval\]'"):
        main()


@pytest.mark.parametrize("made", ["llama", "gpt2"])
def test_what_neighbours_have_in_common_is_read_once(made: str, monkeypatch) -> None:
    """The scores are those of each pair alone; at least the last given token is read with it."""
    sizes = {"vocab_size": 40, "max_position_embeddings": 28}
    module = tiny_llama(**sizes) if made == "llama" else tiny_gpt2(**sizes)
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(8)  # lively, so that a wrong place shows
    model = PretrainedLM(module)
    begin = draw(30, 1)[0]
    pairs = [
        *(Pair(begin[:25], draw(n, n)[0]) for n in (1, 4, 2)),  # three answers to one question
        *(Pair([*begin[:20], n, *begin[22:25]], begin[25:28]) for n in (1, 2)),
        *(Pair([*begin[:9], n, *begin[11:20]], begin[20:25]) for n in (1, 2)),  # too little alike
        *(Pair([*draw(9, 5)[0], 3], draw(n, n)[0]) for n in (2, 3, 1, 3, 2)),  # five are too many
        *(Pair(begin * 2, [n]) for n in (1, 2)),  # more than a window
        *(Pair([n], [2]) for n in (1, 1)),  # nothing before the last given token
        *(Pair([5, 6, n], []) for n in (1, 1)),  # nothing wanted
    ]
    groups = find_groups(pairs, 28, 4)
    assert groups == [([0, 1, 2], 24), ([3, 4], 20), ([7, 8, 9, 10], 9)]
    read: list[int] = []
    encode = PretrainedLM.encode_branches
    monkeypatch.setattr(
        PretrainedLM, "encode_branches",
        lambda *args: read.append(len(args[4])) or encode(*args),
    )  # fmt: skip
    found = score_pairs(model, pairs, window=28, batch=4)
    assert sorted(read) == [2, 3, 4]
    found += score_pairs(model, pairs, window=28, batch=16)  # padded beyond the last position
    found += score_pairs(DocumentReader(module).model, pairs, window=28, batch=4)  # pair by pair
    for pair, (total, greedy) in zip(pairs * 3, found, strict=True):
        inputs, wanted = pair.inputs[-28:], torch.tensor(pair.wanted, dtype=torch.int64)
        with torch.no_grad():
            logits = module(torch.tensor([inputs])).logits[0, len(inputs) - len(wanted) :]
        nats = torch.log_softmax(logits.double(), -1)[torch.arange(len(wanted)), wanted]
        assert total == pytest.approx(float(nats.sum()), rel=1e-5, abs=1e-6)
        assert greedy == bool((logits.argmax(-1) == wanted).all())
