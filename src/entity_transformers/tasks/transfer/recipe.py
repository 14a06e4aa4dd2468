"""The settings of a fine-tuning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from entity_transformers.kinds import ModelEntry
from entity_transformers.kinds.params import Count
from entity_transformers.study.sections import (
    Fraction,
    Integer,
    NonNegative,
    Number,
    Positive,
    Rate,
    Section,
    Size,
)


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

    def fit(self, entry: ModelEntry, task: str) -> Recipe:
        """Return the recipe for a task, with the number of examples set for it, and without word
        losses if the model's kind predicts no next token.
        """
        many = self.examples.get(task) if isinstance(self.examples, dict) else self.examples
        words = {} if entry.can({"causal"}) else {"auxiliary_weight": 0.0, "text_epochs": 0}
        return self.model_copy(update={"examples": many, **words})
