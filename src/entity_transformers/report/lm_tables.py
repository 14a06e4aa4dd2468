"""Tables about the language models: perplexity (table 2), LAMBADA (table 3), perplexity by class,
controls, claims.
"""

from __future__ import annotations

import math
import re

from entity_transformers.report import paper
from entity_transformers.report.cells import MISSING, Cell, Number, Table, show
from entity_transformers.report.claims import judge_claims
from entity_transformers.report.differences import (
    LEVEL,
    Difference,
    compare,
    compare_all,
    judged_split,
    pair_seeds,
    seed_interval,
)
from entity_transformers.report.results import (
    CONTROLS,
    Results,
    Run,
    Value,
    exp,
    name_model,
    read_class,
    read_loss,
    uses_entities,
)

PROCESSES = {"train": "Training", "dev": "Validation", "test": "Test", "test2": "Test 2"}
CLASSES = {"outside": "outside mentions", "first": "first mention", "later": "later mention"}
CONDITIONS = ("on", "off", "shuffled")


def build_table2(results: Results) -> Table:
    """Table 2: loss, perplexity and seconds a step of every model, entities on and off, with the
    paper's numbers; then the differences.
    """
    rows: list[tuple[Cell, ...]] = []
    for split in ("train", *scored_splits(results)):
        for model in results.trained:
            rows += [
                _table2_row(results, split, model, condition)
                for condition in _conditions(results, model, split)
            ]
        difference = compare(results, split, "gpt2e", "on", "gpt2", "off")
        rows += [_difference_row(difference, split)] if difference else []
    return Table(
        name="table2",
        title="Table 2: loss and perplexity on the corpus",
        columns=("Process", "Model", "Entities", *_TABLE2_COLUMNS),
        rows=tuple(rows),
        measures=(
            "How well each model predicts the text it was trained on (training) and text it never"
            " saw (validation, test); PPL and loss (nats) are per token."
        ),
        note=(
            "Training is the mean over the validation interval that ends at the weights scored"
            " here, dropout on; elsewhere each token is counted once. A difference row is GPT2E"
            f" minus GPT2 with the {LEVEL:.0%} interval of a paired bootstrap over documents. The"
            " paper's two time columns look swapped: its text says that GPT2E is 0.008 s a step"
            " slower. Its validation loss of 0.187 beside a training loss of 1.71 cannot be a"
            " held-out loss. Time is in seconds: the median of a training step, and the scoring of"
            " as many tokens in validation. The per-word perplexities that the paper compares"
            " itself with"
            f" ({', '.join(f'{name} {value:g}' for name, value in paper.WORD_PERPLEXITIES.items())})"
            " are over 10,000-word vocabularies with an unknown word and given gold decisions:"
            " they are not comparable with ours."
        ),
    )


_TABLE2_COLUMNS = (
    "PPL",
    "Paper PPL",
    "Loss",
    "Paper loss",
    "Time per step",
    "Paper time",
    "PPL per word",
    "Bits per byte",
)


def scored_splits(results: Results) -> tuple[str, ...]:
    """Splits that some model was scored on, in the order dev, test, test2, then others."""
    found = {split for run in results.runs for split in (run.perplexity or {}).get("splits", {})}
    order = tuple(PROCESSES)
    return tuple(
        sorted(
            found, key=lambda split: (order.index(split) if split in order else len(order), split)
        )
    )


def _conditions(results: Results, model: str, split: str) -> tuple[str, ...]:
    if not uses_entities(model) or split == "train":
        return ("on",)
    shuffled = any(
        "shuffled" in run.perplexity["splits"].get(split, {})
        for run in results.of(model)
        if run.perplexity
    )
    return CONDITIONS if shuffled else CONDITIONS[:2]


