"""Metrics of a whole study, made up but of the files' schemas: numbers differ by model, seed, split
and condition.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entity_transformers.corpus.document import Document, Mention
from entity_transformers.kinds import ModelEntry
from entity_transformers.report.catalogue import CATALOGUE
from entity_transformers.report.clouds import CLOUDS
from entity_transformers.report.measures import Tree, collect
from entity_transformers.report.pictures import MentionVectors, Pictures, make_cloud
from entity_transformers.report.records import CURVE_COLUMNS, Documents, ProbeRow
from entity_transformers.report.results import Results, Run
from entity_transformers.report.spans import Example, cut_example
from entity_transformers.study.params import load
from entity_transformers.study.steps import METHOD

CONTROLS = load(Path(__file__).resolve().parents[2] / "studies/controls/params.yaml")
ENTRIES = {name: CONTROLS.model(name) for name in CONTROLS.models}
SHOWN = tuple(step for step in CATALOGUE if step in METHOD)  # others bring their own tests

ONTONOTES = ("PERSON", "PRODUCT", "EVENT", "CARDINAL", "NORP", "GPE", "ORG", "DATE", "WORK_OF_ART")
GUM = ("person", "place", "organization", "event", "abstract")
LOSS = {
    "gpt2": 5.702,
    "gpt2e": 5.675,
    "gpt2e-unlabelled": 5.681,
    "gpt2e-shuffled": 5.690,
    "gpt2e-first-only": 5.678,
    "gpt2-matched": 5.686,
}
SIZES = {"dev": 30, "test": 40}


def make_score(loss: float | None, tokens: int = 1000, whole: bool = False) -> dict[str, Any]:
    """SCORE of perplexity.json."""
    if loss is None:
        return {"tokens": 0, "nll": 0.0, "loss": None, "perplexity": None}
    score = {
        "tokens": tokens,
        "nll": loss * tokens,
        "loss": loss,
        "perplexity": float(np.exp(loss)),
    }
    return score | (
        {"perplexity_word": float(np.exp(1.2 * loss)), "bits_per_byte": loss / 2.9} if whole else {}
    )


def make_documents(model: str, seed: int, shift: float) -> Documents:
    """documents.csv: the documents' difficulty is shared by all models, so that pairing matters."""
    splits = np.repeat(list(SIZES), list(SIZES.values()))
    shared = np.random.default_rng(0)
    tokens, base = (
        shared.integers(200, 900, len(splits)),
        5.7 + 0.3 * shared.standard_normal(len(splits)),
    )
    noise = 0.004 * np.random.default_rng([seed, len(model)]).standard_normal(len(splits))
    on = (base + shift + noise) * tokens
    off = on + (0.003 * tokens if model.startswith("gpt2e") else 0)
    names = np.array([f"{split}/doc{i:03}#0" for i, split in enumerate(splits)])
    return Documents(splits, names, tokens, {"on": on, "off": off})


def make_perplexity(model: str, documents: Documents) -> dict[str, Any]:
    """perplexity.json that agrees with the scores per document."""
    splits = {}
    for split in SIZES:
        at = documents.split == split
        on, off = (
            float(nll[at].sum() / documents.tokens[at].sum())
            for nll in (documents.nll["on"], documents.nll["off"])
        )
        nothing = {"on": make_score(None), "off": make_score(None)}
        more = {"outside": 0.1, "first": 0.4, "later": -0.9, "nouns": 0.6, "pronouns": -1.5}
        parts = {
            name: {"on": make_score(on + gap), "off": make_score(off + gap)}
            for name, gap in more.items()
        }
        splits[split] = {
            "documents": int(at.sum()),
            "words": 9000,
            "bytes": 50000,
            "on": make_score(on, 9999, True),
            "off": make_score(off, 9999, True),
            "by_class": {name: parts[name] for name in ("outside", "first", "later")},
            "by_group": {**{n: parts[n] for n in ("nouns", "pronouns")}, "other": nothing},
        }
    return {"model": model, "seed": 1, "splits": splits}


