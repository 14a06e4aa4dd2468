"""Step passages (section 4.2).

in:  the LAMBADA passages, local, downloaded or generated; documents with parts of speech
out: results/passages/: lambada.jsonl, lambada_tags.json (the parts of speech of its target words), counts
"""


rule download_lambada:
    """Fetch the passages, or find them on disk, and list their file with its checksum."""
    output:
        "results/passages/lambada_source.json",
    log:
        "logs/passages/download_lambada.log",
    benchmark:
        "logs/passages/download_lambada.tsv"
    priority: 8
    threads: ALONE
    params:
        digest=digest("passages"),
    shell:
        "entity-transformers download-lambada --params params.yaml --cache work/downloads"
        " --output {output:q} 2>&1 | tee {log:q}"


rule prepare_lambada:
    """Passages and their target words, and how many there are."""
    input:
        source="results/passages/lambada_source.json",
    output:
        "results/passages/lambada.jsonl",
        "results/passages/lambada_statistics.json",
    log:
        "logs/passages/prepare_lambada.log",
    benchmark:
        "logs/passages/prepare_lambada.tsv"
    priority: 8
    threads: ALONE
    params:
        digest=digest("passages"),
    shell:
        "entity-transformers prepare-lambada --params params.yaml --source {input.source:q} --cache work/downloads"
        " --output results/passages 2>&1 | tee {log:q}"


rule tag_lambada:
    """Parts of speech of the target words, by a tagger that is trained on the training split."""
    input:
        documents=inputs(STEPS["passages"])["corpus"],
        passages="results/passages/lambada.jsonl",
    output:
        "results/passages/lambada_tags.json",
    log:
        "logs/passages/tag_lambada.log",
    benchmark:
        "logs/passages/tag_lambada.tsv"
    params:
        digest=digest("passages"),
    shell:
        "entity-transformers tag-lambada --params params.yaml --corpus results/corpus"
        " --passages results/passages --output {output:q} 2>&1 | tee {log:q}"
