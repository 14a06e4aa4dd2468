"""Step capacity (beyond the paper): memories of few entities, on the splits of section mentions."""

from typing import Annotated

from pydantic import Field

from entity_transformers.step import MODEL, TOKENS, Rows, Run, step
from entity_transformers.study.sections import Different, Integer, Section

Count = Annotated[Integer, Field(ge=0, le=10**7)]


class CapacityParams(Section):
    """Memories of bounded size."""

    memories: Annotated[tuple[tuple[Count, Count], ...], Different, Field(min_length=1)]
    """each how many entities, the latest mentioned, and how many recent tokens are remembered"""


@step(
    "capacity",
    "loss by kind of token if the memory has room for few entities",
    params=CapacityParams,
    also=(
        *(f"mentions.{key}" for key in ("labels", "choose", "tokens", "report")),
        "perplexity.stride",
    ),
    reads={"corpus": (*TOKENS, "tokenizer.json"), "lm": MODEL},
    needs={"causal", "entities"},
    title="Memories of bounded size",
)
def capacity(run: Run) -> Rows:
    """Of a model with a pointer, with so much room, beside so many recent tokens in a cache."""
    from entity_transformers.tasks.mentions import points, score_readings

    if not points(run.entry):
        return
    for entities in sorted({count for count, _ in run.section.memories}):
        asked = sorted(tokens for count, tokens in run.section.memories if count == entities)
        caches = [size for size in asked if size]
        for row in score_readings(run, [(run.entry.labels, caches, entities)]):
            known = row["measure"] in ("loss", "nll", "entities")
            if known and row["size"] in asked and "sort" not in row:
                yield {**row, "rows": entities}
