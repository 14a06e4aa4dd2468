"""What the sections of params.yaml are made of, and the sections that belong to no step. A section
is a frozen model with every key's type, limits and meaning; steps/ has those of the steps.
"""

from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from entity_transformers.corpus.document import Split
from entity_transformers.study.origin import read_origin


def _refuse_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


def _check_different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise ValueError(f"{list(values)}: expected distinct values")
    return values


def _check_ascending(values: tuple[float, ...]) -> tuple[float, ...]:
    if list(values) != sorted(set(values)):
        raise ValueError(f"{list(values)}: expected distinct values, smallest first")
    return values


def one_of(known: Collection[str]) -> AfterValidator:
    """Return a validator of these names, whose collection may still grow."""

    def check(name: str) -> str:
        if name not in known:
            raise ValueError(f"{name!r}, expected one of {', '.join(known)}")
        return name

    return AfterValidator(check)


Different = AfterValidator(_check_different)
Ascending = AfterValidator(_check_ascending)
"""Different values, smallest first."""
Integer = Annotated[int, BeforeValidator(_refuse_truth)]
Number = Annotated[float, BeforeValidator(_refuse_truth)]
PositiveInt = Annotated[Integer, Field(gt=0, le=10**10)]
Size = Annotated[Integer, Field(gt=0, le=10**6)]
"""What one machine has or holds at once: layers, units, a batch."""
Width = Annotated[Integer, Field(gt=0, le=2**15)]
"""Units of a layer, and layers: a square matrix of so many has 4 GB."""
Seed = Annotated[Integer, Field(ge=0, lt=2**32)]
Fraction = Annotated[Number, Field(ge=0, le=1)]
NonNegative = Annotated[Number, Field(ge=0)]
Positive = Annotated[Number, Field(gt=0)]
Rate = Annotated[Number, Field(ge=0, lt=1)]
Splits = Annotated[tuple[Split, ...], Field(min_length=1)]
Groups = Annotated[dict[str, tuple[str, ...]], Field(min_length=1)]
"""Penn Treebank tags by the name of their group."""


class Section(BaseModel):
    """Base of every section: frozen, no unknown key, no missing key."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with values that are valid by themselves."""
        yield from ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for problem in self.problems():
            raise ValueError(problem)
        return self


class StudyParams(Section):
    """What is done, and how often each model is trained."""

    steps: Annotated[tuple[str, ...], Different, Field(min_length=1)]
    """the steps that are run, in the order of the paper"""
    seeds: Annotated[tuple[Seed, ...], Different, Field(min_length=1)]
    """one training run per model and seed"""


class RunParams(Section):
    """Where it runs; changes no result that is reported, so it re-runs nothing."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")]
    """auto, cpu, cuda or cuda:N"""
    threads: Annotated[Integer, Field(gt=0, le=1024)]
    """CPU threads of one process"""
    checkpoint_every: PositiveInt
    """training steps between resumable checkpoints"""
    keep_checkpoints: PositiveInt
    """resumable checkpoints kept"""
    max_minutes: Annotated[Number | None, Field(gt=0, le=10**7)]
    """save and stop a training after so many minutes, to be resumed; null: no limit"""


class ChoosingSection(Section):
    """What is chosen on one split is scored on another."""

    choose: Split
    """split on which values are chosen"""
    report: Split
    """another split, which is scored"""

    def problems(self) -> Iterator[str]:
        if self.choose == self.report:
            yield (
                f"choose and report are both {self.report}: what is chosen must be scored on text"
                " that it was not chosen on"
            )


class TokenizerParams(Section):
    """The byte-pair encoder (section 4.1)."""

    kind: Literal["gpt2", "trained", "study", "pretrained"]
    """gpt2: GPT-2's own files; trained: learnt from the training split; study: that of another
    study, whose weights the models start from; pretrained: that of a pretrained model"""
    path: str | None
    """kind gpt2: folder with GPT-2's vocabulary and merges, null: download;
    kind study: study:NAME; kind pretrained: the model, as initial_weights names it"""
    vocabulary: Annotated[Integer, Field(ge=257, le=10**7)]
    """tokens of a trained encoder, 256 bytes and <|endoftext|> included"""

    def problems(self) -> Iterator[str]:
        origin = read_origin(self.path)
        if self.kind == "pretrained" and self.path is None:
            yield "kind pretrained has no path: name the model, as in initial_weights"
        if (origin is None or origin.model) if self.kind == "study" else origin is not None:
            yield (
                f"kind {self.kind} with path {self.path!r}: kind study, and no other, has a path"
                " study:NAME"
            )
