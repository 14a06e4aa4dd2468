"""The attention probe against loops over mentions and the models' own matrices; rows by hand."""

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import lively_model
from written import document_of, write_documents

from entity_transformers.corpus.alignment import AlignedCorpus, align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.labels import give
from entity_transformers.encode.mentions import find_places
from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.tasks import probe

GROUPS = {"nouns": ["NN"], "names": ["NNP"], "pronouns": ["PRP", "PRP$"]}
WINDOW = 24
DOCUMENTS = write_documents(14, longest=59, mentions=16, longest_mention=3)
TOKENIZER = learn_tokenizer(DOCUMENTS, 400, "natural")
ALIGNED = {"split": "dev", "policy": "outermost", "spacing": "natural"}
CORPUS = give(align_split(DOCUMENTS, TOKENIZER, **ALIGNED), "gold")
MODELS = {
    kind: lively_model(kind, TOKENIZER.get_vocab_size(), window=WINDOW)
    for kind in ("gpt2", "gpt2e")
}
QUESTIONS = probe.ask(DOCUMENTS, CORPUS, GROUPS, window=WINDOW)
KEY = ("self", "off")
NAMES = ("nouns", "pronouns")


def align(*documents: Document) -> AlignedCorpus:
    return align_split(documents, learn_tokenizer(documents, 300, "natural"), **ALIGNED)


def write(words: str, mentions: list[tuple[int, int, int]], tags: str | None = None) -> Document:
    penn = tuple(tags.split()) if tags else None
    return document_of(words, mentions, split="dev", tags=penn)


@pytest.mark.parametrize(("words", "mentions", "tags", "expected"), [
    ("the dog of Ann ran . this ran", [(0, 4, 1), (6, 7, 1)], "DT NN IN NNP VBD . DT VBD",
     [(1, 0, 1), (6, -1, 1)]),
    ("the old dog ran . it", [(0, 3, 1), (5, 6, 1)], None, [(2, -1, 1), (5, -1, 1)]),
])  # fmt: skip
def test_heads_groups_and_tokens_of_mentions(words, mentions, tags, expected):
    """Without tags the last word is the head."""
    corpus = align(write(words, mentions, tags))
    places = list(find_places(corpus, GROUPS))
    assert [(p.word, p.group, p.entity) for p in places] == expected
    for place in places:
        assert set(corpus.words[place.start : place.end].tolist()) == {place.word}


def find_plainly(window):
    """(document, asking mention, candidates, which are right) of every question, by loops."""
    found = []
    for d in range(len(CORPUS)):
        offset = int(CORPUS.offsets[d])
        mine = [p for p in find_places(CORPUS, GROUPS) if p.document == d]
        for mention in mine:
            own = (mention.start - offset) // window
            begin, end = offset + own * window, offset + (own + 1) * window
            earlier = [p for p in mine if begin <= p.start and p.end <= mention.start]
            if mention.end <= end and any(p.entity == mention.entity for p in earlier):
                found.append((mention, earlier, [p.entity == mention.entity for p in earlier]))
    return found


@pytest.mark.parametrize("window", [8, 24, 999])
def test_questions_equal_loops_over_mentions(window):
    questions = probe.ask(DOCUMENTS, CORPUS, GROUPS, window=window)
    expected = find_plainly(window)
    assert len(questions.table) == len(expected) > 5
    places = list(find_places(CORPUS, GROUPS))
    met = [(place.document, place.entity) for place in places]
    assert questions.later == sum(one in met[:i] for i, one in enumerate(met))
    assert questions.names == CORPUS.names
    assert questions.mentions == len(places)
    assert questions.table.document.tolist() == [mention.document for mention, *_ in expected]
    assert questions.table.group.tolist() == [mention.group for mention, *_ in expected]
    assert questions.table.candidates.tolist() == [len(earlier) for _, earlier, _ in expected]
    np.testing.assert_allclose(questions.table.chance, [np.mean(right) for *_, right in expected])
    np.testing.assert_array_equal(questions.table.nearest, [right[-1] for *_, right in expected])
    same_head = []
    for mention, earlier, right in expected:
        words = [DOCUMENTS[p.document].words[p.word].lower() for p in (*earlier, mention)]
        alike = [i for i, word in enumerate(words[:-1]) if word == words[-1]]
        same_head.append(right[alike[-1] if alike else -1])
    np.testing.assert_array_equal(questions.table.same_head, same_head)
    queries = [int(first + q) for first, w in questions.windows.items() for q in w.queries]
    assert queries == [mention.end - 1 for mention, *_ in expected]


