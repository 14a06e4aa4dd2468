"""The entity pointer against its equations in plain Python, and what it may know."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from plainly import normalise
from tiny import lively_model, tiny_corpus, tiny_model
from torch import Tensor

from entity_transformers.corpus.labels import give
from entity_transformers.models.base import Batch
from entity_transformers.models.loss import sum_losses
from entity_transformers.models.pointer import pointer
from entity_transformers.models.pointer.model import GPT2Pointer
from entity_transformers.models.pointer.pointer import Copies, find_copied
from entity_transformers.tasks.perplexity import score_corpus

KIND = "gpt2-pointer"
WINDOW = 8
LAG = 3
CHANGES = {"entity_lag": LAG, "pointer_width": 8, "pointer_forms": 2, "pointer_tokens": 4}


def lively(**changes: object) -> GPT2Pointer:
    """A pointer model in which everything that is read shows."""
    model = lively_model(KIND, **{**CHANGES, **changes})
    with torch.no_grad():
        for table in (p for p in model.pointer.parameters() if p.dim() == 1):
            table.add_(0.03 * torch.randn_like(table))
    return model


def draw_text(length: int, seed: int = 0, entities: int = 4) -> tuple[Tensor, Tensor]:
    """Tokens and labels [1, length], so few different ones that forms return, also in part."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, 6, (1, length), generator=generator)
    labels = torch.zeros(1, length, dtype=torch.int64)
    at = 1
    while at < length:
        size = int(torch.randint(1, 6, (), generator=generator))
        if torch.rand((), generator=generator) < 0.6:
            labels[0, at : at + size] = torch.randint(1, entities + 1, (), generator=generator)
        at += size + int(torch.randint(0, 3, (), generator=generator))
    return tokens, labels


def cut(tokens: Tensor, labels: Tensor | None, sizes: int | list[int] = WINDOW) -> list[Batch]:
    """The windows of a text [1, T]."""
    parts = tokens.split(sizes, 1)
    known = [None] * len(parts) if labels is None else labels.split(sizes, 1)
    return list(map(Batch, parts, known))


def read(
    model: GPT2Pointer, tokens: Tensor, labels: Tensor | None, sizes: int | list[int] = WINDOW
) -> tuple[Tensor, Tensor]:
    """Hidden states [1, T, W] and log p of every token [1, T, V], window by window."""
    state, hidden, said = model.start(len(tokens), 400), [], []
    for batch in cut(tokens, labels, sizes):
        found, state = model.encode(batch, state)
        hidden.append(found[..., : model.width])
        said.append(model.logits(found).log_softmax(-1))
    return torch.cat(hidden, 1), torch.cat(said, 1)


@dataclass
class Row:
    """What a plain reader knows of an entity."""

    key: int = 0
    seen: int = 0
    count: int = 0
    forms: list[tuple[int, ...]] = field(default_factory=list)


def remember(tokens: Sequence[int], labels: Sequence[int], read: int, forms: int) -> dict[int, Row]:
    """Every entity that is known when ``read`` tokens have been read."""
    rows: dict[int, Row] = {}
    start = 0
    while start < read:
        end = start
        while end < len(labels) and labels[end] == labels[start]:
            end += 1
        known = end < len(labels) and end + LAG <= read
        if labels[start] and known and end - start <= CHANGES["pointer_tokens"] and start > 0:
            row = rows.setdefault(labels[start], Row())
            row.key, row.seen, row.count = start - 1, end, row.count + 1
            form = tuple(tokens[start:end])
            row.forms = [form, *(one for one in row.forms if one != form)][:forms]
        start = end
    return rows


