"""Other studies whose weights or encoder this one starts from: made by the study itself.

out: files of other studies, which that study's rules write; here they are never deleted
"""

for (study, part), files in PLAN.studies().items():
    home = Path(PARAMS.root, "studies", study)
    encoder = PLAN.studies().get((study, "encoder"), [])

    rule:
        name:
            f"study_{study}_{part}".replace("-", "_").replace(".", "_")
        input:
            # one after the other: Snakemake locks a study that it runs
            [ancient(str(home / file)) for file in encoder if part == "weights"],
        output:
            [update(str(home / file)) for file in files],
        log:
            f"logs/studies/{study}_{part}.log",
        threads: ALONE
        resources:
            gpu=1,
            runtime=1440,
        params:
            digest=PLAN.digest_study(study, part),
            home=str(home),
            snakefile=workflow.main_snakefile,
            files=files,
        shell:
            "snakemake --snakefile {params.snakefile:q} --directory {params.home:q}"
            " --cores {threads} --resources gpu=1 -- {params.files} 2>&1 | tee {log:q}"
