"""Zero-shot scores against one forward pass per token, and lm-evaluation-harness' rule, anew; the
decisions' worth against scikit-learn, brute force, and GAP's scorer by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import task_files
import torch
from sklearn.metrics import matthews_corrcoef, precision_recall_fscore_support
from tiny import lively_model
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.encoding import END
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.tasks import Example, find_task
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.tasks.zero_shot.judging import (
    Decisions,
    choose_options,
    correlate,
    find_threshold,
    judge,
    pair_versions,
    score_gap,
)
from entity_transformers.tasks.zero_shot.requests import Request, list_rules
from entity_transformers.tasks.zero_shot.scoring import (
    encode_requests,
    find_labels,
    score_requests,
)
from entity_transformers.tasks.zero_shot.trial import EXAMPLE_COLUMNS, count_named, try_task

WINDOW = 24
TEXT = (
    "Sarah was a better surgeon than Maria so she got the hard cases. The men met Ann's dog, too."
)
KINDS = ("gpt1", "gpt2", "gpt2e", "lstm", "transformer-xl")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    words = tuple(f"{TEXT} positive negative very".split())
    return learn_tokenizer([Document("a", 0, "train", "", words, (0,))], 330, "natural")


def read(task: str, data: Path) -> list[Example]:
    folder = data / find_task(task).dataset.folder
    return list(find_task(task).read(folder, Ledger()))


def make_model(kind: str, tokenizer: Tokenizer) -> LanguageModel:
    return lively_model(kind, tokenizer.get_vocab_size(), window=WINDOW)


REQUESTS = [
    Request("Sarah met Maria so Sarah got the cases.", 24, 18),
    Request("Sarah met Maria so Maria got the cases.", 24, 18),
    Request("Sarah met Maria so Sarah got the cases.", 0, 18),
    Request("The men met. Ann's", 12),
    Request("Ann", 0),
    Request(f"{TEXT} {TEXT}", 150, 20),  # longer than the window
]


def score_plainly(
    model: LanguageModel, request: Request, tokenizer: Tokenizer, labels: list[int] | None
) -> tuple[float, int]:
    """One forward pass per scored token, over the tokens before it."""
    whole = tokenizer.encode(request.text, add_special_tokens=False)
    given = len(tokenizer.encode(request.text[: request.scored].rstrip()).ids)
    bare = [tokenizer.token_to_id(END)] if given == 0 else []
    tokens, target = bare + whole.ids, len(bare) + given
    known = len(bare) + sum(end <= request.read for _, end in whole.offsets)
    limit = len(tokens) if model.context is None else model.context + 1
    cut = max(0, len(tokens) - limit)
    tokens, target, known = tokens[cut:], max(1, target - cut), max(0, known - cut)
    own = None if labels is None else labels[cut:]
    nats = 0.0
    with torch.no_grad():
        for place in range(target, len(tokens)):
            inputs = torch.tensor([tokens[:place]])
            if own is None:
                hidden, _ = model.encode(Batch(inputs), model.start(1))
            else:
                state = model.start(1, max(own))
                named = torch.tensor([own[:place]])
                first, memory = model.encode(
                    Batch(inputs[:, :known], named[:, :known]), state
                ) if known else (None, state)  # fmt: skip
                hidden = first
                if place > known:
                    hidden, _ = model.encode(Batch(inputs, named), memory)
            assert hidden is not None
            logits = hidden[0, -1] @ model.output_weight.T
            nats -= float(torch.log_softmax(logits.double(), -1)[tokens[place]])
    return nats, len(tokens) - target


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_one_pass_per_token(kind: str, tokenizer: Tokenizer) -> None:
    model = make_model(kind, tokenizer)
    encoded = encode_requests(REQUESTS, tokenizer)
    scores = score_requests(model, encoded, None, batch=4)
    for number, request in enumerate(REQUESTS):
        nats, count = score_plainly(model, request, tokenizer, None)
        assert scores.nats[number] == pytest.approx(nats, rel=1e-5), request
        assert scores.tokens[number] == count
    assert scores.cut.tolist() == [False] * 5 + [model.context is not None]


def test_scores_with_entities_read_the_memory_of_what_was_before(tokenizer: Tokenizer) -> None:
    model = make_model("gpt2e", tokenizer)
    encoded = encode_requests(REQUESTS, tokenizer)
    labels, shuffled = find_labels(REQUESTS, encoded, make_resolver("names-causal"), 1)
    assert count_named(encoded, labels) == 4
    on = score_requests(model, encoded, labels, batch=4)
    for number, request in enumerate(REQUESTS):
        own = labels[slice(*encoded.offsets[number : number + 2])].tolist()
        nats, _ = score_plainly(model, request, tokenizer, own)
        assert on.nats[number] == pytest.approx(nats, rel=1e-5), request
    off = score_requests(model, encoded, None, batch=4)
    assert abs(on.nats - off.nats)[:3].min() > 1e-3
    assert np.array_equal(np.sort(labels[:20]) > 0, np.sort(shuffled[:20]) > 0)


def test_a_candidate_has_the_label_of_its_name(tokenizer: Tokenizer) -> None:
    encoded = encode_requests(REQUESTS[:2], tokenizer)
    labels, _ = find_labels(REQUESTS[:2], encoded, make_resolver("names-causal"), 1)
    for number, entity in ((0, 1), (1, 2)):
        part = slice(*encoded.offsets[number : number + 2])
        inside = (encoded.ends[part] > 18) & (encoded.ends[part] <= 24)
        assert set(labels[part][inside]) == {entity}
        assert labels[part][encoded.ends[part] > 24].max() == 0


def test_the_future_of_a_text_changes_no_label_before(tokenizer: Tokenizer) -> None:
    texts = [Request(TEXT, 0), Request(TEXT[:50] + " Sarah Maria Bob Sarah", 0)]
    encoded = encode_requests(texts, tokenizer)
    labels, _ = find_labels(texts, encoded, make_resolver("names-causal"), 1)
    parts = [slice(*encoded.offsets[i : i + 2]) for i in range(2)]
    found = [labels[part][encoded.ends[part] <= 40] for part in parts]
    assert np.array_equal(*found)
    assert found[0].max() == 2


def ask_as_the_harness(row: dict[str, Any]) -> tuple[list[str], str]:
    """Contexts and continuation of lm_eval/tasks/winogrande/preprocess_winogrande.py (0.4.9), whose
    continuation follows the target delimiter, a space.
    """
    blank = row["sentence"].index("_")
    contexts = [row["sentence"][:blank] + row[option] for option in ("option1", "option2")]
    return contexts, " " + row["sentence"][blank + 1 :].strip()


def score_as_the_harness(
    module: Any, tokenizer: Tokenizer, context: str, continuation: str, longest: int
) -> float:
    """``_encode_pair`` and ``_loglikelihood_tokens`` of lm_eval/api/model.py and
    lm_eval/models/huggingface.py, of one request, on transformers' own model.
    """
    spaces = len(context) - len(context.rstrip())
    if spaces:
        continuation, context = context[-spaces:] + continuation, context[:-spaces]
    whole = tokenizer.encode(context + continuation).ids
    given = tokenizer.encode(context).ids
    target = whole[len(given) :]
    inputs = torch.tensor([(given + target)[-(longest + 1) :][:-1]])
    with torch.no_grad():
        logits = torch.log_softmax(module(inputs).logits[0].double(), -1)
    rows = logits[-len(target) :]
    return float(rows[torch.arange(len(target)), torch.tensor(target)].sum())


def test_winogrande_and_wsc273_are_scored_as_the_harness_scores_them(
    tokenizer: Tokenizer, shared_data: Path
) -> None:
    model = lively_model("gpt2", tokenizer.get_vocab_size(), window=64)
    lines = (shared_data / "winogrande" / "dev.jsonl").read_text().splitlines()[:60]
    asked = [ask_as_the_harness(json.loads(line)) for line in lines]
    schemas = read("wsc273", shared_data)[:40]
    for schema in schemas:
        assert schema.blank is not None
        before, after = (schema.texts[0][: schema.blank[0]], schema.texts[0][schema.blank[1] :])
        # its wsc273 has the text after the pronoun as it is, after the delimiter
        asked.append(([before + option for option in schema.options], " " + after))
    tasks = {example.name: example for example in read("winogrande", shared_data)}
    examples = [(find_task("winogrande"), tasks[json.loads(line)["qID"]]) for line in lines]
    examples += [(find_task("wsc273"), schema) for schema in schemas]
    requests = [one for task, ex in examples for one in list_rules(task)["harness"](ex)]
    ours = -score_requests(model, encode_requests(requests, tokenizer), None, batch=16).nats
    theirs = [
        score_as_the_harness(model.module, tokenizer, context, continuation, 64)
        for contexts, continuation in asked
        for context in contexts
    ]
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_partial_and_full_are_of_the_text_as_it_stands(tokenizer: Tokenizer) -> None:
    [example] = [
        Example("a", "test", ("Ann saw Bo because _, too, ran.",), 0, ("Ann", "Bo"), (19, 20))
    ]
    rules = list_rules(find_task("winogrande"))
    assert [one.text for one in rules["partial"](example)] == [
        f"Ann saw Bo because {name}, too, ran." for name in ("Ann", "Bo")
    ]
    assert [one.text[one.scored :] for one in rules["partial"](example)] == [", too, ran."] * 2
    assert [one.text[one.scored :] for one in rules["harness"](example)] == [" , too, ran."] * 2
    assert {one.scored for one in rules["full"](example)} == {0}
    assert {one.text[: one.read] for one in rules["full"](example)} == {"Ann saw Bo because"}


def test_sentiment_and_choice(tokenizer: Tokenizer) -> None:
    film = Example("a", "test", ("a good film",), 1)
    assert list_rules(find_task("polarity"))["sentiment"](film) == [
        Request("a good film very negative", 16),
        Request("a good film very positive", 16),
    ]
    asked = Example("a", "test", ("Ann ran. Who ran?",), 1, ("Bo", "Ann Ann"))
    assert [one.text for one in list_rules(find_task("race"))["choice"](asked)] == [
        "Ann ran. Who ran? Bo",
        "Ann ran. Who ran? Ann Ann",
    ]
    assert not list_rules(find_task("snli"))
    met = Example("a", "test", ("Ann met Bo; Her dog ran.",), 0, ("Ann's", "Bo's"), (12, 15))
    question = 'Ann met Bo; Her dog ran. "her" refers to'
    assert list_rules(find_task("gap"))["refers"](met) == [
        Request(f"{question} {name}", len(question), 24) for name in ("Ann", "Bo")
    ]


def test_a_request_with_nothing_to_score_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"'Ann': nothing of it is left to be scored"):
        encode_requests([Request("Ann", 3)], tokenizer)


def test_the_highest_score_is_chosen() -> None:
    examples = [
        Example(str(i), "test", ("a",), label, options)
        for i, (label, options) in enumerate([(0, ("a", "b")), (2, ("a", "b", "c")), (1, ())])
    ]
    decisions = choose_options(examples, np.array([-1.0, -2, -3, -2, -5, -1, -0.5]))
    assert decisions.chosen.tolist() == [0, 1, 1]
    assert decisions.right.tolist() == [True, False, True]
    [row] = judge("race-like", decisions)
    assert row == {"groups": {}, "examples": 3, "accuracy": pytest.approx(2 / 3)}


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_is_the_best_of_all(seed: int) -> None:
    generator = np.random.default_rng(seed)
    labels = (generator.random(60) < 0.6).astype(int)
    scores = np.round(generator.standard_normal(60) + labels, 1)
    ranked = np.unique(scores)
    middles = (ranked[1:] + ranked[:-1]) / 2
    best = max(matthews_corrcoef(labels, scores > middle) for middle in middles)
    found = find_threshold(scores, labels)
    assert matthews_corrcoef(labels, scores > found) == pytest.approx(best)
    counts = [((scores > found) == a) & (labels == b) for a, b in ((1, 1), (1, 0), (0, 1), (0, 0))]
    assert correlate(*(np.array(c.sum(), float) for c in counts)) == pytest.approx(best)


def test_equal_scores_have_no_threshold() -> None:
    with pytest.raises(ValueError, match="all scores are equal"):
        find_threshold(np.ones(3), np.array([0, 1, 1]))


def count_as_gap_scorer(rows: list[tuple[str, bool, bool, bool, bool]]) -> dict[str, list[int]]:
    """The four counts of gap_scorer.py, name by name: over all, and by the pronoun's gender."""
    counts = {name: [0, 0, 0, 0] for name in ("all", "masculine", "feminine")}
    for gender, gold_a, gold_b, called_a, called_b in rows:
        for gold, called in ((gold_a, called_a), (gold_b, called_b)):
            kind = {(1, 1): 0, (0, 1): 1, (0, 0): 2, (1, 0): 3}[int(gold), int(called)]
            counts["all"][kind] += 1
            counts[gender][kind] += 1
    return counts


