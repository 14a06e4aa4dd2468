from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from entity_transformers.kinds import KINDS
from entity_transformers.report.bootstrap import compare_losses
from entity_transformers.report.claims import judge_claims
from entity_transformers.report.classes import draw_classes
from entity_transformers.report.controls import build_controls
from entity_transformers.report.differences import (
    BOOTSTRAP_SEED,
    better_condition,
    compare,
    compare_all,
    judged_split,
    seed_interval,
)
from entity_transformers.report.frame import Frame
from entity_transformers.report.headline import write_headline
from entity_transformers.report.page import render
from entity_transformers.report.records import Documents, Spans
from entity_transformers.report.results import Results, Run
from entity_transformers.report.tables import build_all
from entity_transformers.report.verdict import ABSENT, FAILS, HOLDS, OPEN, judge, judge_entities

Study = Callable[..., Any]
CONTROLS = ("gpt2e-unlabelled", "gpt2e-shuffled", "gpt2-matched")
ALL = ("gpt2", "gpt2e", *CONTROLS)


def measure(results: Any, model: str, against: str, given: str = "off", split: str = "test") -> Any:
    """GPT2E's (or ``model``'s) difference with entities on to another model."""
    return compare(results, split, results.entry(model), "on", results.entry(against), given)


def test_entities_help_when_every_control_is_beaten(study: Study) -> None:
    verdict = judge_entities(study(ALL))
    assert verdict.status == HOLDS
    assert verdict.text.startswith(
        "That entity information helps holds: on test GPT2E beats GPT2E unlabelled (difference −"
    )
    assert {difference.against.name for difference in verdict.differences} == set(CONTROLS)
    assert all(
        difference.high is not None and difference.high < 0 for difference in verdict.differences
    )


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize(("shift", "status"), [(-0.025, OPEN), (-0.1, FAILS)])
def test_one_unbeaten_control_is_enough_to_say_that_entities_do_not_help(
    study: Study, control: str, shift: float, status: str
) -> None:
    """gpt2e's documents are shifted by -0.025 with a noise of 0.004: the same shift lies within the
    interval, -0.1 beats gpt2e.
    """
    results = study(ALL, shift={control: shift})
    verdict = judge_entities(results)
    assert verdict.status == status
    assert verdict.text.startswith(
        f"That entity information helps is {status}: on test GPT2E does not beat "
    )
    assert verdict.short in write_headline(results)
    assert "[" not in verdict.short
    assert verdict.short.split(" does not beat ")[0] == verdict.text.split(" does not beat ")[0]


@pytest.mark.parametrize("missing", CONTROLS)
def test_nothing_is_claimed_while_a_control_is_missing(study: Study, missing: str) -> None:
    results = study(tuple(model for model in ALL if model != missing))
    verdict = judge_entities(results)
    assert verdict.status == ABSENT
    assert "were not run" in verdict.text
    assert "helps:" not in verdict.text
    assert "Not run: " in build_all(results)["controls"].note


def test_an_unbeaten_control_is_told_even_if_another_is_missing(study: Study) -> None:
    verdict = judge_entities(study(("gpt2", "gpt2e", "gpt2-matched"), shift={"gpt2-matched": -0.2}))
    assert verdict.status == FAILS
    assert "does not beat GPT2 parameter-matched" in verdict.text
    assert "Not run: GPT2E unlabelled and GPT2E shuffled." in verdict.text


def test_text_without_mentions_has_no_tokens_outside_of_them(study: Study) -> None:
    """A book with names that a resolver found, and no gold chains: every token would be outside."""

    def judge_outside(results: Results) -> str:
        return next(f.status for f in judge_claims(results) if "not hindered" in f.claim)

    results = study(("gpt2", "gpt2e"), (1, 2, 3))
    assert judge_outside(results) != ABSENT
    assert draw_classes(results) is not None
    inside = ("class=first", "class=later")
    rows = (
        replace(r, value=None, count=0) if r.condition.startswith(inside) else r
        for r in results.frame
    )
    plain = replace(results, frame=Frame(rows))
    assert judge_outside(plain) == ABSENT
    assert draw_classes(plain) is None
    tables = [build_all(one)["perplexity_by_class"] for one in (results, plain)]
    outside = ["outside mentions" in {row[0] for row in table.rows} for table in tables]
    assert outside == [True, False]


