"""The extras of the package that install the modules which the model alone does without."""

from importlib.util import find_spec

_MODULES = {
    "annotate": "spacy",
    "lm-eval": "lm_eval",
    "ner": "seqeval",
    "pipeline": "accelerate dvc pooch pyarrow scipy sklearn snakemake threadpoolctl tqdm",
    "report": "jinja2 matplotlib pandas",
    "smollm2": "gguf peft",
    "vectors": "gensim",
}
EXTRAS = {name: extra for extra, names in _MODULES.items() for name in names.split()}
"""The extra for each module, by the name that is imported."""


def find_missing(who: str, *names: str) -> str:
    """Return a line on what to install for ``who`` to work; "" if no module is missing."""
    missing = next((name for name in names if find_spec(name) is None), "")
    return f"{who} needs {missing}, which {_advise(missing)}" if missing else ""


def explain(error: ImportError) -> str:
    """Return a line on what to install if a module of `EXTRAS` is missing; "" for any other."""
    name = (error.name or "").partition(".")[0]
    return f"{name} {_advise(name)}" if name in EXTRAS else ""


def _advise(name: str) -> str:
    return f"is not installed: pip install '.[{EXTRAS[name]}]' in the checkout"
