"""Weights and encoders that a study takes over from another one, by name: ``study:NAME/MODEL/SEED``
and ``study:NAME``. They are inputs of the same DAG as everything else.
"""

import re
from typing import NamedTuple

STUDY, HUB, PIP = "study:", "hub:", "pip:"
_NAMED = re.compile(r"study:([a-z0-9][\w-]*)(?:/([a-z0-9][a-z0-9_-]*)/(\d+))?")


class Origin(NamedTuple):
    """What a value names in ``study``: the weights of entry ``model`` of its models for ``seed``,
    or its encoder if ``model`` is empty.
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
    """Return what a value names in another study; None for a folder, a name of the hub or null.
    ValueError for a value that begins with ``study:`` and names neither weights nor an encoder.
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
    """Return ``value``; ValueError if it begins with ``study:`` and names no weights."""
    if (origin := read_origin(value)) and not origin.model:
        raise ValueError(f"{value!r}, expected study:NAME/MODEL/SEED, as in study:books/gpt2/1")
    return value


def find_path(value: str | None) -> str | None:
    """Return the path of a value: of a model or an encoder of another study, or the user's own,
    relative to the folder in which a command runs. Names of the hub stay as they are.
    """
    origin = read_origin(value)
    return origin.path if origin else value
