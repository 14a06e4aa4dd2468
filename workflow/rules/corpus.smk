"""Step corpus (section 4.2).

in:  the sample, or a licensed, downloaded or local corpus with chains; GPT-2's byte-pair encoder or
     none
out: results/corpus/: {split}.jsonl (documents), {split}.safetensors (tokens with entity ids),
     tokenizer.json, counts
"""

# one that the corpus lacks is an empty file
from entity_transformers.corpus.document import SPLITS


rule download_corpus:
    """Fetch the corpus, or find it on disk, and list its files with checksums."""
    output:
        "results/corpus/source.json",
    log:
        "logs/corpus/download_corpus.log",
    benchmark:
        "logs/corpus/download_corpus.tsv"
    priority: 9
    threads: ALONE
    params:
        digest=digest("corpus"),
    shell:
        "entity-transformers download-corpus --params params.yaml --cache work/downloads"
        " --output {output:q} 2>&1 | tee {log:q}"


rule prepare_corpus:
    """Documents, chains, parts of speech and named entities, split by split, and their counts."""
    input:
        source="results/corpus/source.json",
    output:
        expand("results/corpus/{split}.jsonl", split=SPLITS),
        "results/corpus/statistics.json",
    log:
        "logs/corpus/prepare_corpus.log",
    benchmark:
        "logs/corpus/prepare_corpus.tsv"
    priority: 9
    threads: ALONE
    params:
        digest=digest("corpus"),
    shell:
        "entity-transformers prepare-corpus --params params.yaml --source {input.source:q} --cache work/downloads"
        " --output results/corpus 2>&1 | tee {log:q}"


rule train_tokenizer:
    """Learn a byte-pair encoder from the training split, or take GPT-2's own."""
    input:
        "results/corpus/train.jsonl",
        PLAN.taken(STEPS["corpus"]),
    output:
        "results/corpus/tokenizer.json",
    log:
        "logs/corpus/train_tokenizer.log",
    benchmark:
        "logs/corpus/train_tokenizer.tsv"
    priority: 9
    threads: ALONE
    params:
        digest=digest("corpus"),
    shell:
        "entity-transformers train-tokenizer --params params.yaml --corpus results/corpus"
        " --cache work/downloads --output {output:q} 2>&1 | tee {log:q}"


rule align_corpus:
    """Encode the words and give every token the entity of its word (table 1)."""
    input:
        documents=expand("results/corpus/{split}.jsonl", split=SPLITS),
        tokenizer="results/corpus/tokenizer.json",
    output:
        expand("results/corpus/{split}.safetensors", split=SPLITS),
        "results/corpus/alignment.json",
    log:
        "logs/corpus/align_corpus.log",
    benchmark:
        "logs/corpus/align_corpus.tsv"
    priority: 9
    threads: ALONE
    params:
        digest=digest("corpus"),
    shell:
        "entity-transformers align-corpus --params params.yaml --corpus results/corpus --tokenizer {input.tokenizer:q}"
        " --output results/corpus 2>&1 | tee {log:q}"
