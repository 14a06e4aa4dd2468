"""What all rules share: the study's values and plan, and what each rule depends on besides files."""

import shlex
import sys
from pathlib import Path

from entity_transformers.study import params as parameters
from entity_transformers.study.leftovers import list_leftovers
from entity_transformers.study.plan import Plan, folder, inputs, outputs
from entity_transformers.study.processor import warn_of_bfloat16
from entity_transformers.study.stages import find_stale
from entity_transformers.study.steps import STEPS

# The process that was called, not those that run its jobs
FIRST = not (workflow.remote_exec or workflow.subprocess_exec)
FORCED = {"--forcerun", "-R", "--forceall", "-F", "--touch", "-t"} & {*sys.argv}
# DVC's experiments change params.yaml alone; its stages name the rules that they run, and what it
# has made is touched
BY_DVC = {"--allowed-rules", "--touch", "-t"} & {*sys.argv}
try:
    STALE = find_stale(Path(), Path(workflow.basedir))
    if "params.yaml" in STALE and FIRST and not BY_DVC:
        sys.exit(f"snakemake: {STALE['params.yaml']}")
    PARAMS = parameters.load(Path("params.yaml"))
except parameters.ParamsError as error:
    sys.exit(f"snakemake: {error}")

PLAN = Plan(PARAMS)
if MISSING := PLAN.missing_library():
    sys.exit(f"snakemake: {MISSING}")
RUN = "{model}/{seed}"
BIN = Path(sys.executable).parent
# Threads of what reads a text that may be missing or bad: it stops the study before all else begins.
# On a cluster there is no number of cores (workflow.cores raises there), and its jobs see a node's,
# of which they were given one
ALONE = 1 if workflow.remote_exec else workflow.resource_settings.cores or 1

# Snakemake knows by its own records which values a file was made with. A clone has none, and would
# take the files as they are
if FIRST and not FORCED and (old := PLAN.outdated()):
    sys.exit(
        f"snakemake: {old[0]} was made with other values than params.yaml has, of which Snakemake has"
        " no record (a clone, or after make clean): bring the values back, or make anew what they"
        f" change, with --forcerun {shlex.join(old)}"
    )

SLOW = warn_of_bfloat16(PARAMS) if FIRST and not BY_DVC else None
for warning in [*STALE.values(), *list_leftovers(Path()), *([SLOW] if SLOW else [])]:
    print(f"snakemake: {warning}", file=sys.stderr)


# Ctrl-C and a cluster's SIGTERM reach every process of a job; tee must outlive the command that it
# logs, which says last what it saved (tee -i minds Ctrl-C alone). Under the panel, which shows the
# logs itself, nothing else is printed
shell.prefix(
    f'set -euo pipefail; export PATH="{BIN}:$PATH" PYTHONUNBUFFERED=1;'
    ' tee() {{ trap "" INT TERM; if [[ ${{STUDY_PANEL:-}} ]]; then exec >/dev/null; fi;'
    ' exec tee -i "$@"; }}; '
)


wildcard_constraints:
    model=r"[a-z0-9][a-z0-9_-]*",
    seed=r"\d+",


def has_rules(step):
    """Has the step a file of rules of its own? Else it is one command per run (runs.smk)."""
    return Path(workflow.basedir, "workflow", "rules", f"{step.name}.smk").is_file()


def rule_of(step):
    """The rule of a step that has one."""
    return next(iter(step.rules))


def digest(step):
    """All that the step depends on besides its files, as one text; for a run, that of its model."""
    step = STEPS[step]
    if step.needs is None:
        return PLAN.digest(step)
    return lambda wildcards: PLAN.digest(step, wildcards.model)


def reads(step):
    """The files that a run of the step reads, by step; an error if its model can't do the step."""

    def find(wildcards):
        PARAMS.require(wildcards.model, step)
        files = inputs(STEPS[step], wildcards.model, wildcards.seed)
        taken = PLAN.taken(STEPS[step], wildcards.model)
        return files | ({"taken": taken} if taken else {})

    return find


def writes(step):
    """The files that a run of the step writes."""
    return outputs(STEPS[step], "{model}", "{seed}")


def command(step):
    """The command of a run of the step, given the folders of the steps that it reads."""

    def write(wildcards):
        sources = (
            f" --{name} {folder(STEPS[name], wildcards.model, wildcards.seed)}"
            for name in step.reads
        )
        return (
            f"entity-transformers {rule_of(step).replace('_', '-')} --params params.yaml{''.join(sources)}"
            f" --model {wildcards.model} --seed {wildcards.seed}"
            f"{f' --work work/{step.name}' if step.resumes else ''}"
            f" --output {folder(step, wildcards.model, wildcards.seed)}"
        )

    return write
