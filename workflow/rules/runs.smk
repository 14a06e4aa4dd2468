"""Steps that are one command per model and seed, whose input and output their entries name.

out: results/{step}/{model}/{seed}/
"""

for step in PLAN.steps:
    if has_rules(step):
        continue

    rule:
        name:
            step.rules[0]
        input:
            unpack(reads(step.name)),
        output:
            writes(step.name),
        log:
            f"logs/{step.name}/{step.rules[0]}/{RUN}.log",
        benchmark:
            f"logs/{step.name}/{step.rules[0]}/{RUN}.tsv"
        threads: PARAMS.run.threads if step.gpu else 1
        resources:
            gpu=int(step.gpu),
        params:
            digest=digest(step.name),
            command=command(step),
        shell:
            "{params.command} 2>&1 | tee {log:q}"
