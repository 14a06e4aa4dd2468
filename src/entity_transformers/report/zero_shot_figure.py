"""Tasks without training against the tokens of pretraining, as on the right of GPT-1's figure 2."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.cells import Number
from entity_transformers.report.colours import INK, PALETTE
from entity_transformers.report.lm import count_tokens
from entity_transformers.report.results import Results
from entity_transformers.report.zero_shot import RULES, STEP, Trial, list_trials, read_share

FEWEST = 3
"""Trainings of one shape from which on they are a line."""
PREFERRED = ("partial", "refers", "sentiment", "choice", "acceptable")
"""Of each task the first of these rules is drawn."""
CHANCE = {"gap": None, "race": 0.25}
"""Where it is not a half; of GAP it is not known, because neither name may be right."""

Line = tuple[str, Sequence[tuple[float, Number]]]


def list_shapes(results: Results) -> list[list[ModelEntry]]:
    """Models that differ in how many tokens they were trained on and not in their shape, the fewest
    tokens first; shapes of fewer than `FEWEST` are left out.
    """
    groups: dict[tuple[object, ...], dict[float, ModelEntry]] = {}
    for model in results.measured(STEP):
        tokens, lm = count_tokens(results, model).mean, model.lm
        if tokens:
            key = model.kind.name, model.labels, lm.layers, lm.width, model.extra
            groups.setdefault(key, {})[tokens] = model
    return [
        [by_tokens[tokens] for tokens in sorted(by_tokens)]
        for by_tokens in groups.values()
        if len(by_tokens) >= FEWEST
    ]


def list_lines(results: Results, trial: Trial) -> list[Line]:
    """By shape: its name, and at each number of tokens the share that is right, entities off."""
    lines: list[Line] = []
    for shape in list_shapes(results):
        found = [
            (count_tokens(results, model).mean, read_share(results, model, trial))
            for model in shape
        ]
        points = [(tokens, share) for tokens, share in found if tokens and share.value is not None]
        if len(points) >= FEWEST:
            lines.append((f"{shape[0].kind.label}, width {shape[0].lm.width}", points))
    return lines


def draw_by_tokens(results: Results) -> Figure | None:
    """A panel per task and split, a line per shape; bars are 95 % over examples, the dotted line is
    chance. None where no shape was trained on three numbers of tokens.
    """
    chosen: dict[tuple[str, str], Trial] = {}
    for trial in sorted(list_trials(results), key=_preference):
        if trial.rule in PREFERRED:
            chosen.setdefault((trial.task, trial.split), trial)
    panels = [(trial, lines) for trial in chosen.values() if (lines := list_lines(results, trial))]
    if not panels:
        return None
    figure = Figure(figsize=(8, 2.9 * len(panels)), layout="constrained")
    every = figure.subplots(len(panels), squeeze=False, sharex=True)[:, 0]
    for axes, (trial, lines) in zip(every, panels, strict=True):
        for place, (name, points) in enumerate(lines):
            _draw_line(axes, name, points, PALETTE[place % len(PALETTE)])
        chance = CHANCE.get(trial.task, 0.5)
        if chance is not None:
            axes.axhline(100 * chance, color=INK, linewidth=1, linestyle=":")
        axes.set_ylabel("Right in %")
        axes.set_title(f"{trial.task}, {trial.split}: {RULES[trial.rule]}", loc="left")
        axes.set_xscale("log", base=2)
    every[0].legend(frameon=False)
    every[-1].set_xlabel("Training tokens")
    return figure


def _preference(trial: Trial) -> int:
    return PREFERRED.index(trial.rule) if trial.rule in PREFERRED else len(PREFERRED)


def _draw_line(axes: Axes, name: str, points: Sequence[tuple[float, Number]], colour: str) -> None:
    tokens = [at for at, _ in points]
    values = [100 * (share.value or 0.0) for _, share in points]
    below, above = (
        [100 * abs((share.value or 0.0) - (edge or 0.0)) for (_, share), edge in pairs]
        for pairs in (
            [(point, point[1].low) for point in points],
            [(point, point[1].high) for point in points],
        )
    )
    axes.errorbar(tokens, values, [below, above], marker="o", capsize=3, color=colour, label=name)