@pytest.mark.parametrize("mentions", [[], [(0, 1, 1)], [(0, 1, 1), (1, 2, 2)]])
def test_nothing_to_ask_is_defined(mentions):
    story = write("Ann ran", mentions, "NNP VBD")
    questions = probe.ask([story], align(story), GROUPS, window=99)
    assert (len(questions.table), questions.later, questions.windows) == (0, 0, {})
    empty = probe.ask([], align(), GROUPS, window=99)
    assert (len(empty.table), len(empty.names), empty.mentions) == (0, 0, 0)


def test_equal_scores_are_a_draw_and_later_mentions_do_not_matter():
    mentions = [(0, 1, 1), (1, 2, 2), (2, 3, 1), (3, 4, 3), (4, 5, 1)]
    story = write("a b a c a", mentions, "NN NN NN NN NN")
    (asked,) = probe.ask([story], align(story), GROUPS, window=99).windows.values()
    assert asked.askers.tolist() == [2, 4]
    scores = np.array([[0.2, 0.2, 9.0, 9.0, 9.0], [0.1, 0.3, 0.3 * (1 + 1e-8), 0.3, 9.0]])
    np.testing.assert_allclose(probe.credit_choices(scores, asked), [1 / 2, 1 / 3])
    # weights that vanish are a draw of all
    np.testing.assert_allclose(probe.credit_choices(np.zeros((2, 5)), asked), [1 / 2, 2 / 4])


@torch.no_grad()
def read_plainly(model, corpus, entities: bool):
    """Window by window: (document, first token, {attention: matrices [L, H, T, T]})."""
    model.show_attention()
    for d, (start, end) in enumerate(pairwise(corpus.offsets.tolist())):
        memory = EntityMemory(1, int(corpus.given[start:end].max(initial=0)), model.width)
        for first in range(start, end, WINDOW):
            last = min(end, first + WINDOW)
            tokens = torch.from_numpy(corpus.tokens[first:last].astype(np.int64))[None]
            ids = torch.from_numpy(corpus.given[first:last].astype(np.int64))[None]
            given = {"entity_ids": ids, "memory": memory} if entities else {}
            given |= {"output_attentions": True, "use_cache": False}
            out = model.module.transformer(tokens, **given)
            matrices = {"self": torch.stack([w[0] for w in out.attentions]).numpy()}
            if entities and ids.any():
                matrices["entity"] = torch.stack([w[0] for w in out.cross_attentions]).numpy()
            memory = memory.write(ids, out.last_hidden_state)
            yield d, first, matrices


def choose_plainly(matrix: np.ndarray, first: int, mentions) -> list[float]:
    """Answers to the questions of one window by one head: matrix [T, T]; ties are shared."""
    answers = []
    for i, mention in enumerate(mentions):
        if not any(other.entity == mention.entity for other in mentions[:i]):
            continue
        row = matrix[mention.end - 1 - first].astype(float)
        weights = [row[p.start - first : p.end - first].sum() for p in mentions[:i]]
        least = max(weights) * (1 - 1e-6)
        top = [p for p, weight in zip(mentions, weights, strict=False) if weight >= least]
        answers.append(sum(p.entity == mention.entity for p in top) / len(top))
    return answers


