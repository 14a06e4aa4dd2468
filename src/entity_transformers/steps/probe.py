"""Step probe (section 6): which attention heads point from a mention to its antecedent."""

from collections.abc import Iterator

from entity_transformers.step import DOCUMENTS, MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import ChoosingSection, Groups, Size


class ProbeParams(ChoosingSection):
    """The attention head that best finds a mention's antecedent (section 6, Clark et al., 2019)."""

    groups: Groups
    """name of a group: Penn Treebank tags of its head words"""
    batch: Size
    """documents of one forward pass"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if taken := {"all", "other"} & set(self.groups):
            yield (
                f"groups names {', '.join(sorted(taken))}, which the results use for all mentions"
                " and for those of no group"
            )


@step(
    "probe",
    "[6] which heads point from a mention to an earlier one of its chain",
    params=ProbeParams,
    reads={"corpus": (*DOCUMENTS, *TOKENS), "lm": MODEL},
    needs={"attend"},
    libraries=("pandas",),
    title="Which heads find the antecedent",
)
def probe(run: Run) -> Rows:
    """The questions of each split with the baselines, the head chosen on one split and scored on
    the other, right answers of every head, and of the chosen heads in each document.
    """
    from entity_transformers.corpus.labels import give
    from entity_transformers.tasks import probe as task

    section, window = run.section, run.entry.lm.window
    how, given, asked = {"window": window, "batch": section.batch}, [], []
    for split in (section.choose, section.report):
        gold = run.tokens(split)
        asked.append(task.ask(run.documents(split), gold, section.groups, window=window))
        given.append(give(gold, run.entry.labels, run.seed))
    one, other = asked
    first = task.score_heads(run.trained, given[0], one, **how)
    profiles = {key: scores.profile for key, scores in first.items()}
    second = task.score_heads(run.trained, given[1], other, **how, profiles=profiles)
    chosen = task.choose_heads(first, one)
    yield from task.question_rows(one)
    yield from task.question_rows(other)
    yield from task.choice_rows(chosen, (first, second), (one, other))
    yield from task.head_rows(first, one)
    yield from task.head_rows(second, other)
    yield from task.document_rows(chosen, second, other)
