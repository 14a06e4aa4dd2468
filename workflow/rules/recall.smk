"""Step recall (beyond the paper): what a memory carries past the window.

in:  nothing; the documents are generated
out: results/recall/{variant}/{seed}/: accuracy.json, timing.json; results/recall/accuracy.json: all of them
"""

RECALL = expand(
    "results/recall/{variant}/{seed}",
    variant=PARAMS.recall.variants,
    seed=PARAMS.recall.seeds,
)


rule train_recall:
    """Train one way of reading and learning the memory on synthetic recall, and ask for them."""
    output:
        multiext("results/recall/{variant}/{seed}/", "accuracy.json", "timing.json"),
    log:
        "logs/recall/train_recall/{variant}/{seed}.log",
    benchmark:
        "logs/recall/train_recall/{variant}/{seed}.tsv"
    wildcard_constraints:
        seed="|".join(map(str, PARAMS.recall.seeds)),
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=digest("recall", without={"variants", "seeds"}),
    shell:
        "entity-transformers train-recall --params params.yaml --variant {wildcards.variant:q} --seed {wildcards.seed:q}"
        " --output results/recall/{wildcards.variant:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"


rule gather_recall:
    """The accuracies of every variant and seed in one file; with none, the file says so."""
    input:
        expand("{run}/accuracy.json", run=RECALL),
    output:
        "results/recall/accuracy.json",
    log:
        "logs/recall/gather_recall.log",
    benchmark:
        "logs/recall/gather_recall.tsv"
    params:
        digest=digest("recall"),
    shell:
        "entity-transformers gather-recall --params params.yaml --results results/recall --output {output:q} 2>&1 | tee {log:q}"
