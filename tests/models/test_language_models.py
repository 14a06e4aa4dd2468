"""What every kind of language model owes the steps, and that it is transformers' own model."""

import shutil
import sysconfig
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plainly import read_windows
from tiny import AWD_RATES, SMALL, VOCABULARY, lively_model, tiny_corpus, tiny_entry, tiny_model
from torch import Tensor
from torch.nn import functional
from trainings import assert_close, assert_resumes, gradients, make_training, train_each, weights
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

from entity_transformers.kinds import KINDS
from entity_transformers.models import base
from entity_transformers.models.base import Batch, LanguageModel, load_model
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.train.entry import measure_held_out

ROWS, WINDOW, ENTITIES = 3, SMALL["window"], 4
LANGUAGE = {name: kind for name, kind in KINDS.items() if "windows" in kind.can}
REGULARISED = {"dropout": 0.0, "hidden": 24, "activation_penalty": 2.0, **AWD_RATES}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in LANGUAGE if name != "taglm"},  # which learns as elmo does
    "lstm-regularised": ("lstm", REGULARISED),
    "lstm-residual": ("lstm", {"residual": True}),
    "elmo-projected": ("elmo", {"hidden": 24}),
    "gpt2e-both": ("gpt2e", {"entity_values": "both", "memory_write": "mean"}),
    "gpt2e-epochs": ("gpt2e", {"memory_life": "epochs"}),
}
variants = pytest.mark.parametrize(("kind", "changes"), VARIANTS.values(), ids=VARIANTS)


def having(*needs: str) -> pytest.MarkDecorator:
    """For every kind of language model that can all these; static vectors are none."""
    names = [name for name, kind in LANGUAGE.items() if kind.can.issuperset(needs)]
    return pytest.mark.parametrize("model", names, indirect=True)


@pytest.fixture
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return lively_model(request.param)


def make_batch(model: LanguageModel, seed: int = 0) -> Batch:
    """A window of random tokens, with labels where the model reads any."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, VOCABULARY, (ROWS, WINDOW), generator=generator)
    labels = torch.randint(0, ENTITIES + 1, (ROWS, WINDOW), generator=generator)
    return Batch(tokens, labels if model.can("entities") else None)


def say(model: LanguageModel, hidden: Tensor) -> Tensor:
    """Nats of every token [B, T, V], whatever a kind puts behind its hidden states."""
    tokens = torch.arange(VOCABULARY)[:, None, None].expand(-1, *hidden.shape[:2])
    return torch.stack([model.nats(hidden, wanted) for wanted in tokens], -1)


def copy(state: object) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.tensors().items()}  # type: ignore[attr-defined]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Is all that ``one`` has the same in the other, to the bit?"""
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def encode(model: LanguageModel, batch: Batch) -> Tensor:
    """Hidden states of documents that begin with the window."""
    return model.encode(batch, model.start(len(batch.tokens), ENTITIES))[0]


def reached(model: LanguageModel) -> list[bool]:
    """Which tokens' vectors have a gradient?"""
    sizes = (VOCABULARY, VOCABULARY + 1)
    matrix = next(p for p in model.module.parameters() if p.dim() == 2 and len(p) in sizes)
    return (matrix.grad.abs().sum(1) > 0).tolist()


def pack(model: LanguageModel, batch: Batch, lengths: list[list[int]]) -> Batch:
    """The batch with documents of these lengths in each row."""
    positions = torch.tensor([[i for n in row for i in range(n)] for row in lengths])
    if model.context is None:
        return replace(batch, begins=positions == 0)
    return replace(batch, positions=positions)


def cut(batch: Batch, rows: slice, part: slice = slice(None)) -> Batch:
    """A part of some rows alone."""
    labels = None if batch.entity_ids is None else batch.entity_ids[rows, part]
    return Batch(batch.tokens[rows, part], labels)


@having("encode")
def test_equal_seeds_give_equal_weights(model: LanguageModel) -> None:
    """Those that a GPT-2 has too are its own."""
    one, again, other = (tiny_model(model.kind.name, seed=s).module.state_dict() for s in (1, 1, 2))
    if model.kind.name.startswith("gpt2"):
        again |= tiny_model("gpt2", seed=1).module.state_dict()
    assert same(one, again)
    assert not same(one, other)


