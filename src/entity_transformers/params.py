"""The typed parameters of a study: one frozen model a section of params.yaml, and the only loader of that file.

Every value comes from params.yaml: no field has a default. YAML 1.1 (Snakemake) and 1.2 (DVC) read numbers differently
(``2e-5`` is text to one and a number to the other), so these models own every type.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

Fraction = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]
Model = Literal["gpt2", "gpt2e", "gpt2e-null", "gpt2e-shuffled", "gpt2e-first-only", "gpt2-wide"]
Split = Literal["train", "dev", "test", "test2"]
SPLITS: tuple[Split, ...] = get_args(Split)
PlantedVariant = Literal["gpt2", "gpt2-document", "keys-detached", "keys-values-detached", "keys-gradient", "keys-values-gradient"]
Format = Literal["sample", "ontonotes", "ontogum", "litbank", "jsonl"]


class ParamsError(ValueError):
    """A params.yaml that can't be used: the message names file, key and value."""


class Section(BaseModel):
    """Base of every section: frozen, no unknown key, no missing key."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


class StudyParams(Section):
    """Which models are trained and how often."""

    models: Annotated[tuple[Model, ...], Field(min_length=1, description="models to train and compare, the baseline first")]
    seeds: Annotated[tuple[int, ...], Field(min_length=1, description="one training run a model and seed")]

    @model_validator(mode="after")
    def _distinct(self) -> StudyParams:
        if len(set(self.models)) < len(self.models) or len(set(self.seeds)) < len(self.seeds):
            raise ValueError("models and seeds must not repeat")
        return self


class RunParams(Section):
    """Where it runs; changes no result that is reported, so it re-runs nothing."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="auto, cpu, cuda or cuda:N")]
    threads: Annotated[PositiveInt, Field(description="CPU threads of one process")]


class CorpusParams(Section):
    """The text with coreference chains (section 4.2)."""

    format: Annotated[Format, Field(description="how the corpus is written; sample: generated on the spot")]
    path: Annotated[str | None, Field(description="local file or folder, relative to the study; null: download")]
    exclude: Annotated[tuple[str, ...], Field(description="document names to leave out, as glob patterns")]
    bad_documents: Annotated[
        Literal["strict", "skip"], Field(description="strict: stop at a bad document; skip: leave it out and count it")
    ]
    nested_mentions: Annotated[
        Literal["outermost", "innermost", "drop"], Field(description="which of nested mentions gives a word its entity")
    ]
    singletons: Annotated[bool, Field(description="keep chains of one mention (OntoNotes has none)")]
    spacing: Annotated[
        Literal["natural", "every_word"], Field(description="natural: spaces as in running text; every_word: one before each word")
    ]
    sample_words: Annotated[PositiveInt, Field(description="size of the generated corpus in words (format sample)")]
    sample_seed: Annotated[int, Field(description="seed of the generated corpus (format sample)")]


class LambadaParams(Section):
    """The out-of-domain passages (section 4.2)."""

    text: Annotated[
        Literal["original", "openai", "sample"],
        Field(description="original: tokenised, lower case; openai: detokenised; sample: generated"),
    ]
    path: Annotated[str | None, Field(description="local file, relative to the study; null: download")]


class TokenizerParams(Section):
    """The byte-pair encoder (section 4.1)."""

    kind: Annotated[Literal["gpt2", "trained"], Field(description="gpt2: GPT-2's own files; trained: learnt from the training split")]
    path: Annotated[str | None, Field(description="folder with GPT-2's vocabulary and merges, relative to the study; null: download")]
    vocabulary: Annotated[int, Field(ge=257, description="pieces of a trained encoder, 256 bytes and <|endoftext|> included")]


