"""Step examples: labelled examples of the tasks that transfer reads.

in:  the tasks' files, local or downloaded
out: results/examples/: examples.jsonl, counts
"""


rule download_examples:
    """Fetch the tasks' files, or find them on disk, and list them with checksums."""
    output:
        "results/examples/source.json",
    log:
        "logs/examples/download_examples.log",
    benchmark:
        "logs/examples/download_examples.tsv"
    priority: 8
    threads: ALONE
    params:
        digest=digest("examples"),
    shell:
        "entity-transformers download-examples --params params.yaml --cache work/downloads"
        " --output {output:q} 2>&1 | tee {log:q}"


rule prepare_examples:
    """Examples of all tasks, each checked, and how many there are."""
    input:
        source="results/examples/source.json",
    output:
        "results/examples/examples.jsonl",
        "results/examples/statistics.json",
    log:
        "logs/examples/prepare_examples.log",
    benchmark:
        "logs/examples/prepare_examples.tsv"
    priority: 8
    threads: ALONE
    params:
        digest=digest("examples"),
    shell:
        "entity-transformers prepare-examples --params params.yaml --source {input.source:q} --cache work/downloads"
        " --output results/examples 2>&1 | tee {log:q}"
