"""The study of a corpus that the project has not seen: the steps that its text can fill, a
model of a size that fits it, and a sentence on each table that cannot be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from entity_transformers.corpus.held_out import FEWEST
from entity_transformers.study.values import dump_yaml

NEEDED = ("train", "dev", "test")
PASSES = 8
"""Times that train is read, about; the best on dev is kept."""
TOKENS_PER_WORD = 1.3
SMALL = {"layers": 2, "heads": 4, "width": 64, "window": 128, "learning_rate": 2.0e-3}
LAPTOP = {"layers": 4, "heads": 4, "width": 192, "window": 256, "learning_rate": 1.0e-3}
"""The shape of studies/sample, with a shorter window, and one for more text."""
ENOUGH = 100_000
"""Words of train from which on the second is taken."""
WINDOWS, SHORTEST = 4, 16
"""Windows of the usual document, since a memory is read from the second on; a window's tokens."""
DOCUMENTS_PER_STEP = 8
RESOLVER = "names-causal"


@dataclass(frozen=True)
class NewStudy:
    """values: of its file; left_out: a sentence on each table that the text can't fill, and on
    what its tables can't show.
    """

    values: Mapping[str, Any]
    left_out: tuple[str, ...]

    def render(self) -> str:
        """The text of studies/NAME.yaml."""
        lines = ["A corpus of your own: entity-transformers init wrote this, for you to edit."]
        head = "".join(f"# {line}\n" for line in (*lines, *self.left_out))
        return head + dump_yaml(self.values)


def plan_study(
    statistics: Mapping[str, Any], usual: int, format: str, path: str, title: str
) -> NewStudy:
    """The study of a corpus with these `corpus.statistics.describe` counts, which has all of
    ``NEEDED``; ``usual``: words of its usual document; ``path`` is relative to the top
    of the checkout.
    """
    splits = {name: statistics["splits"][name] for name in NEEDED}
    held = [splits["dev"], splits["test"]]
    chains = all(split["mentions"] for split in splits.values())
    tagged = all(split["pos"]["unknown"] < split["words"] for split in held)
    named = all(split["ne_spans"] for split in splits.values())
    steps = ["corpus", "lm", "perplexity"]
    if chains and tagged:
        steps += ["embeddings", "similarity", "probe"]
    elif named:
        steps += ["embeddings"]
    steps += [*(["ner"] if named else []), "report"]
    labels = "gold" if chains else f"resolver:{RESOLVER}"
    train = splits["train"]["words"]
    model = _choose_model(train, usual)
    values: dict[str, Any] = {
        "study": {"steps": steps, "seeds": [1]},
        "run": {"threads": 1, "checkpoint_every": 100},
        "corpus": {"format": format, "path": path, "resolvers": [] if chains else [RESOLVER]},
        "tokenizer": {"kind": "trained", "vocabulary": max(300, min(8000, train // 20))},
        "lm": model,
        "models": {
            "gpt2e": {"kind": "gpt2e", "role": "proposed", "labels": labels},
            "gpt2e-unlabelled": {"kind": "gpt2e", "role": "control", "labels": "none"},
        },
        "perplexity": {"stride": model["window"], "batch": 16},
        "report": {"title": title, "bootstrap_samples": 2000, "paper": False},
    }
    if "probe" in steps:
        values["probe"] = {"batch": 4}
    if "ner" in steps:
        values["ner"] = {"hidden": 64, "learning_rate": 5.0e-3}
    told = [*_explain(chains, tagged, named)]
    told += _doubt(splits["test"]["documents"], usual, model["window"])
    return NewStudy(values, tuple(told))


def _choose_model(words: int, usual: int) -> dict[str, Any]:
    """The values of section lm for a training split of so many words, in documents of ``usual``."""
    shape = SMALL if words < ENOUGH else LAPTOP
    window = int(shape["window"])
    while window > SHORTEST and window * WINDOWS > TOKENS_PER_WORD * usual:
        window //= 2
    shorter = int(shape["window"]) // window  # as many tokens in more steps
    step = DOCUMENTS_PER_STEP * window
    steps = PASSES * TOKENS_PER_WORD * words / step
    steps = int(min(4000 * shorter, max(50 * shorter, steps)))
    return {
        **shape,
        "window": window,
        "steps": steps,
        "documents_per_step": DOCUMENTS_PER_STEP,
        "schedule": "cosine",
        "warmup_steps": steps // 10,
        "weight_decay": 0.1,
        "final_weights": "best",
        "validate_every": max(1, steps // 10),
    }


def _explain(chains: bool, tagged: bool, named: bool) -> Iterator[str]:
    if not chains:
        yield (
            "No chains in some split (mentions): GPT2E is given names by their spelling"
            f" ({RESOLVER})."
        )
    if not (chains and tagged):
        lacking = " and ".join(
            name for name, has in (("mentions", chains), ("tags", tagged)) if not has
        )
        yield f"No table 4 and no probe of heads: some split has no {lacking}."
    if not named:
        yield "No table 5: some split has no named_entities."
    yield "No table 3: LAMBADA is a text of its own (steps passages and lambada)."
    yield "No recall: it is not about this text (step recall)."


def _doubt(tested: int, usual: int, window: int) -> Iterator[str]:
    """Why no verdict can be expected, of so many documents of test."""
    if tested < FEWEST:
        documents = "document" if tested == 1 else "documents"
        yield f"{tested} test {documents}: no interval, no verdict below {FEWEST}."
    if TOKENS_PER_WORD * usual <= window:
        yield f"Most documents fit in one window of {window} tokens: a memory is hardly read."
