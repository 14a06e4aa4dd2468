"""What decisions on a task's examples are worth, against scikit-learn and GAP's scorer by hand; the
chains of a task's texts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support
from tokenizers import Tokenizer

from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.ledger import Ledger
from entity_transformers.corpus.tasks import Example, find_task
from entity_transformers.resolve.registry import make_resolver
from entity_transformers.tasks.transfer.chains import find_chains
from entity_transformers.tasks.transfer.judging import Decisions, judge, pair_versions, score_gap

TEXT = (
    "Sarah was a better surgeon than Maria so she got the hard cases. The men met Ann's dog, too."
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(
        [Document("a", 0, "train", "", tuple(TEXT.split()), (0,))], 330, "natural"
    )


def find(tokenizer: Tokenizer, *texts: str, shuffled: bool = False) -> list[list[tuple[int, int]]]:
    """The character after each token of each text, and its entity."""
    ends = [[end for _, end in tokenizer.encode(text).offsets] for text in texts]
    labels = find_chains(make_resolver("names-causal"), shuffled, 1)(texts, ends)
    return [list(zip(*pair, strict=True)) for pair in zip(ends, labels, strict=True)]


def test_a_name_has_its_label_and_shuffling_moves_labels_between_mentions(
    tokenizer: Tokenizer,
) -> None:
    texts = [f"Sarah met Maria so {name} got the cases.\n" for name in ("Sarah", "Maria")]
    for entity, found in enumerate(find(tokenizer, *texts), start=1):
        assert {label for end, label in found if 18 < end <= 24} == {entity}
        assert max(label for end, label in found if end > 24) == 0
    long = " ".join(["Sarah met Maria and Bob . Sarah saw Ann ."] * 5)
    [plain], [moved] = (find(tokenizer, long, shuffled=shuffled) for shuffled in (False, True))
    assert plain != moved
    assert [label > 0 for _, label in plain] == [label > 0 for _, label in moved]
    assert find_chains(make_resolver("names-causal"), True, 1)([], []) == []


def test_the_future_of_a_text_changes_no_label_before(tokenizer: Tokenizer) -> None:
    both = find(tokenizer, TEXT, TEXT[:50] + " Sarah Maria Bob Sarah")
    one, other = ([label for end, label in found if end <= 40] for found in both)
    assert one == other
    assert max(one) == 2


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


def test_sentences_of_winobias_are_paired_with_their_other_version(
    shared_data: Path,
) -> None:
    """On its test split, decided by a coin: counts by the sentences' numbers; hardly any sentence
    lacks its other version.
    """
    examples = [
        example
        for example in find_task("winobias").read(shared_data / "winobias", Ledger())
        if example.split == "test"
    ]
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