def _table2_row(results: Results, split: str, model: str, condition: str) -> tuple[Cell, ...]:
    loss: Value = _train_loss if split == "train" else read_loss(split, condition)
    seconds = _time_key(split) if condition == "on" else None
    time = (
        results.statistic(model, lambda run: run.timing[seconds])
        if seconds
        else results.statistic(model, lambda _: None)
    )  # type: ignore[index]
    printed = paper.TABLE2.get((model, split)) if condition == "on" else None
    ours = (
        show(results.statistic(model, lambda run: exp(loss(run)))),
        show(results.statistic(model, loss), 4),
        show(time, 3),
        show(results.statistic(model, read_loss(split, condition, "perplexity_word"))),
        show(results.statistic(model, read_loss(split, condition, "bits_per_byte")), 4),
    )
    theirs: tuple[Cell, ...] = (MISSING,) * 3
    if printed:
        theirs = (Number(printed.perplexity), Number(printed.loss, 3), Number(printed.seconds, 3))
    beside = (cell for pair in zip(ours, theirs, strict=False) for cell in pair)
    return (
        PROCESSES.get(split, split),
        name_model(model),
        _entities(model, condition),
        *beside,
        *ours[3:],
    )


def _entities(model: str, condition: str) -> str:
    return condition if uses_entities(model) else MISSING


def _time_key(split: str) -> str | None:
    return {"train": "seconds_per_step", "dev": "seconds_validation_step"}.get(split)


def _train_loss(run: Run) -> float | None:
    return run.training["train_loss"]  # type: ignore[index]


def _difference_row(difference: Difference, split: str) -> tuple[Cell, ...]:
    ours, dashes = (MISSING, MISSING, difference.cell), (MISSING,) * 5
    return (PROCESSES.get(split, split), "GPT2E − GPT2", "on", *ours, *dashes)


def build_table3(results: Results) -> Table:
    """Table 3: LAMBADA by every rule in use, since the paper does not say which is its own; then
    GPT2E's log ratio to GPT2.
    """
    rows = [_table3_row(results, model) for model in results.trained]
    if {"gpt2e", "gpt2"} <= set(results.trained):
        rows.append(_table3_difference(results))
    return Table(
        name="table3",
        title="Table 3: LAMBADA",
        columns=("Model", "Paper PPL", *(label for label, _, _ in _LAMBADA)),
        rows=tuple(rows),
        measures=(
            "How well a passage, and the word that ends it, is predicted. No entities are given, as"
            " in the paper."
        ),
        note=(
            "Last word: exp of the mean negative log-likelihood a passage, as in"
            " lm-evaluation-harness; accuracy: every token of the word is the likeliest. The last"
            " row is the difference of the logarithms, GPT2E minus GPT2 (of the fractions, for"
            f" accuracy): for the last word with the {LEVEL:.0%} interval of a paired bootstrap"
            f" over passages, else over seeds where there are several. {_nearest(results)}"
        ),
    )


def _read_lambada(*keys: str) -> Value:
    def read(run: Run) -> float | None:
        section = run.lambada[keys[0]]  # type: ignore[index]
        return section[keys[1]] if len(keys) > 1 else section

    return read


_LAMBADA: tuple[tuple[str, Value, str], ...] = (
    ("Last word PPL", _read_lambada("last_word", "perplexity"), "perplexity"),
    ("Last word accuracy", _read_lambada("last_word", "accuracy"), "fraction"),
    ("Last token PPL", _read_lambada("last_token", "perplexity"), "perplexity"),
    ("Last token accuracy", _read_lambada("last_token", "accuracy"), "fraction"),
    ("Passage PPL per token", _read_lambada("passage", "perplexity_token"), "perplexity"),
    ("Passage PPL per word", _read_lambada("passage", "perplexity_word"), "perplexity"),
    ("Passages", _read_lambada("passages"), "count"),
    ("Truncated", _read_lambada("truncated"), "count"),
)