class LmParams(Section):
    """The language models and their training (sections 3 and 4.1)."""

    initial_weights: Annotated[str | None, Field(description="folder of a GPT-2 checkpoint to start from; null: random")]
    layers: Annotated[PositiveInt, Field(description="transformer blocks")]
    heads: Annotated[PositiveInt, Field(description="attention heads of a block")]
    width: Annotated[PositiveInt, Field(description="hidden units")]
    window: Annotated[int, Field(ge=2, description="pieces of one forward pass, also the number of positions")]
    dropout: Annotated[float, Field(ge=0, lt=1, description="dropout of embeddings, attention and residuals")]
    entity_residual: Annotated[bool, Field(description="residual connection around entity attention")]
    entity_layer_norm: Annotated[bool, Field(description="layer norm before entity attention")]
    entity_gate: Annotated[Literal["none", "zero"], Field(description="zero: a learnt gate that starts at 0")]
    entity_values: Annotated[Literal["hidden", "entity", "both"], Field(description="where the values of entity attention come from")]
    memory_write: Annotated[
        Literal["last", "mean"], Field(description="state written to the memory: last piece or mean of the latest mention")
    ]
    memory_gradient_windows: Annotated[
        int, Field(ge=0, description="earlier windows that the gradient reaches through the memory; 0: the paper")
    ]
    steps: Annotated[PositiveInt, Field(description="optimizer steps")]
    documents_per_step: Annotated[PositiveInt, Field(description="documents side by side, each with its own memory")]
    accumulation: Annotated[PositiveInt, Field(description="forward passes that documents_per_step is divided into")]
    learning_rate: Annotated[float, Field(gt=0, description="peak learning rate of AdamW")]
    schedule: Annotated[Literal["constant", "cosine"], Field(description="learning rate after the warm-up")]
    warmup_steps: Annotated[int, Field(ge=0, description="steps of linear warm-up")]
    weight_decay: Annotated[NonNegative, Field(description="AdamW weight decay, on matrices only")]
    clip_norm: Annotated[NonNegative, Field(description="largest gradient norm; 0: no clipping")]
    final_weights: Annotated[
        Literal["last", "best"], Field(description="weights that the study goes on with: of the last step or of the lowest dev loss")
    ]
    validate_every: Annotated[PositiveInt, Field(description="steps between validations")]
    validation_documents: Annotated[PositiveInt | None, Field(description="first documents of dev used in validation; null: all")]
    checkpoint_every: Annotated[PositiveInt, Field(description="steps between resumable checkpoints")]
    keep_checkpoints: Annotated[PositiveInt, Field(description="resumable checkpoints kept")]
    precision: Annotated[Literal["float32", "bfloat16"], Field(description="bfloat16: autocast of the forward pass")]
    compile: Annotated[bool, Field(description="torch.compile the model")]
    gradient_checkpointing: Annotated[bool, Field(description="recompute activations in the backward pass")]
    max_minutes: Annotated[float | None, Field(gt=0, description="save and stop after so many minutes, to be resumed; null: no limit")]

    @model_validator(mode="after")
    def _possible(self) -> LmParams:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by heads {self.heads}")
        if self.documents_per_step % self.accumulation:
            raise ValueError(f"documents_per_step {self.documents_per_step} is not divisible by accumulation {self.accumulation}")
        if self.warmup_steps > self.steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} is more than steps {self.steps}")
        if self.entity_gate == "zero" and not self.entity_residual:
            raise ValueError("entity_gate zero without entity_residual would give a constant output")
        return self


class PerplexityParams(Section):
    """Perplexity on the corpus and on LAMBADA (tables 2 and 3)."""

    splits: Annotated[tuple[Split, ...], Field(min_length=1, description="splits to score; one without documents is an error")]
    stride: Annotated[PositiveInt, Field(description="pieces scored by one forward pass, at most lm.window; the rest is context")]
    batch: Annotated[PositiveInt, Field(description="documents or passages of one forward pass")]


class EmbeddingsParams(Section):
    """Word and mention representations (section 4.1)."""

    splits: Annotated[tuple[Split, ...], Field(min_length=1, description="splits whose mentions are compared")]
    ner_context: Annotated[
        Literal["word", "sentence", "document"], Field(description="text around a word when its NER vector is made; word: none, the paper")
    ]
    pooling: Annotated[Literal["last", "first", "mean"], Field(description="piece or mean of pieces that stands for a word")]
    batch: Annotated[PositiveInt, Field(description="words, sentences or documents of one forward pass")]


class SimilarityParams(Section):
    """Cosine similarity of mentions (table 4)."""

    groups: Annotated[dict[str, tuple[str, ...]], Field(min_length=1, description="name of a group: its Penn Treebank tags")]


class NerParams(Section):
    """The BiLSTM-CRF tagger (section 4.1, Lample et al. 2016)."""

    hidden: Annotated[PositiveInt, Field(description="LSTM units of each direction")]
    dropout: Annotated[float, Field(ge=0, lt=1, description="dropout before and after the LSTM")]
    learning_rate: Annotated[float, Field(gt=0, description="of Adam")]
    decay: Annotated[float, Field(gt=0, le=1, description="factor on the learning rate after each epoch")]
    epochs: Annotated[PositiveInt, Field(description="most epochs")]
    patience: Annotated[PositiveInt, Field(description="epochs without a better dev F1 before stopping")]
    batch: Annotated[PositiveInt, Field(description="sentences of one step")]


