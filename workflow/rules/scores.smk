"""What is measured of each model and seed (sections 5 and 6), a rule per step.

out: data/{study}/scores/{step}/{model}/{seed}
"""

for step in [step for step in STEPS.values() if step.phase == "score"]:

    rule:
        name:
            f"score_{step.name}"
        input:
            reads(step.name),
        output:
            writes(step.name),
        log:
            f"logs/{{study}}/{step.name}/{{model}}/{{seed}}.log",
        benchmark:
            f"logs/{{study}}/{step.name}/{{model}}/{{seed}}.tsv"
        priority: 3 if step.name == "ner" else 0  # longer than the other steps of a model
        threads: threads_of if step.gpu else 1
        resources:
            gpu=int(step.gpu),
        params:
            step=step.name,
            file=file_of,
        shell:
            "entity-transformers run {params.step}"
            " --study {params.file:q}"
            " --model {wildcards.model:q}"
            " --seed {wildcards.seed:q}"
            " 2>&1 | tee {log:q}"