def make_similarity(model: str, generator: np.random.Generator) -> dict[str, Any]:
    """similarity.json; words without context are the same on and off; the pronouns' context is
    empty.
    """
    keys = (
        "mention_similarity",
        "entity_similarity",
        "entity_similarity_to_ones",
        "between_entities",
        "mention_similarity_centred",
    )

    def sim() -> dict[str, Any]:
        drawn = dict(zip(keys, generator.uniform(-0.1, 0.9, 5).tolist(), strict=True))
        return {"entities": 310, "mentions": 1405, **drawn, "between_entities_centred": 0.01}

    nothing = {"entities": 0, "mentions": 0, **dict.fromkeys((*keys, "between_entities_centred"))}
    words = {"nouns": sim(), "pronouns": sim()}
    shifted = {
        group: one | {"entity_similarity": one["entity_similarity"] + 0.01}
        for group, one in words.items()
    }
    tags = {"nouns": ["NN", "NNS", "NNP", "NNPS"], "pronouns": ["PRP", "PRP$"]}
    contexts = {"nouns": {"on": sim(), "off": sim()}, "pronouns": {"on": nothing, "off": nothing}}
    groups = {
        group: {
            "tags": tags[group],
            "words": {"on": shifted[group] if "e" in model else words[group], "off": words[group]},
            "context": contexts[group],
        }
        for group in tags
    }
    return {"model": model, "seed": 1, "groups": groups}


def make_ner(labels: tuple[str, ...], generator: np.random.Generator) -> dict[str, Any]:
    """ner metrics.json; the last label has no gold span."""

    def prf(support: int = 40) -> dict[str, Any]:
        f1, precision, recall = generator.uniform(0.1, 0.9, 3) if support else (0.0, 0.0, 0.0)
        return {
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
            "support": support,
            "predicted": 33,
        }

    def score() -> dict[str, Any]:
        each = {label: prf(0 if label == labels[-1] else 40) for label in labels}
        rows = {f"{prefix}-{label}": prf() for label in labels for prefix in "BI"}
        span = {"micro": prf(400), "macro": prf(400), "labels": each}
        return {
            "span": span,
            "tag": {"micro": prf(400), "labels": {label: prf() for label in labels}, "rows": rows},
            "words": 9000,
            "sentences": 500,
        }

    return {"seed": 1, "epochs": 20, "best_epoch": 17, "dev": score(), "test": score()}


PROBE_GROUPS = ("all", "nouns", "pronouns", "other")


