"""Steps corpus, passages and examples (section 4.2): once per study.

out: data/{study}/text/{step}
"""

for name in ("corpus", "passages", "examples"):

    rule:
        name:
            f"make_{name}"
        input:
            reads(name),
        output:
            writes(name),
        log:
            f"logs/{{study}}/{name}.log",
        benchmark:
            f"logs/{{study}}/{name}.tsv"
        priority: 9
        # a corpus that may be missing or bad stops the study before all else begins
        threads: 1 if workflow.remote_exec or name != "corpus" else workflow.resource_settings.cores or 1
        params:
            step=name,
            file=file_of,
        shell:
            "entity-transformers run {params.step} --study {params.file:q} 2>&1 | tee {log:q}"
