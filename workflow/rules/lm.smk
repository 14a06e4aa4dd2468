"""Step lm (sections 3 and 4.1, figures 2 and 3).

in:  tokens with entity ids
out: results/lm/{model}/{seed}/: the model as transformers saves it, its learning curve, metrics and timing
Resumable state lies in work/lm, outside the outputs, which Snakemake and DVC delete before a step runs.
"""

from math import ceil

LONGEST = 1440 if PARAMS.run.max_minutes is None else ceil(PARAMS.run.max_minutes) + 30


rule train_lm:
    """Train a model of section models; called again it goes on where it stopped."""
    input:
        unpack(reads("lm")),
    output:
        writes("lm"),
    log:
        f"logs/lm/train_lm/{RUN}.log",
    benchmark:
        f"logs/lm/train_lm/{RUN}.tsv"
    priority: 5  # the longest jobs first, or a core waits for the last of them
    threads: PARAMS.run.threads
    resources:
        gpu=1,  # more of them, by --set-resources train_lm:gpu=N, train one model together
        nodes=1,  # on one machine of a cluster
        mem_mb=32000,
        # of a cluster, in minutes: longer than the training gives itself, which ends by saving
        runtime=LONGEST,
    params:
        digest=digest("lm"),
    shell:
        "entity-transformers train-lm --params params.yaml --corpus results/corpus"
        " --processes {resources.gpu}"
        " --model {wildcards.model:q} --seed {wildcards.seed:q} --work work/lm"
        " --output results/lm/{wildcards.model:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"
