"""The study: the steps that study.steps of its params.yaml names, in the paper's order. What a step
needs, reads and writes: src/entity_transformers/study/steps."""


include: "workflow/rules/common.smk"
include: "workflow/rules/runs.smk"
include: "workflow/rules/studies.smk"


for step in PLAN.steps:
    if has_rules(step):

        include: f"workflow/rules/{step.name}.smk"


rule all:
    """The report, or the last files of all steps where the study has none."""
    default_target: True
    input:
        PLAN.targets(),
