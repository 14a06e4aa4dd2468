"""Step ner (sections 4.1 and 5, table 5): a tagger on frozen word vectors."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entity_transformers.study.libraries import need
from entity_transformers.study.sections import Number, PositiveInt, Section, Size
from entity_transformers.study.steps.base import Shown, Step


class NerParams(Section):
    """The BiLSTM-CRF tagger (section 4.1, Lample et al. 2016)."""

    hidden: Annotated[Size, Field(description="LSTM units of each direction")]
    dropout: Annotated[Number, Field(ge=0, lt=1, description="dropout before and after the LSTM")]
    learning_rate: Annotated[Number, Field(gt=0, description="of Adam")]
    decay: Annotated[
        Number, Field(gt=0, le=1, description="factor on the learning rate after each epoch")
    ]
    epochs: Annotated[PositiveInt, Field(description="most epochs")]
    patience: Annotated[
        PositiveInt, Field(description="epochs without a better dev F1 before stopping")
    ]
    batch: Annotated[Size, Field(description="sentences of one step")]


STEP = Step(
    name="ner",
    params=("ner", "embeddings"),
    start=("cli.ner",),
    rules={
        "train_ner": "[4.1] train the BiLSTM-CRF tagger on the frozen vectors",
        "score_ner": "[5, table 5] precision, recall and F1 of the tagger, by span and by tag",
    },
    reads={
        "corpus": ("train.jsonl", "dev.jsonl", "test.jsonl"),
        "embeddings": ("words.safetensors",),
    },
    needs=frozenset({"encode"}),
    large=("tagger.safetensors",),
    metrics=("metrics.json",),
    kept=("documents.csv", "history.csv"),
    libraries=need("seqeval", "sklearn", extra="ner"),
    target="metrics.json",
    shown=Shown(
        "Named entities",
        measure="report.ner:measure",
        tables={
            "table5": "report.ner:build_table5",
            "table5_tags": "report.ner:build_table5_tags",
            "ner_overall": "report.ner:build_ner_overall",
            "ner_layers": "report.ner:build_ner_layers",
        },
    ),
)
