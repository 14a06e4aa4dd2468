"""Step similarity (section 5, table 4): cosine similarity of mentions and entities."""

from pydantic import StrictBool

from entity_transformers.step import Rows, Run, step
from entity_transformers.study.sections import Groups, Section


class SimilarityParams(Section):
    """Cosine similarity of mentions (table 4)."""

    groups: Groups
    """name of a group: its Penn Treebank tags"""
    across: StrictBool
    """rows of step report on the same words in models that read entities and the baseline (CKA)"""


@step(
    "similarity",
    "[5, table 4] cosine similarity of mentions and entities, by parts of speech",
    params=SimilarityParams,
    reads={"embeddings": ("mentions.safetensors",)},
    needs={"encode"},
    gpu=False,
    title="Mentions and their entities",
)
def similarity(run: Run) -> Rows:
    """Means over entities, by part of speech, words alone or in context, entities given or not."""
    from entity_transformers.artifacts import read_arrays
    from entity_transformers.tasks.similarity import similarity_rows

    mentions, _ = read_arrays(run.home("embeddings") / "mentions.safetensors")
    yield from similarity_rows(mentions, run.section.groups)
