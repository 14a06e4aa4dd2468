"""README: its Python runs on a tiny model and prints what it quotes, its corpus is one, its tree is
there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.marked import read_marked
from entity_transformers.corpus.readers import detect_format, read_corpus

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
    return [text for name, text in found if name == language]


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


def test_its_row_is_a_corpus(tmp_path: Path) -> None:
    (row,) = blocks("json")
    file = tmp_path / "letters.jsonl"
    file.write_text(row)
    assert detect_format(file)[0] == "jsonl"
    (document,) = [one for _, one in _flat(read_corpus("jsonl", file))]
    assert [(m.start, m.end, m.chain) for m in document.mentions] == [(0, 1, 7), (2, 3, 7)]


def _flat(corpus: Any) -> list[tuple[str, Any]]:
    return [one if isinstance(one, tuple) else ("", one) for one in corpus]


def test_its_quick_start_has_two_commands_and_its_tree_is_there() -> None:
    (commands,) = blocks("bash")
    assert [line.split("#")[0].split() for line in commands.splitlines()] == [
        ["make", "sample"], ["make", "test"],
    ]  # fmt: skip
    (tree,) = (text for text in blocks("") if "attention.py is" in text)
    lines = re.findall(r"^( *)([^\s,]+(?:, [^\s,]+)*) {2,}\S", tree, re.MULTILINE)
    for indent, names in lines:
        for name in names.split(", "):
            place = ("src/entity_transformers/" if indent else "") + name
            assert re.search(r"NAME|STUDY", name) or (ROOT / place).exists(), name
    assert len(lines) > 12
