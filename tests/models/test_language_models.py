"""What every kind of language model owes the steps, by its capabilities: a new kind is tested by
being there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import SMALL, VOCABULARY, WIDTH, lively_model, tiny_entry, tiny_model
from torch import Tensor
from torch.nn import functional

from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.registry import build_model, load_model

ROWS, WINDOW, ENTITIES = 3, SMALL["window"], 4


def having(*needs: str) -> pytest.MarkDecorator:
    """For every kind of language model that can all these; static vectors are none."""
    kinds = {name: kind for name, kind in KINDS.items() if "static" not in kind.can}
    names = [name for name, kind in kinds.items() if kind.can.issuperset(needs)]
    return pytest.mark.parametrize("model", names, indirect=True)


@pytest.fixture
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return lively_model(request.param)


def make_batch(model: LanguageModel, seed: int = 0, rows: int = ROWS) -> Batch:
    """A window of random tokens, with labels where the model reads any."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, VOCABULARY, (rows, WINDOW), generator=generator)
    labels = torch.randint(0, ENTITIES + 1, (rows, WINDOW), generator=generator)
    return Batch(tokens, labels if model.can("entities") else None)


def say(model: LanguageModel, hidden: Tensor) -> Tensor:
    """Nats of every token [B, T, V], whatever a kind puts behind its hidden states."""
    tokens = torch.arange(VOCABULARY)[:, None, None].expand(-1, *hidden.shape[:2])
    return torch.stack([model.nats(hidden, wanted) for wanted in tokens], -1)


def copy(state: object) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.tensors().items()}  # type: ignore[attr-defined]


@having("encode")
def test_a_built_model_is_of_its_kind_and_shape(model: LanguageModel) -> None:
    assert KINDS[model.kind.name] is model.kind
    assert model.width == WIDTH
    assert model.context in (WINDOW, None)
    assert model.memory_write in ("last", "mean")
    assert model.count_parameters() == sum(p.numel() for p in set(model.module.parameters()))
    assert model.device.type == "cpu"
    assert model.eval() is model.to("cpu") is model
    assert not model.module.training


@having("encode")
def test_equal_seeds_give_equal_weights(model: LanguageModel) -> None:
    one, again, other = (tiny_model(model.kind.name, seed=s).module.state_dict() for s in (1, 1, 2))
    assert all(torch.equal(tensor, again[name]) for name, tensor in one.items())
    assert any(not torch.equal(tensor, other[name]) for name, tensor in one.items())


@having("encode")
@torch.no_grad()
def test_encode_gives_a_hidden_state_per_token_and_changes_no_state(model: LanguageModel) -> None:
    batch, start = make_batch(model), model.start(ROWS, ENTITIES)
    before = copy(start)
    hidden, state = model.encode(batch, start)
    assert hidden.shape == (ROWS, WINDOW, model.width)
    assert torch.isfinite(hidden).all()
    for name, tensor in before.items():
        assert torch.equal(start.tensors()[name], tensor)
    between = copy(state)
    model.encode(make_batch(model, 1), state)
    for name, tensor in between.items():
        assert torch.equal(state.tensors()[name], tensor)


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
            labels = None if batch.labels is None else batch.labels[part]
            found, alone = model.encode(Batch(batch.tokens[part], labels), alone)
            expected = hidden[part]
            if model.objective == "mixture":  # what may be copied takes as much room as it needs
                found, expected = say(model, found), say(model, expected)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        for name, tensor in state.select(part).tensors().items():
            torch.testing.assert_close(alone.tensors()[name], tensor, rtol=1e-5, atol=1e-5)


@having("encode")
@torch.no_grad()
def test_only_a_kind_with_a_state_remembers_an_earlier_window(model: LanguageModel) -> None:
    start = model.start(ROWS, ENTITIES)
    _, state = model.encode(make_batch(model), start)
    after, alone = (model.encode(make_batch(model, 1), known)[0] for known in (state, start))
    assert torch.equal(after, alone) == (not model.can("state"))
    assert bool(state.tensors()) == model.can("state")
    begun = state.reset(torch.ones(ROWS, dtype=torch.bool))
    assert torch.equal(model.encode(make_batch(model, 1), begun)[0], alone)


