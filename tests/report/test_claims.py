from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from entity_transformers.report.bootstrap import compare_losses
from entity_transformers.report.claims import (
    ABSENT,
    FAILS,
    HOLDS,
    OPEN,
    judge,
    judge_claims,
    judge_entities,
    write_headline,
)
from entity_transformers.report.differences import (
    BOOTSTRAP_SEED,
    better_condition,
    compare,
    compare_all,
    judged_split,
    seed_interval,
)
from entity_transformers.report.results import CONTROLS, Results, Run, Spans
from entity_transformers.report.tables import build_all

Study = Callable[..., Results]
ALL = ("gpt2", "gpt2e", *CONTROLS)


def test_entities_help_when_every_control_is_beaten(study: Study) -> None:
    verdict = judge_entities(study(ALL))
    assert verdict.status == HOLDS
    assert verdict.text.startswith(
        "Entity information helps: on test GPT2E beats GPT2E unlabelled (difference −"
    )
    assert {difference.against for difference in verdict.differences} == set(CONTROLS)
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
        "Entity information does not help beyond the interval: on test GPT2E does not beat "
    )
    assert "Entity information helps" not in " ".join(write_headline(results))


@pytest.mark.parametrize("missing", CONTROLS)
def test_nothing_is_claimed_while_a_control_is_missing(study: Study, missing: str) -> None:
    results = study(tuple(model for model in ALL if model != missing))
    verdict = judge_entities(results)
    assert verdict.status == ABSENT
    assert "were not run" in verdict.text
    assert "helps:" not in verdict.text
    assert ("not run" in [row[-1] for row in build_all(results)["controls"].rows]) is True


def test_an_unbeaten_control_is_told_even_if_another_is_missing(study: Study) -> None:
    verdict = judge_entities(study(("gpt2", "gpt2e", "gpt2-matched"), shift={"gpt2-matched": -0.2}))
    assert verdict.status == FAILS
    assert "does not beat GPT2 parameter-matched" in verdict.text
    assert "Not run: GPT2E unlabelled and GPT2E shuffled." in verdict.text


def test_without_gpt2e_nothing_was_tested(study: Study) -> None:
    assert judge_entities(study(("gpt2", "gpt2-matched"))).status == ABSENT


def test_one_document_gives_no_interval_and_no_claim(study: Study) -> None:
    results = study(ALL)
    runs = []
    for run in results.runs:
        assert run.documents is not None
        kept = np.flatnonzero(run.documents.split == "test")[:1]
        cut = {
            name: getattr(run.documents, name)[kept]
            for name in ("split", "document", "tokens", "nll_on", "nll_off")
        }
        runs.append(replace(run, documents=replace(run.documents, **cut)))
    verdict = judge_entities(replace(results, runs=tuple(runs)))
    assert verdict.status == OPEN
    assert "no interval" in verdict.text


def test_a_difference_is_the_bootstraps(full: Results) -> None:
    difference = compare(full, "test", "gpt2e", "on", "gpt2", "off")
    assert difference is not None
    nll = {}
    for model, column in (("gpt2e", "nll_on"), ("gpt2", "nll_off")):
        documents = [run.documents for run in full.of(model)]
        at = documents[0].split == "test"  # type: ignore[union-attr]
        nll[model] = np.mean([getattr(each, column)[at] for each in documents], axis=0)
    tokens = full.of("gpt2")[0].documents.tokens[at]  # type: ignore[union-attr]
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
    run = results.of("gpt2e")[0]
    assert run.documents is not None
    shuffled = replace(
        run,
        documents=replace(run.documents, nll_shuffled=run.documents.nll_on + run.documents.tokens),
    )
    found = compare_all(replace(results, runs=(results.runs[0], shuffled)), "test")
    assert [(d.against, d.against_condition) for d in found] == [
        ("gpt2", "off"),
        ("gpt2e", "off"),
        ("gpt2e", "shuffled"),
    ]
    assert found[-1].value == pytest.approx(-1.0)


def test_other_documents_cannot_be_compared(study: Study) -> None:
    results = study()
    run = results.of("gpt2e")[0]
    assert run.documents is not None
    other = replace(run, documents=replace(run.documents, tokens=run.documents.tokens + 1))
    with pytest.raises(
        ValueError, match="gpt2e and gpt2 scored different documents or tokens of test"
    ):
        compare(
            replace(results, runs=(results.runs[0], other)), "test", "gpt2e", "on", "gpt2", "off"
        )