def test_gap_s_scores_are_those_of_its_scorer() -> None:
    """By hand: feminine 2 hits of 3 called and 2 wanted, F1 4/5; masculine 1 of 3 and 3, 1/3."""
    labels = [0, 1, None, 0, 1, 0]
    genders = ["feminine"] * 3 + ["masculine"] * 3
    chosen = np.array([0, 1, 0, 0, 0, 1])
    examples = [
        Example(str(i), "test", ("a",), label, ("A", "B"), (0, 1), {"gender": gender})
        for i, (label, gender) in enumerate(zip(labels, genders, strict=True))
    ]
    whole, feminine, masculine = judge("gap", Decisions(examples, chosen))
    assert feminine["groups"] == {"gender": "feminine"}
    assert feminine["f1"] == pytest.approx(4 / 5)
    assert masculine["f1"] == pytest.approx(1 / 3)
    rows = [
        (g, label == 0, label == 1, c == 0, c == 1)
        for g, label, c in zip(genders, labels, chosen.tolist(), strict=True)
    ]
    for name, row in (("all", whole), ("feminine", feminine), ("masculine", masculine)):
        hits, false, _, missed = count_as_gap_scorer(rows)[name]
        precision, recall = hits / (hits + false), hits / (hits + missed)
        assert row["precision"] == pytest.approx(precision)
        assert row["recall"] == pytest.approx(recall)
        assert row["f1"] == pytest.approx(2 * precision * recall / (precision + recall))


