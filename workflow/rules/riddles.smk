"""Step riddles: what could have given numbers of the paper that cannot be what they are called (PAPER.md).

in:  pieces with entity ids, documents with their sentences
out: results/riddles/{riddle}.json, one for each of riddles.candidates, and riddles.json, which holds them all
"""


rule try_riddle:
    """Short trainings from random weights for one candidate."""
    input:
        pieces=expand("results/corpus/{split}.safetensors", split=["train", "dev"]),
        documents=expand("results/corpus/{split}.jsonl", split=["train", "dev"]),
        tokenizer="results/corpus/tokenizer.json",
    output:
        "results/riddles/{riddle}.json",
    log:
        "logs/riddles/try_riddle/{riddle}.log",
    benchmark:
        "logs/riddles/try_riddle/{riddle}.tsv"
    threads: PARAMS.run.threads
    resources:
        gpu=1,
    params:
        digest=digest("riddles", without={"candidates"}),
    shell:
        "entity-transformers try-riddle --params params.yaml --corpus results/corpus --riddle {wildcards.riddle:q}"
        " --output {output:q} 2>&1 | tee {log:q}"


rule gather_riddles:
    """All candidates that were tried, in one file."""
    input:
        expand("results/riddles/{riddle}.json", riddle=PARAMS.riddles.candidates),
    output:
        "results/riddles/riddles.json",
    log:
        "logs/riddles/gather_riddles.log",
    benchmark:
        "logs/riddles/gather_riddles.tsv"
    params:
        digest=digest("riddles"),
    shell:
        "entity-transformers gather-riddles --params params.yaml --riddles results/riddles --output {output:q} 2>&1 | tee {log:q}"
