"""A trained pointer into what a policy keeps, against a loop over the tokens."""

import math

import numpy as np
import pytest
import torch
from safetensors.torch import save_model
from tiny import KEPT, keep_odd, lively_model, tiny_corpus
from torch.nn import functional

from entity_transformers.step import Rows
from entity_transformers.steps.kept_pointer import KeptPointerParams
from entity_transformers.tasks import kept_pointer
from entity_transformers.tasks.kept_cache import fold_texts
from entity_transformers.tasks.kept_pointer import KeptPointer, lay_entries
from entity_transformers.tasks.text_memory import Reading

N, W, D, WINDOW, STRIDE = 29, 6, 4, 6, 3
RANDOM = np.random.default_rng(4)
STATES = functional.layer_norm(torch.from_numpy(RANDOM.normal(size=(N, W))).float(), (W,))
TOKENS = torch.from_numpy(RANDOM.integers(0, 4, N))
SAID = torch.from_numpy(RANDOM.dirichlet(np.ones(4), N)).float()
"""The model's distribution of each token."""
SECTION = KeptPointerParams(
    **KEPT, budgets=(6,), kept=({"policy": "recent"},), size=D, epochs=3, learning_rate=0.01,
    trainings=2,
)  # fmt: skip


def read(pointer: KeptPointer, tokens: torch.Tensor, keep=keep_odd) -> torch.Tensor:
    nats = -SAID[torch.arange(N), tokens].log()
    return pointer(STATES, tokens, nats, lay_entries(N, keep, WINDOW, STRIDE))


@pytest.fixture
def pointer() -> KeptPointer:
    torch.manual_seed(0)
    return KeptPointer(W, D)


def test_nats_are_those_of_a_loop_over_tokens(pointer: KeptPointer) -> None:
    expected = []
    for t in range(WINDOW, N - 1):  # the state before token t + 1
        start = (t - WINDOW) // STRIDE * STRIDE + STRIDE
        alone = (pointer.model.weight[0] @ STATES[t] + pointer.model.bias[0]).exp()
        copied, total = torch.zeros(4), alone.clone()
        for place in keep_odd(start):
            key = pointer.key(STATES[place - 1]).half().float()
            own = pointer.query(STATES[t]) @ key / math.sqrt(D)
            copied[TOKENS[place]] += own.exp()
            total = total + own.exp()
        mixed = (alone * SAID[t + 1] + copied) / total
        assert mixed.sum().item() == pytest.approx(1, abs=1e-5)
        expected.append(-mixed[TOKENS[t + 1]].log())
    torch.testing.assert_close(read(pointer, TOKENS), torch.stack(expected))


def test_without_entries_it_is_the_model(pointer: KeptPointer) -> None:
    none = read(pointer, TOKENS, lambda start: np.zeros(0, np.int64))
    torch.testing.assert_close(none, -SAID[torch.arange(N), TOKENS].log()[WINDOW + 1 :])


def find_losses(rows: Rows) -> dict[tuple[str, str | None], float]:
    """By policy and document, None: of all."""
    own = [row for row in rows if row["measure"] in ("loss", "nll") and row["part"] == "all"]
    return {(row["policy"], row.get("unit")): row["value"] for row in own}


def test_it_learns_and_each_text_is_judged_by_what_the_other_fold_taught(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = lively_model("gpt2", window=16).eval()
    save_model(model.module, str(tmp_path / "model.safetensors"))
    corpus = tiny_corpus(6, seed=5, split="test", shortest=30, longest=40)
    rows = list(kept_pointer.score_pointers(Reading(model, corpus, SECTION, 8, 1, tmp_path)))
    losses = find_losses(rows)
    assert losses["recent", None] != losses["none", None]
    held = {row["policy"]: row["value"] for row in rows if row["measure"] == "bytes"}
    assert held == {"none": 0, "recent": 6 * (2 * D + corpus.tokens.itemsize)}
    # a text of the first fold has no part in what is learnt for the first fold
    other = tiny_corpus(6, seed=5, split="test", shortest=30, longest=40)
    first = int(np.flatnonzero(~fold_texts(corpus.names))[0])
    other.tokens[other.document(first)] = other.tokens[other.document(first)][::-1]
    again = find_losses(kept_pointer.score_pointers(Reading(model, other, SECTION, 8, 1, tmp_path)))
    for d, (name, fold) in enumerate(zip(corpus.names, fold_texts(corpus.names), strict=True)):
        same = again["recent", name] == pytest.approx(losses["recent", name], abs=1e-6)
        assert same == (not fold and d != first)
    for longest in (9, 25):  # texts no longer than the window: all, and some
        short = tiny_corpus(6, seed=5, split="test", shortest=5, longest=longest)
        reading = Reading(model, short, SECTION, 8, 1, tmp_path)
        found = find_losses(kept_pointer.score_pointers(reading))
        same = [found["recent", one] == pytest.approx(found["none", one]) for one in short.names]
        assert same == (np.diff(short.offsets) <= 9).tolist()


def test_training_lowers_the_loss(pointer: KeptPointer) -> None:
    nats = -SAID[torch.arange(N), TOKENS].log()
    text = STATES, TOKENS, nats, lay_entries(N, keep_odd, WINDOW, STRIDE)
    learnt = kept_pointer.train_pointer([text], SECTION.model_copy(update={"epochs": 60}), 0)
    assert learnt(*text).mean() < pointer(*text).mean() - 0.01