def test_without_gpt2e_nothing_was_tested(study: Study) -> None:
    assert judge_entities(study(("gpt2", "gpt2-matched"))).status == ABSENT


def test_controls_are_known_by_what_they_are_and_not_by_their_names(study: Study) -> None:
    results = study(ALL)
    renamed = replace(
        results,
        entries=tuple(replace(entry, name=f"m{i}") for i, entry in enumerate(results.entries)),
    )
    names = dict(zip(ALL, (entry.name for entry in renamed.entries), strict=True))
    # what is parameter-matched still names gpt2e, so that it is no control of m1
    rows = tuple(replace(r, model=names.get(r.model, r.model)) for r in results.frame)
    runs = tuple(replace(run, model=names[run.model]) for run in results.runs)
    verdict = judge_entities(replace(renamed, frame=Frame(rows), runs=runs))
    assert {d.against.name for d in verdict.differences} == {"m2", "m3"}
    assert verdict.text.endswith("the controls GPT2 parameter-matched were not run.")


@pytest.mark.parametrize(("shift", "status"), [(0.0, HOLDS), (-0.1, FAILS)])
def test_a_kind_that_reads_no_labels_is_held_to_the_baseline_and_to_shuffled_ones(
    study: Study, shift: float, status: str
) -> None:
    """It is the baseline without labels, and there is no other condition to hold it to."""
    results = study(("gpt2", "gpt2e", "gpt2e-shuffled"), shift={"gpt2": shift})
    kind, plain = KINDS["gpt2-antecedent"], results.entry("gpt2").lm
    entries = tuple(
        entry if entry.name == "gpt2" else replace(entry, kind=kind, lm=plain)
        for entry in results.entries
    )
    results = replace(results, entries=entries)
    verdict = judge_entities(results)
    assert verdict.status == status
    assert {d.against.name for d in verdict.differences} == {"gpt2", "gpt2e-shuffled"}
    assert not any("Entity attention" in finding.claim for finding in judge_claims(results))
    table = build_controls(results)
    assert [row[0] for row in table.rows] == ["GPT2", "GPT2 antecedent gpt2e-shuffled"]
    assert table.title == "GPT2 antecedent gpt2e against the controls (test)"
    assert "GPT2E" not in f"{table.measures}{table.note}"


@pytest.mark.parametrize("few", [1, 2, 4])
def test_few_documents_give_no_interval_and_no_claim(study: Study, few: int) -> None:
    results = study(ALL)
    runs = []
    for run in results.runs:
        assert run.documents is not None
        kept = np.flatnonzero(run.documents.split == "test")[:few]
        cut = {name: getattr(run.documents, name)[kept] for name in ("split", "document", "tokens")}
        nll = {given: values[kept] for given, values in run.documents.nll.items()}
        runs.append(replace(run, documents=Documents(**cut, nll=nll)))
    verdict = judge_entities(replace(results, runs=tuple(runs)))
    assert verdict.status == OPEN
    assert "no interval" in verdict.text


def test_a_difference_is_the_bootstraps(full: Any) -> None:
    difference = measure(full, "gpt2e", "gpt2")
    nll = {}
    for model, given in (("gpt2e", "on"), ("gpt2", "off")):
        documents = [run.documents for run in full.named(model)]
        at = documents[0].split == "test"
        nll[model] = np.mean([each.nll[given][at] for each in documents], axis=0)
    tokens = full.named("gpt2")[0].documents.tokens[at]
    expected = compare_losses(
        nll["gpt2e"], nll["gpt2"], tokens, samples=500, seed=BOOTSTRAP_SEED, confidence=0.95
    )
    assert difference.value == pytest.approx(
        (nll["gpt2e"] - nll["gpt2"]).sum() / tokens.sum(), rel=1e-12
    )
    assert [difference.low, difference.high] == expected["interval"]
    assert (difference.p, difference.documents) == (expected["p"], 40)


