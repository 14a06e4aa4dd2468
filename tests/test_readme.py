"""README: its Python prints what it quotes, its corpus is one, its tree is there."""

import re
from pathlib import Path

import pytest

from entity_transformers.corpus.readers import detect_format, read_corpus
from entity_transformers.models.weights import PACKAGES, SMOLLM2, find_folder

ROOT = Path(__file__).resolve().parents[1]
SHA256 = PACKAGES[SMOLLM2.removeprefix("pip:")].sha256
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
    return [text for name, text in found if name == language]


@pytest.mark.skipif(not find_folder(SHA256).is_dir(), reason="SmolLM2 is not unpacked here")
def test_its_python_runs_and_prints_what_is_quoted(capsys, monkeypatch):
    """But for the text that goes on, which another processor may write otherwise."""
    monkeypatch.chdir(ROOT)
    (block,) = blocks("python")
    exec(block, {})
    (quoted,) = (text for text in blocks("") if text.startswith("Kept, "))
    for text in (quoted, capsys.readouterr().out):
        kept, written = text.split("With it: ")
        assert all(len(one) > 80 for one in written.split("Without: "))
        assert kept == quoted.split("With it: ")[0]


def test_its_row_is_a_corpus(tmp_path: Path) -> None:
    (row,) = blocks("json")
    file = tmp_path / "letters.jsonl"
    file.write_text(row)
    assert detect_format(file)[0] == "jsonl"
    (document,) = read_corpus("jsonl", file)
    assert [(m.start, m.end, m.chain) for m in document.mentions] == [(0, 1, 7), (2, 3, 7)]


def test_its_quick_start_has_two_commands_and_its_tree_is_there() -> None:
    commands, _ = blocks("bash")
    lines = [line.split("#")[0].strip() for line in commands.splitlines()]
    assert lines == ["make sample", "make test"]
    (tree,) = (text for text in blocks("") if "attention.py is" in text)
    lines = re.findall(r"^( *)([^\s,]+(?:, [^\s,]+)*) {2,}\S", tree, re.MULTILINE)
    for indent, names in lines:
        for name in names.split(", "):
            place = ("src/entity_transformers/" if indent else "") + name
            assert re.search(r"NAME|STUDY", name) or (ROOT / place).exists(), name
    assert len(lines) > 12
