"""Step lm (sections 3 and 4.1, figures 2 and 3): the language models of section models."""

from __future__ import annotations

from entity_transformers.study.steps.base import MODEL, Shown, Step

STEP = Step(
    name="lm",
    params=(),
    builds=True,
    start=("cli.lm",),
    rules={
        "train_lm": "[3, 4.1, figures 2 and 3] train a model; called again it goes on",
    },
    reads={"corpus": ("train.safetensors", "dev.safetensors", "tokenizer.json")},
    needs=frozenset(),
    large=MODEL,
    metrics=("metrics.json", "timing.json", "manifest.json"),
    kept=("curve.csv",),
    target="metrics.json",
    shown=Shown(
        "The models",
        measure="report.lm:measure",
        tables={
            "models": "report.lm:build_models",
            "overview": "report.overview:build_overview",
            "equal_time": "report.equal_time:build_equal_time",
            "objectives": "report.lm:build_objectives",
        },
        figures={
            "figure2": (
                "report.curves:draw_training",
                (
                    "Figure 2: training loss, the mean in nats per token since the previous "
                    "point, with dropout on; lines are means over the seeds, the bands of the "
                    "paper's two models reach from the lowest seed to the highest, and markers "
                    "tell apart models of one colour. Losses of another objective than the next "
                    "token's are in table objectives alone."
                ),
            ),
            "figure3": (
                "report.curves:draw_validation",
                (
                    "Figure 3: validation loss in nats per token; dashed: the same model "
                    "without entities. Lines, bands and markers as in figure 2."
                ),
            ),
            "overview": (
                "report.overview:draw_overview",
                "What each system reaches against the seconds of its training. Bars are 95 %"
                " intervals over documents and, where there are several, over seeds. What has no"
                " perplexity is not in the first panel.",
            ),
        },
    ),
)