@having("causal")
@torch.no_grad()
def test_no_later_token_is_seen(model: LanguageModel) -> None:
    batch, start = make_batch(model), model.start(ROWS, ENTITIES)
    tokens = batch.tokens.clone()
    tokens[:, 5:] = tokens[:, 5:] % (VOCABULARY - 1) + 1
    labels = None
    if batch.labels is not None:
        labels = batch.labels.clone()
        labels[:, 5:] = (labels[:, 5:] + 1) % (ENTITIES + 1)
    one, other = (model.encode(b, start)[0] for b in (batch, Batch(tokens, labels)))
    torch.testing.assert_close(one[:, :5], other[:, :5], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(one[:, 5:], other[:, 5:], atol=1e-3)


@having("causal")
@torch.no_grad()
def test_nats_and_guesses_are_those_of_the_output_weight(model: LanguageModel) -> None:
    batch = make_batch(model)
    hidden, _ = model.encode(batch, model.start(ROWS, ENTITIES))
    targets = batch.tokens.roll(-1, 1)
    targets[:, -1] = -100
    logits = hidden @ model.output_weight.T
    assert logits.shape == (ROWS, WINDOW, VOCABULARY)
    expected = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    nats = model.nats(hidden, targets)
    torch.testing.assert_close(nats, expected)
    assert (nats.dtype, nats[:, -1].tolist()) == (torch.float32, [0.0] * ROWS)
    assert torch.equal(model.guess(hidden), logits.argmax(-1))


@having("encode")
@torch.no_grad()
def test_documents_packed_in_a_row_are_as_each_alone(model: LanguageModel) -> None:
    if model.context is None:
        pytest.skip("has no window to pack: it is told where documents begin")
    batch = make_batch(model, rows=1)
    positions = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2]])
    whole = Batch(batch.tokens, batch.labels, positions)
    packed, _ = model.encode(whole, model.start(1, ENTITIES))
    for part in (slice(0, 5), slice(5, 8)):
        labels = None if batch.labels is None else batch.labels[:, part]
        alone, _ = model.encode(Batch(batch.tokens[:, part], labels), model.start(1, ENTITIES))
        torch.testing.assert_close(packed[:, part], alone, rtol=1e-5, atol=1e-5)


@having("entities")
@torch.no_grad()
def test_labels_change_what_is_read_later_and_none_is_as_if_there_were_no_memory(
    model: LanguageModel,
) -> None:
    first, second = make_batch(model), make_batch(model, 1)
    start = model.start(ROWS, ENTITIES)
    _, state = model.encode(first, start)
    read, _ = model.encode(second, state)
    unread, kept = model.encode(Batch(second.tokens), state)
    assert not torch.allclose(say(model, read), say(model, unread), atol=1e-3)
    assert torch.equal(unread, model.encode(Batch(second.tokens), start)[0])
    for name, tensor in state.tensors().items():  # nothing is written either
        assert torch.equal(kept.tensors()[name], tensor)


@having("entities")
@torch.no_grad()
def test_documents_that_begin_in_a_window_are_read_with_fresh_vectors(model: LanguageModel) -> None:
    batch, start = make_batch(model, 1), model.start(ROWS, ENTITIES)
    _, state = model.encode(make_batch(model), start)
    fresh = torch.zeros(ROWS, ENTITIES + 1, dtype=torch.bool)
    fresh[1, 1:] = True
    hidden, _ = model.encode(Batch(batch.tokens, batch.labels, fresh=fresh), state)
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
    hidden, state = model.encode(Batch(batch.tokens, batch.labels, new=5), start)
    assert batch.labels is not None
    written = start.write(batch.labels[:, 5:], hidden[:, 5:], model.memory_write)
    assert torch.equal(state.states, written.states)


@having("attend")
@torch.no_grad()
def test_attention_weights_are_shown_layer_by_layer(model: LanguageModel) -> None:
    batch, start = make_batch(model), model.start(ROWS, ENTITIES)
    expected, _ = model.encode(batch, start)
    model.show_attention()
    modules = model.attention_modules()
    reads = model.can("entities") and model.kind.name != "gpt2-pointer"  # at its output alone
    assert set(modules) == ({"self", "entity"} if reads else {"self"})
    seen: list[Tensor] = []
    handles = [
        module.register_forward_hook(lambda module, args, output: seen.append(output[1]))
        for layers in modules.values()
        for module in layers
    ]
    hidden, _ = model.encode(batch, start)
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(hidden, expected, rtol=1e-4, atol=1e-4)
    assert [len(layers) for layers in modules.values()] == [SMALL["layers"]] * len(modules)
    assert len(seen) == len(handles)
    for weights in seen:
        assert weights.shape == (ROWS, model.heads, WINDOW, WINDOW)
        torch.testing.assert_close(weights.sum(-1), torch.ones(ROWS, model.heads, WINDOW))
        assert not weights.triu(1).any()


