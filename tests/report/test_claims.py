"""Verdicts: what each study of made-up losses allows to say."""

from dataclasses import replace

import pytest
from made import make_entries, make_results, make_rows, make_study
from tiny import tiny_entry

from entity_transformers.report.claims import build_claims, judge_entities
from entity_transformers.report.intervals import ABSENT, FAILS, HOLDS, OPEN, SMALLER, UNUSED
from entity_transformers.report.page import build_sections, write_headline
from entity_transformers.report.perplexity import CONTROLS, needed_controls
from entity_transformers.report.results import Results

NEEDED = ("gpt2e-unlabelled", "gpt2e-shuffled", "gpt2-matched")


def test_entities_help_when_every_control_is_beaten(small: Results) -> None:
    """And the headline says it with the numbers."""
    status, text = judge_entities(small)
    assert status == HOLDS
    assert text.startswith("Entity information helps: on test GPT2E beats GPT2E")
    first, second = write_headline(small)
    assert "with entities and" in first
    assert "The difference is −0.029" in first
    assert second == text


@pytest.mark.parametrize("control", NEEDED)
@pytest.mark.parametrize(("loss", "status"), [(5.6705, OPEN), (5.5, FAILS)])
def test_one_unbeaten_control_is_enough(control, loss, status):
    found, text = judge_entities(make_study(loss={control: loss}, seeds=(1, 2, 3)))
    assert found == status
    assert "does not beat GPT2" in text


@pytest.mark.parametrize("missing", NEEDED)
def test_a_control_that_was_not_run_leaves_it_unmeasured(missing: str) -> None:
    models = tuple(name for name in ("gpt2", "gpt2e", *NEEDED) if name != missing)
    status, text = judge_entities(make_study(models))
    assert status == ABSENT
    assert "were not run" in text


def test_a_memory_that_changes_nothing_is_inert(monkeypatch):
    for module in ("claims", "perplexity"):  # the made-up memory changes 0.003
        monkeypatch.setattr(f"entity_transformers.report.{module}.INERT", 0.01)
    results = make_study()
    status, text = judge_entities(results)
    assert status == UNUSED
    assert text.startswith("The memory was not used: entities on, off and")
    verdicts = {row[:2]: row[-1] for row in CONTROLS.build(results).rows}
    assert verdicts["GPT2E", "off"] == verdicts["GPT2E", "shuffled"] == UNUSED
    assert verdicts["GPT2E unlabelled", "on"] != UNUSED


def test_a_model_that_learns_from_labels_and_reads_none_needs_the_baseline_and_shuffled_ones():
    gpt2 = replace(tiny_entry("gpt2"), name="gpt2", role="baseline")
    ours = replace(tiny_entry("gpt2-antecedent"), name="guided", labels="gold", role="proposed")
    control = replace(ours, name="permuted", labels="shuffled", role="control")
    found = needed_controls(make_results([], entries=(gpt2, ours, control)))
    assert list(found.values()) == [{"gpt2"}, {"permuted"}]


def test_controls_are_met_at_their_best(small: Results) -> None:
    rows = {row[:2]: row for row in CONTROLS.build(small).rows}
    assert ("GPT2E unlabelled", "on") in rows
    assert str(rows["GPT2", "–"][4]) == "40"
    assert all(row[2].interval[1] < 0 for row in rows.values() if row[0] != "GPT2E")


def test_every_claim_whose_step_ran_is_judged(small: Results) -> None:
    found = [(str(claim).split(" ")[0], status) for claim, _, status, _ in build_claims(small).rows]
    about = "Coreference GPT2E Where Validation GPT2E Mentions Mentions Entities Entities".split()
    verdicts = [HOLDS, FAILS, HOLDS, ABSENT, ABSENT, SMALLER, ABSENT, SMALLER, ABSENT]
    assert found == [*zip(about, verdicts, strict=True)]


def test_a_study_without_a_tested_model_has_no_claims() -> None:
    results = make_study(("gpt2",))
    assert judge_entities(results)[0] == ABSENT
    assert build_claims(results).rows == ()
    assert "claims" not in {name for one in build_sections(results) for name in one.tables}
    assert write_headline(results)[0].startswith("Perplexity per token on test: ")
    assert write_headline(results)[0].endswith("(GPT2).")


@pytest.mark.parametrize(("counted", "said"), [(13.3, True), (14.5, False)])
def test_the_first_line_says_that_counting_is_better(counted: float, said: bool) -> None:
    entries = make_entries()["gpt2"], replace(tiny_entry("ngram"), name="ngram")
    rows, units = [], []
    for entry, perplexity in zip(entries, (13.9, counted), strict=True):
        place = {"step": "perplexity", "model": entry.name, "seed": 1, "split": "test"}
        place |= {"entities": "off", "count": 9}
        rows += make_rows(place, perplexity=perplexity)
        units += make_rows(place | {"unit": "d"}, nll=9.0)
    results = make_results(rows, units, entries, seeds=(1,))
    assert [entry.name for entry in results.measured("perplexity")] == ["ngram", "gpt2"]
    first = write_headline(results)[0]
    told = "Counted n-grams have a perplexity of 13.30 on test, below GPT2's 13.90."
    assert first == told if said else first.startswith("Perplexity per token")


def test_the_headline_names_a_second_test_set() -> None:
    about = {"step": "perplexity", "model": "gpt2", "seed": 1, "split": "test2", "entities": "off"}
    rows = make_rows(about | {"count": 9}, perplexity=9.5)
    units = make_rows(about | {"count": 9, "unit": "d"}, nll=9.0)
    entries = (make_entries()["gpt2"],)
    for other, name in ((None, "test2"), ("litbank", "litbank")):
        results = make_results(rows, units, entries, seeds=(1,), second_test=other)
        assert write_headline(results)[0] == f"Perplexity per token on {name}: 9.50 (GPT2)."
