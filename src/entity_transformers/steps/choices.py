"""Step choices (beyond the paper): which of two candidates a pronoun stands for."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from entity_transformers.step import MODEL, Rows, Run, step
from entity_transformers.steps.examples import Tasks
from entity_transformers.study.sections import Section, Size


class ChoicesParams(Section):
    """Pronouns of which a model decides without training (docs/transfer.md)."""

    tasks: Annotated[Tasks, Field(min_length=1)]
    """of examples.tasks, those with a pronoun; their test is scored"""
    examples: dict[str, Size] | None
    """at most so many of a task, evenly spaced; of a task that is not named all; null: all"""
    refers: Tasks
    """of tasks, those that are also scored by what a pronoun refers to"""
    told: Tasks
    """of tasks, those whose texts are also read with their chains told"""
    batch: Size
    """texts that are read side by side"""

    def problems(self) -> Iterator[str]:
        from entity_transformers.corpus.tasks import find_task

        for name in self.tasks:
            if find_task(name).shape != "pronoun":
                yield f"tasks: {name!r} is not a pronoun task"
        for key in ("examples", "refers", "told"):
            if unknown := sorted({*(getattr(self, key) or ())}.difference(self.tasks)):
                yield f"{key}: {unknown[0]!r}, expected one of {', '.join(self.tasks)}"


TOLD = {name: name for name in ("nothing", "chains", "others")}
"""Which chains a text is told: none, its own, or those of other entities."""


def tables() -> tuple[Any, ...]:
    """Return the tables of tasks with groups within them, and of the effect of telling chains."""
    from entity_transformers.report import pivot as p
    from entity_transformers.report.pivot import Measure, Pivot, found

    def groups(_: Any, place: Any) -> Any:
        genders = [{"gender": gender} for gender in ("masculine", "feminine")]
        versions = [
            {**kind, "version": version}
            for kind in ({}, {"type": "1"}, {"type": "2"})
            for version in ("pro", "anti")
        ]
        for group in ({}, *{"gap": genders, "winobias": versions}.get(place["task"], ())):
            yield {"Group": " ".join(group.values())}, group

    right = Measure("Examples", shows="count"), Measure("Right", "", 1, True, "interval")
    nothing, others = {"told": "nothing"}, {"told": "others"}
    where = {"split": "test", "measure": "accuracy"}

    def pivot(name: str, title: str, *columns: Measure, **more: Any) -> Pivot:
        return Pivot(name, title, "choices", columns=(*right, *columns), keep=p.is_scored, **more)

    return (
        pivot(
            "choices",
            "Pronouns without training",
            Measure("minus anti", "", 1, True, against={"version": "anti"}),
            Measure("Majority label", "majority", 1, percent=True, shows="plain"),
            where=where,
            rows=(found("task", "Task"), groups, found("scoring", "Scored"), p.models),
            measures="""Which of two candidates a pronoun refers to: the one that makes the text
                more likely.""",
            note=(
                "On the test split, scored as in lm-evaluation-harness; chance is 50 %. Partial:"
                " the candidate replaces the pronoun, and the text after it is scored. Refers: the"
                " candidate is scored after the text and a phrase such as ‘“she” refers to’."
                " Snippets of GAP in which neither candidate is right are left out. WinoBias has"
                " sentences of types 1 and 2 in two versions: in pro the pronoun has the"
                " stereotypical gender of the right occupation, in anti the other one; differences"
                " are over sentences. With partial scoring, only a second pronoun can distinguish"
                " these versions."
            ),
        ),
        pivot(
            "choices_told",
            "Pronouns with the chains told in the text",
            Measure("minus nothing", "", 1, True, against=nothing),
            Measure("minus others", "", 1, True, against=others),
            Measure("Nats minus nothing", "margin", 3, against=nothing),
            Measure("Nats minus others", "margin", 3, against=others),
            where={**where, "scoring": "partial"},
            rows=(found("task", "Task"), p.values("told", TOLD, "Told"), p.models),
            measures="Does it help if the text before the pronoun says who is who?",
            note="""Only examples with something to tell are counted. Chains: each later mention
                that a resolver finds before the pronoun in question is followed, in brackets, by
                the words of its entity's first mention, if these are different. Others: the words
                of another entity. Nats say how much more likely the right candidate is. Differences
                are over examples.""",
        ),
    )


@step(
    "choices",
    "which candidate a pronoun refers to, by the model's own probabilities",
    params=ChoicesParams,
    reads={"corpus": ("tokenizer.json",), "examples": ("examples.jsonl",), "lm": MODEL},
    needs={"causal"},
    title="Pronouns without training",
    tables=tables,
)
def choices(run: Run) -> Rows:
    """The share of right choices by task and scoring, of all examples and of groups; and where
    there is something to tell, with nothing, their own chains, or those of others told.
    """
    from entity_transformers.tasks.choices import decide

    yield from decide(run)