@having("encode")
@torch.no_grad()
def test_a_saved_model_comes_back_with_the_same_bits(model: LanguageModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    loaded = load_model(tmp_path, model.kind)
    assert type(loaded) is type(model)
    assert not loaded.module.training
    assert (loaded.width, loaded.context, loaded.memory_write) == (
        model.width,
        model.context,
        model.memory_write,
    )
    batch = make_batch(model)
    one, other = (m.encode(batch, m.start(ROWS, ENTITIES))[0] for m in (model, loaded))
    assert torch.equal(one, other)


@having("encode")
def test_a_folder_without_a_model_is_named(model: LanguageModel, tmp_path: Path) -> None:
    message = r"nowhere: no saved model there \(config\.json is missing\): train it first, or"
    with pytest.raises(FileNotFoundError, match=message):
        load_model(tmp_path / "nowhere", model.kind)
    entry = tiny_entry(model.kind.name, initial_weights=str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=message):
        build_model(entry, VOCABULARY, 0, seed=1)


@having("encode")
def test_initial_weights_are_those_of_the_checkpoint(model: LanguageModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    changes = {"initial_weights": str(tmp_path)}
    begun = tiny_model(model.kind.name, seed=9, **changes).module.state_dict()
    saved = model.module.state_dict()
    assert all(torch.equal(tensor, begun[name]) for name, tensor in saved.items())
    with pytest.raises(ValueError, match="checkpoint of this shape"):
        tiny_model(model.kind.name, layers=1, **changes)


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.cuts])
@torch.no_grad()
def test_a_gpt_of_more_positions_starts_one_of_a_shorter_window(kind: str, tmp_path: Path) -> None:
    """As who fine-tunes GPT-2 in windows of 512: what it reads there is what the other reads."""
    longer = lively_model(kind)
    longer.save(tmp_path)
    short = tiny_model(kind, seed=9, initial_weights=str(tmp_path), window=4)
    assert (longer.context, short.context) == (8, 4)
    batch = make_batch(longer)
    labels = None if batch.labels is None else batch.labels[:, :4]
    part = Batch(batch.tokens[:, :4], labels)
    one, other = (m.encode(part, m.start(ROWS, ENTITIES))[0] for m in (longer, short))
    assert torch.equal(one, other)
    short.save(tmp_path / "short")
    assert load_model(tmp_path / "short", short.kind).context == 4
    with pytest.raises(ValueError, match="checkpoint of this shape"):
        tiny_model(kind, initial_weights=str(tmp_path), window=16)


@pytest.mark.parametrize("kind", ["gpt2e", "gpt2-pointer", "gpt2e-pointer"])
def test_what_is_new_in_a_shorter_window_is_what_the_seed_draws(kind: str, tmp_path: Path) -> None:
    lively_model("gpt2").save(tmp_path)
    changes = {"initial_weights": str(tmp_path)}
    for seed in (3, 4):
        whole = tiny_model(kind, seed=seed, **changes).module.state_dict()
        short = tiny_model(kind, seed=seed, window=4, **changes).module.state_dict()
        assert whole.keys() == short.keys()
        assert all(torch.equal(whole[name][: len(own)], own) for name, own in short.items())


def test_gpt2_weights_start_a_gpt2e_whose_entity_attention_is_new(tmp_path: Path) -> None:
    gpt2 = lively_model("gpt2")
    gpt2.save(tmp_path)
    begun = tiny_model("gpt2e", seed=9, initial_weights=str(tmp_path)).module.state_dict()
    saved = gpt2.module.state_dict()
    assert all(torch.equal(tensor, begun[name]) for name, tensor in saved.items())
    assert begun.keys() - saved.keys()
    assert all("entity" in name for name in begun.keys() - saved.keys())


@having("encode")
def test_recomputed_activations_give_the_same_gradients(model: LanguageModel) -> None:
    found = []
    for _ in range(2):
        model.module.zero_grad()
        model.module.train()
        torch.manual_seed(3)
        batch = make_batch(model)
        hidden, state = model.encode(batch, model.start(ROWS, ENTITIES))
        causal = model.can("causal")
        loss = model.nats(hidden, batch.tokens).sum() if causal else hidden.square().sum()
        if (behind := model.backward_half(state)) is not None:
            loss = loss + model.nats(*behind).sum()
        loss.backward()
        found.append([p.grad for p in model.module.parameters() if p.grad is not None])
        model.checkpoint_activations()
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


class Bare(LanguageModel):
    """A model that can only encode."""

    kind = KINDS["gpt2"]
    start = encode = save = None


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda model: model.attention_modules(), "GPT2 gives no attention weights"),
        (lambda model: model.show_attention(), "GPT2 gives no attention weights"),
        (lambda model: model.heads, "GPT2 has no attention heads"),
        (lambda model: model.checkpoint_activations(), "GPT2 has no gradient checkpointing"),
        (lambda model: model.output_weight, "GPT2 predicts no next token"),
        (lambda model: model.draw(None, None, None), "GPT2 learns each next token"),
        (lambda model: model.sum_losses(*[None] * 5), "GPT2 learns each next token"),
    ],
)
def test_what_a_model_can_not_is_said(ask, message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        ask(Bare())
