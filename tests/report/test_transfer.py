"""Tables of fine-tuning: whose score stands where, printed ones beside the same task alone."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tiny import tiny_entry

from entity_transformers.artifacts import write_json
from entity_transformers.report.cells import MISSING, Number
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.results import Results
from entity_transformers.report.shares import share_interval
from entity_transformers.report.transfer import build_pairs, build_transfer
from entity_transformers.report.transfer_ablations import (
    PRINTED as OBSERVED,
)
from entity_transformers.report.transfer_ablations import (
    build_auxiliary,
    draw_layers,
    list_layers,
)
from entity_transformers.report.transfer_pronouns import build_gap, build_winobias
from entity_transformers.report.transfer_scores import draw_scores, list_scores, say_tasks
from entity_transformers.report.transfer_trials import build_entities, build_rates

RIGHT = {("gpt2", "full"): "1100", ("gpt2", "no-auxiliary"): "1110", ("lstm", "full"): "0001",
         ("lstm", "no-auxiliary"): "0001"}  # fmt: skip


def score(right: str, **more: Any) -> dict[str, Any]:
    share = right.count("1") / len(right)
    known = {"examples": len(right), "accuracy": share, "majority": 0.75, "cut": 2}
    return {**known, "right": right, **more}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    for model, seed in product(("gpt2", "lstm"), (1, 2)):
        trainings: list[dict[str, Any]] = []
        for variant in ("full", "no-auxiliary"):
            right = RIGHT[model, variant]
            own = {"variant": variant, "train_examples": 80, "train_cut": 1}
            trainings += [
                own | {"task": "polarity", "splits": {"test": score(right)}},
                own | {"task": "snli", "splits": {"test": score(right)}},
            ]
        write_json(tmp_path / f"transfer/{model}/{seed}/transfer.json", {"trainings": trainings})
    frame = collect(Tree(tmp_path, tuple(product(("gpt2", "lstm"), (1, 2)))), ["transfer"])
    entries = (tiny_entry("gpt2"), tiny_entry("lstm"))
    return Results("t", entries, (1, 2), frame, ("transfer",), bootstrap_samples=500)


def test_scores_have_a_row_per_task_variant_and_model(results: Results) -> None:
    rows = {(row[0], row[2], row[3]): row for row in build_transfer(results).rows}
    assert len(rows) == 8
    polarity = rows["polarity", "full", "GPT2"]
    assert str(polarity[6]) == "75.0%"
    assert isinstance(polarity[7], Number)
    assert (polarity[7].value, polarity[7].low, polarity[7].high) == (0.5, *share_interval(2, 4))


def test_pairs_are_of_models_in_one_variant_and_of_one_model_s_variants(results: Results) -> None:
    rows = [row for row in build_pairs(results).rows if row[0] == "polarity"]
    found = {(row[2], row[3]): row[4] for row in rows}
    assert set(found) == {
        ("full", "GPT2 − LSTM"),
        ("no-auxiliary", "GPT2 − LSTM"),
        (MISSING, "GPT2, full − no-auxiliary"),
        (MISSING, "LSTM, full − no-auxiliary"),
    }
    cell = found[MISSING, "GPT2, full − no-auxiliary"]
    assert isinstance(cell, Number)
    assert cell.value == pytest.approx(-0.25)


def test_few_examples_are_paired_with_as_few_without_the_auxiliary_loss(tmp_path: Path) -> None:
    said = {"few": "1100", "layers-1": "1000", "few-no-auxiliary": "0111"}
    found = [
        {"task": "snli", "variant": variant, "train_examples": 8, "train_cut": 0,
         "splits": {"test": score(right)}}
        for variant, right in said.items()
    ]  # fmt: skip
    write_json(tmp_path / "transfer/gpt2/1/transfer.json", {"trainings": found})
    frame = collect(Tree(tmp_path, (("gpt2", 1),)), ["transfer"])
    entries = (tiny_entry("gpt2"),)
    rows = build_pairs(Results("t", entries, (1,), frame, ("transfer",), bootstrap_samples=99)).rows
    assert [row[3] for row in rows] == ["GPT2, few − few-no-auxiliary"]


def ablated(folder: Path, said: dict[str, dict[str, str]], seeds: tuple[int, ...]) -> Results:
    """Of one GPT-2: by task and variant what it has right with every seed; layers-N as named."""
    trainings = [
        {
            "task": task, "variant": variant, "seed": seed, "train_examples": 8 + len(task),
            "train_cut": 0, "splits": {"test": score(right)},
            "recipe": {"layers": int(variant[-1]) if variant.startswith("layers") else None},
        }
        for task, variants in said.items() for variant, right in variants.items() for seed in seeds
    ]  # fmt: skip
    write_json(folder / "transfer/gpt2/1/transfer.json", {"trainings": trainings})
    frame = collect(Tree(folder, (("gpt2", 1),)), ["transfer"])
    return Results("t", (tiny_entry("gpt2"),), (1,), frame, ("transfer",), bootstrap_samples=999)


def test_what_the_auxiliary_loss_is_worth_is_the_mean_over_tasks(tmp_path: Path) -> None:
    said = {
        "polarity": {"full": "1" * 8 + "0" * 32, "no-auxiliary": "1" * 32 + "0" * 8,
                     "few": "1" * 30 + "0" * 10, "few-no-auxiliary": "0" * 40},
        "snli": {"full": "01" * 20, "no-auxiliary": "01" * 20},
    }  # fmt: skip
    average, smallest = build_auxiliary(ablated(tmp_path, said, (1, 2))).rows
    assert average[1:4] == ("GPT2", "polarity, snli", Number(12.0, 0))
    gap = average[4]
    assert isinstance(gap, Number)
    assert gap.value == pytest.approx(-(24 / 40) / 2)
    # of one task alone nothing differs, so half of the other's binomial
    side = 1.96 * (0.6 * 0.4 / 40) ** 0.5 / 2
    assert gap.low == pytest.approx(-0.3 - side, abs=0.03)
    assert gap.high == pytest.approx(-0.3 + side, abs=0.03)
    assert (str(average[5]), average[6]) == ("−0.3%", "holds")
    assert (smallest[2], str(smallest[5]), smallest[6]) == ("polarity", "+1.6%", "holds")
    turned = {"polarity": {"full": "1" * 40, "no-auxiliary": "0" * 40}}
    assert build_auxiliary(ablated(tmp_path / "b", turned, (1,))).rows[0][6] == "contradicted"
    same = {"polarity": {"full": "10" * 20, "no-auxiliary": "01" * 20}}
    assert build_auxiliary(ablated(tmp_path / "c", same, (1,))).rows[0][6] == "not shown"
    assert OBSERVED["The average is higher without the auxiliary loss"] == pytest.approx(
        0.747 - 0.750
    )


def test_layers_that_are_transferred_are_a_line(tmp_path: Path) -> None:
    said = {
        "polarity": {"full": "1110", "layers-0": "0000", "layers-1": "1100"},
        "snli": {"full": "1110"},
    }
    results = ablated(tmp_path, said, (1, 2))
    [(place, points)] = list_layers(results).items()
    assert place == ("polarity", "GPT2")
    assert [(layers, share.value) for layers, share in points] == [(0, 0), (1, 0.5), (2, 0.75)]
    figure = draw_layers(results)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["polarity, test"]
    assert draw_layers(ablated(tmp_path / "b", {"snli": said["snli"]}, (1,))) is None


def test_a_glance_names_the_best_and_the_worst_and_the_commonest_label(results: Results) -> None:
    """Of tasks that are scored by shares; numbers of the full variant alone are said."""
    scores = list_scores(results)
    assert list(scores) == ["polarity", "snli"]
    shares = {(m.name, variant): score.value for (m, variant), score in scores["snli"].items()}
    assert shares == {place: right.count("1") / 4 for place, right in RIGHT.items()}
    said = say_tasks(results)
    assert said[0].startswith("Fine-tuned on polarity, right on test: GPT2 50.0% [")
    assert "to LSTM 25.0% [" in said[0]
    assert said[0].endswith("the commonest label has 75.0%.")
    figure = draw_scores(results)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["polarity", "snli"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["GPT2", "GPT2, no auxiliary loss", "LSTM", "LSTM, no auxiliary loss"]
    points = [line.get_xdata()[0] for line in figure.axes[0].get_lines()]  # type: ignore[index]
    assert points == [50.0, 75.0, 25.0, 25.0, 75.0]  # the last is the commonest label
    nothing = Results("t", results.entries, (1,))
    assert (draw_scores(nothing), say_tasks(nothing)) == (None, ())


GAP_GROUPS = [
    {"groups": {}, "examples": 4, "accuracy": 0.5, "f1": 0.6},
    {"groups": {"gender": "feminine"}, "examples": 2, "accuracy": 0.5, "f1": 0.3},
    {"groups": {"gender": "masculine"}, "examples": 2, "accuracy": 0.5, "f1": 0.6},
]
BIAS = [
    {"groups": {"type": "1", "version": "pro"}, "examples": 2, "accuracy": 1.0},
    {"groups": {"type": "1", "version": "anti"}, "examples": 2, "accuracy": 0.5},
]
PAIRS = [{"type": "1", "only_pro": 1, "only_anti": 0, "sentences": 2}]


@pytest.fixture
def several(tmp_path: Path) -> Results:
    """A study of one seed whose fine-tunings have two, of a model with entities and one without."""
    said = {"full": "1100", "entities": "1110", "entities-shuffled": "1000"}
    for model in ("gpt2", "gpt2e"):
        trainings: list[dict[str, Any]] = []
        for variant, seed in product(said if model == "gpt2e" else ("full",), (1, 2)):
            more = {} if variant == "full" else {"recalls": 3}
            more |= {"moved": 2} if variant == "entities-shuffled" else {}
            test = score(said[variant], groups=GAP_GROUPS, **more)
            bias = score(said[variant], groups=BIAS, pairs=PAIRS)
            own = {"task": "gap", "variant": variant, "seed": seed, "splits": {"test": test}}
            others = {"winobias": {"test": bias}}
            trainings.append(own | {"train_examples": 80, "train_cut": 1, "others": others})
        trials = [{"learning_rate": rate, "loss": 1 / rate} for rate in (0.5, 2.0)]
        rates = [{"pretrained": True, "task": "gap", "seed": 1, "trials": trials, "best": 2.0}]
        found = {"trainings": trainings, "rates": rates}
        write_json(tmp_path / f"transfer/{model}/1/transfer.json", found)
    frame = collect(Tree(tmp_path, tuple(product(("gpt2", "gpt2e"), (1,)))), ["transfer"])
    entries = (tiny_entry("gpt2"), tiny_entry("gpt2e"))
    return Results("t", entries, (1,), frame, ("transfer",), bootstrap_samples=500)


def test_seeds_are_those_of_the_fine_tunings_and_other_tasks_have_rows(several: Results) -> None:
    rows = {(row[0], row[2], row[3]): row for row in build_transfer(several).rows}
    assert len(rows) == 2 * (1 + 3)
    assert str(rows["gap", "entities", "GPT2E"][7]).startswith("75.0 ± 0.0%")
    assert str(rows["winobias after gap", "full", "GPT2"][7]).startswith("50.0 ± 0.0%")


def test_entities_are_compared_with_shuffled_ones_and_with_other_models(several: Results) -> None:
    found = {row[3]: row[4] for row in build_pairs(several).rows if row[0] == "gap"}
    values = {name: cell.value for name, cell in found.items() if isinstance(cell, Number)}
    assert values == {
        "GPT2 − GPT2E": 0.0,
        "GPT2E, full − entities": -0.25,
        "GPT2E, full − entities-shuffled": 0.25,
        "GPT2E, entities − entities-shuffled": 0.5,
        "GPT2E, entities − GPT2, full": 0.25,
    }


def test_pronouns_by_gender_and_version(several: Results) -> None:
    gap = {(row[0], row[1], row[2]): row for row in build_gap(several).rows}
    assert [str(cell) for cell in gap["gap", "full", "GPT2"][4:]] == [
        "60.0 ± 0.0%", "60.0 ± 0.0%", "30.0 ± 0.0%", "0.50 ± 0.00"
    ]  # fmt: skip
    bias = {(row[0], row[1], row[2]): row for row in build_winobias(several).rows}
    pro, anti, gap_1, *rest = bias["gap", "full", "GPT2E"][4:]
    assert (str(pro), str(anti)) == ("100.0 ± 0.0%", "50.0 ± 0.0%")
    assert isinstance(gap_1, Number)
    assert gap_1.value == 0.5
    assert [str(cell) for cell in rest] == [MISSING] * 3


def test_rates_and_where_entities_can_matter(several: Results) -> None:
    assert [[str(cell) for cell in row] for row in build_rates(several).rows] == [
        [label, "pretrained", "gap", "2.0000", "0.5000", "2, the last that was tried"]
        for label in ("GPT2", "GPT2E")
    ]
    rows = {row[2]: [str(cell) for cell in row[4:]] for row in build_entities(several).rows}
    assert rows == {"entities": ["4", "3", MISSING], "entities-shuffled": ["4", "3", "2"]}
