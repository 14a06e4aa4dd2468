"""Step transfer (beyond the paper): fine-tuning on tasks as in GPT-1, and its ablations."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool

from entity_transformers.kinds import ModelEntry
from entity_transformers.kinds.params import Count
from entity_transformers.resolve.registry import REGISTRY, check_causal
from entity_transformers.step import MODEL, Rows, Run, step
from entity_transformers.steps.examples import Tasks
from entity_transformers.study.sections import (
    Ascending,
    Fraction,
    Integer,
    NonNegative,
    Number,
    Positive,
    Rate,
    Section,
    Size,
    one_of,
)

CHOSEN = ("models", "tasks")
"""Keys of a variant besides the values of a recipe."""


class Recipe(Section):
    """How a model is fine-tuned."""

    pretrained: StrictBool
    """false: from random weights, as an ablation"""
    layers: Annotated[Integer | None, Field(ge=0)]
    """first layers that are transferred, the rest random; null: all"""
    entities: Literal["on", "off", "shuffled"]
    """chains that a model which reads entities is given; a variant with on or shuffled has no row
    of another model"""
    auxiliary_weight: NonNegative
    """of the language model's loss (lambda); 0: without it"""
    learning_rate: Positive
    """the highest"""
    warmup: Annotated[Fraction, Field(lt=1)]
    """of the steps: up to the highest rate; then to 0 in a line"""
    batch: Size
    """examples of a step"""
    examples: Size | dict[str, Size] | None
    """of train, evenly spaced where there are more; null: all; where it is a table, of each task
    that it names, and all of others"""
    epochs: Size
    """passes over train"""
    dropout: Rate
    """before the classifier"""
    weight_decay: NonNegative
    """AdamW's, on matrices only"""
    clip_norm: NonNegative
    """largest gradient norm; 0: no clipping"""
    text_epochs: Count
    """passes over the texts of train before the task, in which the language model alone learns"""
    rate_divisor: Annotated[Number, Field(ge=1)]
    """a layer's rate is that of the layer above divided by it; 1: one rate for all"""
    schedule: Literal["linear", "slanted"]
    """linear: GPT-1's; slanted: ULMFiT's, which rises from 1/32 of the highest rate and returns"""
    unfreezing: StrictBool
    """true: only the head learns in the first epoch, and one layer more in each that follows"""
    pooling: Literal["last", "concat"]
    """what the head reads: the last state, or beside it the maximum and the mean of all states"""

    @property
    def transfers_all(self) -> bool:
        """Does fine-tuning start from all trained weights?"""
        return self.pretrained and self.layers is None

    def fit(self, entry: ModelEntry, task: str) -> Self:
        """Return the recipe for a task, with the number of examples set for it, and without losses
        of words if the model's kind predicts no next token.
        """
        many = self.examples.get(task) if isinstance(self.examples, dict) else self.examples
        words = {} if entry.can({"causal"}) else {"auxiliary_weight": 0.0, "text_epochs": 0}
        return self.model_copy(update={"examples": many, **words})


