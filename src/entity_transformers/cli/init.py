"""Reads a corpus of your own to its end, and writes a study of it: the steps that its text can
fill, a model of a size that fits it, and a sentence on each table that cannot be made.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import yaml

from entity_transformers.artifacts import write_json_lines, write_text
from entity_transformers.cli.corpus import choose_format
from entity_transformers.cli.flags import Flag
from entity_transformers.corpus.document import CorpusError, Document, Split, to_row
from entity_transformers.corpus.held_out import FEWEST, hold_out
from entity_transformers.corpus.readers import find_reader, names, read_corpus
from entity_transformers.corpus.statistics import describe
from entity_transformers.study.params import load
from entity_transformers.study.processor import has_bfloat16
from entity_transformers.study.values import FILE, PAPER, STUDIES

log = logging.getLogger(__name__)
HELD_OUT: tuple[Split, ...] = ("dev", "test")
PASSES = 8
"""Times that train is read, about; the best on dev is kept."""
TOKENS_PER_WORD = 1.3
SMALL = {"layers": 2, "heads": 4, "width": 64, "window": 128, "learning_rate": 2.0e-3}
LAPTOP = {"layers": 4, "heads": 4, "width": 192, "window": 256, "learning_rate": 1.0e-3}
"""The shape of studies/sample, with a longer window, and one for more text."""
ENOUGH = 100_000
"""Words of train from which on the second is taken."""
WINDOWS, SHORTEST = 4, 16
"""Windows of the usual document, since a memory is read from the second on; a window's tokens."""
DOCUMENTS_PER_STEP = 8
RESOLVER = "names-causal"
Lengths = dict[str, list[int]]


def init(
    name: Annotated[
        str, Flag("name of the new study, written to studies/NAME.yaml", "NAME", positional=True)
    ],
    corpus: Annotated[Path, Flag("file or folder with your texts", "FILE")],
    format: Annotated[str, Flag(f"of the corpus: auto, {', '.join(names())}", "FORMAT")] = "auto",
) -> None:
    """Write a study of your own corpus: the steps that its text can fill, a model of its size."""
    file = _find_file(name)
    format = choose_format(format, corpus)
    if format not in names():
        raise CorpusError(
            f"{corpus}: format {format} has {' and '.join(find_reader(format).splits)} alone, so"
            f" that no model can be trained on it: expected one of {', '.join(names())}"
        )
    lengths: Lengths = {}
    splits = describe(_measure(read_corpus(format, corpus), lengths), "outermost")["splits"]
    if "train" not in splits:
        raise CorpusError(f"{corpus}: no document of split 'train', on which models are trained")
    # what is not of this checkout is found from a copy of it too, as `dvc exp run --temp` makes one
    path = str(corpus if corpus.resolve().is_relative_to(Path.cwd()) else corpus.resolve())
    if missing := [split for split in HELD_OUT if split not in splits]:
        if (copy := file.with_suffix(".jsonl")).exists():
            fault = f"a file is there, and a copy with {' and '.join(missing)} would overwrite it"
            raise FileExistsError(f"{copy}: {fault}: choose another name, or move that file")
        held = hold_out(list(read_corpus(format, corpus)), missing)
        lengths.clear()
        splits = describe(_measure(held, lengths), "outermost")["splits"]
        format, path = "jsonl", str(copy)
        write_json_lines(copy, map(to_row, held))
        log.info("no %s in it: taken from train, all of it is now in %s",
                 " and no ".join(missing), path)  # fmt: skip
    for split in ("train", *HELD_OUT):
        log.info("%s: %s", split, _count(splits[split]))
    usual = int(min(median(lengths["train"]), median(lengths["test"])))
    values, notes = plan_study(splits, usual)
    values["corpus"] = {"format": format, "path": path} | values["corpus"]
    values["report"]["title"] = f"E.T.: Entity-Transformers on {name}"
    head = ["A corpus of your own: entity-transformers init wrote this, for you to edit.", *notes]
    lines = "".join(f"# {line}\n" for line in head)
    write_text(file, lines + yaml.safe_dump(values, sort_keys=False))
    load(file)
    for line in notes:
        log.info("%s", line)
    print(f"{file} is written; next: make study STUDY={name}")


