"""What all rules share: the study that is asked for, and what a run of a step reads and writes."""

import atexit
import os
import sys
from pathlib import Path

from entity_transformers.__main__ import STARTERS, end_with
from entity_transformers.step import MANIFEST
from entity_transformers.study.params import STEPS, ParamsError, load
from entity_transformers.study.plan import Plan, outputs
from entity_transformers.study.processor import warn_of_bfloat16
from entity_transformers.study.values import find_study

# The process that was called, and not those that run its jobs
FIRST = not (workflow.remote_exec or workflow.subprocess_exec)
FILE = (
    Path(os.path.relpath(workflow.configfiles[0]))
    if workflow.configfiles
    else Path("params.yaml")
)
BIN = Path(sys.executable).parent
# Jobs end with Snakemake, even if that is killed, and both with the DVC or `make study` above, of
# which a recipe of make names the process
ABOVE = [os.getpid()]
if FIRST and {"DVC_ROOT", "ENTITY_TRANSFORMERS_FORKS"} & os.environ.keys():
    ABOVE += [os.getppid(), *map(int, os.environ.get(STARTERS, "").split())]
    for starter in ABOVE[1:]:
        end_with(starter)
PLANS = {}


def plan_of(study):
    """The plan of a study by its name; other studies are asked for by those that start from them."""
    if study not in PLANS:
        file = find_study(study)
        PLANS[study] = Plan(load(file), file)
    return PLANS[study]


try:
    PLAN = Plan(load(FILE), FILE)
except ParamsError as error:
    sys.exit(f"snakemake: {error}")
STUDY = PLAN.params.name
PLANS[STUDY] = PLAN
if MISSING := PLAN.missing_library():
    sys.exit(f"snakemake: {MISSING}")
RESULTS = [f"results/{STUDY}/{name}" for name in (MANIFEST, "README.md")]
TARGETS = RESULTS if "report" in PLAN.params.study.steps else PLAN.records()


def set_aside(record):
    """Hide a record, so that its run is made anew. It comes back if that was not begun, as in a dry
    run; of a run that was, Snakemake has deleted the files.
    """
    hidden = record.with_suffix(".stale")
    beside = [
        path for path in record.parent.iterdir() if path.is_file() and path != record
    ]
    record.rename(hidden)

    def bring_back():
        if record.exists() or not all(path.exists() for path in beside):
            hidden.unlink(missing_ok=True)  # it may be gone with its folder
        else:
            hidden.rename(record)

    atexit.register(bring_back)


# Records say what a run was made with. One that would be made otherwise now is made anew, whoever
# put it there: a run, git, or DVC. Times of files say nothing of that (profiles/default).
if FIRST:
    for record in PLAN.stale():
        set_aside(Path(record))
    if line := warn_of_bfloat16(PLAN.params):
        print(f"snakemake: {line}", file=sys.stderr)


# Ctrl-C and a cluster's SIGTERM reach every process of a job; tee must outlive the command that it
# logs, which says last what it saved (tee -i minds Ctrl-C alone). Under the panel, which shows the
# logs itself, nothing else is printed
shell.prefix(
    f'set -euo pipefail; export PATH="{BIN}:$PATH" PYTHONUNBUFFERED=1'
    f' {STARTERS}="{" ".join(map(str, ABOVE))}";'
    ' tee() {{ trap "" INT TERM; if [[ ${{STUDY_PANEL:-}} ]]; then exec >/dev/null; fi;'
    ' exec tee -i "$@"; }}; '
)


wildcard_constraints:
    study=r"[a-z0-9][a-z0-9_-]*",
    model=r"[a-z0-9][a-z0-9_-]*",
    seed=r"\d+",


def reads(step):
    """The files that a run of the step reads; an error if its model can't do the step."""

    def find(wildcards):
        plan, model = plan_of(wildcards.study), wildcards.get("model", "")
        if STEPS[step].needs is not None:
            plan.params.require(model, step)
        # ancient: without metadata, as in a clone, Snakemake would go by times of files
        return [
            ancient(file)
            for file in plan.inputs(STEPS[step], model, wildcards.get("seed"))
        ]

    return find


def writes(step):
    """The files that a run of the step writes."""
    return outputs("{study}", STEPS[step], "{model}", "{seed}")


def file_of(wildcards):
    """The file of the study whose run it is."""
    return plan_of(wildcards.study).file


def threads_of(wildcards):
    """The threads of one run."""
    return plan_of(wildcards.study).params.run.threads
