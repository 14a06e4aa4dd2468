"""Weights and encoders that a study takes over from another one, by name: ``study:NAME/MODEL/SEED``
and ``study:NAME``. They are inputs of the same DAG as everything else.
"""

import re
from typing import NamedTuple

STUDY, HUB, PIP = "study:", "hub:", "pip:"
_NAMED = re.compile(r"study:([a-z0-9][\w-]*)(?:/([a-z0-9][a-z0-9_-]*)/(\d+))?")


class Origin(NamedTuple):
    """What a value names: of ``study`` the weights of an entry of models and a seed, or its
    encoder.
    """

    study: str
    model: str = ""
    seed: int = 0

    @property
    def path(self) -> str:
        """The folder of the weights, or the file of the encoder."""
        if self.model:
            return f"data/{self.study}/models/{self.model}/{self.seed}"
        return f"data/{self.study}/text/corpus/tokenizer.json"


def read_origin(value: str | None) -> Origin | None:
    """What a value names in another study; None for a folder, the hub and null. ValueError for text
    that begins with ``study:`` and names neither weights nor an encoder.
    """
    if value is None or not value.startswith(STUDY):
        return None
    if not (match := _NAMED.fullmatch(value)):
        raise ValueError(
            f"{value!r}, expected study:NAME/MODEL/SEED, as in study:books/gpt2/1, and of an"
            " encoder study:NAME"
        )
    return Origin(match[1], match[2] or "", int(match[3] or 0))


def check_weights(value: str | None) -> str | None:
    """``value``; ValueError where it begins with ``study:`` and names no weights."""
    if (origin := read_origin(value)) and not origin.model:
        raise ValueError(f"{value!r}, expected study:NAME/MODEL/SEED, as in study:books/gpt2/1")
    return value


def find_path(value: str | None) -> str | None:
    """The path that a value stands for: a model's or an encoder's of another study, or the user's
    own, relative to the folder in which a command runs. Names of the hub stay as they are.
    """
    origin = read_origin(value)
    return origin.path if origin else value
