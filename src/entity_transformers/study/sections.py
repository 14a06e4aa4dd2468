"""The sections of params.yaml: one frozen model each, with every key's type, limits and meaning."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator


def _refuse_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


Integer = Annotated[int, BeforeValidator(_refuse_truth)]
Number = Annotated[float, BeforeValidator(_refuse_truth)]
PositiveInt = Annotated[Integer, Field(gt=0)]
Seed = Annotated[Integer, Field(ge=0, lt=2**32)]
Fraction = Annotated[Number, Field(ge=0, le=1)]
NonNegative = Annotated[Number, Field(ge=0)]
Split = Literal["train", "dev", "test", "test2"]
SPLITS: tuple[Split, ...] = get_args(Split)
Anomaly = Literal["padding", "validation-trains", "validation-seen", "literal-block"]
Format = Literal["sample", "ontonotes", "ontogum", "litbank", "jsonl"]


class Section(BaseModel):
    """Base of every section: frozen, no unknown key, no missing key."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )


class StudyParams(Section):
    """What is done, and how often each model is trained."""

    steps: Annotated[
        tuple[str, ...],
        Field(min_length=1, description="the steps that are run, in the order of the paper"),
    ]
    seeds: Annotated[
        tuple[Seed, ...],
        Field(min_length=1, description="one training run per model and seed"),
    ]

    @model_validator(mode="after")
    def _distinct(self) -> StudyParams:
        for name in ("steps", "seeds"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} must not repeat")
        return self


class RunParams(Section):
    """Where it runs; changes no result that is reported, so it re-runs nothing."""

    device: Annotated[
        str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="auto, cpu, cuda or cuda:N")
    ]
    threads: Annotated[PositiveInt, Field(description="CPU threads of one process")]
    checkpoint_every: Annotated[
        PositiveInt, Field(description="training steps between resumable checkpoints")
    ]
    keep_checkpoints: Annotated[PositiveInt, Field(description="resumable checkpoints kept")]
    max_minutes: Annotated[
        Number | None,
        Field(
            gt=0,
            description=(
                "save and stop a training after so many minutes, to be resumed; null: no limit"
            ),
        ),
    ]