def _find_file(name: str) -> Path:
    """studies/NAME.yaml of this checkout; an error where it is no checkout, or NAME is taken."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"name {name!r}, expected lower-case letters, digits, - and _")
    if not (Path(FILE).is_file() and Path("Snakefile").is_file()):
        raise FileNotFoundError(
            "no Snakefile and params.yaml here: a study lies in a checkout of this project: run"
            " this at its root"
        )
    file = Path(STUDIES, f"{name}.yaml")
    if file.exists() or name in (PAPER, Path(FILE).stem):
        raise FileExistsError(f"{file}: a study of that name is there: choose another, or edit it")
    return file


def _measure(documents: Iterable[Document], lengths: Lengths) -> Iterator[Document]:
    """The documents, whose words are counted by split on the way."""
    for document in documents:
        lengths.setdefault(document.split, []).append(len(document.words))
        yield document


def _count(split: Mapping[str, Any]) -> str:
    counts = {name: split[name] for name in ("documents", "words", "chains", "mentions")}
    counts["named entities"] = sum(split["ne_spans"].values())
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)


def plan_study(splits: Mapping[str, Any], usual: int) -> tuple[dict[str, Any], list[str]]:
    """The values of a study of a corpus whose splits have these counts (`corpus.statistics`), and a
    sentence on each table that it can't fill or that can't show much; ``usual``: words of its usual
    document.
    """
    held = [splits[split] for split in HELD_OUT]
    chains = all(split["mentions"] for split in splits.values())
    tagged = all(split["pos"]["unknown"] < split["words"] for split in held)
    named = all(split["ne_spans"] for split in splits.values())
    steps = ["corpus", "lm", "perplexity"]
    notes = []
    if not chains:
        notes.append(
            "No chains in some split (mentions): GPT2E is given names by their spelling"
            f" ({RESOLVER})."
        )
    if chains and tagged:
        steps += ["embeddings", "similarity", "probe"]
    else:
        steps += ["embeddings"] if named else []
        lacking = [name for name, has in (("mentions", chains), ("tags", tagged)) if not has]
        notes.append(
            f"No table 4 and no probe of heads: some split has no {' and '.join(lacking)}."
        )
    if named:
        steps += ["ner"]
    else:
        notes.append("No table 5: some split has no named_entities.")
    notes += [
        "No table 3: LAMBADA is a text of its own (steps passages and lambada).",
        "No recall: it is not about this text (step recall).",
    ]
    train, tested = splits["train"]["words"], splits["test"]["documents"]
    model = _choose_model(train, usual)
    if tested < FEWEST:
        documents = "document" if tested == 1 else "documents"
        notes.append(f"{tested} test {documents}: no interval, no verdict below {FEWEST}.")
    if TOKENS_PER_WORD * usual <= model["window"]:
        notes.append(
            f"Most documents fit in one window of {model['window']} tokens: a memory is hardly"
            " read."
        )
    labels = "gold" if chains else f"resolver:{RESOLVER}"
    return {
        "study": {"steps": [*steps, "report"], "seeds": [1]},
        "run": {"threads": 1, "checkpoint_every": 100},
        "corpus": {"resolvers": [] if chains else [RESOLVER]},
        "tokenizer": {"kind": "trained", "vocabulary": max(300, min(8000, train // 20))},
        "lm": model,
        "models": {
            "ngram": {"kind": "ngram"},
            "gpt2e": {"kind": "gpt2e", "role": "proposed", "labels": labels},
            "gpt2e-unlabelled": {"kind": "gpt2e", "role": "control", "labels": "none"},
        },
        "perplexity": {"stride": model["window"], "batch": 16},
        **({"probe": {"batch": 4}} if "probe" in steps else {}),
        **({"ner": {"hidden": 64, "learning_rate": 5.0e-3}} if named else {}),
        "report": {"bootstrap_samples": 2000, "paper": False},
    }, notes


def _choose_model(words: int, usual: int) -> dict[str, Any]:
    """The values of section lm for a training split of so many words, in documents of ``usual``."""
    shape = SMALL if words < ENOUGH else LAPTOP
    window = int(shape["window"])
    while window > SHORTEST and window * WINDOWS > TOKENS_PER_WORD * usual:
        window //= 2
    shorter = int(shape["window"]) // window  # as many tokens in more steps
    steps = PASSES * TOKENS_PER_WORD * words / (DOCUMENTS_PER_STEP * window)
    steps = int(min(4000 * shorter, max(50 * shorter, steps)))
    return {
        **shape,
        "window": window,
        "steps": steps,
        "documents_per_step": DOCUMENTS_PER_STEP,
        "schedule": "cosine",
        "warmup_steps": steps // 10,
        "weight_decay": 0.1,
        "precision": "bfloat16" if has_bfloat16() else "float32",
        "final_weights": "best",
        "validate_every": max(1, steps // 10),
    }
