"""Steps that are one command per model and seed, whose input and output their entries name.

out: results/{step}/{model}/{seed}/
"""

for step in PLAN.steps:
    if has_rules(step):
        continue

    rule:
        name:
            rule_of(step)
        input:
            unpack(reads(step.name)),
        output:
            writes(step.name),
        log:
            f"logs/{step.name}/{rule_of(step)}/{RUN}.log",
        benchmark:
            f"logs/{step.name}/{rule_of(step)}/{RUN}.tsv"
        threads: PARAMS.run.threads if step.gpu else 1
        resources:
            gpu=int(step.gpu),
        params:
            digest=digest(step.name),
            command=command(step),
        shell:
            "{params.command} 2>&1 | tee {log:q}"