class CorpusParams(Section):
    """The text with coreference chains (section 4.2)."""

    format: Annotated[
        Format, Field(description="how the corpus is written; sample: generated on the spot")
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
    sample_words: Annotated[
        PositiveInt, Field(description="size of the generated corpus in words (format sample)")
    ]
    sample_seed: Annotated[
        Integer, Field(description="seed of the generated corpus (format sample)")
    ]


class LambadaParams(Section):
    """The out-of-domain passages (section 4.2)."""

    text: Annotated[
        Literal["original", "openai", "sample"],
        Field(
            description="original: tokenised, lower case; openai: detokenised; sample: generated"
        ),
    ]
    path: Annotated[
        str | None, Field(description="local file, relative to the study; null: download")
    ]


class TokenizerParams(Section):
    """The byte-pair encoder (section 4.1)."""

    kind: Annotated[
        Literal["gpt2", "trained"],
        Field(description="gpt2: GPT-2's own files; trained: learnt from the training split"),
    ]
    path: Annotated[
        str | None,
        Field(
            description=(
                "folder with GPT-2's vocabulary and merges, relative to the study; null: download"
            )
        ),
    ]
    vocabulary: Annotated[
        Integer,
        Field(
            ge=257, description="tokens of a trained encoder, 256 bytes and <|endoftext|> included"
        ),
    ]


class PerplexityParams(Section):
    """Perplexity on the corpus and on LAMBADA (tables 2 and 3)."""

    splits: Annotated[
        tuple[Split, ...],
        Field(min_length=1, description="splits to score; one without documents is an error"),
    ]
    stride: Annotated[
        PositiveInt,
        Field(
            description="tokens scored by one forward pass, at most lm.window; the rest is context"
        ),
    ]
    batch: Annotated[PositiveInt, Field(description="documents or passages of one forward pass")]


class EmbeddingsParams(Section):
    """Word and mention representations (section 4.1)."""

    splits: Annotated[
        tuple[Split, ...], Field(min_length=1, description="splits whose mentions are compared")
    ]
    ner_context: Annotated[
        Literal["word", "sentence", "document"],
        Field(description="text around a word when its NER vector is made; word: none, the paper"),
    ]
    pooling: Annotated[
        Literal["last", "first", "mean"],
        Field(description="token or mean of tokens that stands for a word"),
    ]
    batch: Annotated[
        PositiveInt, Field(description="words, sentences or documents of one forward pass")
    ]


class SimilarityParams(Section):
    """Cosine similarity of mentions (table 4)."""

    groups: Annotated[
        dict[str, tuple[str, ...]],
        Field(min_length=1, description="name of a group: its Penn Treebank tags"),
    ]


class ProbeParams(Section):
    """Which attention heads point from a mention to its antecedent (section 6, Clark et al. 2019)."""

    choose: Annotated[Split, Field(description="split on which the best head is chosen")]
    report: Annotated[Split, Field(description="another split, on which it is scored")]
    documents: Annotated[
        PositiveInt | None, Field(description="first documents of each split; null: all")
    ]
    tokens: Annotated[
        Literal["head", "mention"],
        Field(description="tokens that stand for a mention: its head word's or all"),
    ]
    pooling: Annotated[
        Literal["sum", "max"],
        Field(description="attention to a mention: sum or maximum over those tokens"),
    ]
    groups: Annotated[
        dict[str, tuple[str, ...]],
        Field(min_length=1, description="name of a group: Penn Treebank tags of its head words"),
    ]
    batch: Annotated[PositiveInt, Field(description="documents of one forward pass")]

    @model_validator(mode="after")
    def _fair(self) -> ProbeParams:
        if self.choose == self.report:
            raise ValueError(
                f"choose and report are both {self.report}: the best head must be scored on text"
                " that it was not chosen on"
            )
        if taken := {"all", "other"} & set(self.groups):
            raise ValueError(
                f"groups names {', '.join(sorted(taken))}, which the results use for all mentions"
                " and for those of no group"
            )
        return self


class NerParams(Section):
    """The BiLSTM-CRF tagger (section 4.1, Lample et al. 2016)."""

    hidden: Annotated[PositiveInt, Field(description="LSTM units of each direction")]
    dropout: Annotated[Number, Field(ge=0, lt=1, description="dropout before and after the LSTM")]
    learning_rate: Annotated[Number, Field(gt=0, description="of Adam")]
    decay: Annotated[
        Number, Field(gt=0, le=1, description="factor on the learning rate after each epoch")
    ]
    epochs: Annotated[PositiveInt, Field(description="most epochs")]
    patience: Annotated[
        PositiveInt, Field(description="epochs without a better dev F1 before stopping")
    ]
    batch: Annotated[PositiveInt, Field(description="sentences of one step")]


class AnomaliesParams(Section):
    """Short trainings that try what could have given the paper's numbers (PAPER.md, "Anomalies")."""

    candidates: Annotated[
        tuple[Anomaly, ...],
        Field(description="what is tried; empty: nothing, and the report says so"),
    ]
    models: Annotated[
        dict[str, dict[str, Any]],
        Field(description="the models that the candidates train, entries as of section models"),
    ]
    seed: Annotated[Seed, Field(description="seed of every training")]
    steps: Annotated[
        PositiveInt, Field(description="optimizer steps of a training from random weights on train")
    ]
    documents: Annotated[
        PositiveInt,
        Field(description="dev documents scored, and where a candidate does that trained on"),
    ]
    passes: Annotated[
        PositiveInt,
        Field(description="passes over the documents where dev documents are trained on"),
    ]

    @model_validator(mode="after")
    def _distinct(self) -> AnomaliesParams:
        if len(set(self.candidates)) < len(self.candidates):
            raise ValueError("candidates must not repeat")
        if missing := {"gpt2", "gpt2e", "gpt2e-literal"} - self.models.keys():
            raise ValueError(f"models has no entry {', '.join(sorted(missing))}")
        return self


class RecallParams(Section):
    """Synthetic recall: what a memory carries beyond the window (not in the paper)."""

    models: Annotated[
        dict[str, dict[str, Any]],
        Field(
            description=(
                "rows of the table, entries as of section models; reads: document gives one a"
                " window as long as the document; none: nothing is trained"
            )
        ),
    ]
    seeds: Annotated[
        tuple[Seed, ...],
        Field(
            min_length=1,
            description=(
                "one training run per model and seed; a run takes a minute, so more than one"
            ),
        ),
    ]
    facts: Annotated[
        tuple[Literal["colour", "town", "trade"], ...],
        Field(min_length=1, description="facts of an entity, one asked for at a time"),
    ]
    entities: Annotated[PositiveInt, Field(description="entities of a document")]
    windows: Annotated[
        Integer,
        Field(ge=2, description="windows of a document: the fact in the first, questions in all"),
    ]
    values: Annotated[
        Integer, Field(ge=2, description="values of a sort of fact; chance is one in so many")
    ]
    names: Annotated[PositiveInt, Field(description="names that a document's entities draw from")]
    documents: Annotated[
        PositiveInt, Field(description="documents read in training, the same for every row")
    ]
    distinct_documents: Annotated[PositiveInt, Field(description="different ones among them")]
    test_documents: Annotated[
        PositiveInt, Field(description="documents with the questions that are scored")
    ]
    layers: Annotated[PositiveInt, Field(description="transformer blocks")]
    heads: Annotated[PositiveInt, Field(description="attention heads of a block")]
    width: Annotated[PositiveInt, Field(description="hidden units")]
    documents_per_step: Annotated[PositiveInt, Field(description="documents side by side")]
    learning_rate: Annotated[
        Number, Field(gt=0, description="peak learning rate of AdamW, then a cosine to 0")
    ]
    warmup: Annotated[Fraction, Field(description="share of the steps that is linear warm-up")]

    @model_validator(mode="after")
    def _possible(self) -> RecallParams:
        for name in ("seeds", "facts"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} must not repeat")
        if self.entities > self.names:
            raise ValueError(
                f"entities {self.entities} is more than names {self.names}, but a document's names"
                " differ"
            )
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by heads {self.heads}")
        return self


class ReportParams(Section):
    """Tables, figures and the page."""

    title: Annotated[str, Field(description="heading of the report")]
    example_words: Annotated[
        PositiveInt, Field(description="words of the aligned example (table 1)")
    ]
    pictured_entities: Annotated[
        PositiveInt, Field(description="entities shown in the embedding pictures (appendix)")
    ]
    bootstrap_samples: Annotated[
        PositiveInt, Field(description="resamples of the documents for each interval")
    ]
