"""Step transfer: fine-tuning on tasks, as in GPT-1.

in:  a trained model, the tasks' examples
out: results/transfer/{model}/{seed}/: scores of each task and variant
Resumable state lies in work/transfer, outside the outputs, which Snakemake and DVC delete before a step runs.
"""


rule finetune:
    """Fine-tune a model on each task; called again it goes on where it stopped."""
    input:
        unpack(reads("transfer")),
    output:
        writes("transfer"),
    log:
        f"logs/transfer/finetune/{RUN}.log",
    benchmark:
        f"logs/transfer/finetune/{RUN}.tsv"
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=digest("transfer"),
    shell:
        "entity-transformers finetune --params params.yaml --corpus results/corpus --examples results/examples"
        " --lm results/lm/{wildcards.model:q}/{wildcards.seed:q} --model {wildcards.model:q}"
        " --seed {wildcards.seed:q} --work work/transfer"
        " --output results/transfer/{wildcards.model:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"