def score_plainly(model, corpus, entities, other=None):
    """{attention: [L, H, Q]} in reading order; ``other`` gives another matrix for a window's."""
    places = list(find_places(corpus, GROUPS))
    found: dict[str, list[np.ndarray]] = {}
    for d, first, matrices in read_plainly(model, corpus, entities):
        inside = [p for p in places if p.document == d and first <= p.start]
        mentions = [p for p in inside if p.end <= first + WINDOW]
        for name, matrix in matrices.items():
            shown = matrix if other is None else other[name](matrix.shape[-1])
            answers = [[choose_plainly(head, first, mentions) for head in one] for one in shown]
            found.setdefault(name, []).append(np.array(answers).reshape(*matrix.shape[:2], -1))
    return {name: np.concatenate(parts, -1) for name, parts in found.items()}


@pytest.mark.parametrize(
    ("kind", "labels"), [("gpt2", "gold"), ("gpt2e", "gold"), ("gpt2e", "shuffled")]
)
def test_answers_equal_loops_over_the_models_own_matrices(kind, labels):
    """A model reads the labels that are given, and is asked by the gold ones."""
    model, corpus = MODELS[kind], give(CORPUS, labels, seed=1)
    assert (corpus.given != corpus.gold).any() == (labels == "shuffled")
    questions = probe.ask(DOCUMENTS, corpus, GROUPS, window=WINDOW)
    found = probe.score_heads(model, corpus, questions, window=WINDOW, batch=3)
    more = {("self", "on"), ("entity", "on")} if kind == "gpt2e" else set()
    assert set(found) == {("self", "off"), *more}
    for given in {given for _, given in found}:
        for attention, expected in score_plainly(model, corpus, given == "on").items():
            np.testing.assert_allclose(
                found[attention, given].answers["correct"], expected, atol=1e-6
            )
    assert {name for scores in found.values() for name in scores.answers} == {"correct"}


def test_the_profile_is_the_mean_weight_at_each_distance_from_those_asking():
    found = probe.score_heads(MODELS["gpt2"], CORPUS, QUESTIONS, window=WINDOW, batch=2)
    seen: dict[int, list[np.ndarray]] = {}
    for _, first, matrices in read_plainly(MODELS["gpt2"], CORPUS, False):
        for query in QUESTIONS.windows[first].queries if first in QUESTIONS.windows else ():
            for key in range(query + 1):
                seen.setdefault(int(query - key), []).append(matrices["self"][:, :, query, key])
    none = np.zeros((1, 2, 2))
    expected = np.stack([np.mean(seen.get(d, none), axis=0) for d in range(WINDOW)], -1)
    np.testing.assert_allclose(found["self", "off"].profile, expected, atol=1e-6)


def test_the_control_by_distance_equals_loops_over_matrices_of_the_profile():
    profile = np.random.default_rng(0).random((2, 2, WINDOW))
    given = {"window": WINDOW, "batch": 4, "profiles": {("self", "off"): profile}}
    found = probe.score_heads(MODELS["gpt2"], CORPUS, QUESTIONS, **given)

    def spread(size: int) -> np.ndarray:
        apart = np.subtract.outer(np.arange(size), np.arange(size))
        return profile[:, :, np.maximum(apart, 0)]

    expected = score_plainly(MODELS["gpt2"], CORPUS, False, {"self": spread})["self"]
    np.testing.assert_array_equal(
        found["self", "off"].answers["by_distance"], expected.astype(np.float32)
    )


def shape_of(layers: int, heads: int) -> SimpleNamespace:
    """All that a recorder asks of a model."""
    module = SimpleNamespace(config=SimpleNamespace(num_attention_heads=heads))
    return SimpleNamespace(attention_modules=lambda: {"self": [None] * layers}, module=module)


def test_equal_weights_are_spread_evenly():
    """Where entity attention sees no label: over mentions, by how many tokens they have."""
    even, scores = (probe.HeadScores(shape_of(1, 2), QUESTIONS, window=WINDOW) for _ in range(2))
    for first in QUESTIONS.windows:
        scores.see(0, None, np.array([first]))
        even.see(0, torch.full((1, 2, WINDOW, WINDOW), 0.1), np.array([first]))
    np.testing.assert_array_equal(scores.answers["correct"], even.answers["correct"])