def _table3_row(results: Results, model: str) -> tuple[Cell, ...]:
    digits = {"perplexity": 2, "fraction": 2, "count": 0}
    cells = (
        show(results.statistic(model, value), digits[kind], percent=kind == "fraction")
        for _, value, kind in _LAMBADA
    )
    return (name_model(model), Number(paper.TABLE3.get(model)), *cells)


def _table3_difference(results: Results) -> tuple[Cell, ...]:
    word = compare(results, "lambada", "gpt2e", "off", "gpt2", "off")
    cells: list[Cell] = [_lambada_difference(results, value, kind) for _, value, kind in _LAMBADA]
    return ("GPT2E − GPT2", _paper_difference(), *([word.cell, *cells[1:]] if word else cells))


def _lambada_difference(results: Results, value: Value, kind: str) -> Cell:
    if kind == "count":
        return MISSING
    scaled = (lambda run: _log(value(run))) if kind == "perplexity" else value
    differences = pair_seeds(results, ("gpt2e", scaled), ("gpt2", scaled))
    if not differences:
        return MISSING
    low, high = seed_interval(differences) or (None, None)
    percent = kind == "fraction"
    return Number(
        math.fsum(differences) / len(differences),
        2 if percent else 4,
        low=low,
        high=high,
        percent=percent,
        signed=True,
    )


def _log(value: float | None) -> float | None:
    return math.log(value) if value else None


def _paper_difference() -> Number:
    return Number(math.log(paper.TABLE3["gpt2e"] / paper.TABLE3["gpt2"]), 4, signed=True)


def lambada_perplexities(results: Results, model: str) -> dict[str, float]:
    """The perplexity of each measure of table 3, by its heading, as far as it was measured: means
    over seeds.
    """
    found = {
        label: results.statistic(model, value).mean
        for label, value, kind in _LAMBADA
        if kind == "perplexity"
    }
    return {label: mean for label, mean in found.items() if mean}


def _nearest(results: Results) -> str:
    """Which of our measures of GPT2E comes nearest to the paper's 196.81, by ratio."""
    found = lambada_perplexities(results, "gpt2e")
    ratios = {label: abs(math.log(mean / paper.TABLE3["gpt2e"])) for label, mean in found.items()}
    if not ratios:
        return ""
    label = min(ratios, key=ratios.__getitem__)
    return (
        f"Of GPT2E's measures here, “{label}” ({found[label]:,.2f}) comes nearest to the paper's"
        f" {paper.TABLE3['gpt2e']}, by ratio."
    )


def build_classes(results: Results) -> Table:
    """Perplexity of the tokens outside mentions, in first and in later mentions, and by part of
    speech, entities on and off.
    """
    split = next(
        (s for s in ("test", *scored_splits(results)) if s in scored_splits(results)), "test"
    )
    conditions = [
        c for c in CONDITIONS if any(_has_condition(run, split, c) for run in results.runs)
    ]
    rows = [
        _class_row(results, split, model, by, name, label, conditions)
        for by, name, label in _class_names(results, split)
        for model in results.trained
    ]
    return Table(
        name="perplexity_by_class",
        title=f"Perplexity by class of the predicted token ({split})",
        columns=(
            "Predicted token",
            "Model",
            "Tokens",
            *(f"PPL {condition}" for condition in conditions),
            "Loss on − off",
        ),
        rows=tuple(rows),
        measures=(
            "Where knowing entities could help: tokens outside mentions, in the first mention of an"
            " entity, in a later mention."
        ),
        note=(
            "A gold label on a first mention tells that the entity will come back, and later"
            " mentions are read with labels that a reader would have to find: compare entities off,"
            " and the controls, before crediting the memory."
        ),
    )


def _has_condition(run: Run, split: str, condition: str) -> bool:
    classes = (run.perplexity or {}).get("splits", {}).get(split, {}).get("by_class", {})
    return any(condition in scores for scores in classes.values())


