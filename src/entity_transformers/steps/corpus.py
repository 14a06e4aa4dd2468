"""Step corpus (section 4.2): text with coreference chains as tokens with entity ids."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from entity_transformers.corpus.readers import names, registry
from entity_transformers.resolve.registry import REGISTRY
from entity_transformers.step import DOCUMENTS, TOKENS, Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section, one_of

EVALUATED = tuple(
    dataset.name for reader in registry().values() for dataset in reader.data if dataset.files
)
"""The data sets that a study can be evaluated on by name, since they need no path."""


class CorpusParams(Section):
    """The text with coreference chains (section 4.2)."""

    format: Annotated[str, one_of(names()), Field(json_schema_extra={"enum": list(names())})]
    """how the corpus is written; sample: generated on the spot"""
    path: str | None
    """local file or folder; null: download"""
    revision: str | None
    """commit of the hub's copy of CoNLL-2012 (format ontonotes); null: the newest, which
    source.json names"""
    exclude: tuple[str, ...]
    """document names to leave out, as glob patterns"""
    bad_documents: Literal["strict", "skip"]
    """strict: stop at a bad document; skip: leave it out and count it"""
    unit: Literal["chapter", "book"]
    """what a document is (format text)"""
    evaluated: tuple[Annotated[str, one_of(EVALUATED)], ...]
    """data sets that are evaluated on, whose text is left out of train: names"""
    second_test: Annotated[str, one_of(EVALUATED)] | None
    """data set all of whose documents are split test2, of a corpus without such a split: a name"""
    nested_mentions: Literal["outermost", "innermost", "drop"]
    """which of nested mentions gives a word its entity"""
    singletons: StrictBool
    """keep chains of one mention (OntoNotes has none)"""
    spacing: Literal["natural", "every_word"]
    """natural: spaces as in running text; every_word: one before each word"""
    resolvers: tuple[Annotated[str, one_of(REGISTRY)], ...]
    """coreference resolvers that annotate it: NAME gives the labels resolver:NAME beside the gold
    ones"""
    sample_words: Annotated[PositiveInt, Field(le=60_000)]
    """about how many words of it, 60000 at most (format sample)"""

    def problems(self) -> Iterator[str]:
        if self.second_test == self.format:
            yield f"second_test: {self.format!r} is the corpus itself: name another data set"


@step(
    "corpus",
    "[4.2, table 1] documents with chains, tags and entities, as tokens with entity ids",
    phase="corpus",
    params=CorpusParams,
    also=("tokenizer",),
    writes=("source.json", "left_out.json", *DOCUMENTS, *TOKENS, "tokenizer.json"),
    data=("corpus/checksums/*", "data/*"),
    gpu=False,
    title="The text",
)
def corpus(run: Run) -> Rows:
    """Counts of each split as it was read, and of its tokens."""
    from entity_transformers.artifacts import write_json, write_with
    from entity_transformers.corpus import prepare
    from entity_transformers.corpus.statistics import list_counts

    listed = prepare.list_corpus(run.section, run.cache)
    write_json(run.folder / "source.json", listed)
    statistics, left_out = prepare.write_documents(run.params, listed, run.folder)
    write_json(run.folder / "left_out.json", left_out)
    encoder = prepare.make_tokenizer(run.params, run.folder, run.cache)
    write_with(run.folder / "tokenizer.json", lambda path: encoder.save(str(path)))
    yield {"measure": "vocabulary", "value": encoder.get_vocab_size()}
    for split, counts in {**statistics["splits"], "total": statistics["total"]}.items():
        yield from list_counts(split, counts)
    for reason, count in left_out["counts"].items():
        yield {"measure": "left_out", "value": count, "reason": reason}
    yield {"measure": "documents_read", "value": left_out["documents_read"]}
    yield {"measure": "documents_excluded", "value": len(left_out["excluded"])}
    yield {"measure": "documents_bad", "value": len(left_out["bad"])}
    for split, counts in prepare.align(run.params, encoder, run.folder):
        for name, count in counts.items():
            measure = name if name.startswith("tokens") else f"aligned_{name}"
            yield {"measure": measure, "value": count, "split": split}