@having("encode")
@torch.no_grad()
def test_documents_side_by_side_are_as_each_alone(model: LanguageModel) -> None:
    batches = [make_batch(model, seed) for seed in range(2)]
    state, together = model.start(ROWS, ENTITIES), []
    for batch in batches:
        hidden, state = model.encode(batch, state)
        together.append(hidden)
    for row in range(ROWS):
        part, alone = slice(row, row + 1), model.start(1, ENTITIES)
        for batch, hidden in zip(batches, together, strict=True):
            found, alone = model.encode(cut(batch, part), alone)
            expected = hidden[part]
            if model.objective == "mixture":  # what may be copied takes as much room as it needs
                found, expected = say(model, found), say(model, expected)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        own = state.select(part).tensors()
        torch.testing.assert_close(alone.tensors(), own, rtol=1e-5, atol=1e-5)


@having("encode")
@torch.no_grad()
def test_only_a_kind_with_a_state_remembers_an_earlier_window(model: LanguageModel) -> None:
    """And `encode` changes none that it is given."""
    start, later = model.start(ROWS, ENTITIES), make_batch(model, 1)
    before = copy(start)
    hidden, state = model.encode(make_batch(model), start)
    assert hidden.shape == (ROWS, WINDOW, model.width)
    between, alone = copy(state), encode(model, later)
    assert torch.isfinite(hidden).all()
    assert torch.equal(model.encode(later, state)[0], alone) == (not model.can("state"))
    assert bool(state.tensors()) == model.can("state")
    assert same(before, start.tensors())
    assert same(between, state.tensors())
    begun = state.reset(torch.ones(ROWS, dtype=torch.bool))
    assert torch.equal(model.encode(later, begun)[0], alone)


