"""Step report: every number of a study in one folder, which git keeps, and its tables and figures.

out: results/{study}: measures.csv, units.parquet, curves.csv, README.md, figures ...
"""


rule make_report:
    """Gather the numbers of all runs, and build every table and figure of them."""
    input:
        lambda wildcards: [ancient(file) for file in plan_of(wildcards.study).records()],
    output:
        [f"results/{{study}}/{name}" for name in STEPS["report"].writes],
    log:
        "logs/{study}/report.log",
    benchmark:
        "logs/{study}/report.tsv"
    params:
        file=file_of,
    shell:
        "entity-transformers run report --study {params.file:q} 2>&1 | tee {log:q}"