class TransferParams(Recipe):
    """Fine-tuning on tasks (docs/transfer.md)."""

    tasks: Annotated[Tasks, Field(min_length=1)]
    """of examples.tasks, with a split train"""
    also_score: Tasks
    """pronouns' tasks on which what is trained on another of them is scored"""
    seeds: Annotated[tuple[Integer, ...] | None, Field(min_length=1)]
    """of the fine-tunings, of models of one seed; null: the run's own"""
    rate_factors: Annotated[tuple[Positive, ...], Ascending, Field(min_length=1)]
    """times learning_rate, each tried by every model with and without pretraining; that of the
    lowest loss on dev is taken. A variant with a rate of its own tries none"""
    rate_task: str
    """of tasks, the one they are tried on"""
    resolver: Annotated[str, one_of(REGISTRY)]
    """built-in and causal; whose chains models that read entities are given"""
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    """trainings by name: what differs from the values here, and under models and tasks, where it is
    not all, of which models and on which tasks there is one"""

    def problems(self) -> Iterator[str]:
        from entity_transformers.corpus.tasks import find_task

        check_causal(self.resolver, self.resolver)
        for name in self.tasks:
            if "train" not in find_task(name).splits:
                yield f"tasks: {name!r} has no train split"
        if self.rate_task not in self.tasks:
            yield f"rate_task: {self.rate_task!r}, expected one of tasks"
        for name in self.also_score:
            if find_task(name).shape != "pronoun":
                yield f"also_score: {name!r} is not a pronoun task"
        for name in self.variants:
            given = self.recipe(name).examples
            for task in given if isinstance(given, dict) else ():
                if task not in self.tasks:
                    yield f"examples: {task!r}, expected one of {', '.join(self.tasks)}"

    @property
    def named(self) -> tuple[str, ...]:
        """The tasks whose examples are read."""
        return (*self.tasks, *self.also_score)

    def recipe(self, variant: str = "") -> Recipe:
        """Return the values of one variant, or the section's own for ""; ValueError for a key that
        is unknown or a value out of range.
        """
        own = {name: getattr(self, name) for name in Recipe.model_fields}
        for key, value in self.variants[variant].items() if variant else ():
            if key not in own and key not in CHOSEN:
                known = ", ".join((*own, *CHOSEN))
                raise ValueError(f"variants.{variant}.{key}: no such key, expected one of {known}")
            own[key] = value
        return Recipe.model_validate({key: own[key] for key in Recipe.model_fields})

    def list_variants(self, entry: ModelEntry, task: str) -> dict[str, Recipe]:
        """Return the trainings of one model on a task, by name, without those that differ in what
        its kind lacks: entities, losses of words, or a start from random weights.
        """
        # A pointer copies at the output: the states that a task's head reads hold no entities.
        reads_entities = entry.can({"entities"}) and entry.kind.name != "gpt2-pointer"
        recipes = {name: self.recipe(name).fit(entry, task) for name in self.variants}
        return {
            name: recipe
            for name, recipe in recipes.items()
            if entry.name in self.variants[name].get("models", [entry.name])
            and task in self.variants[name].get("tasks", [task])
            and (recipe.entities == "off" or reads_entities)
            and (
                not {"auxiliary_weight", "text_epochs"} & {*self.variants[name]}
                or entry.can({"causal"})
            )
            and (recipe.transfers_all or not entry.can({"pretrained"}))
        }

    def check_study(self, known: Collection[str], seeds: Mapping[str, Collection[int]]) -> None:
        """Raise ValueError for a variant with models that the study does not have, or with tasks
        that are not trained on; and for seeds here if a fine-tuned model has several ``seeds``.
        """
        several = [name for name, own in seeds.items() if len(own) > 1]
        if self.seeds is not None and several:
            raise ValueError(
                f"transfer.seeds {list(self.seeds)}: {several[0]} has several seeds, each of which"
                " is fine-tuned with its own: set it to null"
            )
        for name, variant in self.variants.items():
            for key, possible in zip(CHOSEN, (known, self.tasks), strict=True):
                named = variant.get(key, [])
                if not isinstance(named, list) or set(named) - set(possible):
                    raise ValueError(
                        f"transfer.variants.{name}.{key}: {named!r}, expected a list of"
                        f" {', '.join(possible)}"
                    )


@step(
    "transfer",
    "fine-tune on each task, as in GPT-1, with its ablations; it resumes if it was stopped",
    params=TransferParams,
    reads={"corpus": ("tokenizer.json",), "examples": ("examples.jsonl",), "lm": MODEL},
    needs={"finetunes"},
    libraries=("scipy",),
    gather="report.transfer:pair_up",
    title="Fine-tuning",
)
def transfer(run: Run) -> Rows:
    """Scores by task and variant, of seeds of the fine-tuning; the losses of the rates tried; and
    whether each example was right.
    """
    from entity_transformers.tasks.transfer.runs import finetune

    yield from finetune(run)