def test_a_split_without_questions_has_empty_answers():
    none, zeros = np.full_like(CORPUS.mentions, -1), np.zeros_like(CORPUS.gold)
    nothing = give(replace(CORPUS, mentions=none, gold=zeros), "gold")
    questions = probe.ask(DOCUMENTS, nothing, GROUPS, window=WINDOW)
    found = probe.score_heads(MODELS["gpt2e"], nothing, questions, window=WINDOW, batch=3)
    assert {scores.answers["correct"].shape for scores in found.values()} == {(2, 2, 0)}
    assert not any(scores.profile.any() for scores in found.values())


def test_no_hook_stays_and_weights_that_are_not_finite_are_refused():
    hooks = [len(block.attn._forward_hooks) for block in MODELS["gpt2"].module.transformer.h]
    broken = deepcopy(MODELS["gpt2"])
    broken.module.transformer.h[1].attn.c_attn.weight.data.fill_(float("nan"))
    refused = pytest.raises(ValueError, match="layer 2 is not finite")
    for model, end in ((MODELS["gpt2"], nullcontext()), (broken, refused)):
        with end:
            probe.score_heads(model, CORPUS, QUESTIONS, window=WINDOW, batch=3)
        assert [len(block.attn._forward_hooks) for block in model.module.transformer.h] == hooks


def test_a_model_that_gives_no_weights_is_refused():
    fused = deepcopy(MODELS["gpt2"])
    fused.module.set_attn_implementation("sdpa")
    refused = pytest.raises(ValueError, match="set the model's attention to eager")
    with probe.watch(fused, "self"), refused:
        fused.module(torch.zeros(1, 4, dtype=torch.int64))


def make_questions(
    group: list[int], document: list[int] | None = None, later: int = 10, split: str = "dev"
) -> probe.Questions:
    n = len(group)
    columns = {"document": document or [0] * n, "group": group, "candidates": 4}
    columns |= {"nearest": np.arange(n) % 2.0, "same_head": 1.0, "chance": 0.25}
    table = pd.DataFrame(columns, index=range(n))
    return probe.Questions(split, ("a", "b", "c"), {}, table, NAMES, mentions=20, later=later)


def make_scores(credits: list[list[list[float]]], control: bool = True) -> probe.HeadScores:
    array = np.array(credits, np.float32)
    layers, heads, questions = array.shape
    scores = probe.HeadScores(shape_of(layers, heads), make_questions([0] * questions), window=5)
    scores.answers = {"correct": array} | ({"by_distance": 1 - array} if control else {})
    return scores


# one layer, two heads; head 1 is better on the first split, head 2 on the second
FIRST = make_scores([[[1, 1, 1, 0], [0, 1, 0, 0]]], control=False)
SECOND = make_scores([[[0, 1, 0], [1, 1, 1]]])
ASKED = make_questions([0, 0, 1, -1]), make_questions([0, 1, 1], [0, 2, 2], split="test")


def choose(heads=(FIRST, SECOND), asked=ASKED):
    """The choices, and each number of them by group and measure."""
    chosen = probe.choose_heads({KEY: heads[0]}, asked[0])
    rows = probe.choice_rows(chosen, ({KEY: heads[0]}, {KEY: heads[1]}), asked)
    return chosen, {(row["group"], row["measure"]): row for row in rows}


def test_the_head_chosen_on_one_split_is_scored_on_the_other():
    _, rows = choose()
    best = {measure: row["value"] for (group, measure), row in rows.items() if group == "all"}
    assert (best["layer"], best["head"]) == (1, 1)  # not head 2, which is better where it is scored
    assert best["chosen_accuracy"] == pytest.approx(3 / 4)
    assert best["accuracy"] == pytest.approx(1 / 3)
    assert best["accuracy_by_distance"] == pytest.approx(2 / 3)
    assert best["best_accuracy"] == 1.0
    for measure, split, count, value in (
        ("chosen_accuracy", "dev", 1, 1.0), ("accuracy", "test", 2, 0.5), ("layer", "test", None, 1)
    ):  # fmt: skip
        row = rows["pronouns", measure]
        assert (row["split"], row["count"], row["value"]) == (split, count, value)


