"""The study, step by step; the rule files below are the paper's method section. Values: params.yaml of the working directory."""


include: "workflow/rules/common.smk"
include: "workflow/rules/corpus.smk"  # 4.2  text with coreference chains -> tokens with entity ids
include: "workflow/rules/lm.smk"  # 3    GPT2, GPT2E and the controls
include: "workflow/rules/perplexity.smk"  # 5    tables 2 and 3
include: "workflow/rules/embeddings.smk"  # 4.1  vectors of words, mentions and entities
include: "workflow/rules/similarity.smk"  # 5    table 4
include: "workflow/rules/probe.smk"  # 6    attention heads that point to antecedents
include: "workflow/rules/ner.smk"  # 5    table 5
include: "workflow/rules/anomalies.smk"  #      what could have given the paper's odd numbers
include: "workflow/rules/recall.smk"  #      beyond the paper: what a memory carries past the window
include: "workflow/rules/report.smk"  #      every table and figure on one page


rule all:
    """The report of the study."""
    default_target: True
    input:
        "results/report/report.html",
