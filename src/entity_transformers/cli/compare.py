"""Opens the files of compare: what two studies' models scored, document by document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from entity_transformers.artifacts import read_json, read_text
from entity_transformers.cli.flags import Flag
from entity_transformers.cli.study import load_study
from entity_transformers.report.records import parse_documents
from entity_transformers.report.two_studies import (
    CompareError,
    Gap,
    Scores,
    compare_scores,
    render_gaps,
)
from entity_transformers.study.params import Params

FILES = {"perplexity": "documents.csv", "lambada": "passages.csv"}
COUNTED = ("documents", "sentences", "words")
SHOWN = ("corpus", "tokenizer", "lm", "kinds", "models", "perplexity")


def compare(
    one: Annotated[Path, Flag("the folder of study A", "STUDY_A", positional=True)],
    other: Annotated[Path, Flag("the folder of study B", "STUDY_B", positional=True)],
    models: Annotated[
        tuple[str, ...],
        Flag("of A, or A=B where it has another name in B; left out: those of both", "MODEL"),
    ] = (),
    splits: Annotated[
        tuple[str, ...], Flag("a test set; left out: all, which have to be the same", "SPLIT")
    ] = (),
    samples: Annotated[int, Flag("resamples of documents")] = 10_000,
) -> None:
    """Print how much better or worse the models of one study are than those of another on the same
    test set; other test sets are refused.
    """
    params = load_study(one), load_study(other)
    pairs = _pair(models, *params)
    values = [side.model_dump(mode="json") for side in params]
    for place, side in enumerate(values):  # a model of B under the name that A has for it
        side["models"] = {pair[0]: side["models"][pair[place]] for pair in pairs}
    told = list(_differences(values[0], values[1]))
    gaps = [gap for pair in pairs for gap in _compare(one, other, params, pair, splits, samples)]
    if not gaps:
        asked = f" of {', '.join(splits)}" if splits else ""
        raise CompareError(
            f"{one}, {other}: no scores by document{asked} in common: run steps"
            f" {' and '.join(FILES)} of both"
        )
    print(f"A: {one}\nB: {other}")
    for key, ours, theirs in told:
        print(f"  {key}: {ours} in A, {theirs} in B")
    print("\nNats per token, of lambada per passage; difference: A minus B. 95 % intervals.\n")
    print(render_gaps(gaps))


def _pair(models: tuple[str, ...], ours: Params, theirs: Params) -> list[tuple[str, str]]:
    named = [model.partition("=") for model in models]
    pairs = [(first, second or first) for first, _, second in named]
    pairs = pairs or [(name, name) for name in ours.models if name in theirs.models]
    sides = [(a, ours, "A") for a, _ in pairs] + [(b, theirs, "B") for _, b in pairs]
    for name, params, side in sides:
        if name not in params.models:
            raise CompareError(
                f"--models {name}: study {side} has {', '.join(params.models)}: name one of these"
            )
    if not pairs:
        raise CompareError(
            f"A has models {', '.join(ours.models)}, B has {', '.join(theirs.models)}: none has"
            " the same name: say which to compare by --models A=B"
        )
    return pairs


def _compare(
    one: Path,
    other: Path,
    params: tuple[Params, Params],
    pair: tuple[str, str],
    splits: tuple[str, ...],
    samples: int,
) -> Iterator[Gap]:
    name = pair[0] if pair[0] == pair[1] else f"{pair[0]} - {pair[1]}"
    for step in FILES:
        sides = [
            _read(study / "results" / step / model, FILES[step], side.study.seeds)
            for study, side, model in zip((one, other), params, pair, strict=True)
        ]
        if not all(sides):
            continue
        found = [{str(s) for table in side.values() for s in table.split} for side in sides]
        found = [{split for split in side if not splits or split in splits} for side in found]
        for split in sorted(found[0] ^ found[1]):
            print(f"{name}: {split} was scored in {'A' if split in found[0] else 'B'} alone")
        for split in sorted(found[0] & found[1]):
            if step == "perplexity":
                _check_counts(one, other, split)
            gap = compare_scores(name, split, *sides, samples=samples)
            if gap is not None:
                yield gap


def _read(folder: Path, name: str, seeds: tuple[int, ...]) -> Scores:
    files = {seed: folder / str(seed) / name for seed in seeds}
    return {
        seed: parse_documents(read_text(file), str(file))
        for seed, file in files.items()
        if file.is_file()
    }


def _check_counts(one: Path, other: Path, split: str) -> None:
    """CompareError where the corpora count otherwise; one that is not at hand is not asked."""
    files = [study / "results/corpus/statistics.json" for study in (one, other)]
    if not all(file.is_file() for file in files):
        return
    counts = [read_json(file)["splits"].get(split, {}) for file in files]
    for key in COUNTED:
        ours, theirs = (count.get(key) for count in counts)
        if ours != theirs:
            raise CompareError(
                f"another test set: {split} has {ours} {key} in A, {theirs} in B: score both on"
                " the same corpus"
            )


def _differences(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """The values of two params.yaml that differ, in sections that scores depend on."""
    for key in dict.fromkeys((*ours, *theirs)):
        name = f"{prefix}.{key}".lstrip(".")
        if not prefix and key not in SHOWN:
            continue
        first, second = ours.get(key), theirs.get(key)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            yield from _differences(first, second, name)
        elif first != second:
            yield name, first, second