def test_equal_heads_the_first_is_taken_and_none_without_questions():
    credits = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    assert probe.choose_head(credits, np.array([True, True])) == (0, 0)
    assert probe.choose_head(credits, np.array([False, True])) == (1, 0)
    assert probe.choose_head(credits, np.array([False, False])) is None


def test_a_group_that_one_split_lacks_is_defined():
    _, rows = choose()
    other = {measure: row["value"] for (group, measure), row in rows.items() if group == "other"}
    assert other["layer"] == 1  # chosen, but nothing to score
    assert {other["accuracy"], other["accuracy_by_distance"], other["best_accuracy"]} == {None}
    _, rows = choose((SECOND, FIRST), ASKED[::-1])
    other = [row["value"] for (group, _), row in rows.items() if group == "other"]
    assert other == [None] * 6  # to be scored, but not chosen
    assert rows["all", "accuracy_by_distance"]["value"] is None


def test_counts_and_baselines_of_a_split():
    rows = list(probe.question_rows(ASKED[0]))
    counts = {row["measure"]: row["value"] for row in rows if "group" not in row}
    assert (counts["mentions_asked"], counts["mentions_later"], counts["candidates"]) == (4, 10, 4)
    assert counts["mentions_left_out"] == pytest.approx(0.6)
    for group, n in (("all", 4), ("nouns", 2)):
        own = {row["measure"]: row["value"] for row in rows if row.get("group") == group}
        assert own == {
            "accuracy_nearest": 0.5, "accuracy_same_head": 1.0, "accuracy_chance": 0.25
        }  # fmt: skip
        assert {row["count"] for row in rows if row.get("group") == group} == {n}


@pytest.mark.parametrize("later", [0, 3])
def test_nothing_asked_is_defined(later):
    nothing = make_questions([], later=later)
    found = {row["measure"]: row["value"] for row in probe.question_rows(nothing)}
    assert found["mentions_left_out"] == (1.0 if later else None)
    assert found["accuracy_chance"] is None
    empty = make_scores([[[], []]])
    chosen, _ = choose((empty, empty), (nothing, nothing))
    assert not list(probe.document_rows(chosen, {KEY: empty}, nothing))
    assert {row["count"] for row in probe.head_rows({KEY: empty}, nothing)} == {0}


def test_rows_of_every_head_add_up():
    rows = list(probe.head_rows({KEY: SECOND}, ASKED[1]))
    of_second = [row for row in rows if (row["head"], row["group"]) == (2, "pronouns")]
    assert {(row["layer"], row["split"], row["count"]) for row in of_second} == {(1, "test", 2)}
    values = {row["measure"]: row["value"] for row in of_second}
    assert values == {"head_correct": 2.0, "head_by_distance": 0.0}
    assert len(rows) == 2 * 2 * 4
    assert {row["measure"] for row in probe.head_rows({KEY: FIRST}, ASKED[0])} == {"head_correct"}


def test_documents_of_the_chosen_heads_add_up_to_their_accuracy():
    chosen, choices = choose()
    rows = list(probe.document_rows(chosen, {KEY: SECOND}, ASKED[1]))
    every = [row for row in rows if row["group"] == "all"]
    found = {(row["unit"], row["measure"]): (row["count"], row["value"]) for row in every}
    for unit, count, *answers in (("a", 1, 0.0, 0.0, 0.25), ("c", 2, 1.0, 1.0, 0.5)):
        for measure, value in zip(("correct", "nearest", "chance"), answers, strict=True):
            assert found[unit, measure] == (count, value)
    assert {unit for unit, _ in found} == {"a", "c"}
    for name in (*NAMES, "all"):
        own = [row for row in rows if (row["group"], row["measure"]) == (name, "correct")]
        best = choices[name, "accuracy"]
        assert sum(row["count"] for row in own) == best["count"]
        if best["count"]:
            right = sum(row["value"] for row in own)
            assert right / best["count"] == pytest.approx(best["value"])