def plain_log_probability(
    model: GPT2Pointer, tokens: list[int], labels: list[int], hidden: Tensor, t: int, target: int
) -> Tensor:
    """log p of ``target`` after token ``t``, by the docstring of `models.pointer.pointer`."""
    pointer, size = model.pointer, CHANGES["pointer_width"]
    begun = t // WINDOW * WINDOW
    state = normalise(hidden[t])
    alone = pointer.rate * ((pointer.model.weight[0] * state).sum() + pointer.model.bias[0])
    total, copied = alone.exp(), torch.zeros_like(alone)
    for row in remember(tokens, labels, begun, CHANGES["pointer_forms"]).values():
        query, key = pointer.query.weight @ state, pointer.key.weight @ normalise(hidden[row.key])
        for rank, form in enumerate(row.forms):
            score = pointer.rate**2 * (query * key).sum() / size**0.5
            score = score + pointer.rate * (
                pointer.seen[min(13, (begun - row.seen + 1).bit_length() - 1)]
                + pointer.count[min(7, (row.count + 1).bit_length() - 1)]
                + pointer.rank[rank]
            )
            read = 0
            for m in range(1, min(3, len(form) - 1) + 1):
                if t + 1 >= m and tuple(tokens[t - m + 1 : t + 1]) == form[:m]:
                    read = m
            if read:
                score = score + pointer.rate * pointer.match[read - 1]
            total = total + score.exp()
            if form[read] == target:
                copied = copied + score.exp()
    said = (hidden[t] @ model.output_weight.T).log_softmax(-1)[target].exp()
    return ((alone.exp() * said + copied) / total).log()


@torch.no_grad()
def test_probabilities_are_those_of_the_equations_and_sum_to_1() -> None:
    model = lively()
    model.module.double()
    tokens, labels = draw_text(60)
    hidden, said = read(model, tokens, labels)
    torch.testing.assert_close(said.exp().sum(-1), torch.ones_like(said[..., 0]), rtol=0, atol=1e-9)
    text, copied = (tokens[0].tolist(), labels[0].tolist()), 0
    for t in range(60):
        for target in range(7):
            expected = plain_log_probability(model, *text, hidden[0], t, target)
            torch.testing.assert_close(said[0, t, target], expected, rtol=1e-8, atol=1e-8)
            plain = (hidden[0, t] @ model.output_weight.T).log_softmax(-1)[target]
            copied += abs(float(expected - plain)) > 0.1
    assert copied > 30


def test_ages_and_counts_are_told_by_powers_of_two() -> None:
    values = [0, 1, 2, 3, 6, 7, 97, 200, 2**20]
    for buckets in (pointer.AGES, pointer.COUNTS):
        expected = [min(buckets, (n + 1).bit_length()) - 1 for n in values]
        assert pointer.bucket(torch.tensor(values), buckets).tolist() == expected


def test_forms_that_share_a_token_add_up_however_far_apart_their_shares_are() -> None:
    """Of several, any may come first; e to the difference overflows from 89 nats on."""
    shares = torch.tensor([[[-100.0, -0.5, -3.0, -120.0], [-0.5, -150.0, -2.0, -9.0]]])
    shares.requires_grad_()
    tokens = torch.tensor([[[5, 5, 7, 5], [5, 5, 5, 7]]])
    copied = find_copied(Copies(torch.zeros(1, 2), tokens, shares), torch.tensor([[5, 5]]))
    expected = [shares[0, 0, [0, 1, 3]].logsumexp(0), shares[0, 1, :3].logsumexp(0)]
    torch.testing.assert_close(copied[0], torch.stack(expected))
    (ours,) = torch.autograd.grad(copied.sum(), shares)
    (theirs,) = torch.autograd.grad(torch.stack(expected).sum(), shares)
    torch.testing.assert_close(ours, theirs)
    none = find_copied(Copies(torch.zeros(1, 2), tokens, shares), torch.tensor([[9, 7]]))
    assert none[0].tolist() == pytest.approx([pointer.NOTHING, -9.0])


