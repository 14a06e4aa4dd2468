"""A checkout of its own with studies `tiny` and `next`, which starts from `tiny`; the tools."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny_study
from forked_tools import TOOLS, run_tool

ROOT = tiny_study.ROOT
BIN = Path(sys.executable).parent
LIMIT = 900  # seconds: only guards against hanging, on a busy or slow machine too
TITLE = """report: {title: "Ada's {tiny} study: 100 % {0}", """
OWN = """\
study: {steps: [corpus, lm, perplexity, embeddings, ner, report], seeds: [1]}
run: {checkpoint_every: 2}
models: {gpt2: null, lstm: null, gpt2-pointer: null, ngram: null}
"""
TINY = tiny_study.TINY.replace("report: {", TITLE) + OWN
NEXT = """\
base: tiny
study: {steps: [corpus, lm, perplexity, report]}
tokenizer: {kind: study, path: "study:tiny"}
models: {gpt2e: {initial_weights: "study:tiny/gpt2e/1"}}
"""
STUDIES = """\
      tiny: {file: studies/tiny.yaml, base: studies/sample.yaml, text: workflow/rules, models: workflow/rules}
      next: {file: studies/next.yaml, base: studies/tiny.yaml, text: data/tiny/text, models: data/tiny/models}
"""  # noqa: E501
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@example.org")
WHO = {f"GIT_{who}_{of}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for of in ("NAME", "EMAIL")}
COPIED = "src workflow profiles Snakefile Makefile dvc.yaml params.yaml studies/sample.yaml .dvc"
COPIED += " .dvcignore .gitignore .gitattributes"


def make_checkout(folder: Path) -> Path:
    """A committed copy of what git tracks of this checkout's code, with the two studies."""
    files = run("git", "ls-files", *COPIED.split(), folder=ROOT).splitlines()
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    (folder / "studies/tiny.yaml").write_text(TINY)
    (folder / "studies/next.yaml").write_text(NEXT)
    stages = re.sub(r"(?m)^      [\w-]+: \{file: .*\n", "", (folder / "dvc.yaml").read_text())
    (folder / "dvc.yaml").write_text(stages.replace("  - studies:\n", f"  - studies:\n{STUDIES}"))
    run("git", "init", "--quiet", folder=folder)
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    """Commit all that git does not ignore."""
    run("git", "add", "--all", folder=folder)
    run(*GIT, "commit", "--quiet", "--allow-empty", "--message", "now", folder=folder)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """What the tools of this environment need to run the code of that checkout."""
    path = os.pathsep.join(filter(None, [str(folder / "src"), os.environ.get("PYTHONPATH")]))
    return os.environ | WHO | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "DVC_NO_ANALYTICS": "1"} | more  # fmt: skip


def run(*command: str, folder: Path, check: bool = True, **more: str) -> str:
    """What a command in ``folder`` printed; AssertionError with it where it fails and ``check``."""
    env = environment(folder, **more)
    if command[0] in TOOLS:
        done = run_tool(command, folder, env, LIMIT)
    else:
        how = {"cwd": folder, "env": env, "capture_output": True, "text": True, "timeout": LIMIT}
        done = subprocess.run(command, check=False, **how)
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def wait_for(find: Callable[[], Any], process: subprocess.Popen[Any]) -> Any:
    """What is found at last of a process that runs; AssertionError where it ends before."""
    end = time.monotonic() + LIMIT
    while not (found := find()):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def snakemake(folder: Path, *arguments: str, study: str = "tiny", check: bool = True) -> str:
    """Run Snakemake on a study of the checkout."""
    which = () if study == "paper" else ("--configfile", f"studies/{study}.yaml")
    return run("snakemake", *which, *arguments, folder=folder, check=check)


def planned(folder: Path, study: str = "tiny") -> set[str]:
    """The jobs that Snakemake would run, as RULE STUDY MODEL."""
    said = snakemake(folder, "--dry-run", study=study)
    jobs = set()
    for block in re.split(r"^rule (?=\w+:$)", said, flags=re.MULTILINE)[1:]:
        found = dict(re.findall(r"(study|model)=([\w-]+)", block))
        jobs.add(" ".join([block.split(":")[0], *found.values()]))
    return {job for job in jobs if " " in job}


def read_records(folder: Path) -> dict[str, Any]:
    """The record of every run of the checkout, by its path."""
    found = sorted(folder.glob("data/**/run.json"))
    return {str(path.relative_to(folder)): json.loads(path.read_text()) for path in found}
