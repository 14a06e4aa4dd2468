"""Recurrent language models: a plain LSTM over the tokens (Zaremba et al., 2014) and, with its own
parameters, AWD-LSTM (Merity et al., 2018).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from entity_transformers.kinds.base import Kind, LmParams
from entity_transformers.study.sections import Integer, NonNegative, Number, PositiveInt

Rate = Annotated[Number, Field(ge=0, lt=1)]
# where `dropout`, drawn anew for each token, falls too
PLACES = ("input_dropout", "hidden_dropout", "output_dropout")


class LSTMParams(LmParams):
    """The LSTM's own parameters; as they are by default it is the plain one. Heads are not used."""

    hidden: Annotated[
        PositiveInt | None,
        Field(description="units of all layers but the last, which has the width; null: the width"),
    ] = None
    weight_drop: Annotated[
        Rate, Field(description="dropout of hidden-to-hidden weights, one mask per window")
    ] = 0.0
    embedding_dropout: Annotated[
        Rate, Field(description="dropout of whole words of the vocabulary, one mask per window")
    ] = 0.0
    input_dropout: Annotated[
        Rate, Field(description="dropout of embeddings, one mask per window and stream")
    ] = 0.0
    hidden_dropout: Annotated[
        Rate, Field(description="dropout between layers, one mask per window and stream")
    ] = 0.0
    output_dropout: Annotated[
        Rate, Field(description="dropout after the last layer, one mask per window and stream")
    ] = 0.0
    activation_penalty: Annotated[
        NonNegative, Field(description="alpha: weight of the mean square of dropped outputs (AR)")
    ] = 0.0
    temporal_penalty: Annotated[
        NonNegative,
        Field(description="beta: weight of the mean square of an output's change in time (TAR)"),
    ] = 0.0
    optimizer: Annotated[
        Literal["adamw", "asgd"],
        Field(
            description=(
                "asgd: gradient descent with learning_rate and weight_decay, its weights averaged"
                " from the first validation on that is worse than the best before the latest"
                " nonmonotone_interval"
            )
        ),
    ] = "adamw"
    nonmonotone_interval: Annotated[
        Integer, Field(ge=0, description="latest validations that asgd leaves out of comparison")
    ] = 5

    @model_validator(mode="after")
    def _has_places(self) -> LSTMParams:
        twice = [name for name in PLACES if getattr(self, name) > 0]
        if self.dropout > 0 and twice:
            raise ValueError(
                f"{twice[0]} {getattr(self, twice[0])} falls where dropout {self.dropout} does: set"
                " one of them to 0"
            )
        if self.layers == 1 and self.hidden not in (None, self.width):
            raise ValueError(
                f"hidden {self.hidden} is of all layers but the last, and layers is 1: leave it out"
            )
        if self.layers == 1 and self.hidden_dropout > 0:
            raise ValueError(
                f"hidden_dropout {self.hidden_dropout} falls between layers, and layers is 1: set"
                " it to 0"
            )
        return self


KIND = Kind(
    name="lstm",
    label="LSTM",
    year=2014,
    era="recurrent",
    params=LSTMParams,
    can=frozenset({"encode", "causal", "state", "windows"}),
    home="entity_transformers.models.lstm",
)