def test_shuffled_ids_are_compared_where_they_were_scored(study: Study) -> None:
    results = study()
    run = results.named("gpt2e")[0]
    nll = {**run.documents.nll, "shuffled": run.documents.nll["on"] + run.documents.tokens}
    shuffled = replace(run, documents=replace(run.documents, nll=nll))
    found = compare_all(replace(results, runs=(results.runs[0], shuffled)), "test")
    assert [(d.against.name, d.against_condition) for d in found] == [
        ("gpt2", "off"),
        ("gpt2e", "off"),
        ("gpt2e", "shuffled"),
    ]
    assert found[-1].value == pytest.approx(-1.0)


def test_other_documents_cannot_be_compared(study: Study) -> None:
    results = study()
    run = results.named("gpt2e")[0]
    other = replace(run, documents=replace(run.documents, tokens=run.documents.tokens + 1))
    changed = replace(results, runs=(results.runs[0], other))
    with pytest.raises(
        ValueError, match="gpt2e and gpt2 scored different documents or tokens of test"
    ):
        measure(changed, "gpt2e", "gpt2")


def test_a_control_is_met_at_its_best(full: Any) -> None:
    # the fixture's off is 0.003 worse
    assert better_condition(full, full.entry("gpt2e-unlabelled"), "test") == "on"
    assert better_condition(full, full.entry("gpt2-matched"), "test") == "off"
    assert better_condition(full, full.entry("gpt2"), "absent split") == "off"
    assert {d.against for d in compare_all(full, "test")} == set(full.entries)


def test_claims_are_judged_on_test_else_dev(study: Study) -> None:
    results = study()
    assert judged_split(results) == "test"
    runs = tuple(
        replace(run, documents=replace(run.documents, split=np.full(70, "dev")))
        for run in results.runs
        if run.documents
    )
    assert judged_split(replace(results, runs=runs)) == "dev"
    assert judged_split(replace(results, runs=())) is None


def test_the_interval_over_seeds_is_students() -> None:
    first, second = np.array([5.1, 5.3, 5.2, 5.6]), np.array([5.2, 5.35, 5.4, 5.5])
    low, high = seed_interval((first - second).tolist()) or (0, 0)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert seed_interval([0.1]) is None


def test_with_several_seeds_a_claim_has_to_stand_in_both_intervals(study: Study) -> None:
    results = study(ALL, seeds=(1, 2, 3))
    good = measure(results, "gpt2e", "gpt2-matched")
    assert (good.beats, good.seeds) == (True, 3)
    gaps = []
    for ours, theirs in zip(results.named("gpt2e"), results.named("gpt2-matched"), strict=True):
        at = ours.documents.split == "test"
        gap = (ours.documents.nll["on"] - theirs.documents.nll["off"])[at].sum()
        gaps.append(float(gap / ours.documents.tokens[at].sum()))
    assert good.over_seeds == pytest.approx(seed_interval(gaps), rel=1e-9)


def test_one_contrary_seed_is_enough_for_not_shown(study: Study) -> None:
    results = study(ALL, seeds=(1, 2, 3), shift={"gpt2-matched": 0.1})
    mixed = replace(
        results,
        runs=tuple(
            _better(run, 0.2) if (run.model, run.seed) == ("gpt2-matched", 3) else run
            for run in results.runs
        ),
    )
    difference = measure(mixed, "gpt2e", "gpt2-matched")
    # over documents it is better; over seeds not, because one of them is worse
    assert difference.high < 0 < difference.over_seeds[1]
    assert not difference.beats
    assert judge_entities(mixed).status == OPEN