@pytest.mark.parametrize("seed", range(3))
def test_gap_s_scores_are_scikit_learn_s(seed: int) -> None:
    generator = np.random.default_rng(seed)
    truth = np.eye(3, dtype=bool)[generator.integers(0, 3, 50)][:, :2]
    called = np.eye(2, dtype=bool)[generator.integers(0, 2, 50)]
    wanted = precision_recall_fscore_support(truth.ravel(), called.ravel(), average="binary")
    found = score_gap(truth, called)
    assert [found[name] for name in ("precision", "recall", "f1")] == pytest.approx(wanted[:3])
    nothing = score_gap(np.zeros((2, 2), bool), called[:2])
    assert nothing == {"precision": 0.0, "recall": 0.0, "f1": 0.0}


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e"])
def test_a_trial_says_of_each_example_what_was_chosen(
    kind: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    data = task_files.write_tasks(tmp_path)
    model = make_model(kind, tokenizer)
    for name in ("winogrande", "winobias", "gap", "polarity"):
        task, examples = find_task(name), read(name, data)
        outcomes = list(
            try_task(
                model,
                task,
                examples,
                tokenizer,
                make_resolver("names-causal"),
                splits=("test",),
                batch=8,
                seed=1,
            )
        )
        own = [example for example in examples if example.split == "test"]
        modes = ["on", "off", "shuffled"] if kind == "gpt2e" and name != "polarity" else ["off"]
        rules = list_rules(task)
        found = [(o.facts["rule"], o.facts["entities"]) for o in outcomes]
        assert found == [(rule, mode) for rule in rules for mode in modes]
        for outcome in outcomes:
            right = outcome.facts["right"]
            assert len(right) == len(own) == len(outcome.rows)
            assert outcome.facts["scores"][0]["accuracy"] == right.count("1") / len(own)
            for mark, row, example in zip(right, outcome.rows, own, strict=True):
                assert tuple(row) == EXAMPLE_COLUMNS
                nats = [float(value) for value in row["nats"].split()]
                if outcome.facts["rule"] != "refers":  # of means over tokens
                    assert row["chosen"] == int(np.argmin(nats))
                assert mark == str(int(row["chosen"] == example.label))


def test_acceptability_is_told_by_a_threshold_of_dev(tokenizer: Tokenizer) -> None:
    texts = ["Sarah was a better surgeon", "surgeon better a was Sarah", "The men met"]
    examples = [
        Example(f"{split}-{i}", split, (texts[i % 3],), i % 2)
        for split in ("dev", "test")
        for i in range(9)
    ]
    model = make_model("lstm", tokenizer)
    [outcome] = try_task(
        model,
        find_task("cola"),
        examples,
        tokenizer,
        make_resolver("names-causal"),
        splits=("test",),
        batch=8,
        seed=1,
    )
    nats = np.array([float(row["nats"]) for row in outcome.rows])
    lengths = np.array([len(tokenizer.encode(texts[i % 3]).ids) for i in range(9)])
    means = -nats / lengths
    threshold = find_threshold(means, np.arange(9) % 2)
    assert outcome.facts["threshold"] == pytest.approx(threshold, rel=1e-5)
    called = means > threshold
    expected = matthews_corrcoef(np.arange(9) % 2, called)
    assert outcome.facts["scores"][0]["matthews"] == pytest.approx(expected)


def test_sentences_of_winobias_are_paired_with_their_other_version(
    shared_data: Path,
) -> None:
    """On its test split, decided by a coin: counts by the sentences' numbers; hardly any sentence
    lacks its other version.
    """
    examples = [example for example in read("winobias", shared_data) if example.split == "test"]
    chosen = np.random.default_rng(0).integers(0, 2, len(examples))
    decisions = Decisions(examples, chosen)
    right = dict(zip((e.name for e in examples), decisions.right.tolist(), strict=True))
    for row in pair_versions(decisions):
        assert row["sentences"] > 0.95 * sum(e.groups["type"] == row["type"] for e in examples) / 2
        both = [
            (right[name], right[other])
            for name in right
            if name.startswith(f"test-{row['type']}-") and name.endswith("-pro")
            if (other := name.removesuffix("pro") + "anti") in right
        ]
        assert len(both) == row["sentences"]
        assert both.count((True, False)) == row["only_pro"] > 0
        assert both.count((False, True)) == row["only_anti"] > 0
