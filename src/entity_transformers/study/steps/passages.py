"""Step passages (section 4.2): LAMBADA's passages and the parts of speech of their last words."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from entity_transformers.study.libraries import need
from entity_transformers.study.sections import Section
from entity_transformers.study.steps.base import Shown, Step


class LambadaParams(Section):
    """The out-of-domain passages (section 4.2)."""

    text: Annotated[
        Literal["original", "openai", "sample"],
        Field(description="original: lower case, tokenised; openai: detokenised; sample: our own"),
    ]
    path: Annotated[
        str | None, Field(description="local file, relative to the study; null: download")
    ]


STEP = Step(
    name="passages",
    params=("lambada", "corpus.bad_documents"),
    start=("cli.passages",),
    data=("corpus/checksums/*", "data/*"),
    rules={
        "download_lambada": "[4.2] fetch the LAMBADA passages, or find them on disk",
        "prepare_lambada": "[4.2] read the passages and find their target words",
        "tag_lambada": "[4.2] parts of speech of the target words, by a tagger trained on train",
    },
    reads={"corpus": ("train.jsonl", "dev.jsonl")},
    large=("lambada_source.json", "lambada.jsonl"),
    metrics=("lambada_statistics.json", "lambada_tags.json"),
    libraries=need("scipy", "sklearn", extra="pipeline"),
    target="lambada_tags.json",
    shown=Shown(
        "Target words of the passages",
        measure="report.passages:measure",
    ),
)
