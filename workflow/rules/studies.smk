"""Other studies whose weights or encoder this one starts from: made by the study itself.

out: files of other studies, which that study's rules write; here they are never deleted
"""

for study, files in PLAN.studies().items():
    home = Path(PARAMS.root, "studies", study)

    rule:
        name:
            f"study_{study}".replace("-", "_").replace(".", "_")
        output:
            [update(str(home / file)) for file in files],
        log:
            f"logs/studies/{study}.log",
        threads: workflow.cores
        resources:
            gpu=1,
        params:
            digest=PLAN.digest_study(study),
            home=str(home),
            snakefile=workflow.main_snakefile,
            files=files,
        shell:
            "snakemake --snakefile {params.snakefile:q} --directory {params.home:q}"
            " --cores {threads} --resources gpu=1 -- {params.files} 2>&1 | tee {log:q}"
