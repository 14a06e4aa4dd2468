"""Step report: every table and figure of the paper, the paper's number beside ours.

in:  what every other step left behind; all but collect_measures read only what git keeps
out: results/report/: measures.csv (every number), pictures.json, values.json, tables/, figures/, metrics/,
     README.md, report.html
"""

MEASURED = PLAN.measured()
RECORDS = [file for file in MEASURED if file.endswith((".csv", "manifest.json"))]


rule collect_measures:
    """Every number of the study in one table, and the coordinates of its pictures."""
    input:
        MEASURED,
    output:
        "results/report/measures.csv",
        "results/report/pictures.json",
        "results/report/values.json",
    log:
        "logs/report/collect_measures.log",
    benchmark:
        "logs/report/collect_measures.tsv"
    params:
        digest=digest("report"),
    shell:
        "entity-transformers collect-measures --params params.yaml --results results --output results/report 2>&1 | tee {log:q}"


rule build_report:
    """Every table as Markdown and CSV, every figure as PNG, and what they show on one page."""
    input:
        # not values.json: results from before there was one need no other measures
        rules.collect_measures.output[:2],
        RECORDS,
    output:
        directory("results/report/tables"),
        directory("results/report/figures"),
        "results/report/README.md",
        directory("results/report/metrics"),
        "results/report/report.html",
    log:
        "logs/report/build_report.log",
    benchmark:
        "logs/report/build_report.tsv"
    params:
        digest=digest("report"),
    shell:
        "entity-transformers build-report --params params.yaml --results results --output results/report 2>&1 | tee {log:q}"