def test_gradients_are_those_of_the_equations_through_six_windows() -> None:
    model = lively()
    model.module.double()
    tokens, labels = draw_text(6 * WINDOW, seed=3)
    targets = tokens.roll(-1, 1)
    targets[0, 5], targets[0, -1] = -100, -100
    state, total = model.start(1, 4), 0.0
    for batch, wanted in zip(cut(tokens, labels), targets.split(WINDOW, 1), strict=True):
        loss, state = model.sum_losses(batch, wanted, state, 1.0, None)
        total = total + loss
    total.backward()
    found = {n: p.grad.clone() for n, p in model.module.named_parameters() if p.grad is not None}
    model.module.zero_grad()

    hidden = [model.read(Batch(part)).last_hidden_state for part in tokens.split(WINDOW, 1)]
    text = tokens[0].tolist(), labels[0].tolist(), torch.cat(hidden, 1)[0]
    plain = sum(
        -plain_log_probability(model, *text, t, int(targets[0, t]))
        for t in range(6 * WINDOW)
        if targets[0, t] >= 0
    )
    torch.testing.assert_close(total, plain, rtol=1e-9, atol=1e-9)
    plain.backward()
    wanted = {n: p.grad for n, p in model.module.named_parameters()}
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)
    assert all(found[f"entity_pointer.{n}"].any() for n in ("query.weight", "key.weight", "match"))


def test_the_loss_in_strips_is_that_of_the_logits() -> None:
    torch.manual_seed(0)
    shapes = ((1100, 6), (3000, 6), (1100,), (1100,))
    states, weight, share, copied = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes
    )
    targets = torch.randint(3000, (1100,))
    targets[::7] = -100
    found = sum_losses(states, weight, targets, share, copied)
    plain = (states @ weight.T).log_softmax(-1).gather(1, targets.clamp_min(0)[:, None])[:, 0]
    expected = -(torch.logaddexp(share + plain, copied) * (targets >= 0)).sum()
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    inputs = states, weight, share, copied
    pair = (torch.autograd.grad(2 * x, inputs) for x in (found, expected))
    torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-12)


@torch.no_grad()
def test_nothing_depends_on_what_comes_later_and_nothing_on_labels_that_are_not_yet_known() -> None:
    model, (tokens, labels) = lively(), draw_text(64, seed=5)
    _, expected = read(model, tokens, labels)
    for t in range(3, 64, 12):
        other, named = tokens.clone(), labels.clone()
        other[:, t + 1 :] = other[:, t + 1 :] % 5 + 1
        named[:, t + 1 :] = (named[:, t + 1 :] + 1) % 5
        assert torch.equal(read(model, other, named)[1][:, : t + 1], expected[:, : t + 1])
        # a label says something only once `lag` tokens after its mention have been read
        named = labels.clone()
        named[:, t + 2 - LAG :] = (named[:, t + 2 - LAG :] + 1) % 5
        assert torch.equal(read(model, tokens, named)[1][:, : t + 1], expected[:, : t + 1])
    assert not torch.equal(read(model, tokens, (labels + 1) % 5)[1], expected)


@torch.no_grad()
def test_with_a_gate_of_0_it_is_its_base_to_the_bit() -> None:
    model, plain = lively(), tiny_model("gpt2").eval()
    plain.module.load_state_dict(model.module.state_dict(), strict=False)
    model.pointer.model.bias.fill_(1e9)
    tokens, labels = draw_text(40)
    targets = tokens.roll(-1, 1)
    for known in (labels, None):
        state, other = model.start(1, 4), plain.start(1, 4)
        for batch, wanted in zip(cut(tokens, known), targets.split(WINDOW, 1), strict=True):
            hidden, state = model.encode(batch, state)
            alone, other = plain.encode(batch, other)
            assert torch.equal(pointer.unpack(hidden, model.width)[0], alone)
            assert torch.equal(model.nats(hidden, wanted), plain.nats(alone, wanted))


