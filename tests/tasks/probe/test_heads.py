"""What heads choose, against loops over mentions and the matrices that models give themselves."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from entity_transformers.corpus.labels import give
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.tasks.probe.heads import Recorder, score_heads, watch
from entity_transformers.tasks.probe.questions import ask, find_places

GROUPS = {"names": ["NNP"], "nouns": ["NN"], "pronouns": ["PRP", "PRP$"]}
WINDOW = 24


@torch.no_grad()
def read_plainly(model, corpus, entities: bool):
    """Attention matrices of every window, one window of one document at a time, with the labels
    that the corpus gives: (document, first token, {attention: [L, H, T, T]}).
    """
    model.show_attention()
    for d, (start, end) in enumerate(pairwise(corpus.offsets.tolist())):
        memory = EntityMemory(1, int(corpus.given[start:end].max(initial=0)), model.width)
        for first in range(start, end, WINDOW):
            last = min(end, first + WINDOW)
            tokens = torch.from_numpy(corpus.tokens[first:last].astype(np.int64))[None]
            ids = torch.from_numpy(corpus.given[first:last].astype(np.int64))[None]
            given = {"entity_ids": ids, "memory": memory} if entities else {}
            out = model.module.transformer(
                input_ids=tokens, output_attentions=True, use_cache=False, **given
            )
            matrices = {"self": torch.stack([w[0] for w in out.attentions]).numpy()}
            if entities and ids.any():
                matrices["entity"] = torch.stack([w[0] for w in out.cross_attentions]).numpy()
            memory = memory.write(ids, out.last_hidden_state)
            yield d, first, matrices


def choose_plainly(matrix: np.ndarray, first: int, mentions, pooling: str) -> list[float]:
    """Answers to the questions of one window by one head: matrix [T, T]; ties are shared."""
    answers = []
    pool = sum if pooling == "sum" else max
    for i, mention in enumerate(mentions):
        if not any(other.entity == mention.entity for other in mentions[:i]):
            continue
        row = matrix[mention.end - 1 - first]
        weights = [
            pool([float(row[token - first]) for token in range(p.start, p.end)])
            for p in mentions[:i]
        ]
        top = [
            p
            for p, weight in zip(mentions, weights, strict=False)
            if weight >= max(weights) * (1 - 1e-6)
        ]
        answers.append(sum(p.entity == mention.entity for p in top) / len(top))
    return answers


def score_plainly(model, documents, corpus, tokens, pooling, entities, other=None):
    """{attention: [L, H, Q]}, windows in reading order; ``other`` gives another matrix [L, H, T,
    T] for a window's.
    """
    places = list(find_places(documents, corpus, GROUPS, tokens))
    found: dict[str, list[np.ndarray]] = {}
    for d, first, matrices in read_plainly(model, corpus, entities):
        mentions = [
            p for p in places if p.document == d and first <= p.start and p.end <= first + WINDOW
        ]
        for name, matrix in matrices.items():
            matrix = matrix if other is None else other[name](matrix.shape[-1])
            answers = [
                [choose_plainly(head, first, mentions, pooling) for head in layer]
                for layer in matrix
            ]
            found.setdefault(name, []).append(np.array(answers).reshape(*matrix.shape[:2], -1))
    return {name: np.concatenate(parts, -1) for name, parts in found.items()}


@pytest.mark.parametrize(
    ("tokens", "pooling"), [("head", "sum"), ("mention", "sum"), ("mention", "max")]
)
@pytest.mark.parametrize("kind", ["gpt2", "gpt2e"])
def test_answers_equal_loops_over_the_models_own_matrices(
    request, documents, corpus, kind, tokens, pooling
):
    model = request.getfixturevalue(kind)
    questions = ask(documents, corpus, GROUPS, window=WINDOW, tokens=tokens)
    found = score_heads(model, corpus, questions, window=WINDOW, batch=3, pooling=pooling)
    assert set(found) == (
        {("self", "off")} if kind == "gpt2" else {("self", "off"), ("self", "on"), ("entity", "on")}
    )
    for entities in dict.fromkeys(entities for _, entities in found):
        for attention, expected in score_plainly(
            model, documents, corpus, tokens, pooling, entities == "on"
        ).items():
            np.testing.assert_allclose(found[attention, entities].credits, expected, atol=1e-6)
    assert all(scores.by_distance is None for scores in found.values())


def test_a_model_reads_the_labels_that_it_is_given_and_is_asked_by_the_gold_ones(
    documents, corpus, gpt2e
):
    given = give(corpus, "shuffled", seed=1)
    assert (given.given != corpus.gold).any()
    questions = ask(documents, given, GROUPS, window=WINDOW, tokens="head")
    found = score_heads(gpt2e, given, questions, window=WINDOW, batch=3, pooling="sum")
    expected = score_plainly(gpt2e, documents, given, "head", "sum", True)
    for attention in ("self", "entity"):
        np.testing.assert_allclose(found[attention, "on"].credits, expected[attention], atol=1e-6)


def test_entities_matter_to_the_heads_of_gpt2e(documents, corpus, gpt2e):
    questions = ask(documents, corpus, GROUPS, window=WINDOW, tokens="head")
    found = score_heads(gpt2e, corpus, questions, window=WINDOW, batch=3, pooling="sum")
    assert not np.array_equal(found["self", "on"].credits, found["self", "off"].credits)


def test_the_profile_is_the_mean_weight_at_each_distance_from_the_asking_tokens(
    documents, corpus, gpt2
):
    questions = ask(documents, corpus, GROUPS, window=WINDOW, tokens="head")
    profile = score_heads(gpt2, corpus, questions, window=WINDOW, batch=2, pooling="sum")[
        "self", "off"
    ].profile
    seen: dict[int, list[np.ndarray]] = {}
    for _, first, matrices in read_plainly(gpt2, corpus, False):
        for query in questions.windows[first].queries if first in questions.windows else ():
            for key in range(query + 1):
                seen.setdefault(int(query - key), []).append(matrices["self"][:, :, query, key])
    expected = np.stack(
        [np.mean(seen[d], axis=0) if d in seen else np.zeros((2, 2)) for d in range(WINDOW)], -1
    )
    np.testing.assert_allclose(profile, expected, atol=1e-6)


def test_the_control_by_distance_equals_loops_over_matrices_of_the_profile(documents, corpus, gpt2):
    questions = ask(documents, corpus, GROUPS, window=WINDOW, tokens="head")
    profile = np.random.default_rng(0).random((2, 2, WINDOW))
    found = score_heads(
        gpt2,
        corpus,
        questions,
        window=WINDOW,
        batch=4,
        pooling="sum",
        profiles={("self", "off"): profile},
    )

    def spread(size: int) -> np.ndarray:
        apart = np.subtract.outer(np.arange(size), np.arange(size))
        return profile[:, :, np.maximum(apart, 0)]

    expected = score_plainly(gpt2, documents, corpus, "head", "sum", False, {"self": spread})[
        "self"
    ]
    np.testing.assert_array_equal(found["self", "off"].by_distance, expected.astype(np.float32))


def shape_of(layers: int, heads: int) -> SimpleNamespace:
    """All that a recorder asks of a model."""
    return SimpleNamespace(attention_modules=lambda: {"self": [None] * layers}, heads=heads)


def point(questions, corpus, toward: str) -> np.ndarray:
    """Answers of one layer and head whose weight lies on the nearest mention that is (or is not) of
    the chain, window by window.
    """
    window = int(np.diff(corpus.offsets).max())

    recorder = Recorder(
        shape_of(layers=1, heads=1), questions, window=window, pooling="sum", profile=None
    )
    for first, asked in questions.windows.items():
        weights = torch.zeros(1, 1, window, window)
        for query, same, earlier in zip(asked.queries, asked.same, asked.earlier, strict=True):
            wanted = np.flatnonzero(earlier & (same if toward == "chain" else ~same))
            weights[0, 0, query, asked.tokens[asked.firsts[wanted[-1:]]]] = 1.0
            weights[0, 0, query, query + 1 :] = 5.0  # what lies later must not matter
        recorder.begin(np.array([first]))
        recorder.see(0, weights)
    return recorder.finish().credits[0, 0]


def test_an_attention_made_to_point_to_the_antecedent_is_always_right_and_one_made_to_miss_never(
    documents, corpus
):
    questions = ask(
        documents, corpus, GROUPS, window=int(np.diff(corpus.offsets).max()), tokens="head"
    )
    assert (point(questions, corpus, "chain") == 1.0).all()
    forced = questions.baselines["chance"] == 1.0  # where every candidate is right nothing can miss
    assert (point(questions, corpus, "other")[~forced] == 0.0).all()
    assert 0 < forced.sum() < len(questions)


def test_equal_weights_are_chance(documents, corpus):
    """Where entity attention sees no label it spreads evenly: over mentions of one token that is
    chance.
    """
    questions = ask(documents, corpus, GROUPS, window=WINDOW, tokens="head")

    recorder = Recorder(
        shape_of(layers=1, heads=2), questions, window=WINDOW, pooling="max", profile=None
    )
    for first in questions.windows:
        recorder.begin(np.array([first]))
        recorder.see(0, None)
    np.testing.assert_allclose(
        recorder.finish().credits,
        np.broadcast_to(questions.baselines["chance"], (1, 2, len(questions))),
        rtol=1e-6,
    )


def test_a_split_without_questions_has_empty_answers(documents, corpus, gpt2e):
    nothing = give(
        replace(
            corpus,
            mentions=np.full_like(corpus.mentions, -1),
            gold=np.zeros_like(corpus.gold),
        ),
        "gold",
    )
    questions = ask(documents, nothing, GROUPS, window=WINDOW, tokens="head")
    found = score_heads(gpt2e, nothing, questions, window=WINDOW, batch=3, pooling="sum")
    assert {scores.credits.shape for scores in found.values()} == {(2, 2, 0)}
    assert not any(scores.profile.any() for scores in found.values())


def test_the_batch_changes_nothing(documents, corpus, gpt2e):
    questions = ask(documents, corpus, GROUPS, window=WINDOW, tokens="head")
    one, other = (
        score_heads(gpt2e, corpus, questions, window=WINDOW, batch=batch, pooling="sum")
        for batch in (1, 9)
    )
    for key in one:
        np.testing.assert_allclose(one[key].credits, other[key].credits, atol=1e-6)


def test_no_hook_stays_and_weights_that_are_not_finite_are_refused(documents, corpus, gpt2):
    questions = ask(documents, corpus, GROUPS, window=WINDOW, tokens="head")
    hooks = [len(block.attn._forward_hooks) for block in gpt2.module.transformer.h]
    broken = deepcopy(gpt2)
    broken.module.transformer.h[1].attn.c_attn.weight.data.fill_(float("nan"))
    for model in (gpt2, broken):
        with (
            nullcontext()
            if model is gpt2
            else pytest.raises(ValueError, match="layer 2 is not finite")
        ):
            score_heads(model, corpus, questions, window=WINDOW, batch=3, pooling="sum")
        assert [len(block.attn._forward_hooks) for block in model.module.transformer.h] == hooks


def test_a_model_that_gives_no_weights_is_refused(documents, corpus, gpt2):
    questions = ask(documents, corpus, GROUPS, window=WINDOW, tokens="head")
    recorder = Recorder(gpt2, questions, window=WINDOW, pooling="sum", profile=None)
    fused = deepcopy(gpt2)
    fused.module.set_attn_implementation("sdpa")
    with (
        watch(fused, "self", recorder),
        pytest.raises(ValueError, match="set the model's attention to eager"),
    ):
        fused.module(torch.zeros(1, 4, dtype=torch.int64))
