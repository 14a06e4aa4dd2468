"""Step anomalies: what could have given numbers of the paper that cannot be what they are called (PAPER.md).

in:  tokens with entity ids, documents with their sentences
out: results/anomalies/{anomaly}.json, one for each of anomalies.candidates, and anomalies.json, which holds them all
"""


rule try_anomaly:
    """Short trainings from random weights for one candidate."""
    input:
        **inputs(STEPS["anomalies"]),
    output:
        "results/anomalies/{anomaly}.json",
    log:
        "logs/anomalies/try_anomaly/{anomaly}.log",
    benchmark:
        "logs/anomalies/try_anomaly/{anomaly}.tsv"
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=PLAN.digest(STEPS["anomalies"], without=("candidates",)),
    shell:
        "entity-transformers try-anomaly --params params.yaml --corpus results/corpus --anomaly {wildcards.anomaly:q}"
        " --output {output:q} 2>&1 | tee {log:q}"


rule gather_anomalies:
    """All candidates that were tried, in one file."""
    input:
        expand("results/anomalies/{anomaly}.json", anomaly=PARAMS.anomalies.candidates),
    output:
        "results/anomalies/anomalies.json",
    log:
        "logs/anomalies/gather_anomalies.log",
    benchmark:
        "logs/anomalies/gather_anomalies.tsv"
    params:
        digest=digest("anomalies"),
    shell:
        "entity-transformers gather-anomalies --params params.yaml --anomalies results/anomalies --output {output:q} 2>&1 | tee {log:q}"
