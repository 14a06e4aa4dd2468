"""Synthetic recall: what is trained, how it is counted, and rows of PAPER.md's table; what a
document holds, where it asks, and that only the memory can answer.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import ROOT

from entity_transformers.corpus.labels import give
from entity_transformers.kinds import KindError
from entity_transformers.step import Rows
from entity_transformers.steps.recall import RecallParams
from entity_transformers.study.params import load
from entity_transformers.tasks import recall
from entity_transformers.train.checkpoint import CheckpointStore
from entity_transformers.train.loop import Training

LONG = pytest.mark.skipif(
    "ENTITY_TRANSFORMERS_LONG" not in os.environ,
    reason="minutes more: set ENTITY_TRANSFORMERS_LONG to have them run",
)
FULL = load(ROOT / "params.yaml").recall
OF_KIND = load(ROOT / "params.yaml").kinds


def make_params(**changes: Any) -> RecallParams:
    return RecallParams(**(FULL.model_dump() | changes))


TASK = make_params(entities=2, windows=3, values=10, names=20)
WIDE = make_params(entities=3, windows=4, values=5, names=9)
TASKS = pytest.mark.parametrize(
    "task",
    [TASK, WIDE, make_params(entities=1, windows=2, values=10, names=20)],
    ids=["default", "wide", "small"],
)


def start(params: RecallParams, name: str, folder: Path, seed: int = 1) -> Training:
    entry = recall.resolve_entry(params, name, OF_KIND)
    return recall.start_training(params, entry, seed, CheckpointStore(folder, 1))


def find(rows: Rows) -> dict[str, tuple[Any, int]]:
    return {row["distance"]: (row["value"], row["count"]) for row in rows}


@pytest.mark.parametrize(("name", "window", "earlier", "values", "steps"), [
    ("gpt2", 12, 0, None, 4500),
    ("gpt2-document", 36, 0, None, 1500),
    ("keys-detached", 12, 0, "hidden", 4500),
    ("keys-values-detached", 12, 0, "both", 4500),
    ("keys-gradient", 12, 2, "hidden", 1500),
    ("keys-values-gradient", 12, 2, "both", 1500),
])  # fmt: skip
def test_every_row_reads_as_many_tokens(name, window, earlier, values, steps):
    entry = recall.resolve_entry(FULL, name, OF_KIND)
    lm = entry.lm
    assert (lm.window, lm.memory_gradient_windows, lm.steps) == (window, earlier, steps)
    assert getattr(lm, "entity_values", None) == values
    assert entry.labels == ("none" if values is None else "gold")
    read = lm.steps * lm.window * (lm.memory_gradient_windows + 1) * lm.documents_per_step
    assert read == 96_000 * 36
    assert lm.warmup_steps == steps // 20


def test_every_row_of_the_params_is_an_entry() -> None:
    studies = [path for path in ROOT.glob("studies/*.yaml") if "recall:" in path.read_text()]
    for path in (ROOT / "params.yaml", *studies):  # the rows of others are those of their base
        params = load(path)
        for name in params.recall.models:
            assert recall.resolve_entry(params.recall, name, params.kinds).name == name


def test_a_row_that_can_not_be_is_named() -> None:
    params = make_params(models={"odd": {"kind": "gpt2", "entity_values": "both"}})
    with pytest.raises(KindError, match=r"models\.odd\.entity_values: kind gpt2 has no such key"):
        recall.resolve_entry(params, "odd", OF_KIND)


def test_guesses_are_the_likeliest_tokens_of_each_document_read_alone(tmp_path: Path) -> None:
    params = make_params(documents=64, width=16, entities=3)
    training = start(params, "keys-values-gradient", tmp_path)
    training.run()
    model = training.model.eval()
    corpus = give(recall.make_facts(params, 7, 5), "gold")
    guesses = recall.guess_tokens(model, corpus, window=params.window)
    with torch.no_grad():
        for d in range(7):
            columns = (corpus.tokens[corpus.document(d)], corpus.gold[corpus.document(d)])
            tokens, ids = (torch.from_numpy(a.astype(np.int64))[None] for a in columns)
            memory = model.start(1, params.entities)
            for first in range(0, params.length, params.window):
                part = slice(first, first + params.window)
                given = {"entity_ids": ids[:, part], "memory": memory}
                hidden = model.module.transformer(tokens[:, part], **given).last_hidden_state
                memory = memory.write(ids[:, part], hidden)
                expected = model.module.lm_head(hidden).argmax(-1)[0].numpy()
                place = corpus.offsets[d] + first + 1
                np.testing.assert_array_equal(guesses[place : place + params.window], expected)
    assert (guesses[corpus.offsets[:-1]] == -1).all()


def test_accuracy_is_counted_by_distance() -> None:
    task = make_params(entities=1, windows=4, values=4, names=5)
    distances = np.array([0, 0, 1, 1, 2, 2])
    right = np.array([True, False, True, True, False, True])
    assert find(recall.accuracy_rows(task, distances, right)) == {
        "0": (0.5, 2), "1": (1.0, 2), "2": (0.5, 2), "3": (None, 0), "later": (0.75, 4)
    }  # fmt: skip


def test_a_seed_changes_what_is_trained_on_and_not_what_is_asked(tmp_path: Path) -> None:
    params = make_params(documents=64, test_documents=50, width=16, windows=2)
    one, other = (start(params, "gpt2", tmp_path / str(seed), seed) for seed in (1, 2))
    assert (one.corpus.tokens != other.corpus.tokens).any()
    assert len(recall.find_answers(params, one.corpus)[0]) == 64 * 2 * 2
    other.model.module.load_state_dict(one.model.module.state_dict())
    found = find(recall.score_training(one, params))
    assert found == find(recall.score_training(other, params))
    assert found["later"][1] == 50 * 2


def test_a_row_is_asked_with_the_labels_that_it_was_trained_with(tmp_path, monkeypatch):
    models = {labels: {"kind": "gpt2e", "labels": labels} for labels in ("gold", "none")}
    params = make_params(documents=64, test_documents=5, width=16, models=models)
    asked: list[str] = []

    def guess(model: Any, corpus: Any, *, window: int) -> np.ndarray:
        asked.append(corpus.layer)
        return corpus.tokens

    monkeypatch.setattr("entity_transformers.tasks.recall.guess_tokens", guess)
    for name in models:
        training = start(params, name, tmp_path / name)
        assert training.corpus.layer == name
        list(recall.score_training(training, params))
    assert asked == ["gold", "none"]


@TASKS
def test_documents_are_whole_windows_whose_answers_repeat_facts(task: RecallParams) -> None:
    """An answer repeats the fact of the entity that is mentioned before it."""
    corpus = recall.make_facts(task, 50, 1)
    assert set(np.diff(corpus.offsets).tolist()) == {task.window * task.windows + 1}
    for window in range(1, task.windows + 1):
        assert (corpus.tokens[corpus.offsets[:-1] + task.window * window] == recall.STOP).all()
    assert corpus.tokens.max() < recall.count_tokens(task)
    for d in range(50):
        tokens, entities = corpus.tokens[corpus.document(d)], corpus.gold[corpus.document(d)]
        facts = {int(entities[start]): tokens[start + 1] for start in range(1, task.window, 6)}
        assert sorted(facts) == list(range(1, task.entities + 1))
        asked = np.flatnonzero(tokens == recall.HAS)
        assert len(asked) == task.entities * task.windows
        for place in asked:
            assert tokens[place + 1] == facts[int(entities[place - 1])]
            assert entities[place] == entities[place + 1] == 0


@TASKS
def test_answers_are_counted_by_distance(task: RecallParams) -> None:
    corpus = recall.make_facts(task, 30, 2)
    places, distances = recall.find_answers(task, corpus)
    assert Counter(distances.tolist()) == dict.fromkeys(range(task.windows), 30 * task.entities)
    assert (corpus.tokens[places - 1] == recall.HAS).all()
    starts = corpus.offsets[np.searchsorted(corpus.offsets, places, side="right") - 1]
    for distance in range(task.windows):
        inside = (places - starts)[distances == distance]
        assert distance * task.window < inside.min() <= inside.max()
        assert inside.max() <= (distance + 1) * task.window


@pytest.mark.parametrize("task", [TASK, WIDE], ids=["default", "wide"])
def test_values_are_even_so_that_a_guess_is_right_by_chance(task: RecallParams) -> None:
    corpus = recall.make_facts(task, 2000, 2)
    values = corpus.tokens[recall.find_answers(task, corpus)[0]] - recall.FIRST_VALUE
    shares = np.bincount(values, minlength=task.values) / len(values)
    assert shares.shape == (task.values,)
    np.testing.assert_allclose(shares, 1 / task.values, atol=0.02)


def test_a_mention_is_the_phrase_with_the_name_then_the_name() -> None:
    corpus = recall.make_facts(WIDE, 20, 4)
    for d in range(20):
        tokens, mentions = corpus.tokens[corpus.document(d)], corpus.mentions[corpus.document(d)]
        lengths = np.bincount(mentions[mentions >= 0])
        assert lengths.tolist() == [3] * WIDE.entities + [1] * WIDE.entities * (WIDE.windows - 1)
        last = [np.flatnonzero(mentions == number)[-1] for number in range(len(lengths))]
        first = recall.FIRST_VALUE + WIDE.values
        assert all(first <= tokens[place] < first + WIDE.names for place in last)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share", "low", "high"), [
    pytest.param("gpt2", 1, 0.05, 0.15, marks=LONG),
    pytest.param("gpt2-document", 1, 0.6, 0.95, marks=LONG),
    pytest.param("keys-detached", 1, 0.05, 0.35, marks=LONG),
    pytest.param("keys-gradient", 1, 0.85, 1.0, marks=LONG),
    ("keys-values-gradient", 1 / 2, 0.95, 1.0),  # learns it sooner
])  # fmt: skip
def test_the_gradient_through_the_memory_makes_it_carry_a_fact(tmp_path, name, share, low, high):
    """Rows of PAPER.md's table with params.yaml's own setting (chance 0.10, 4,000 questions), so at
    the width at which it was made, and with a ``share`` of its documents.

    Over seeds 1 to 3 the second row is 0.78, the third 0.10 to 0.18 and the last two are 1.00. Keys
    and values with a detached memory have no test: by seed they are 0.19 to 0.56. In smaller
    settings a detached memory may carry all of it (PAPER.md's log).
    """
    torch.set_num_threads(1)
    training = start(make_params(documents=round(share * FULL.documents)), name, tmp_path)
    training.run()
    found = find(recall.score_training(training, FULL))
    assert found["0"][0] > 0.99
    accuracy, questions = found["later"]
    assert questions == 4000
    assert low <= accuracy <= high