@torch.no_grad()
def test_documents_packed_in_a_row_do_not_see_each_others_entities() -> None:
    """Documents begin within windows and at their start: each as alone."""
    model = lively()
    texts = [draw_text(n, seed, entities=2) for seed, n in enumerate((21, 11, 24), start=7)]
    for tokens, _ in texts:
        tokens[0, 0] = 0  # <|endoftext|>
    rows = (0, 2, 0)  # of the memory, whose documents end before they are used again
    row = torch.cat([tokens for tokens, _ in texts], 1)
    moved = [torch.where(own > 0, own + r, 0) for (_, own), r in zip(texts, rows, strict=True)]
    labels = torch.cat(moved, 1)
    ends = [0, 21, 32, 56]
    state, found = model.start(1, 4), []
    for start in range(0, 56, WINDOW):
        part = slice(start, start + WINDOW)
        positions, fresh = torch.arange(WINDOW)[None].clone(), torch.zeros(1, 5, dtype=torch.bool)
        for begin, r in zip(ends, rows, strict=False):
            if start <= begin < start + WINDOW:
                positions[0, begin - start :] -= positions[0, begin - start].clone()
                fresh[0, r + 1 : r + 3] = True
        packed = positions if (positions[:, 1:] == 0).any() else None
        given = labels[:, part] if labels[:, part].any() else None
        hidden, state = model.encode(Batch(row[:, part], given, packed, fresh), state)
        found.append(model.logits(hidden).log_softmax(-1))
    said = torch.cat(found, 1)
    for (tokens, own), begin, end in zip(texts, ends, ends[1:], strict=False):
        # windows are cut where the row's are, so that the memory is as old
        bounds = [begin, *(at for at in range(0, 56, WINDOW) if begin < at < end), end]
        _, expected = read(model, tokens, own, np.diff(bounds).tolist())
        torch.testing.assert_close(said[:, begin:end], expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_context_that_is_read_again_is_not_written_again() -> None:
    """With a stride of half a window, against a memory that is written window by window."""
    model, corpus = lively(), give(tiny_corpus(1, seed=4, shortest=38), "gold")
    losses = score_corpus(model, corpus, window=WINDOW, stride=WINDOW // 2, batch=1)
    tokens, labels = (torch.tensor(array.tolist())[None] for array in (corpus.tokens, corpus.given))
    state, new, expected = model.start(1, 4), 0, [torch.zeros(1)]
    while new < tokens.shape[1]:
        start, end = max(0, new - WINDOW // 2), new + (WINDOW // 2 if new else WINDOW)
        hidden = model.read(Batch(tokens[:, start:end])).last_hidden_state[:, new - start :]
        given = labels[:, new:end]
        starts = torch.zeros_like(given, dtype=torch.bool)
        latest = torch.cat([state.tokens[:, -3:], tokens[:, new:end]], 1)
        plain = (hidden @ model.output_weight.T).log_softmax(-1)
        if state.count.any():
            plain = pointer.mix_all(plain, model.pointer(hidden, latest, state))
        wanted = tokens[:, new + 1 : end + 1]
        expected.append(-plain[:, : wanted.shape[1]].gather(2, wanted[..., None])[0, :, 0])
        state = state.write(tokens[:, new:end], given, hidden, starts)
        new = end
    torch.testing.assert_close(torch.from_numpy(losses), torch.cat(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rate", [7.5, 30.0, 30_000.0])
def test_weights_taken_from_a_pointer_of_another_rate_say_the_same(tmp_path, rate):
    """A rate is the optimizer's matter: stored weights are so many times smaller for it."""
    saved = lively(pointer_rate=30.0)
    saved.save(tmp_path / "saved")
    own = CHANGES | {"pointer_rate": rate, "initial_weights": str(tmp_path / "saved")}
    taken = tiny_model(KIND, **own, dropout=0.0).eval()
    assert taken.pointer.rate == rate
    tokens, labels = draw_text(40)
    expected, found = (read(model, tokens, labels)[1] for model in (saved, taken))
    plain = read(taken, tokens, None)[1]
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-4)
    assert (found - plain).abs().max() > 0.1
