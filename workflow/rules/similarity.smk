"""Step similarity (section 5, table 4).

in:  vectors of mentions and entities
out: results/similarity/{model}/{seed}/similarity.json
"""


rule score_similarity:
    """Cosine similarity of mentions and entities by part of speech."""
    input:
        mentions=f"results/embeddings/{RUN}/mentions.safetensors",
    output:
        f"results/similarity/{RUN}/similarity.json",
    log:
        f"logs/similarity/score_similarity/{RUN}.log",
    benchmark:
        f"logs/similarity/score_similarity/{RUN}.tsv"
    params:
        digest=digest("similarity"),
    shell:
        "entity-transformers score-similarity --params params.yaml --embeddings results/embeddings/{wildcards.model:q}/{wildcards.seed:q}"
        " --model {wildcards.model:q} --seed {wildcards.seed:q} --output results/similarity/{wildcards.model:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"