class PlantedParams(Section):
    """Planted facts: what a memory carries beyond the window (not in the paper)."""

    variants: Annotated[tuple[PlantedVariant, ...], Field(description="rows of the table; none: nothing is trained")]
    seeds: Annotated[
        tuple[int, ...], Field(min_length=1, description="one training run a variant and seed; a run takes a minute, so more than one")
    ]
    kinds: Annotated[
        tuple[Literal["colour", "town", "trade"], ...], Field(min_length=1, description="facts of an entity, one asked for at a time")
    ]
    entities: Annotated[PositiveInt, Field(description="entities of a document")]
    windows: Annotated[int, Field(ge=2, description="windows of a document: the fact in the first, questions in all")]
    values: Annotated[int, Field(ge=2, description="values of a kind of fact; chance is one in so many")]
    names: Annotated[PositiveInt, Field(description="names that a document's entities draw from")]
    documents: Annotated[PositiveInt, Field(description="documents read in training, the same for every row")]
    distinct_documents: Annotated[PositiveInt, Field(description="different ones among them")]
    test_documents: Annotated[PositiveInt, Field(description="documents with the questions that are scored")]
    layers: Annotated[PositiveInt, Field(description="transformer blocks")]
    heads: Annotated[PositiveInt, Field(description="attention heads of a block")]
    width: Annotated[PositiveInt, Field(description="hidden units")]
    documents_per_step: Annotated[PositiveInt, Field(description="documents side by side")]
    learning_rate: Annotated[float, Field(gt=0, description="peak learning rate of AdamW, then a cosine to 0")]
    warmup: Annotated[Fraction, Field(description="share of the steps that is linear warm-up")]

    @model_validator(mode="after")
    def _possible(self) -> PlantedParams:
        for name in ("variants", "seeds", "kinds"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} must not repeat")
        if self.entities > self.names:
            raise ValueError(f"entities {self.entities} is more than names {self.names}, but a document's names differ")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by heads {self.heads}")
        return self


class ReportParams(Section):
    """Tables, figures and the page."""

    title: Annotated[str, Field(description="heading of the report")]
    example_words: Annotated[PositiveInt, Field(description="words of the aligned example (table 1)")]
    pictured_entities: Annotated[PositiveInt, Field(description="entities shown in the embedding pictures (appendix)")]
    bootstrap_samples: Annotated[PositiveInt, Field(description="resamples of the documents for each interval")]


class Params(Section):
    """A whole params.yaml."""

    root: Annotated[str, Field(description="the checkout, relative to the study (DVC finds the code through it)")]
    study: StudyParams
    run: RunParams
    corpus: CorpusParams
    tokenizer: TokenizerParams
    lambada: LambadaParams
    lm: LmParams
    perplexity: PerplexityParams
    embeddings: EmbeddingsParams
    similarity: SimilarityParams
    ner: NerParams
    planted: PlantedParams
    report: ReportParams

    @model_validator(mode="after")
    def _fit_together(self) -> Params:
        splits = {*self.perplexity.splits, *self.embeddings.splits}
        if "test2" in splits and self.corpus.format not in ("ontogum", "jsonl"):
            raise ValueError(f"perplexity.splits or embeddings.splits names test2, which format {self.corpus.format} does not have")
        if self.lm.initial_weights is not None and "gpt2-wide" in self.study.models:
            raise ValueError("study.models names gpt2-wide, whose feed-forward layers do not fit lm.initial_weights: leave one of them out")
        if self.corpus.format == "jsonl" and self.corpus.path is None:
            raise ValueError("corpus.path is null, but format jsonl is your own corpus: name its file or folder")
        if self.perplexity.stride > self.lm.window:
            raise ValueError(f"perplexity.stride {self.perplexity.stride} is more than lm.window {self.lm.window}")
        return self


def parse(values: Any, source: str) -> Params:
    """Check the values of a params.yaml named ``source``; ParamsError lists every key that is wrong, with its value."""
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc'])) or '(file)'}: {e['msg']}{_shown(e)}" for e in error.errors()]
        raise ParamsError("\n".join([f"{source}: {len(lines)} bad parameter(s)", *lines])) from None


def _shown(error: Any) -> str:
    if error["type"] == "value_error":  # a rule between several keys, whose message has their values
        return ""
    return " (value: none given)" if error["type"] == "missing" else f" (value: {error['input']!r})"


def load(path: Path) -> Params:
    """Read a params.yaml; anything wrong with it raises ParamsError."""
    return parse(read_values(path), str(path))


def read_values(path: Path) -> dict[str, Any]:
    """The sections of a params.yaml, not checked yet; ParamsError if it is no YAML mapping."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParamsError(f"{path}: {error.strerror}: name a study's params.yaml") from None
    except yaml.YAMLError as error:
        raise ParamsError(f"{path}: not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: holds no sections: copy one of the studies' params.yaml")
    return values
