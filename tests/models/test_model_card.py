"""The model card holds the facts it was given, and its own instructions run."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny import lively_model
from written import teach

from entity_transformers import GPT2EConfig
from entity_transformers.artifacts import read_json
from entity_transformers.cli.export import save_tokenizer
from entity_transformers.corpus.alignment import END
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch
from entity_transformers.models.model_card import render_card

PERPLEXITY = {"on": 123.456789, "off": 234.5}
FACTS: dict[str, Any] = {
    "name": "gpt2e, seed 1", "training_data": "A corpus of 7 words.", "licence": "CC BY 4.0",
    "labels": "gold", "training": {"steps": 30, "learning rate": 2e-5},
    "scores": {"perplexity a token, test": PERPLEXITY, "LAMBADA": {"on": None, "off": 99.0}},
}  # fmt: skip


def run(card: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each example of a card, which stands in the folder that it loads, leaves behind."""
    monkeypatch.chdir(folder)
    names, found = {}, []
    for code in re.findall(r"```python\n(.*?)```", card, re.DOTALL):
        with torch.no_grad():
            exec(code, names)
        found.append(dict(names))
    return found


def export(kind: str, folder: Path) -> tuple[Any, str]:
    """A tiny model in a folder, and its card."""
    tokenizer = teach("Anna met Bob and Anna left", 280, "every_word")
    model = lively_model(kind, tokenizer.get_vocab_size(), window=32)
    model.save(folder)
    save_tokenizer(tokenizer, folder, model.context)
    return model, render_card(model.kind, read_json(folder / "config.json"), **FACTS)


def head(card: str) -> Any:
    return yaml.safe_load(card.split("---")[1])


def test_card_holds_facts_scores_and_switches() -> None:
    config = GPT2EConfig(entity_values="both", memory_gradient_windows=2).to_dict()
    card = render_card(KINDS["gpt2e"], config, **FACTS)
    assert (head(card)["license"], head(card)["library_name"]) == ("other", "transformers")
    assert "| perplexity a token, test | 123.5 | 234.5 |" in card
    assert "| LAMBADA | - | 99 |" in card
    assert "| learning rate | 2e-05 |" in card
    assert "| entity_values | both |" in card
    assert "gold coreference labels" in card
    for labels, words in (
        ("none", "scored without entity labels"),
        ("lagged-resolver:names", "names, each known only after its mention has ended,"),
        ("next-resolver:names", "names, each given one token early,"),
    ):
        assert words in render_card(KINDS["gpt2e"], config, **FACTS | {"labels": labels})
    facts = FACTS | {"scores": None, "labels": "none"}
    card = render_card(KINDS["glove"], {"model_type": "glove", "width": 4}, **facts)
    assert head(card)["library_name"] == "gensim"
    assert "| width | 4 |" in card


def test_the_example_of_the_card_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, card = export("gpt2e", tmp_path)
    [names] = run(card, tmp_path, monkeypatch)
    tokens, ids = names["input_ids"], names["entity_ids"]
    assert names["tokenizer"].decode(tokens[0]) == f"{END}Anna met Bob."
    assert names["logits"].shape == (1, tokens.shape[1], names["model"].config.vocab_size)
    last = int((ids[0] == 2).nonzero().max())
    assert torch.equal(names["memory"].states[0, 2], names["hidden"][0, last])
    assert names["tokenizer"].model_max_length == 32


def test_the_card_of_a_pointer_reads_a_text(tmp_path: Path, monkeypatch) -> None:
    _, card = export("gpt2-pointer", tmp_path)
    [names] = run(card, tmp_path, monkeypatch)
    assert names["read"].perplexity != names["plain"].perplexity


HUB = ["gpt2", "gpt2-antecedent", "gpt1", "transformer-xl", "xlnet"]


@pytest.mark.parametrize("kind", [*HUB, "elmo", "taglm", "lstm"])
def test_a_model_without_entities_is_loaded_as_its_card_says(kind, tmp_path, monkeypatch):
    """By transformers where it can, and by the package: with the model's own logits."""
    model, card = export(kind, tmp_path)
    library = "transformers" if kind in HUB else "entity-transformers"
    assert head(card)["library_name"] == library
    assert (head(card).get("pipeline_tag") == "text-generation") == (kind[:3] == "gpt")
    assert "| perplexity a token, test | 234.5 |" in card
    halves = kind in ("elmo", "taglm")
    found = run(card, tmp_path, monkeypatch)
    assert len(found) == 2 if kind in HUB or halves else 1
    for names in found[: 2 if kind in HUB else 1]:
        with torch.no_grad():
            hidden, _ = model.encode(Batch(names["input_ids"]), model.start(1))
            wanted = hidden @ model.output_weight.T
        torch.testing.assert_close(names["logits"], wanted, rtol=0, atol=1e-5)
    if halves:
        assert found[1]["vectors"].shape[-1] == found[1]["encoder"].width