def test_the_claim_about_ner_has_to_stand_over_documents_and_over_seeds(study: Study) -> None:
    """20 documents with 10 gold and 10 found spans each, some of them right, give or take one."""

    def judged(*gaps: int) -> tuple[str, str]:
        def edit(files: dict[str, Any]) -> None:
            for seed, gap in enumerate(gaps, 1):
                for model, right in (("gpt2", 5), ("gpt2e", 5 + gap)):
                    f1 = float((right + wave).sum() / 200)
                    micro = {"f1": f1, "precision": f1, "recall": f1}
                    test = files[f"ner/{model}/{seed}/metrics.json"]["test"]
                    test["span"]["micro"] = {**micro, "support": 200, "predicted": 200}

        wave = np.arange(20) % 3 - 1
        results = study(("gpt2", "gpt2e"), seeds=tuple(range(1, len(gaps) + 1))).again(edit)
        runs = []
        for run in results.runs:
            right = 5 + wave + (gaps[run.seed - 1] if run.model == "gpt2e" else 0)
            counts = np.stack([right, np.full(20, 10), np.full(20, 10)], axis=1)
            runs.append(replace(run, ner_spans=Spans([f"doc{i}" for i in range(20)], counts)))
        findings = judge_claims(replace(results, runs=tuple(runs)))
        finding = next(f for f in findings if "named entity" in f.claim)
        return finding.status, finding.ours

    status, text = judged(1)
    assert (status, "over documents [" in text, "seeds" in text) == (HOLDS, True, False)
    status, text = judged(1, 1, 2)
    # 10, 10 and 20 points: too far apart
    assert (status, "over documents [" in text, "over 3 seeds [" in text) == (OPEN, True, True)
    assert judged(2, 2, 2)[0] == HOLDS
    assert judged(2, -1, 2)[0] == OPEN


def test_only_seeds_that_both_models_have_are_compared(study: Study) -> None:
    results = study(ALL, seeds=(1, 2, 3))
    runs = tuple(
        run
        for run in results.runs
        if (run.model, run.seed) not in {("gpt2e", 3), ("gpt2-matched", 1)}
    )
    difference = measure(replace(results, runs=runs), "gpt2e", "gpt2-matched")
    assert difference == measure(study(ALL, seeds=(2,)), "gpt2e", "gpt2-matched")
    runs = tuple(run for run in results.runs if run.seed == (1 if run.model == "gpt2e" else 2))
    assert measure(replace(results, runs=runs), "gpt2e", "gpt2-matched") is None


@pytest.mark.parametrize("other", [{"device": "cpu"}, {"threads": 1}, {"processes": 2}])
def test_times_of_different_machines_are_not_compared(small: Any, other: dict[str, Any]) -> None:
    changed = small.again(lambda files: files["lm/gpt2e/1/timing.json"].update(other))
    finding = next(f for f in judge_claims(changed) if "time of training" in f.claim)
    assert finding.status == ABSENT
    assert "differ in device, threads or processes" in finding.ours


def test_a_time_on_a_processor_judges_no_time_on_a_gpu(small: Any) -> None:
    def move(files: dict[str, Any]) -> None:
        for model in ("gpt2", "gpt2e"):
            files[f"lm/{model}/1/timing.json"]["device"] = "cpu"

    finding = next(f for f in judge_claims(small.again(move)) if "time of training" in f.claim)
    assert finding.status == ABSENT
    assert finding.ours.startswith("not measured: +13.0% per step on a processor")


def test_generated_passages_judge_nothing_of_lambada(small: Results) -> None:
    finding, generated = (
        next(f for f in judge_claims(study) if "LAMBADA" in f.claim)
        for study in (small, replace(small, passages="sample"))
    )
    assert finding.status != ABSENT
    assert generated.status == ABSENT
    assert generated.ours == f"not measured: these passages are generated; there {finding.ours}"


def _better(run: Run, nats: float) -> Run:
    assert run.documents is not None
    nll = {**run.documents.nll, "off": run.documents.nll["off"] - nats * run.documents.tokens}
    return replace(run, documents=replace(run.documents, nll=nll))


