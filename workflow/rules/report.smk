"""Step report: every table and figure of the paper, the paper's number beside ours.

in:  what every other step left behind
out: results/report/: tables/, figures/, report.html
"""

TABLES = (
    "claims corpus entity_types table1 models table2 controls perplexity_by_class table3 table4 table4_ones similarity_models probe table5 table5_tags ner_overall anomalies recall"
).split()
FIGURES = "figure2 figure3 perplexity_by_class embeddings_gpt2e embeddings_gpt2 embeddings_both probe".split()
MEASURED = PLAN.measured()


rule build_tables:
    """Every table as Markdown and CSV."""
    input:
        MEASURED,
    output:
        expand("results/report/tables/{table}.{form}", table=TABLES, form=["md", "csv"]),
        "results/report/tables/tables.txt",
    log:
        "logs/report/build_tables.log",
    benchmark:
        "logs/report/build_tables.tsv"
    params:
        digest=digest("report"),
    shell:
        "entity-transformers build-tables --params params.yaml --results results --output results/report/tables 2>&1 | tee {log:q}"


rule build_figures:
    """Every figure as PNG."""
    input:
        MEASURED,
    output:
        expand("results/report/figures/{figure}.png", figure=FIGURES),
    log:
        "logs/report/build_figures.log",
    benchmark:
        "logs/report/build_figures.tsv"
    params:
        digest=digest("report"),
    shell:
        "entity-transformers build-figures --params params.yaml --results results --output results/report/figures 2>&1 | tee {log:q}"


rule build_report:
    """Tables, figures and what they show on one page."""
    input:
        MEASURED,
        rules.build_tables.output,
        rules.build_figures.output,
    output:
        "results/report/report.html",
    log:
        "logs/report/build_report.log",
    benchmark:
        "logs/report/build_report.tsv"
    params:
        digest=digest("report"),
    shell:
        "entity-transformers build-report --params params.yaml --results results --output {output:q} 2>&1 | tee {log:q}"
