"""Step recall (beyond the paper): what a memory carries past the window.

in:  nothing; the documents are generated
out: results/recall/{model}/{seed}/: accuracy.json, timing.json; results/recall/accuracy.json: all of them
"""

RECALL = PARAMS.recall if PARAMS.has("recall") else None


rule train_recall:
    """Train one way of reading and learning the memory on synthetic recall, and ask it."""
    output:
        multiext(f"results/recall/{RUN}/", "accuracy.json", "timing.json"),
    log:
        f"logs/recall/train_recall/{RUN}.log",
    benchmark:
        f"logs/recall/train_recall/{RUN}.tsv"
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=lambda wildcards: PLAN.digest_entry(STEPS["recall"], wildcards.model),
    shell:
        "entity-transformers train-recall --params params.yaml --model {wildcards.model:q}"
        " --seed {wildcards.seed:q} --output results/recall/{wildcards.model:q}/{wildcards.seed:q}"
        " 2>&1 | tee {log:q}"


rule gather_recall:
    """The accuracies of every model and seed in one file; with none, the file says so."""
    input:
        expand(
            f"results/recall/{RUN}/accuracy.json",
            model=RECALL.models if RECALL else [],
            seed=RECALL.seeds if RECALL else [],
        ),
    output:
        "results/recall/accuracy.json",
    log:
        "logs/recall/gather_recall.log",
    benchmark:
        "logs/recall/gather_recall.tsv"
    params:
        digest=digest("recall"),
    shell:
        "entity-transformers gather-recall --params params.yaml --results results/recall"
        " --output {output:q} 2>&1 | tee {log:q}"
