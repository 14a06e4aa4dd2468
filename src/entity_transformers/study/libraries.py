"""The extra of the package that installs each module which the model alone does without."""

from __future__ import annotations

from entity_transformers.kinds import Library

EXTRAS = {
    "accelerate": "pipeline",
    "coreferee": "coreferee",
    "dvc": "pipeline",
    "gensim": "vectors",
    "jinja2": "report",
    "lm_eval": "lm-eval",
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
    "threadpoolctl": "pipeline",
    "tqdm": "pipeline",
}
"""By the name that is imported."""


def need(*names: str, extra: str | None = None) -> tuple[Library, ...]:
    """These modules as what a step imports; ``extra``: one that brings them all."""
    return tuple(Library(name, extra or EXTRAS[name]) for name in names)


def explain(error: ImportError) -> str:
    """What to install where a module of `EXTRAS` is missing, in a line; "" for any other."""
    name = (error.name or "").partition(".")[0]
    if name not in EXTRAS:
        return ""
    extra = EXTRAS[name]
    return (
        f"{name} is not installed: install the extra {extra!r}: pip install '.[{extra}]' in the"
        " checkout"
    )
