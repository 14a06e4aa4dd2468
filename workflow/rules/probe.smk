"""Step probe (section 6, outlook).

in:  a trained model, documents, tokens with gold entity ids
out: results/probe/{model}/{seed}/: probe.json, heads.csv (every head), documents.csv (the chosen heads, document by document)
"""

PROBED = [PARAMS.probe.choose, PARAMS.probe.report]


rule probe_attention:
    """Which attention heads point from a mention to an earlier one of its chain."""
    input:
        model=f"results/lm/{RUN}/model.safetensors",
        config=f"results/lm/{RUN}/config.json",
        documents=expand("results/corpus/{split}.jsonl", split=PROBED),
        tokens=expand("results/corpus/{split}.safetensors", split=PROBED),
    output:
        multiext(f"results/probe/{RUN}/", "probe.json", "heads.csv", "documents.csv"),
    log:
        f"logs/probe/probe_attention/{RUN}.log",
    benchmark:
        f"logs/probe/probe_attention/{RUN}.tsv"
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=digest("probe"),
    shell:
        "entity-transformers probe-attention --params params.yaml --corpus results/corpus --lm results/lm/{wildcards.model:q}/{wildcards.seed:q}"
        " --model {wildcards.model:q} --seed {wildcards.seed:q} --output results/probe/{wildcards.model:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"
