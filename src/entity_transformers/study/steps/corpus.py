"""Step corpus (section 4.2): text with coreference chains as tokens with entity ids."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictBool, model_validator

from entity_transformers.corpus.readers import names, registry
from entity_transformers.resolve.registry import REGISTRY
from entity_transformers.study.origin import read_tokenizer_origin
from entity_transformers.study.sections import Integer, PositiveInt, Section
from entity_transformers.study.steps.base import DOCUMENTS, TOKENS, Shown, Step


def _check_format(name: str) -> str:
    if name not in names():
        raise ValueError(f"{name!r}, expected one of {', '.join(names())}")
    return name


def _known_resolver(name: str) -> str:
    if name not in REGISTRY:
        raise ValueError(f"no such resolver, expected one of {', '.join(REGISTRY)}")
    return name


Resolver = Annotated[str, AfterValidator(_known_resolver)]


def _check_evaluated(name: str) -> str:
    if name not in EVALUATED:
        raise ValueError(f"{name!r}, expected one of {', '.join(EVALUATED)}")
    return name


EVALUATED = tuple(
    dataset.name
    for reader in registry().values()
    for dataset in reader.data
    if dataset.source is not None
)
"""The data sets that a study can be evaluated on by name, since they need no path."""


class CorpusParams(Section):
    """The text with coreference chains (section 4.2)."""

    format: Annotated[
        str,
        AfterValidator(_check_format),
        Field(
            description="how the corpus is written; sample: part of the package",
            json_schema_extra={"enum": list(names())},
        ),
    ]
    path: Annotated[
        str | None, Field(description="local file or folder, relative to the study; null: download")
    ]
    revision: Annotated[
        str | None,
        Field(
            description=(
                "commit of the hub's copy of CoNLL-2012 (format ontonotes); null: the newest, which"
                " source.json names"
            )
        ),
    ]
    exclude: Annotated[
        tuple[str, ...], Field(description="document names to leave out, as glob patterns")
    ]
    bad_documents: Annotated[
        Literal["strict", "skip"],
        Field(description="strict: stop at a bad document; skip: leave it out and count it"),
    ]
    unit: Annotated[
        Literal["chapter", "book"], Field(description="what a document is (format text)")
    ]
    evaluated: Annotated[
        tuple[Annotated[str, AfterValidator(_check_evaluated)], ...],
        Field(
            description="data sets that are evaluated on, whose text is left out of train: names"
        ),
    ]
    nested_mentions: Annotated[
        Literal["outermost", "innermost", "drop"],
        Field(description="which of nested mentions gives a word its entity"),
    ]
    singletons: Annotated[
        StrictBool, Field(description="keep chains of one mention (OntoNotes has none)")
    ]
    spacing: Annotated[
        Literal["natural", "every_word"],
        Field(description="natural: spaces as in running text; every_word: one before each word"),
    ]
    resolvers: Annotated[
        tuple[Resolver, ...],
        Field(
            description=(
                "coreference resolvers that annotate it: NAME gives the labels resolver:NAME beside"
                " the gold ones"
            )
        ),
    ]
    sample_words: Annotated[
        PositiveInt,
        Field(description="about how many words of it, 60000 at most (format sample)", le=60_000),
    ]


class TokenizerParams(Section):
    """The byte-pair encoder (section 4.1)."""

    kind: Annotated[
        Literal["gpt2", "trained", "study"],
        Field(
            description=(
                "gpt2: GPT-2's own files; trained: learnt from the training split; study: that of"
                " another study, whose weights the models start from"
            )
        ),
    ]
    path: Annotated[
        str | None,
        Field(
            description=(
                "kind gpt2: folder with GPT-2's vocabulary and merges, relative to the study, null:"
                " download; kind study: study:NAME"
            )
        ),
    ]
    vocabulary: Annotated[
        Integer,
        Field(
            ge=257,
            le=10**7,
            description="tokens of a trained encoder, 256 bytes and <|endoftext|> included",
        ),
    ]

    @model_validator(mode="after")
    def _found(self) -> TokenizerParams:
        named = read_tokenizer_origin(self.path) is not None
        if self.path is None if self.kind == "study" else named:
            raise ValueError(
                f"kind {self.kind} with path {self.path!r}: kind study, and no other, has a path"
                " study:NAME"
            )
        return self


STEP = Step(
    name="corpus",
    params=("corpus", "tokenizer"),
    start=("cli.corpus", "resolve.names", "resolve.words"),
    data=("corpus/checksums/*", "data/*"),
    rules={
        "download_corpus": "[4.2] fetch the corpus, or find it on disk, and list its files",
        "prepare_corpus": "[4.2] read documents with chains, tags and entities; count them",
        "train_tokenizer": "[4.1] learn a byte-pair encoder from train, or take GPT-2's own",
        "align_corpus": "[4.2, table 1] encode the words; give each token the entity of its word",
    },
    large=("source.json", *DOCUMENTS, *TOKENS, "tokenizer.json"),
    metrics=("statistics.json", "alignment.json"),
    target="alignment.json",
    shown=Shown(
        "The text",
        measure="report.corpus:measure",
        tables={
            "corpus": "report.corpus:build_corpus",
            "entity_types": "report.corpus:build_entity_types",
            "table1": "report.corpus:build_example",
        },
    ),
)