def _class_names(results: Results, split: str) -> list[tuple[str, str, str]]:
    groups = _part_names(results, split, "by_group")
    order = sorted(groups, key=lambda name: (name in ("other", "unknown"), name))
    distances = sorted(
        _part_names(results, split, "by_distance"), key=lambda name: int(re.split(r"\D", name)[0])
    )
    rows = [("by_class", name, label) for name, label in CLASSES.items()] + [
        ("by_group", name, name) for name in order
    ]
    return rows + [("by_distance", name, f"{name} tokens after a mention") for name in distances]


def _part_names(results: Results, split: str, part: str) -> set[str]:
    return {
        name
        for run in results.runs
        for name in (run.perplexity or {}).get("splits", {}).get(split, {}).get(part, {})
    }


def _class_row(
    results: Results, split: str, model: str, by: str, name: str, label: str, conditions: list[str]
) -> tuple[Cell, ...]:  # fmt: skip

    def read(condition: str, key: str) -> Value:
        return read_class(split, name, condition, key, by)

    shown = (
        show(results.statistic(model, read(condition, "perplexity"))) for condition in conditions
    )
    gap = (
        pair_seeds(results, (model, read("on", "loss")), (model, read("off", "loss")))
        if uses_entities(model)
        else []
    )
    difference: Cell = Number(math.fsum(gap) / len(gap), 4, signed=True) if gap else MISSING
    tokens = results.statistic(model, read("on", "tokens")).mean
    return (label, name_model(model), Number(tokens or 0, 0), *shown, difference)


def build_controls(results: Results) -> Table:
    """GPT2E with entities against everything that could explain its loss away."""
    split = judged_split(results)
    differences = compare_all(results, split) if split else ()
    rows = [_control_row(difference) for difference in differences]
    missing = [model for model in CONTROLS if model not in {d.against for d in differences}]
    rows += [
        (name_model(model), MISSING, MISSING, MISSING, MISSING, "not run") for model in missing
    ]
    return Table(
        name="controls",
        title=f"GPT2E with entities against the controls ({split or 'not scored'})",
        columns=("Against", "Entities", "Difference", "p", "Over seeds", "Verdict"),
        rows=tuple(rows),
        measures=(
            "The difference in loss, GPT2E with entities minus the other model, in nats per token:"
            " below zero GPT2E is better."
        ),
        note=(
            f"{LEVEL:.0%} intervals and two-sided p of a paired bootstrap over documents, losses"
            " averaged over seeds; “over seeds” is Student's interval of the paired differences,"
            " one a seed, where there are several. Better or worse: beyond both. A control is met"
            " with entities on or off, whichever is better for it."
        ),
    )


def _control_row(difference: Difference) -> tuple[Cell, ...]:
    return (
        name_model(difference.against),
        _entities(difference.against, difference.against_condition),
        difference.cell,
        Number(difference.p, 4),
        _over_seeds(difference),
        _verdict(difference.widest),
    )


def _verdict(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return "no interval"
    return "better" if interval[1] < 0 else "worse" if interval[0] > 0 else "no difference"


def _over_seeds(difference: Difference) -> Cell:
    if difference.over_seeds is None:
        return MISSING
    low, high = difference.over_seeds
    return Number(difference.value, 4, low=low, high=high, signed=True)


def build_claims(results: Results) -> Table:
    """The paper's claims, one by one."""
    findings = judge_claims(results)
    return Table(
        name="claims",
        title="What holds and what does not",
        columns=("Claim of the paper", "Where", "Here", "Measured here"),
        rows=tuple(
            (finding.claim, finding.source, finding.status, finding.ours) for finding in findings
        ),
        measures="Each statement is made from the numbers of this study alone.",
        note=(
            "“not shown”: the direction may be the paper's, but the interval includes zero, or"
            " there is one seed and no interval over documents. An interval over documents does not"
            " cover what another seed of the training would give; a claim that has several seeds"
            " and scores per document has to stand in both intervals."
        ),
    )
