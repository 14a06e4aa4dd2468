"""Step ner (sections 4.1 and 5, table 5).

in:  documents with named entities, frozen word vectors
out: results/ner/{model}/{seed}/: tagger.safetensors, history.csv, metrics.json, documents.csv
"""


rule train_ner:
    """Train the BiLSTM-CRF tagger on the frozen vectors."""
    input:
        unpack(reads("ner")),
    output:
        multiext(f"results/ner/{RUN}/", "tagger.safetensors", "history.csv"),
    log:
        f"logs/ner/train_ner/{RUN}.log",
    benchmark:
        f"logs/ner/train_ner/{RUN}.tsv"
    priority: 3  # longer than the other steps of a model
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=digest("ner"),
    shell:
        "entity-transformers train-ner --params params.yaml --corpus results/corpus"
        " --embeddings results/embeddings/{wildcards.model:q}/{wildcards.seed:q}"
        " --model {wildcards.model:q} --seed {wildcards.seed:q}"
        " --output results/ner/{wildcards.model:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"


rule score_ner:
    """Precision, recall and F1 of the tagger, by span and by tag."""
    input:
        unpack(reads("ner")),
        tagger=f"results/ner/{RUN}/tagger.safetensors",
        history=f"results/ner/{RUN}/history.csv",
    output:
        multiext(f"results/ner/{RUN}/", "metrics.json", "documents.csv"),
    log:
        f"logs/ner/score_ner/{RUN}.log",
    benchmark:
        f"logs/ner/score_ner/{RUN}.tsv"
    threads: PARAMS.run.threads
    params:
        digest=digest("ner"),
    shell:
        "entity-transformers score-ner --params params.yaml --corpus results/corpus"
        " --embeddings results/embeddings/{wildcards.model:q}/{wildcards.seed:q}"
        " --model {wildcards.model:q} --seed {wildcards.seed:q} --tagger {input.tagger:q}"
        " --output results/ner/{wildcards.model:q}/{wildcards.seed:q} 2>&1 | tee {log:q}"
