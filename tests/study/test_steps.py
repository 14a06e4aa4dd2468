"""The entries of steps: what they name is there, and they name all that their code reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from entity_transformers.kinds import KINDS
from entity_transformers.study.code import reach
from entity_transformers.study.params import ALWAYS, Params
from entity_transformers.study.steps import STEPS, Step

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "entity_transformers"
RULES = ROOT / "workflow" / "rules"
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}
steps = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)


@steps
def test_a_step_reads_what_others_write(step: Step) -> None:
    for name, files in step.reads.items():
        assert set(files) <= set(STEPS[name].outputs)
    assert step.target in step.outputs or step.folder


@steps
def test_a_step_names_all_sections_that_its_code_reads(step: Step) -> None:
    text = "".join(MODULES[name].read_text() for name in reach(step.start))
    read = {name for name in re.findall(r"\bparams\.(\w+)\b", text) if name in Params.model_fields}
    named = {key.split(".")[0] for key in step.params}
    # the values of its entry; only whether their splits exist
    free = {"run", "study"} | {
        "lm": {"lm", "kinds", "models"},
        "corpus": {"perplexity", "embeddings"},
    }.get(step.name, set())
    if not step.summary:
        assert read - free - {"models", "kinds"} <= named | (
            {"lm"} if step.needs is not None else set()
        )
    assert {key.split(".")[0] for key in step.params} <= set(Params.model_fields)


def test_every_section_belongs_to_a_step_or_to_all() -> None:
    assert set(Params.model_fields) == set(ALWAYS).union(
        *(step.sections for step in STEPS.values())
    )


@steps
def test_a_step_is_a_word_everywhere(step: Step) -> None:
    """Its module of the command line, and its rules: in a file of its own, or the common one."""
    assert f"cli.{step.name}" in step.start
    file = RULES / f"{step.name}.smk"
    if file.is_file():
        rules = re.findall(r"^rule (\w+):", file.read_text(), flags=re.MULTILINE)
        assert rules == list(step.rules)
    else:
        assert len(step.rules) == 1
        assert step.needs is not None


def test_every_data_file_of_the_package_is_named_by_a_step() -> None:
    named = {path for step in STEPS.values() for glob in step.data for path in PACKAGE.glob(glob)}
    others = {
        path
        for path in PACKAGE.rglob("*")
        if path.is_file()
        and path.suffix not in (".py", ".pyc", ".yaml")
        and path.name != "py.typed"
    }
    assert others == named


def test_every_number_s_code_is_of_some_step() -> None:
    """No module of the tasks and the training lies outside all steps."""
    homes = [kind.home.partition(".")[2] for kind in KINDS.values()]
    homes += [module for kind in KINDS.values() for module in kind.start.values()]
    reached = reach([*homes, *(name for step in STEPS.values() for name in step.start)])
    computing = {n for n in MODULES if n.split(".")[0] in ("tasks", "train", "encode", "corpus")}
    assert computing - reached == {  # tools': no study keeps their numbers
        "corpus.marked",
        "corpus.tokens",
        "encode.document",
        "encode.watched",
        "tasks.demo",
        "tasks.remember",
        "train.trainer",
    }
