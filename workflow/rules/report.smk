"""Step report: every table and figure of the paper, the paper's number beside ours.

in:  what every other step left behind; all but collect_measures read only what git keeps
out: results/report/: measures.csv (every number), pictures.json, values.json, tables/, figures/, metrics/,
     README.md, report.html
`snakemake --report FILE.html` shows the tables and figures with captions, in the categories of the page.
"""

MEASURED = PLAN.measured()
RECORDS = [file for file in MEASURED if file.endswith((".csv", "manifest.json"))]


rule collect_measures:
    """Every number of the study in one table, and the coordinates of its pictures."""
    input:
        MEASURED,
    output:
        report(
            "results/report/measures.csv",
            caption="../report/measures.rst",
            category="Every number",
            labels={"name": "measures", "what": "numbers"},
        ),
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
        report(
            directory("results/report/tables"),
            patterns=["{name}.csv"],
            caption="../report/table.rst",
            category=categorise,
            labels={"name": "{name}", "what": "table"},
        ),
        report(
            directory("results/report/figures"),
            patterns=["{name}.png"],
            caption="../report/figure.rst",
            category=categorise,
            labels={"name": "{name}", "what": "figure"},
        ),
        "results/report/README.md",
        directory("results/report/metrics"),
        report(
            "results/report/report.html",
            caption="../report/page.rst",
            category="The page",
            labels={"name": "report", "what": "page"},
        ),
    log:
        "logs/report/build_report.log",
    benchmark:
        "logs/report/build_report.tsv"
    params:
        digest=digest("report"),
    shell:
        "entity-transformers build-report --params params.yaml --results results --output results/report 2>&1 | tee {log:q}"