@pytest.mark.parametrize(
    ("interval", "expected", "status"),
    [
        ((-2, -1), -1, HOLDS), ((-2, -1), 1, FAILS), ((-2, 1), -1, OPEN),
        ((-2, 1), 0, OPEN), ((1, 2), 0, FAILS), ((1, 2), 1, HOLDS),
        ((-0.01, 0.015), 0, HOLDS), ((0.005, 0.015), 0, HOLDS),
        (None, -1, OPEN), (None, 0, OPEN),
    ],
)  # fmt: skip
def test_judging_an_interval(
    interval: tuple[float, float] | None, expected: int, status: str
) -> None:
    assert judge(interval, expected) == status


def test_findings_follow_the_numbers(full: Results, small: Results) -> None:
    findings = {finding.claim: finding for finding in judge_claims(full)}
    # the fixture's gap is far beyond the noise
    assert findings["GPT2E and GPT2 are indistinguishable in perplexity."].status == FAILS
    assert findings["GPT2E has the lower perplexity on LAMBADA."].status == HOLDS
    # the fixture brings them closer
    assert findings["Entities take pronouns away from their entity's vector."].status == FAILS
    time = findings["Entity attention adds about 2% to the time of training."]
    assert (time.status, time.ours) == (FAILS, "+13.0% per step")
    single = {finding.claim: finding for finding in judge_claims(small)}
    assert single["GPT2E has the lower perplexity on LAMBADA."].status == OPEN
    assert "one seed" in single["GPT2E has the lower perplexity on LAMBADA."].ours


def test_of_a_model_that_is_not_measured_yet_nothing_is_found(study: Study) -> None:
    both = study(("gpt2", "gpt2e"))
    own = Frame(row for row in both.frame if row.model != "gpt2e")
    runs = tuple(run for run in both.runs if run.model != "gpt2e")
    findings = judge_claims(replace(both, frame=own, runs=runs))
    assert {finding.status for finding in findings} == {ABSENT}


@pytest.mark.parametrize(
    ("step", "claim"), [("lambada", "LAMBADA"), ("ner", "named entity"), ("similarity", "alike")]
)
def test_claims_about_steps_that_did_not_run_are_left_out(
    study: Study, step: str, claim: str
) -> None:
    results = study()
    assert any(claim in finding.claim for finding in judge_claims(results))
    less = replace(results, frame=Frame(row for row in results.frame if row.step != step))
    assert not any(claim in finding.claim for finding in judge_claims(less))


def test_the_headline_is_written_from_the_numbers(small: Any) -> None:
    headline = " ".join(write_headline(small))
    splits = {m: small.json("perplexity", m)["splits"]["test"] for m in ("gpt2", "gpt2e")}
    on, off, base = (
        splits[m][c]["perplexity"] for m, c in (("gpt2e", "on"), ("gpt2e", "off"), ("gpt2", "on"))
    )
    assert f"GPT2E {on:.2f} with entities and {off:.2f} without; GPT2 {base:.2f}." in headline
    assert f"GPT2 {small.json('lambada', 'gpt2')['last_word']['perplexity']:,.2f}" in headline
    f1 = small.json("ner", "gpt2e")["test"]["span"]["micro"]["f1"]
    assert f"GPT2E {100 * f1:.2f}" in headline


def test_a_study_without_a_model_under_test_judges_no_claim(study: Study) -> None:
    """Its lowest and highest numbers instead, and nothing is said to be missing of the paper's."""
    results = study(ALL, shift={"gpt2": -0.5})
    entries = tuple(replace(entry, role="other") for entry in results.entries)
    other = replace(results, entries=entries)
    assert judge_claims(other) == ()
    assert "claims" not in build_all(other)
    said = write_headline(other)[0]
    split = judged_split(other)
    assert said.startswith(f"Perplexity per token on {split}: GPT2 ")
    values = [float(number) for number in re.findall(r"\d+\.\d\d", said)]
    assert len(values) == 2
    assert values[0] < values[1]
    page = render(other, build_all(other), {})
    assert "What holds and what does not" not in page
    assert "What holds and what does not" in render(results, build_all(results), {})
