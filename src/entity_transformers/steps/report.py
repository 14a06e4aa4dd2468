"""Step report: every number of a study in one folder, and the tables and figures of them."""

from typing import Annotated

from pydantic import Field, StrictBool

from entity_transformers.step import Rows, Run, step
from entity_transformers.study.sections import PositiveInt, Section, Size


class ReportParams(Section):
    """Tables, figures and the page."""

    title: str
    """heading of the report"""
    pictured_entities: Size
    """entities shown in the embedding pictures (appendix)"""
    bootstrap_samples: Annotated[PositiveInt, Field(le=100_000)]
    """resamples of the documents for each interval"""
    paper: StrictBool
    """the paper's numbers beside the study's own"""


@step(
    "report",
    "[tables 1 to 5, figures 2 and 3, appendix] gather every number, and build tables and figures",
    phase="report",
    params=ReportParams,
    also=("study", "models", "embeddings"),
    writes=(
        "measures.csv",
        "units.parquet",
        "curves.csv",
        "pictures.json",
        "manifest.json",
        "metrics.json",
        "README.md",
    ),
    libraries=("matplotlib", "jinja2", "pandas", "scipy", "sklearn"),
    gpu=False,
)
def report(run: Run) -> Rows:
    """The files of results/STUDY, and report.html beside them."""
    from entity_transformers.report.build import build, collect

    collect(run)
    build(run.params, run.folder)
    yield from ()
