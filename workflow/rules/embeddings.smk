"""Step embeddings (section 4.1).

in:  a trained model, documents, tokens with entity ids
out: results/embeddings/{model}/{seed}/: words.safetensors (for the tagger), mentions.safetensors (for the comparison)
"""


rule extract_embeddings:
    """Vectors of words, mentions and entities."""
    input:
        model=f"results/lm/{RUN}/model.safetensors",
        config=f"results/lm/{RUN}/config.json",
        documents=expand("results/corpus/{split}.jsonl", split=SPLITS),
        tokens=expand("results/corpus/{split}.safetensors", split=SPLITS),
        tokenizer="results/corpus/tokenizer.json",
    output:
        multiext(
            f"results/embeddings/{RUN}/", "words.safetensors", "mentions.safetensors"
        ),
    log:
        f"logs/embeddings/extract_embeddings/{RUN}.log",
    benchmark:
        f"logs/embeddings/extract_embeddings/{RUN}.tsv"
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=digest("embeddings"),
    shell:
        "entity-transformers extract-embeddings --params params.yaml --corpus results/corpus --lm results/lm/{wildcards.model:q}/{wildcards.seed:q}"
        " --model {wildcards.model:q} --seed {wildcards.seed:q} --output results/embeddings/{wildcards.model:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"