@having("causal")
@torch.no_grad()
def test_no_later_token_is_seen(model: LanguageModel) -> None:
    batch, changed = make_batch(model), make_batch(model)
    changed.tokens[:, 5:] = changed.tokens[:, 5:] % (VOCABULARY - 1) + 1
    if changed.entity_ids is not None:
        changed.entity_ids[:, 5:] = (changed.entity_ids[:, 5:] + 1) % (ENTITIES + 1)
    one, other = encode(model, batch), encode(model, changed)
    torch.testing.assert_close(one[:, :5], other[:, :5], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(one[:, 5:], other[:, 5:], atol=1e-3)


@having("causal")
@torch.no_grad()
def test_nats_and_guesses_are_those_of_the_output_weight(model: LanguageModel) -> None:
    batch = make_batch(model)
    hidden, targets = encode(model, batch), batch.tokens.roll(-1, 1)
    targets[:, -1] = -100
    logits = hidden @ model.output_weight.T
    assert logits.shape == (ROWS, WINDOW, VOCABULARY)
    expected = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    nats = model.nats(hidden, targets)
    torch.testing.assert_close(nats, expected)
    assert (nats.dtype, nats[:, -1].tolist()) == (torch.float32, [0.0] * ROWS)
    assert torch.equal(model.guess(hidden), logits.argmax(-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_losses_of_a_large_vocabulary_are_those_of_all_logits_at_once(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    states = torch.randn(7, 16).to(dtype).requires_grad_()
    weight = torch.randn(9001, 16).to(dtype)
    targets = torch.tensor([0, 2047, 2048, 8191, 9000, base.IGNORED, 5000])
    logits = (states @ weight.T).float()
    expected = functional.cross_entropy(logits, targets, reduction="none")
    losses = base.measure_losses(states, weight, targets)
    torch.testing.assert_close(losses, expected)
    (wanted,) = torch.autograd.grad(expected.sum(), states)
    found = torch.autograd.grad(losses.sum(), states)[0]
    coarse = 1e-5 if dtype is torch.float32 else 1e-2
    torch.testing.assert_close(found, wanted, rtol=coarse, atol=coarse)


LENGTHS = [[3, 5], [8], [1, 1, 6]]


@having("encode")
def test_documents_packed_in_a_row_are_as_each_alone(model: LanguageModel) -> None:
    """In values, to the bit whatever stands in another one, and no gradient passes."""
    batch, changed = make_batch(model), make_batch(model)
    with torch.no_grad():
        packed = encode(model, pack(model, batch, LENGTHS))
        changed.tokens[:, :3] = changed.tokens[:, :3] % (VOCABULARY - 1) + 1
        found = encode(model, pack(model, changed, LENGTHS))
        assert torch.equal(found[0, 3:], packed[0, 3:])
        assert not torch.allclose(found[1, 3:], packed[1, 3:], atol=1e-3)
        for row, lengths in enumerate(LENGTHS):
            for end, length in zip(np.cumsum(lengths), lengths, strict=True):
                part = slice(end - length, end)
                alone = encode(model, cut(batch, slice(row, row + 1), part))
                torch.testing.assert_close(packed[row, part], alone[0], rtol=0, atol=1e-5)
    tokens = replace(cut(batch, slice(1)), tokens=torch.arange(8)[None])
    encode(model, pack(model, tokens, [[3, 5]]))[:, 3:].square().sum().backward()
    assert reached(model) == [3 <= token < 8 for token in range(len(reached(model)))]


@pytest.mark.parametrize("model", ["gpt2", "gpt2e"], indirect=True)
@torch.no_grad()
def test_flex_attention_in_place_of_a_mask_gives_the_same_numbers(model: LanguageModel) -> None:
    """Also in a plain window after packed ones, which goes to SDPA's causal kernel.

    Here without the compiled kernel, which torch 2.13 makes wrong for processors without AVX-512:
    among 40 keys the second query reads another number or NaN, with plain `flex_attention` also.
    Nothing trains with it on a CPU (`train.loop`); `tests/cuda` has the kernel that is used.
    """
    _, state = model.encode(make_batch(model), model.start(ROWS, ENTITIES))
    plain = make_batch(model, 1)
    packed = pack(model, plain, LENGTHS)
    batches = [packed, replace(packed, entity_ids=None), plain]
    expected = [model.encode(batch, state)[0] for batch in batches]
    assert not torch.allclose(expected[0], expected[2], atol=1e-2)
    model.attend_packed()
    with torch.compiler.set_stance("force_eager"):
        found = [model.encode(batch, state)[0] for batch in batches]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(found[2], expected[2])


def test_training_on_a_cpu_takes_the_mask(tmp_path: Path) -> None:
    """torch has no gradient of FlexAttention there; the study need not be changed for it."""
    how = {"kind": "gpt2", "dropout": 0.0, "corpus": tiny_corpus(20)}
    both = train_each(tmp_path, 8, {}, {"attention": "flex"}, **how)
    assert all(any(training.plan[step].packed for step in range(8)) for training in both)
    assert torch.equal(*map(weights, both))


RECURRENT: dict[str, dict[str, Any]] = {
    "lstm": {"residual": True}, "elmo": {"hidden": 24}, "taglm": {},
    "transformer-xl": {"memory_tokens": 24}, "xlnet": {"memory_tokens": 24},
}  # fmt: skip
recurrent = pytest.mark.parametrize("kind", RECURRENT)


@recurrent
@pytest.mark.parametrize("window", [1, 5, 8])
def test_windows_in_a_row_are_read_as_one(kind: str, window: int) -> None:
    """Also where up to five documents begin anywhere in them: each as alone."""
    model = lively_model(kind, **RECURRENT[kind])
    tokens = torch.randint(VOCABULARY, (4, 24), generator=torch.Generator().manual_seed(1))
    whole = read_windows(model, tokens, 24)
    torch.testing.assert_close(read_windows(model, tokens, window), whole, rtol=0, atol=1e-5)
    starts = [[0, 3, 4, 11, 19], [0, 5, 10], [0, 23], [0, 7, 13]]
    begins = torch.zeros(4, 24, dtype=torch.bool)
    for row, firsts in enumerate(starts):
        begins[row, firsts[row % 2 :]] = True  # the first need not be told
    found = read_windows(model, tokens, window, begins)
    for row, firsts in enumerate(starts):
        for first, last in zip(firsts, [*firsts[1:], 24], strict=True):
            alone = read_windows(model, tokens[row : row + 1, first:last], 24)
            torch.testing.assert_close(found[row : row + 1, first:last], alone, rtol=0, atol=1e-5)


@recurrent
def test_read_context_is_refused(kind: str) -> None:
    model = tiny_model(kind)
    with pytest.raises(ValueError, match="first 2 tokens of the window were already read"):
        model.encode(replace(make_batch(model), new=2), model.start(ROWS))


@pytest.mark.parametrize(
    "model", ["bert", "berte", "electra", "xlnet", "elmo", "taglm"], indirect=True
)
@torch.no_grad()
def test_an_encoder_of_both_sides_sees_no_padding(model: LanguageModel) -> None:
    encoder, batch, lengths = model.encoder(), make_batch(model), torch.tensor([3, 8, 1])
    other = torch.where(torch.arange(8) < lengths[:, None], batch.tokens, 9)
    found, changed = (
        encode(encoder, replace(batch, tokens=tokens, lengths=lengths))
        for tokens in (batch.tokens, other)
    )
    later = torch.cat([batch.tokens[:, :7], batch.tokens[:, 7:] % 7], 1)
    seen = encode(encoder, replace(batch, tokens=later))
    assert not torch.allclose(seen[1, 0], found[1, 0], atol=1e-4)
    for row, length in enumerate(lengths.tolist()):
        alone = encode(encoder, cut(batch, slice(row, row + 1), slice(length)))
        torch.testing.assert_close(found[row, :length], alone[0], rtol=0, atol=1e-5)
        assert torch.equal(changed[row, :length], found[row, :length])


@having("entities")
@torch.no_grad()
def test_labels_change_what_is_read_later_and_none_is_as_if_there_were_no_memory(model):
    first, second = make_batch(model), make_batch(model, 1)
    _, state = model.encode(first, model.start(ROWS, ENTITIES))
    read, _ = model.encode(second, state)
    unread, kept = model.encode(Batch(second.tokens), state)
    assert not torch.allclose(say(model, read), say(model, unread), atol=1e-3)
    assert torch.equal(unread, encode(model, Batch(second.tokens)))
    assert same(state.tensors(), kept.tensors())  # nothing is written either


@having("entities")
@torch.no_grad()
def test_documents_that_begin_in_a_window_are_read_with_fresh_vectors(model: LanguageModel) -> None:
    batch, start = make_batch(model, 1), model.start(ROWS, ENTITIES)
    _, state = model.encode(make_batch(model), start)
    fresh = torch.zeros(ROWS, ENTITIES + 1, dtype=torch.bool)
    fresh[1, 1:] = True
    hidden, _ = model.encode(Batch(batch.tokens, batch.entity_ids, fresh=fresh), state)
    for row, known in enumerate((state, start, state)):
        expected, _ = model.encode(batch, known)
        found, alone = (say(model, states[row][None]) for states in (hidden, expected))
        torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-4)


@having("entities")
@torch.no_grad()
def test_what_is_read_again_as_context_is_not_written_again(model: LanguageModel) -> None:
    batch, start = make_batch(model), model.start(ROWS, ENTITIES)
    if not isinstance(start, EntityMemory):
        pytest.skip("tested with its own memory")
    hidden, state = model.encode(Batch(batch.tokens, batch.entity_ids, new=5), start)
    assert batch.entity_ids is not None
    written = start.write(batch.entity_ids[:, 5:], hidden[:, 5:], model.memory_write)
    assert torch.equal(state.states, written.states)


@having("attend")
@torch.no_grad()
def test_attention_weights_are_shown_layer_by_layer(model: LanguageModel) -> None:
    batch = make_batch(model)
    expected = encode(model, batch)
    model.show_attention()
    modules = model.attention_modules()
    reads = model.can("entities") and model.kind.name != "gpt2-pointer"  # at its output alone
    assert set(modules) == ({"self", "entity"} if reads else {"self"})
    seen: list[Tensor] = []
    for module in chain(*modules.values()):
        module.register_forward_hook(lambda module, args, output: seen.append(output[1]))
    torch.testing.assert_close(encode(model, batch), expected, rtol=1e-4, atol=1e-4)
    assert [len(layers) for layers in modules.values()] == [SMALL["layers"]] * len(modules)
    assert len(seen) == SMALL["layers"] * len(modules)
    for shown in seen:
        assert shown.shape == (ROWS, SMALL["heads"], WINDOW, WINDOW)
        torch.testing.assert_close(shown.sum(-1), torch.ones(ROWS, SMALL["heads"], WINDOW))
        assert not shown.triu(1).any()


@having("state")
def test_the_state_is_a_value(model: LanguageModel) -> None:
    """Its documents can be taken, begun anew, put together and kept in a checkpoint."""
    fresh, later = model.start(ROWS, ENTITIES), make_batch(model, 1)
    _, state = model.encode(make_batch(model), fresh)
    before = copy(state)
    for rows in (slice(1, 3), torch.tensor([2, 0]), torch.tensor([True, False, True])):
        assert same({name: before[name][rows] for name in before}, state.select(rows).tensors())
    parts = [state.select(slice(2)).tensors(), state.select(slice(2, None)).tensors()]
    again = fresh.replace({name: torch.cat([part[name] for part in parts]) for name in before})
    with torch.no_grad():
        begun = state.reset(torch.tensor([True, False, True]))
        found, old, new, kept = (
            say(model, model.encode(later, one)[0]) for one in (begun, state, fresh, again)
        )
    torch.testing.assert_close(kept, old)
    for row, expected in enumerate((new, old, new)):
        torch.testing.assert_close(found[row], expected[row], rtol=1e-4, atol=1e-4)
    assert same(before, state.tensors())


@pytest.mark.parametrize(
    "kind", ["berte", "gpt2e", "lstm", "elmo", "taglm", "transformer-xl", "xlnet"]
)
def test_the_gradient_goes_through_the_state_until_it_is_detached(kind: str) -> None:
    for detached in (False, True):
        model, labels = lively_model(kind), torch.tensor([[0, 1, 1, 0, 2, 2, 0, 1]])
        read = [Batch(torch.arange(8)[None] + at, labels) for at in (0, 8)]
        _, state = model.encode(read[0], model.start(1, 2))
        hidden, _ = model.encode(read[1], state.detach() if detached else state)
        hidden.square().sum().backward()
        assert reached(model)[:16] == [not detached] * 8 + [True] * 8
        assert not any(reached(model)[16:])


@having("encode")
def test_a_saved_model_comes_back_with_the_same_bits_and_starts_another(model, tmp_path):
    model.save(tmp_path)
    loaded = load_model(tmp_path, model.kind)
    assert type(loaded) is type(model)
    assert not loaded.module.training
    for name in ("width", "context", "memory_write"):
        assert getattr(loaded, name) == getattr(model, name)
    batch = make_batch(model)
    with torch.no_grad():
        assert torch.equal(encode(model, batch), encode(loaded, batch))
    changes = {"initial_weights": str(tmp_path)}
    begun = tiny_model(model.kind.name, seed=9, **changes)
    assert same(model.module.state_dict(), begun.module.state_dict())
    with pytest.raises(ValueError, match=r"(checkpoint of type|can't be loaded)"):
        tiny_model(model.kind.name, layers=1, **changes)


@having("encode")
def test_a_folder_without_a_model_is_named(model: LanguageModel, tmp_path: Path) -> None:
    message = r"nowhere: no saved model there \(config\.json is missing\): train it first, or"
    with pytest.raises(FileNotFoundError, match=message):
        load_model(tmp_path / "nowhere", model.kind)
    entry = tiny_entry(model.kind.name, initial_weights=str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=message):
        base.build_model(entry, VOCABULARY, 0, seed=1)


CUT, SPARE = [name for name, kind in KINDS.items() if kind.cuts], {"window": 4, "positions": 8}


@pytest.mark.parametrize(("kind", "saved", "window", "other", "told"), [
    *((kind, {}, 4, {"window": 16}, "checkpoint of type") for kind in CUT),
    *((kind, SPARE, 8, {"positions": 3}, "positions 3 are fewer than the window's 8 tokens")
      for kind in ("bert", "berte", "electra")),
])  # fmt: skip
@torch.no_grad()
def test_a_model_starts_one_of_another_window(kind, saved, window, other, told, tmp_path):
    """A GPT of more positions one of a shorter window, as who fine-tunes GPT-2 in windows of 512;
    a model with spare positions one of a longer window, as BERT's authors did, first in windows of
    128 tokens: what it reads there is what the other reads.
    """
    first, start = lively_model(kind, **saved), {"initial_weights": str(tmp_path)}
    first.save(tmp_path)
    begun = tiny_model(kind, seed=9, window=window, **start)
    assert (first.context, begun.context) == (8, window)
    part = cut(make_batch(begun), slice(None), slice(4))
    assert torch.equal(encode(first, part), encode(begun, part))
    begun.save(tmp_path / "begun")
    assert load_model(tmp_path / "begun", begun.kind).context == window
    with pytest.raises(ValueError, match=told):
        tiny_model(kind, **start, **other)


@pytest.mark.parametrize("kind", ["gpt2e", "gpt2-pointer"])
def test_what_is_new_in_a_shorter_window_is_what_the_seed_draws(kind: str, tmp_path: Path) -> None:
    lively_model("gpt2").save(tmp_path)
    changes = {"initial_weights": str(tmp_path)}
    for seed in (3, 4):
        whole = tiny_model(kind, seed=seed, **changes).module.state_dict()
        short = tiny_model(kind, seed=seed, window=4, **changes).module.state_dict()
        assert whole.keys() == short.keys()
        assert all(torch.equal(whole[name][: len(own)], own) for name, own in short.items())


REFERENCES: dict[str, tuple[Any, str]] = {
    "gpt1": (AutoModelForCausalLM, "OpenAIGPTLMHeadModel"),
    "gpt2": (AutoModelForCausalLM, "GPT2LMHeadModel"),
    "gpt2-antecedent": (AutoModelForCausalLM, "GPT2LMHeadModel"),
    "transformer-xl": (AutoModelForCausalLM, "XLNetLMHeadModel"),
    "bert": (AutoModelForMaskedLM, "BertForMaskedLM"),
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_transformers_reads_the_saved_folder_alike(kind: str, tmp_path: Path) -> None:
    """Hidden states, probabilities, where dropout falls and, of a GPT, every gradient."""
    memory = {"memory_tokens": 0} if kind == "transformer-xl" else {}
    model = lively_model(kind, dropout=0.3, **memory)
    model.save(tmp_path)
    auto, name = REFERENCES[kind]
    other = auto.from_pretrained(tmp_path).eval()
    assert type(other).__name__ == name
    tokens = make_batch(model).tokens
    for part in (tokens, tokens[:, :5]):
        with torch.no_grad():
            hidden = encode(model, Batch(part))
            expected = other.base_model(part).last_hidden_state
            logits = other(part).logits
            bare = AutoModel.from_pretrained(tmp_path).eval()(part).last_hidden_state
        torch.testing.assert_close(hidden, expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(hidden, bare, rtol=0, atol=1e-5)
        nats = functional.cross_entropy(logits.transpose(1, 2), part, reduction="none")
        torch.testing.assert_close(model.nats(hidden, part), nats, rtol=0, atol=1e-4)
        assert torch.equal(model.guess(hidden), logits.argmax(-1))
    if kind.startswith("gpt"):
        other(tokens, labels=tokens).loss.backward()
        hidden = encode(model, Batch(tokens[:, :-1]))
        model.nats(hidden, tokens[:, 1:]).mean().backward()
        found, wanted = ([p.grad for p in m.parameters()] for m in (model.module, other))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    model.module.train()
    with torch.no_grad():
        torch.manual_seed(5)  # one row: transformers draws anew for the places of each
        found = encode(model, Batch(tokens[:1]))
        torch.manual_seed(5)
        expected = other.train().base_model(tokens[:1]).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert not torch.allclose(found[:, :1], hidden[:1, :1], atol=1e-3)


@having("encode")
@torch.no_grad()
def test_dropout_is_on_in_training_alone(model: LanguageModel) -> None:
    batch = make_batch(model)
    assert torch.equal(encode(model, batch), encode(model, batch))
    model.module.train()
    assert not torch.equal(encode(model, batch), encode(model, batch))


V, N = VOCABULARY, SMALL["window"]
FORMULAS: list[tuple[str, dict[str, Any], int]] = [
    ("gpt1", {"layers": 3, "width": 8}, (V + N) * 8 + 3 * (12 * 8**2 + 13 * 8)),
    ("gpt2", {}, (V + N) * 16 + 2 * (12 * 16**2 + 13 * 16) + 32),
    ("transformer-xl", {"layers": 3}, V * 16 + 3 * (13 * 16**2 + 11 * 16)),
    ("transformer-xl", {"window": 32}, V * 16 + 2 * (13 * 16**2 + 11 * 16)),
    ("xlnet", {}, V * 16 + 2 * (13 * 16**2 + 11 * 16) + 16),
    # tokens, the mask, positions, two segments, a norm; blocks; the head
    ("bert", {}, (V + N + 5) * 16 + 2 * (12 * 16**2 + 13 * 16) + 16**2 + 3 * 16 + V + 1),
    ("bert", {"positions": 3 * N}, (V + 3 * N + 5) * 16 + 2 * (12 * 16**2 + 13 * 16) + 16**2
     + 3 * 16 + V + 1),
    # its generator is a quarter as wide; the two ends of both
    ("electra", {}, (V + N + 5) * 16 + 2 * sum(12 * w**2 + 13 * w for w in (16, 4))
     + (16**2 + 2 * 16 + 1) + (16 * 4 + 4) + (4 * 16 + 3 * 16 + V + 1)),
    ("elmo", {}, V * 16 + 16**2 + 16 + 2 * 2 * 8 * 16 * 17),
    ("elmo", {"hidden": 24, "layers": 3}, V * 16 + 16**2 + 16 + 2 * 3 * (8 * 24 * 17 + 24 * 16)),
    ("awd-lstm", {}, V * 16 + 2 * 4 * 16 * (16 + 16 + 2) + 16**2 + 16),
    ("lstm", {"layers": 1}, V * 16 + 4 * 16 * (16 + 16 + 2) + 16**2 + 16),
    ("lstm", REGULARISED, V * 16 + 4 * 24 * (16 + 24 + 2) + 4 * 16 * (24 + 16 + 2) + 16**2 + 16),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "changes", "expected"), FORMULAS, ids=str)
def test_parameters_are_as_many_as_the_formula_says(kind, changes, expected):
    assert tiny_model(kind, **changes).count_parameters() == expected


@variants
def test_a_resumed_run_ends_in_the_same_bytes(kind, changes, tmp_path):
    """With two windows in a step: one window is test_kept's and test_averaging's."""
    how = {"checkpoint_every": 2, "validate_every": 4, "memory_gradient_windows": 1} | changes
    assert_resumes(tmp_path, kind, steps=6, stop=3, begun=2, **how)


@variants
@pytest.mark.parametrize("windows", [0, 1])  # before a step's own with its gradient
def test_recomputation_gives_the_same_gradients(kind, changes, windows, tmp_path):
    """With dropout and masks; and every weight has a gradient."""
    how = {"documents_per_step": 4, "memory_gradient_windows": windows} | changes
    again = [{"gradient_checkpointing": value} for value in (False, True)]
    plain, other = train_each(tmp_path, 0, *again, kind=kind, **how)
    assert_close(found := gradients(plain), gradients(other))
    unread = dict(plain.model.module.named_parameters()).keys() - found.keys()
    assert all(name.startswith("entity_pointer") for name in unread)  # nothing to copy yet


@pytest.mark.parametrize("kind", LANGUAGE)
def test_training_lowers_the_held_out_loss(kind: str, tmp_path: Path) -> None:
    """In bfloat16: each document repeats one token, which its neighbours tell."""
    corpora = []
    for seed, split in ((0, "train"), (9, "dev")):
        corpus = tiny_corpus(12, seed=seed, split=split)
        names = np.repeat(np.arange(12) % 5 + 1, np.diff(corpus.offsets)).astype(np.int32)
        names[corpus.offsets[:-1]] = 0
        corpora.append(replace(corpus, tokens=names))
    training = make_training(
        tmp_path, kind, corpus=corpora[0], steps=30, learning_rate=2e-2, documents_per_step=8,
        dropout=0.0, precision="bfloat16",
    )  # fmt: skip
    before = measure_held_out(training.model.eval(), corpora[1], training.params)
    for _ in range(30):
        training.train_step()
    assert training.progress.skipped_steps == 0
    after = measure_held_out(training.model.eval(), corpora[1], training.params)
    assert after < 0.75 * before


OF_OTHERS = ("awd-lstm", "gpt2e-epochs")
"""Of which torch compiles what it compiles of lstm-regularised and of gpt2e."""
TO_KERNELS = ("gpt2", "gpt2e", "lstm")
"""Compiled to the end; of the others torch captures the same graphs, and runs them uncompiled."""


@pytest.mark.slow
@pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++")))
    or not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists(),
    reason="torch.compile needs a C++ compiler and Python's headers, which this machine lacks",
)
@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in OF_OTHERS])
def test_a_compiled_model_trains_as_the_plain_one(name, tmp_path, monkeypatch):
    if name not in TO_KERNELS:
        own = torch.nn.Module.compile
        monkeypatch.setattr(
            torch.nn.Module, "compile", lambda part, mode: own(part, backend="aot_eager")
        )
    kind, changes = VARIANTS[name]
    how = {"dropout": 0.0, "memory_gradient_windows": 0} | changes
    if kind not in ("awd-lstm", "elmo", "lstm"):  # a Transformer, whose blocks are alike
        how["layers"] = 1
    both = train_each(tmp_path, 0, {"compile": "off"}, {"compile": "default"}, kind=kind, **how)
    assert_close(*map(gradients, both), 1e-5)


@pytest.mark.parametrize("model", ["bert", "gpt1", "gpt2", "xlnet"], indirect=True)
def test_activations_are_computed_twice_only_where_it_is_asked_for(model: LanguageModel) -> None:
    calls: list[int] = []
    layer = next(m for m in model.module.modules() if isinstance(m, torch.nn.ModuleList))[0]
    next(layer.children()).register_forward_pre_hook(lambda *given: calls.append(1))
    model.module.train()
    encode(model, make_batch(model)).square().sum().backward()
    assert len(calls) == 1
    model.checkpoint_activations()
    encode(model, make_batch(model)).square().sum().backward()
    assert len(calls) == 1 + 2


@pytest.mark.parametrize(("kind", "saved", "changes", "told"), [
    ("gpt1", "gpt2", {}, r"type 'gpt2', expected 'openai-gpt': name another"),
    ("bert", "gpt2", {}, r"type 'gpt2', expected 'bert': name another"),
    ("electra", "gpt2", {}, r"type 'gpt2', expected 'electra': name another"),
    ("berte", "bert", {}, "a model without entity attention: name another folder"),
    ("elmo", "taglm", None, r"type 'taglm', expected 'elmo': name another"),  # its weights fit
    ("transformer-xl", "gpt1", {}, r"type 'openai-gpt', expected 'xlnet': name another"),
    ("transformer-xl", "xlnet", {}, r"attn_type 'bi', expected 'uni' of a Transformer-XL"),
    ("xlnet", "transformer-xl", {}, r"attn_type 'uni', expected 'bi' of an XLNet"),
    ("gpt1", "gpt1", {"width": 32}, r"h\.0\.attn\.c_attn\.bias is \[48\], not \[96\]"),
    ("gpt1", "gpt1", {"window": 16}, r"positions_embed\.weight is \[8, 16\], not \[16, 16\]"),
    ("gpt1", "gpt1", {"layers": 3}, r"h\.2\.attn\.c_attn\.bias is missing"),
    ("gpt1", "gpt1", {"layers": 1}, r"h\.1\.attn\.c_attn\.bias is unexpected"),
    ("elmo", "elmo", {"hidden": 24}, "can't be loaded .*Error"),
    ("lstm", "lstm", {"hidden": 24}, "can't be loaded .*size mismatch"),
])  # fmt: skip
def test_weights_of_another_model_or_shape_are_refused(kind, saved, changes, told, tmp_path):
    tiny_model(saved).save(tmp_path)
    if kind != saved:
        with pytest.raises(ValueError, match=told):
            load_model(tmp_path, KINDS[kind])
    if changes is not None:
        with pytest.raises(ValueError, match=told):
            tiny_model(kind, initial_weights=str(tmp_path), **changes)