def test_a_control_is_met_at_its_best(full: Results) -> None:
    # the fixture's off is 0.003 worse
    assert better_condition(full, "gpt2e-unlabelled", "test") == "on"
    assert better_condition(full, "gpt2-matched", "test") == "off"
    assert better_condition(full, "gpt2", "absent split") == "off"
    assert {d.against for d in compare_all(full, "test")} == set(full.models)


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
    good = compare(results, "test", "gpt2e", "on", "gpt2-matched", "off")
    assert good is not None
    assert (good.beats, good.seeds) == (True, 3)
    gaps = []
    for ours, theirs in zip(results.of("gpt2e"), results.of("gpt2-matched"), strict=True):
        assert ours.documents is not None
        assert theirs.documents is not None
        at = ours.documents.split == "test"
        gaps.append(
            float(
                (ours.documents.nll_on - theirs.documents.nll_off)[at].sum()
                / ours.documents.tokens[at].sum()
            )
        )
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
    difference = compare(mixed, "test", "gpt2e", "on", "gpt2-matched", "off")
    assert difference is not None
    assert difference.high is not None
    assert difference.over_seeds is not None
    # over documents it is better; over seeds not, because one of them is worse
    assert difference.high < 0 < difference.over_seeds[1]
    assert not difference.beats
    assert judge_entities(mixed).status == OPEN


def _counts(run: Run, right: int) -> Run:
    """20 documents with 10 gold and 10 found spans each, ``right`` of them right, give or take one."""
    wave = np.arange(20) % 3 - 1
    counts = np.stack([right + wave, np.full(20, 10), np.full(20, 10)], axis=1)
    f1 = float(counts[:, 0].sum() / counts[:, 1].sum())
    ner = {"test": {"span": {"micro": {"f1": f1, "support": 200, "predicted": 200}}}}
    return replace(run, ner=ner, ner_spans=Spans([f"doc{i}" for i in range(20)], counts))


def test_the_claim_about_ner_has_to_stand_over_documents_and_over_seeds(study: Study) -> None:
    def judged(*gaps: int) -> tuple[str, str]:
        results = study(("gpt2", "gpt2e"), seeds=tuple(range(1, len(gaps) + 1)))
        runs = tuple(
            _counts(run, 5 + (gaps[run.seed - 1] if run.model == "gpt2e" else 0))
            for run in results.runs
        )
        finding = next(
            f for f in judge_claims(replace(results, runs=runs)) if "named entity" in f.claim
        )
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
    difference = compare(replace(results, runs=runs), "test", "gpt2e", "on", "gpt2-matched", "off")
    alone = compare(study(ALL, seeds=(2,)), "test", "gpt2e", "on", "gpt2-matched", "off")
    assert difference == alone
    runs = tuple(run for run in results.runs if run.seed == (1 if run.model == "gpt2e" else 2))
    assert (
        compare(replace(results, runs=runs), "test", "gpt2e", "on", "gpt2-matched", "off") is None
    )


@pytest.mark.parametrize("other", [{"device": "cuda"}, {"threads": 1}, {"processes": 2}])
def test_times_of_different_machines_are_not_compared(
    small: Results, other: dict[str, Any]
) -> None:
    runs = tuple(
        replace(run, timing={**(run.timing or {}), **(other if run.model == "gpt2e" else {})})
        for run in small.runs
    )
    finding = next(
        f for f in judge_claims(replace(small, runs=runs)) if "time of training" in f.claim
    )
    assert finding.status == ABSENT


def _better(run: Run, nats: float) -> Run:
    assert run.documents is not None
    return replace(
        run,
        documents=replace(
            run.documents, nll_off=run.documents.nll_off - nats * run.documents.tokens
        ),
    )


@pytest.mark.parametrize(
    ("interval", "expected", "status"),
    [
        ((-2, -1), -1, HOLDS), ((-2, -1), 1, FAILS), ((-2, 1), -1, OPEN), ((-2, 1), 0, OPEN), ((1, 2), 0, FAILS), ((1, 2), 1, HOLDS),
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
    assert (
        findings["Entity attention adds about 2% to the time of training."].ours == "+13.0% a step"
    )
    single = {finding.claim: finding for finding in judge_claims(small)}
    assert single["GPT2E has the lower perplexity on LAMBADA."].status == OPEN
    assert "one seed" in single["GPT2E has the lower perplexity on LAMBADA."].ours


def test_without_metrics_nothing_is_found(study: Study) -> None:
    findings = judge_claims(study(("gpt2",)))
    assert {finding.status for finding in findings} == {ABSENT}


def test_the_headline_is_written_from_the_numbers(small: Results) -> None:
    headline = " ".join(write_headline(small))
    splits = {model: small.of(model)[0].perplexity["splits"]["test"] for model in ("gpt2", "gpt2e")}  # type: ignore[index]
    on, off, base = (
        splits[m][c]["perplexity"] for m, c in (("gpt2e", "on"), ("gpt2e", "off"), ("gpt2", "on"))
    )
    assert f"GPT2E {on:.2f} with entities and {off:.2f} without; GPT2 {base:.2f}." in headline
    assert f"GPT2 {small.of('gpt2')[0].lambada['last_word']['perplexity']:,.2f}" in headline  # type: ignore[index]
    assert f"GPT2E {100 * small.of('gpt2e')[0].ner['test']['span']['micro']['f1']:.2f}" in headline  # type: ignore[index]
