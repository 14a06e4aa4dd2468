"""A kind of language model: its typed parameters, what it can, and where it is built.

This package is read wherever a params.yaml is, so nothing here imports torch: the module that
builds and loads a kind's models is named, not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    model_validator,
)

from entity_transformers.kinds.library import Library
from entity_transformers.study.origin import check_weights
from entity_transformers.study.sections import (
    Integer,
    NonNegative,
    Number,
    PositiveInt,
    Section,
    Size,
)

Role = Literal["baseline", "proposed", "control", "other"]
ROLES: tuple[Role, ...] = get_args(Role)
ERAS = ("static vectors", "recurrent", "transformer", "memory")
CAPABILITIES = {
    "encode": "vectors of words and mentions (tables 4 and 5)",
    "causal": "nats per token from the past alone (tables 2 and 3)",
    "attend": "attention weights by head (probe)",
    "entities": "reads and writes a memory of entities, so entities on and off differ",
    "guided": "labels guide its training, and are not read otherwise",
    "state": "hands something on from one window of a document to the next",
    "masked": "predicts hidden tokens from both sides",
    "replaced": "tells tokens that a generator has put in, from both sides",
    "layers": "several vectors per token, of which a tagger mixes all or reads some later",
    "windows": "learns by gradient from windows of running text, as section lm says",
    "static": "one vector per word whatever stands around it, learnt by a trainer of its own",
}


class LmParams(Section):
    """What every kind of language model has: its shape and its training (sections 3 and 4.1)."""

    initial_weights: Annotated[
        str | None,
        AfterValidator(check_weights),
        Field(
            description=(
                "weights to start from: a folder, a study's model (study:NAME/MODEL/SEED) or one"
                " of the hub (hub:NAME or hub:NAME@COMMIT); null: random"
            )
        ),
    ]
    layers: Annotated[Size, Field(description="layers, in a transformer its blocks")]
    heads: Annotated[Size, Field(description="attention heads of a layer that has any")]
    width: Annotated[Size, Field(description="hidden units")]
    window: Annotated[
        Integer,
        Field(
            ge=2, le=10**6, description="tokens of one forward pass, also the number of positions"
        ),
    ]
    dropout: Annotated[
        Number, Field(ge=0, lt=1, description="dropout of embeddings, attention and residuals")
    ]
    memory_gradient_windows: Annotated[
        Integer,
        Field(
            ge=0,
            le=10**6,
            description=(
                "earlier windows that the gradient reaches through what a model keeps between"
                " windows; 0: the paper"
            ),
        ),
    ]
    steps: Annotated[PositiveInt, Field(description="optimizer steps")]
    documents_per_step: Annotated[
        Size, Field(description="documents side by side, each with its own memory")
    ]
    accumulation: Annotated[
        Size,
        Field(
            description=(
                "forward passes that a process's share of documents_per_step is divided into"
            )
        ),
    ]
    learning_rate: Annotated[Number, Field(gt=0, description="peak learning rate of AdamW")]
    schedule: Annotated[
        Literal["constant", "cosine"], Field(description="learning rate after the warm-up")
    ]
    warmup_steps: Annotated[Integer, Field(ge=0, description="steps of linear warm-up")]
    weight_decay: Annotated[NonNegative, Field(description="AdamW weight decay, on matrices only")]
    clip_norm: Annotated[NonNegative, Field(description="largest gradient norm; 0: no clipping")]
    final_weights: Annotated[
        Literal["last", "best"],
        Field(
            description=(
                "weights that the study goes on with: of the last step or of the lowest dev loss"
            )
        ),
    ]
    validate_every: Annotated[PositiveInt, Field(description="steps between validations")]
    validation_documents: Annotated[
        PositiveInt | None,
        Field(description="first documents of dev used in validation; null: all"),
    ]
    precision: Annotated[
        Literal["float32", "bfloat16"],
        Field(description="bfloat16: autocast of the forward pass"),
    ]
    compile: Annotated[
        Literal["off", "default", "reduce-overhead"],
        # YAML 1.1 reads a bare off as false
        BeforeValidator(lambda value: "off" if value is False else value),
        Field(
            description=(
                "torch.compile's mode; reduce-overhead: CUDA graphs, for few documents per step"
            )
        ),
    ]
    attention: Annotated[
        Literal["sdpa", "flex"],
        Field(
            description=(
                "kernel on a GPU for windows in which documents begin: sdpa reads a mask, flex"
                " (FlexAttention, dropout 0) needs none; on a CPU always sdpa"
            )
        ),
    ]
    gradient_checkpointing: Annotated[
        StrictBool, Field(description="recompute activations in the backward pass")
    ]
    train_documents: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...] | None,
        Field(
            min_length=1,
            description="glob patterns of the documents of train that are learnt from; null: all",
        ),
    ]

    @model_validator(mode="after")
    def _possible(self) -> LmParams:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not divisible by heads {self.heads}")
        if self.documents_per_step % self.accumulation:
            raise ValueError(
                f"documents_per_step {self.documents_per_step} is not divisible by accumulation"
                f" {self.accumulation}"
            )
        if self.compile == "reduce-overhead" and self.accumulation > 1:
            raise ValueError(
                "compile reduce-overhead loses gradients with accumulation"
                f" {self.accumulation}: set it to default, or accumulation to 1"
            )
        if (
            self.compile == "reduce-overhead"
            and self.gradient_checkpointing
            and self.memory_gradient_windows
        ):
            raise ValueError(
                "compile reduce-overhead loses gradients where windows are recomputed"
                " (gradient_checkpointing with memory_gradient_windows): set it to default, or"
                " gradient_checkpointing to false"
            )
        if self.attention == "flex" and self.dropout > 0:
            raise ValueError(
                f"attention flex has no dropout of weights, but dropout is {self.dropout}: set it"
                " to 0, or attention to sdpa"
            )
        if self.warmup_steps > self.steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} is more than steps {self.steps}")
        return self


@dataclass(frozen=True)
class Kind:
    """One kind of language model.

    name    its key in params.yaml
    label   how tables write it
    year    of the paper that it is after
    era     one of `ERAS`: by era, then year, rows stand where a study compares systems
    params  typed parameters: those of `LmParams` and its own; a static kind's are its own alone
    can     its capabilities, keys of `CAPABILITIES`; a step runs where all that it needs are there
    home    the module with ``build(entry, vocabulary, end, seed)`` and ``load(folder)``; of a
            static kind with ``train(texts, params, seed, note)`` and ``load(folder)``
    extra   numbers per layer beyond a GPT-2 of the same shape, by its params: what a
            parameter-matched GPT-2 gets in its feed-forward layers
    also    other kinds whose weights it can start from
    cuts    whether it can start from weights of a longer window, of whose positions it takes the
            first (`models.folders.start_from`)
    start   by step, the module that has the step's command for this kind, where it is not the
            step's own: its code is then what the step depends on
    reads   files of step corpus that its training reads beside those of step lm
    library what these commands import beyond the requirements; None: nothing
    predicts which part of a model its nats per token are of, as tables say it; "": all of it
    """

    name: str
    label: str
    year: int
    era: str
    params: type[Section]
    can: frozenset[str]
    home: str
    extra: Callable[[Any], int] = lambda params: 0
    also: frozenset[str] = frozenset()
    cuts: bool = False
    start: Mapping[str, str] = field(default_factory=dict, hash=False)
    reads: tuple[str, ...] = ()
    library: Library | None = None
    predicts: str = ""

    def __post_init__(self) -> None:
        if unknown := self.can - CAPABILITIES.keys():
            raise ValueError(f"kind {self.name}: unknown capabilities {sorted(unknown)}")
        if self.era not in ERAS:
            raise ValueError(f"kind {self.name}: era {self.era!r}, expected one of {ERAS}")

    def module(self) -> Any:
        """The imported `home`."""
        return import_module(self.home)

    @property
    def missing(self) -> str:
        """What to install before it can be trained, in a line; "" if nothing is missing."""
        if self.library is None:
            return ""
        return self.library.explain(f"kind {self.name}", "the models of this kind")


@dataclass(frozen=True)
class ModelEntry:
    """One named entry of section ``models``, complete.

    ``labels``: the layer of entity labels that the model is given in training and evaluation
    (`corpus.labels`). ``lm``: typed parameters of its kind. ``extra``: numbers per layer that it
    has beyond its kind's own, to match another entry.
    """

    name: str
    kind: Kind
    role: Role
    labels: str
    lm: Any
    extra: int = 0

    @property
    def label(self) -> str:
        """How tables write it: the kind's name, then what the entry's name adds to it."""
        rest = self.name.removeprefix(self.kind.name).strip("-")
        return f"{self.kind.label} {rest}".strip()

    @property
    def initial_weights(self) -> str | None:
        """The weights that it starts from; None for random ones, or where its kind knows none."""
        found: str | None = getattr(self.lm, "initial_weights", None)
        return found

    @property
    def lags(self) -> bool:
        """Does the model itself hold labels back until their mentions have ended?"""
        return hasattr(self.lm, "entity_lag")

    def can(self, needs: frozenset[str] | set[str]) -> bool:
        """Does its kind have all these capabilities?"""
        return self.kind.can.issuperset(needs)
