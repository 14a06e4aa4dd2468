"""Step transfer (beyond the paper): fine-tuning on tasks as in GPT-1, and its ablations."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, model_validator

from entity_transformers.kinds.base import ModelEntry
from entity_transformers.study.libraries import need
from entity_transformers.study.sections import (
    Fraction,
    Integer,
    NonNegative,
    Number,
    Section,
    Size,
)
from entity_transformers.study.steps.base import MODEL, Shown, Step
from entity_transformers.study.steps.examples import check_causal_resolver, check_tasks


def _read_switch(value: Any) -> Any:
    return {"True": "on", "False": "off"}.get(str(value), value)


class Recipe(Section):
    """How a model is fine-tuned."""

    pretrained: Annotated[
        StrictBool, Field(description="false: from random weights, as an ablation")
    ]
    layers: Annotated[
        Integer | None,
        Field(ge=0, description="first layers that are transferred, the rest random; null: all"),
    ]
    entities: Annotated[
        Literal["on", "off", "shuffled"],
        # YAML 1.1 reads bare ones as truth values
        BeforeValidator(_read_switch),
        Field(
            description=(
                "chains that a model which reads entities is given; a variant with on or shuffled"
                " has no row of another model"
            )
        ),
    ]
    auxiliary_weight: Annotated[
        NonNegative, Field(description="of the language model's loss (lambda); 0: without it")
    ]
    learning_rate: Annotated[Number, Field(gt=0, description="the highest")]
    warmup: Annotated[
        Fraction,
        Field(lt=1, description="of the steps: up to the highest rate; then to 0 in a line"),
    ]
    batch: Annotated[Size, Field(description="examples of a step")]
    epochs: Annotated[Size, Field(description="passes over train")]
    dropout: Annotated[Number, Field(ge=0, lt=1, description="before the classifier")]
    weight_decay: Annotated[NonNegative, Field(description="AdamW's, on matrices only")]
    clip_norm: Annotated[NonNegative, Field(description="largest gradient norm; 0: no clipping")]


class TransferParams(Recipe):
    """Fine-tuning on tasks (docs/transfer.md)."""

    tasks: Annotated[
        tuple[str, ...],
        AfterValidator(check_tasks),
        Field(min_length=1, description="of examples.tasks, with a split train"),
    ]
    resolver: Annotated[
        str,
        AfterValidator(check_causal_resolver),
        Field(description="built-in and causal; whose chains models that read entities are given"),
    ]
    variants: Annotated[
        dict[str, dict[str, Any]],
        Field(
            min_length=1,
            description=(
                "trainings by name: what differs from the values here, and under models, where it"
                " is not all, of which models there is one"
            ),
        ),
    ]

    @model_validator(mode="after")
    def _possible(self) -> TransferParams:
        from entity_transformers.corpus.tasks import find_task

        for name in self.tasks:
            if "train" not in find_task(name).splits or name == "gap":
                raise ValueError(f"tasks: {name!r} has no labels to train on")
        for name in self.variants:
            if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
                raise ValueError(f"variants.{name}: give it a name of a-z, 0-9, - and _")
            self.recipe(name)
        return self

    def recipe(self, variant: str) -> Recipe:
        """The values of one variant; ValueError for one that is unknown or out of range."""
        own = {name: getattr(self, name) for name in Recipe.model_fields}
        given = {key: value for key, value in self.variants[variant].items() if key != "models"}
        if unknown := given.keys() - own.keys():
            raise ValueError(
                f"variants.{variant}.{sorted(unknown)[0]}: no such key, expected one of"
                f" {', '.join(own)}, models"
            )
        return Recipe.model_validate(own | given)

    def list_variants(self, entry: ModelEntry) -> dict[str, Recipe]:
        """The trainings of one model, by name."""
        recipes = {name: self.recipe(name) for name in self.variants}
        return {
            name: recipe
            for name, recipe in recipes.items()
            if entry.name in self.variants[name].get("models", [entry.name])
            and (recipe.entities == "off" or entry.can({"entities"}))
        }

    def check_models(self, known: Collection[str]) -> None:
        """ValueError for a variant of models that the study does not have."""
        for name, variant in self.variants.items():
            models = variant.get("models", [])
            if not isinstance(models, list) or set(models) - set(known):
                raise ValueError(
                    f"transfer.variants.{name}.models: {models!r}, expected a list of"
                    f" {', '.join(known)}"
                )


STEP = Step(
    name="transfer",
    params=("transfer",),
    start=("cli.transfer", "resolve.names"),
    resumes=True,
    rules={
        "finetune": "fine-tune on each task, as in GPT-1, and its ablations; called again goes on",
    },
    reads={
        "corpus": ("tokenizer.json",),
        "examples": ("examples.jsonl",),
        "lm": MODEL,
    },
    needs=frozenset({"causal"}),
    libraries=need("scipy"),
    metrics=("transfer.json",),
    target="transfer.json",
    shown=Shown(
        "Fine-tuning",
        measure="report.transfer:measure",
        tables={
            "transfer": "report.transfer:build_transfer",
            "transfer_pairs": "report.transfer:build_pairs",
        },
    ),
)
