"""Step told_passages (beyond the paper): LAMBADA's last words with the text's chains told."""

from typing import Any

from entity_transformers.step import MODEL, Rows, Run, step
from entity_transformers.steps.choices import TOLD


def tables() -> tuple[Any, ...]:
    """Return the table of the effect of telling chains."""
    from entity_transformers.report import pivot as p
    from entity_transformers.report.pivot import Measure

    nothing, others = {"told": "nothing"}, {"told": "others"}
    return (
        p.Pivot(
            "told_passages",
            "Last words with the chains told in the text",
            "told_passages",
            columns=(
                Measure("Passages", shows="count"),
                Measure("Right", "", 1, True, "interval"),
                Measure("minus nothing", "", 1, True, against=nothing),
                Measure("minus others", "", 1, True, against=others),
                Measure("Nats of the last word", "nats", 3),
                Measure("Nats minus nothing", "nll", 3, against=nothing),
                Measure("Nats minus others", "nll", 3, against=others),
            ),
            where={"split": "lambada", "measure": "accuracy"},
            rows=(p.values("told", TOLD, "Told"), p.models),
            keep=p.is_scored,
            measures="Does it help if the text before the last word says who is who?",
            note="""Only passages of LAMBADA with something to tell are counted. Chains: each later
                mention that a resolver finds before the last word is followed, in brackets, by the
                words of its entity's first mention, if these are different. Others: the words of
                another entity. Differences are over passages; in nats, negative is better.""",
        ),
    )


@step(
    "told_passages",
    "last words of LAMBADA, with the text's chains told in brackets",
    also=("perplexity",),
    reads={"corpus": ("tokenizer.json",), "passages": ("lambada.jsonl",), "lm": MODEL},
    needs={"causal"},
    libraries=("pandas",),
    title="Last words with the chains told",
    tables=tables,
)
def told_passages(run: Run) -> Rows:
    """The share of last words that are right and their nats, of the passages that have something to
    tell: with nothing told, with their chains, and with those of others.
    """
    from entity_transformers.artifacts import read_json_lines
    from entity_transformers.tasks.telling import score_told

    yield from score_told(run, list(read_json_lines(run.home("passages") / "lambada.jsonl")))
