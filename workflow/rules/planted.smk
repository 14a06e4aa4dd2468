"""Step planted (beyond the paper): what a memory carries past the window.

in:  nothing; the documents are generated
out: results/planted/{variant}/{seed}/: accuracy.json, timing.json; results/planted/accuracy.json: all of them
"""

PLANTED = expand(
    "results/planted/{variant}/{seed}",
    variant=PARAMS.planted.variants,
    seed=PARAMS.planted.seeds,
)


rule train_planted:
    """Train one way of reading and learning the memory on planted facts, and ask for them."""
    output:
        multiext("results/planted/{variant}/{seed}/", "accuracy.json", "timing.json"),
    log:
        "logs/planted/train_planted/{variant}/{seed}.log",
    benchmark:
        "logs/planted/train_planted/{variant}/{seed}.tsv"
    wildcard_constraints:
        seed="|".join(map(str, PARAMS.planted.seeds)),
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=digest("planted", without={"variants", "seeds"}),
    shell:
        "entity-transformers train-planted --params params.yaml --variant {wildcards.variant:q} --seed {wildcards.seed:q}"
        " --output results/planted/{wildcards.variant:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"


rule gather_planted:
    """The accuracies of every variant and seed in one file; with none, the file says so."""
    input:
        expand("{run}/accuracy.json", run=PLANTED),
    output:
        "results/planted/accuracy.json",
    log:
        "logs/planted/gather_planted.log",
    benchmark:
        "logs/planted/gather_planted.tsv"
    params:
        digest=digest("planted"),
    shell:
        "entity-transformers gather-planted --params params.yaml --results results/planted --output {output:q} 2>&1 | tee {log:q}"
