"""Builds a study's report from the results that git holds, and checks it."""

from pathlib import Path
from typing import Any

from entity_transformers.cli.flags import STUDY
from entity_transformers.study.params import load


def open_results(study: Path) -> tuple[Any, Path]:
    """A study's values and the folder of its results; ValueError where it has none."""
    params = load(study)
    results = Path("results") / params.name
    if not (results / "measures.csv").is_file():
        raise ValueError(
            f"{results}/measures.csv is missing: `make study STUDY={params.name}` makes it"
        )
    return params, results


def report(study: STUDY) -> None:
    """Write README.md, figures and report.html of a study anew from its numbers."""
    from entity_transformers.report.build import build

    params, results = open_results(study)
    build(params, results)
    print(f"{results}/report.html is written")


def show_verdicts(study: STUDY) -> None:
    """Print the verdict on each claim of the paper; what a study that is not compared with it has
    found.
    """
    from entity_transformers.report.build import require_same_values
    from entity_transformers.report.claims import build_claims
    from entity_transformers.report.page import write_headline
    from entity_transformers.report.results import read_results

    params, folder = open_results(study)
    require_same_values(params, folder)
    results = read_results(params, folder)
    claims = build_claims(results)
    lines = [f"  {row[2]:20}  {row[0]}" for row in claims.rows]
    print("\n".join([claims.title, *lines] if lines else write_headline(results)))


def verify(study: STUDY) -> None:
    """Compute every digest of a study's results again, and make its tables again: exit code 1 where
    something differs.
    """
    from entity_transformers.report.build import find_wrong

    params, results = open_results(study)
    wrong = list(dict.fromkeys(find_wrong(params, results)))
    print("\n".join([*(f"wrong: {line}" for line in wrong), f"{results}: {len(wrong)} wrong"]))
    if wrong:
        raise SystemExit(1)
