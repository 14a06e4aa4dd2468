"""One DAG for all studies: data/STUDY has what the steps make, results/STUDY what git keeps.

    snakemake --cores 1 --resources gpu=1                       the paper's study, params.yaml
    snakemake --cores 2 --configfile studies/sample.yaml        any other

Rules are in the paper's order; what a step needs, reads and writes stands in its module of
src/entity_transformers/steps.
"""


include: "workflow/rules/common.smk"
include: "workflow/rules/corpus.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/report.smk"


rule all:
    """The study's report, or the records of all its runs where it has none."""
    default_target: True
    input:
        TARGETS,


rule corpus:
    """The text of the study: documents, tokens and tasks."""
    input:
        PLAN.records("corpus"),


rule train:
    """The models of the study."""
    input:
        PLAN.records("train"),


rule score:
    """The scores of the study."""
    input:
        PLAN.records("score"),
