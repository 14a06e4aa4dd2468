"""Step perplexity (section 5, tables 2 and 3).

in:  a trained model, tokens with entity ids, LAMBADA passages
out: results/perplexity/{model}/{seed}/: perplexity.json, documents.csv, lambada.json, passages.csv
"""


rule score_perplexity:
    """Perplexity on the corpus, entities on, off and shuffled."""
    input:
        model=f"results/lm/{RUN}/model.safetensors",
        config=f"results/lm/{RUN}/config.json",
        tokens=expand(
            "results/corpus/{split}.safetensors", split=PARAMS.perplexity.splits
        ),
    output:
        multiext(f"results/perplexity/{RUN}/", "perplexity.json", "documents.csv"),
    log:
        f"logs/perplexity/score_perplexity/{RUN}.log",
    benchmark:
        f"logs/perplexity/score_perplexity/{RUN}.tsv"
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=digest("perplexity"),
    shell:
        "entity-transformers score-perplexity --params params.yaml --corpus results/corpus --lm results/lm/{wildcards.model:q}/{wildcards.seed:q}"
        " --model {wildcards.model:q} --seed {wildcards.seed:q} --output results/perplexity/{wildcards.model:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"


rule score_lambada:
    """Perplexity and accuracy on LAMBADA."""
    input:
        model=f"results/lm/{RUN}/model.safetensors",
        config=f"results/lm/{RUN}/config.json",
        passages="results/corpus/lambada.jsonl",
        tokenizer="results/corpus/tokenizer.json",
    output:
        multiext(f"results/perplexity/{RUN}/", "lambada.json", "passages.csv"),
    log:
        f"logs/perplexity/score_lambada/{RUN}.log",
    benchmark:
        f"logs/perplexity/score_lambada/{RUN}.tsv"
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=digest("perplexity"),
    shell:
        "entity-transformers score-lambada --params params.yaml --corpus results/corpus --lm results/lm/{wildcards.model:q}/{wildcards.seed:q}"
        " --model {wildcards.model:q} --seed {wildcards.seed:q} --output results/perplexity/{wildcards.model:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"
