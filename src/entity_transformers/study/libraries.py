"""The extra of the package that installs each module which the model alone does without."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from entity_transformers.kinds import Library

EXTRAS = {
    "accelerate": "pipeline",
    "coreferee": "coreferee",
    "dvc": "pipeline",
    "gensim": "vectors",
    "jinja2": "report",
    "lm_eval": "lm-eval",
    "markupsafe": "report",
    "matplotlib": "report",
    "pandas": "report",
    "peft": "stanza",
    "pooch": "pipeline",
    "pyarrow": "pipeline",
    "psutil": "pipeline",
    "scipy": "pipeline",
    "seqeval": "ner",
    "sklearn": "pipeline",
    "snakemake": "pipeline",
    "spacy": "annotate",
    "stanza": "stanza",
    "tensorboard": "tensorboard",
    "threadpoolctl": "pipeline",
    "tqdm": "pipeline",
}
"""By the name that is imported."""


def need(*names: str, extra: str | None = None) -> tuple[Library, ...]:
    """These modules as what a step imports; ``extra``: one that brings them all."""
    return tuple(Library(name, extra or EXTRAS[name]) for name in names)


def explain(error: ImportError, libraries: Sequence[Library] = ()) -> str:
    """What to install where a module of `EXTRAS` is missing, in a line, with what else is missing
    of the ``libraries`` that a command's step needs; "" for any other.
    """
    name = (error.name or "").partition(".")[0]
    lacking = {one.name: one.extra for one in libraries if _is_missing(one.name)}
    if name not in EXTRAS:
        return ""
    extras = sorted({*lacking.values()} | ({EXTRAS[name]} if name not in lacking else set()))
    named = f"extra{'s' if len(extras) > 1 else ''} {' and '.join(map(repr, extras))}"
    return (
        f"{name} is not installed: install the {named}: pip install '.[{','.join(extras)}]' in the"
        " checkout"
    )


def _is_missing(name: str) -> bool:
    try:
        return find_spec(name) is None
    except (ImportError, ValueError):  # it is blocked
        return True
