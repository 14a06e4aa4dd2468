"""Step lm (sections 3 and 4.1, figures 2 and 3): one training per model and seed.

out: data/{study}/models/{model}/{seed}: the model as transformers saves it, and its curve
A training that was stopped goes on from its checkpoint below work/lm.
"""

from math import ceil

LIMIT = PLAN.params.run.max_minutes


rule train_lm:
    """Train a model of section models; it resumes if it was stopped."""
    input:
        reads("lm"),
    output:
        writes("lm"),
    log:
        "logs/{study}/lm/{model}/{seed}.log",
    benchmark:
        "logs/{study}/lm/{model}/{seed}.tsv"
    priority: 5  # the longest jobs first, or a core waits for the last of them
    threads: threads_of
    resources:
        gpu=1,
        nodes=1,  # on one machine of a cluster
        mem_mb=32000,
        # of a cluster, in minutes: longer than the training gives itself, which ends by saving
        runtime=1440 if LIMIT is None else ceil(LIMIT) + 30,
    params:
        file=file_of,
    shell:
        "entity-transformers run lm"
        " --study {params.file:q}"
        " --model {wildcards.model:q}"
        " --seed {wildcards.seed:q}"
        " 2>&1 | tee {log:q}"
