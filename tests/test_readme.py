"""README: its Python and commands run as they stand, on tiny models and studies, and print what it
quotes.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from tiny_study import BIN, ROOT, TINY, copy_checkout, python_path, run
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.cli.study import write_study
from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.marked import read_marked

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_its_python_runs_and_prints_what_is_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a GPT-2 of two thin layers in place of the hub's."""
    GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2)).save_pretrained(tmp_path)
    encoder = str(tmp_path / "tokenizer.json")
    learn_tokenizer([read_marked("[1 Anna] met [2 Bob].")], 300, "natural").save(encoder)
    (block,) = blocks("python")
    local = block.replace('Tokenizer.from_pretrained("gpt2")', f"Tokenizer.from_file({encoder!r})")
    assert local.count('"gpt2"') == 1
    names: dict[str, Any] = {}
    exec(local.replace('"gpt2"', repr(str(tmp_path))), names)
    (quoted,) = (text for text in blocks("") if "EntityMemory" in text)
    *lines, dots = quoted.replace("768", "16").splitlines()
    printed = capsys.readouterr().out.splitlines()
    assert printed[: len(lines)] == lines
    assert dots == "..."
    assert "".join(printed[len(lines) :]).strip()  # the continued text
    assert names["model"].config.n_embd == 16


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with a tiny sample, installed as make would: what README's commands need."""
    root = copy_checkout(tmp_path_factory.mktemp("readme") / "checkout")
    files = (".gitignore", "Makefile", "params.yaml", "pyproject.toml", "constraints.txt")
    for name in (*files, "requirements.txt", "requirements-build.txt"):
        shutil.copy(ROOT / name, root / name)
    run("git", "init", "--quiet", folder=root)
    shutil.copytree(ROOT / "studies/ontogum", root / "studies/ontogum")
    (root / "studies/books").mkdir()  # which it starts from
    shutil.copy(ROOT / "studies/books/params.yaml", root / "studies/books")
    sample = root / "studies/sample"
    sample.mkdir()
    whole = root / "studies/whole"
    whole.mkdir()
    shutil.copy(ROOT / "studies/sample/study.yaml", whole)
    steps = "study: {steps: [corpus, lm, perplexity, memory, report]}\nmodels: {lstm: null}\n"
    (sample / "study.yaml").write_text(TINY.format(sample="../whole/study.yaml") + steps)
    write_study(sample)
    (root / "tests").mkdir()
    shutil.copy(ROOT / "tests/test_logs.py", root / "tests")
    (root / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):  # of the environment that this runs in
        if (BIN.parent / name).exists():
            (root / ".venv" / name).symlink_to(BIN.parent / name)
    (root / ".venv/ready").touch()
    row = json.loads(blocks("json")[0])
    rows = (row | {"name": f"letter-{number}"} for number in range(40))
    (root / "letters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "book.txt").write_text("It was a dark night.\n\nAnna met Bob, and Bob ran.\n\n" * 80)
    return root


@pytest.mark.slow
def test_its_commands_run_in_their_order(checkout: Path) -> None:
    source = {"PYTHONPATH": python_path(checkout / "src")}
    printed = {}
    for line in "".join(blocks("bash")).splitlines():
        words = shlex.split(line, comments=True)
        if line.startswith("make study"):  # what init wrote, but shorter
            values = checkout / "studies/novel/study.yaml"
            values.write_text(
                re.sub(r"(?m)^  (steps|warmup_steps): \d+$", r"  \1: 8", values.read_text())
            )
        printed[" ".join(words)] = run(*words, folder=checkout, **source)
    assert re.search(r"^Report: /\S+/report\.html$", printed["make sample"], re.MULTILINE)
    assert re.search(r"\d+ passed", printed["make test"])
    assert "nats per token: " in printed["entity-transformers demo"]
    assert ", 0 wrong" in printed["entity-transformers verify studies/ontogum"]
    assert (checkout / "studies/letters/corpus.jsonl").is_file()
    report = f"Report: {checkout}/studies/novel/results/report/report.html"
    assert report in printed["make study STUDY=novel"]
    known = printed["entity-transformers remember book.txt"]
    assert re.search(r"^Bob +160 +\d+ +(yes|no)$", known, re.MULTILINE)
    assert "No table 5" in printed["entity-transformers init novel --corpus book.txt"]