def make_probe(model: str, seed: int) -> dict[str, Any]:
    """probe.json, the rows of heads.csv and those of documents.csv, which agree; nothing is asked
    in group ``other``.
    """
    generator = np.random.default_rng([seed, len(model), 7])
    kinds = [
        ("self", "off"),
        *([("self", "on"), ("entity", "on")] if model.startswith("gpt2e") else []),
    ]
    entries, heads, documents = [], [], []
    for attention, entities in kinds:
        groups = {}
        for group in PROBE_GROUPS:
            n = 0 if group == "other" else 40
            counts = generator.integers(0, n + 1, (2, 3))
            heads += [
                ProbeRow(
                    attention,
                    entities,
                    group,
                    layer + 1,
                    head + 1,
                    split,
                    n,
                    {"correct": float(counts[layer, head])},
                )
                for split in ("dev", "test")
                for layer, head in np.ndindex(2, 3)
            ]
            groups[group] = {
                "n": n,
                "layer": 2,
                "head": 1,
                "chosen_accuracy": 0.5,
                "accuracy": counts[1, 0] / 40 if n else None,
                "by_distance": 0.2 if n else None,
                "best_accuracy": 0.9 if n else None,
            }
            scores = [
                {"correct": c, "by_distance": 4.0, "nearest": 6.0, "same_head": 8.0, "chance": 2.5}
                for c in (float(counts[1, 0] // 2), float(counts[1, 0] - counts[1, 0] // 2))
            ]
            documents += [
                ProbeRow(attention, entities, group, 2, 1, f"test/doc{i}#0", 20, one)
                for i, one in enumerate(scores)
                if n
            ]
        entries.append({"attention": attention, "entities": entities, "groups": groups})
    cells = {
        g: {"n": 0 if g == "other" else 40, "nearest": None if g == "other" else 0.3}
        for g in PROBE_GROUPS
    }
    counts = {"documents": 2, "mentions": 60, "later": 48, "asked": 42, "candidates": 5.5}
    splits = {split: {"left_out": 0.125, "groups": cells, **counts} for split in ("dev", "test")}
    summary = {
        "model": model,
        "seed": seed,
        "choose": "dev",
        "report": "test",
        "splits": splits,
        "attention": entries,
    }
    return {"probe": summary, "probe_heads": tuple(heads), "probe_documents": tuple(documents)}


def make_curve(loss: float, seed: int) -> dict[str, np.ndarray]:
    """Columns of curve.csv: a training row every 100 steps, a validation every 500."""
    steps = np.arange(100, 5001, 100, dtype=np.float64)
    train = (
        loss
        + 3 * np.exp(-steps / 700)
        + 0.03 * np.random.default_rng(seed).standard_normal(len(steps))
    )
    dev = np.where(steps % 500 == 0, train + 0.1, np.nan)
    return dict(
        zip(
            CURVE_COLUMNS,
            (steps, steps * 512, train, np.full_like(steps, 1e-3), dev, dev + 0.02),
            strict=True,
        )
    )


def make_mentions(seed: int) -> MentionVectors:
    """Twelve entities with clouds of their own; entity 0 is the most-mentioned."""
    generator, centres = (
        np.random.default_rng([seed, 9]),
        np.random.default_rng([seed, 8]).standard_normal((12, 16)),
    )
    entities = np.repeat(np.arange(12), np.arange(26, 2, -2))
    return MentionVectors(
        (centres[entities] + 0.3 * generator.standard_normal((len(entities), 16))).astype(
            np.float16
        ),
        entities,
    )


def make_run(
    model: str, seed: int, labels: tuple[str, ...] = ONTONOTES, shift: float | None = None
) -> tuple[dict[str, Any], Run]:
    """Everything one model and seed leave behind: JSON by path, and what the CSV files hold."""
    generator = np.random.default_rng([seed, sum(map(ord, model))])
    loss = LOSS[model] + 0.004 * seed
    documents = make_documents(model, seed, LOSS[model] - 5.7 if shift is None else shift)
    slow = 1.13 if model.startswith("gpt2e") else 1.0
    fractions = generator.uniform(0, 0.3, 2)
    similarity, ner = make_similarity(model, generator), make_ner(labels, generator)
    own = {"seed": seed}
    probe = make_probe(model, seed)
    metrics = {
        "model": model,
        "seed": seed,
        "parameters": 5_270_000 + 900_000 * (slow > 1),
        "steps": 5000,
        "tokens_seen": 2_560_000,
        "train_loss": loss - 0.3,
        "dev_loss_on": loss,
        "dev_loss_off": loss + (0.003 if slow > 1 else 0),
        "best_dev_loss": loss,
        "best_step": 4500,
        "skipped_steps": 0,
    }
    timing = {
        "seconds_per_step": 0.151 * slow, "tokens_per_second": 3390 / slow, "device": "cuda",
        "seconds_validation_step": 0.05 * slow, "threads": 2, "seconds_total": 760.0,
    }  # fmt: skip
    lambada = {
        "text": "original", "passages": 5153, "truncated": 3, "without_context": 0,
        "last_word": {"nll": 7.1, "tokens": 6000, "perplexity": float(np.exp(7 + loss / 50)),
                      "accuracy": float(fractions[0])},
        "last_token": {"perplexity": float(np.exp(6 + loss / 50)), "accuracy": float(fractions[1])},
        "passage": {"tokens": 480000, "words": 400000, "perplexity_token": float(np.exp(loss)),
                    "perplexity_word": float(np.exp(loss * 1.2))},
    }  # fmt: skip
    at = f"{model}/{seed}"
    files = {
        f"lm/{at}/metrics.json": metrics,
        f"lm/{at}/timing.json": timing,
        f"perplexity/{at}/perplexity.json": make_perplexity(model, documents) | own,
        f"lambada/{at}/lambada.json": lambada,
        f"similarity/{at}/similarity.json": similarity | own,
        f"probe/{at}/probe.json": probe["probe"],
        f"ner/{at}/metrics.json": ner | own,
    }
    run = Run(
        model,
        seed,
        curve=make_curve(loss, seed),
        documents=documents,
        probe_heads=probe["probe_heads"],
        probe_documents=probe["probe_documents"],
    )
    return files, run


def make_statistics() -> dict[str, Any]:
    """statistics.json."""

    def stats(scale: int) -> dict[str, Any]:
        counts = {
            "documents": 10, "documents_without_named_entities": 0, "sentences": 500, "words": 9000,
            "chains": 300, "mentions": 1200, "nested_mentions": 90, "crossing_mentions": 1,
            "merged_spans": 0, "words_in_mentions": 3000, "words_in_several_mentions": 200,
            "kept_mentions": 1100, "kept_chains": 290, "kept_words_in_mentions": 2900,
        }  # fmt: skip
        ne, pos = (
            {"PERSON": 200, "GPE": 120},
            {
                "nouns": 1500,
                "proper_nouns": 900,
                "pronouns": 700,
                "other": 5700,
                "unknown": 200,
            },
        )
        nested = {
            key: {name: n * scale for name, n in part.items()}
            for key, part in (("ne_spans", ne), ("pos", pos))
        }
        lost = {"outermost": {"mentions": 100 * scale, "chains": 10 * scale, "words": 7 * scale}}
        return {key: value * scale for key, value in counts.items()} | nested | {"lost": lost}

    return {
        "total": stats(10),
        "splits": {"train": stats(8), "dev": stats(1), "test": stats(1)},
        "nesting": "outermost",
        "left_out": {},
    }


def make_alignment() -> dict[str, Any]:
    """alignment.json."""
    sizes = {"train": 8, "dev": 1, "test": 1}
    counts = {
        "documents": 10,
        "words": 9000,
        "tokens": 11000,
        "tokens_in_mentions": 3500,
        "entities": 290,
        "mentions": 1100,
    }
    return {
        split: {key: n * scale for key, n in counts.items()} for split, scale in sizes.items()
    } | {"tokenizer": {"kind": "trained"}}


def make_tags() -> dict[str, Any]:
    """lambada_tags.json; dev has no pronoun."""
    shares = {"nouns": 0.375, "proper_nouns": 0.4375, "pronouns": 0.0625, "other": 0.125}
    groups = {group: {"n": 1200, "recall": 0.75, "precision": 0.8} for group in shares}
    groups["pronouns"] = {"n": 0, "recall": None, "precision": None}
    score = {"n": 3600, "accuracy": 0.75, "groups": groups}
    return {
        "text": "original",
        "lower_case": True,
        "n": 5153,
        "shares": shares,
        "dev": {"words": score, "last_words": score},
    }


def make_document() -> Document:
    """A document of three sentences with a nested mention and characters that HTML must escape."""
    text = """Ada Lovelace met the mayor of Aldbury < in Aldbury & gave her the clockwork swan .
        The mayor thanked Ada , who had built it herself in her father 's old boathouse .
        Neither of them forgot the swan ."""
    mentions = [
        (0, 2, 7),
        (3, 7, 9),
        (6, 7, 4),
        (9, 10, 4),
        (12, 13, 9),
        (13, 16, 2),
        (17, 19, 9),
        (20, 21, 7),
        (22, 23, 7),
        (25, 26, 2),
        (26, 27, 7),
    ]
    mentions += [(28, 29, 7), (28, 31, 5), (28, 33, 6), (39, 41, 2)]
    starts = (0, 17, 34)
    return Document(
        "story", 0, "test", "st", tuple(text.split()), starts, tuple(Mention(*m) for m in mentions)
    )


def make_example() -> Example:
    """The document as the example passage; labels by the outermost mention, every long word in two
    tokens.
    """
    document, labels = make_document(), np.zeros(42, np.int64)
    for mention in reversed(document.mentions):
        labels[mention.start : mention.end] = mention.chain
    tokens = [
        (" " + word[:4], word[4:]) if len(word) > 5 else (" " + word,) for word in document.words
    ]
    return cut_example(document, labels, tokens, 0, 23, 110)


class Given(Tree):
    """A study's JSON files, by their path."""

    def __init__(self, files: dict[str, Any], runs: tuple[tuple[str, int], ...]) -> None:
        super().__init__(Path("results"), runs)
        object.__setattr__(self, "files", files)

    def read(self, path: str) -> Any:
        return self.files.get(path)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Study(Results):
    """Results with the files that they were made of."""

    files: dict[str, Any] = field(default_factory=dict)

    def entry(self, model: str) -> ModelEntry:
        """A model by its name."""
        return next(entry for entry in self.entries if entry.name == model)

    def named(self, model: str) -> tuple[Run, ...]:
        """The runs of a model by its name."""
        return self.of(self.entry(model)) if model in {e.name for e in self.entries} else ()

    def json(self, step: str, model: str, seed: int = 1) -> Any:
        """The one file of numbers of a run."""
        name = {"lm": "metrics", "ner": "metrics"}.get(step, step)
        return self.files[f"{step}/{model}/{seed}/{name}.json"]

    def each(self, step: str, model: str) -> list[Any]:
        """The same of all seeds."""
        return [self.json(step, model, seed) for seed in self.seeds]

    def again(self, edit: Callable[[dict[str, Any]], None], **changes: Any) -> Study:
        """The study after ``edit`` of a copy of its files."""
        files = copy.deepcopy(self.files)
        edit(files)
        frame = collect(Given(files, tuple((r.model, r.seed) for r in self.runs)), self.steps)
        return replace(self, files=files, frame=frame, **changes)


def make_files() -> dict[str, Any]:
    """What belongs to no run."""
    return {
        "corpus/statistics.json": make_statistics(),
        "corpus/alignment.json": make_alignment(),
        "passages/lambada_statistics.json": {"passages": 5153, "bad": {}},
        "passages/lambada_tags.json": make_tags(),
    }


@cache
def make_pictures(models: frozenset[str]) -> Pictures:
    """An example, and a cloud for each of the paper's two models that there is, and for both."""
    clouds = {}
    for name, roles in CLOUDS.items():
        wanted = ["gpt2e" if role == "proposed" else "gpt2" for role in roles]
        if set(wanted) <= models:
            mentions = {model: make_mentions(1 + len(model)) for model in wanted}
            clouds[name] = make_cloud(mentions, [f"Entity {i}" for i in range(12)], 8)
    return Pictures(make_example(), {n: cloud for n, cloud in clouds.items() if cloud is not None})


def make_study(
    models: tuple[str, ...] = ("gpt2", "gpt2e"), seeds: tuple[int, ...] = (1,), **changes: Any
) -> Study:
    """A study of these models and seeds; ``labels`` and ``shift`` (loss by model) go to the runs,
    ``files`` adds or replaces files, the rest replaces fields.
    """
    labels, shift = changes.pop("labels", ONTONOTES), changes.pop("shift", {})
    files, runs = make_files(), []
    for model in models:
        for seed in seeds:
            left, run = make_run(model, seed, labels, shift.get(model))
            files |= left
            runs.append(run)
    files |= changes.pop("files", {})
    manifest = {
        "git_commit": "0123abcd",
        "device": "cpu",
        "versions": {"torch": "2.13.0"},
        "params": {"lm": {"layers": 4, "width": 192}},
    }
    steps = changes.pop("steps", SHOWN)
    given = Given(files, tuple((run.model, run.seed) for run in runs))
    fields: dict[str, Any] = {
        "title": "E.T. on <made-up> data",
        "entries": tuple(ENTRIES[model] for model in models),
        "seeds": seeds,
        "steps": steps,
        "runs": tuple(runs),
        "groups": {"nouns": ("NN", "NNS", "NNP", "NNPS"), "pronouns": ("PRP", "PRP$")},
        "pictures": make_pictures(frozenset({"gpt2", "gpt2e"} & set(models))),
        "manifest": manifest,
        "bootstrap_samples": 500,
    }
    return Study(**({**fields, "frame": collect(given, steps), "files": files} | changes))


def make_empty(*models: str) -> Study:
    """A study that has left nothing."""
    entries = tuple(ENTRIES[model] for model in models or ("gpt2",))
    return Study("nothing", entries, (1,), steps=SHOWN)


@pytest.fixture(scope="session")
def entries() -> dict[str, ModelEntry]:
    """The models by name: the baseline, the proposed one, and every control."""
    return ENTRIES


@pytest.fixture(scope="session")
def study() -> Callable[..., Study]:
    """`make_study`."""
    return make_study


@pytest.fixture(scope="session")
def empty() -> Callable[..., Study]:
    """`make_empty`."""
    return make_empty


@pytest.fixture(scope="session")
def small() -> Study:
    """GPT2 and GPT2E, one seed."""
    return make_study()


@pytest.fixture(scope="session")
def full() -> Study:
    """Every model, three seeds."""
    return make_study(tuple(LOSS), (1, 2, 3))
