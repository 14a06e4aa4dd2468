"""The model card holds the facts it was given, and its own instructions run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny import lively_model, tiny_model

from entity_transformers import GPT2EConfig, GPT2EForCausalLM
from entity_transformers.artifacts import read_json
from entity_transformers.cli.export import save_tokenizer
from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.corpus.encoding import END
from entity_transformers.models.base import Batch
from entity_transformers.models.model_card import (
    describe_labels,
    render_model_card,
    render_plain_card,
    render_vectors_card,
)

WORDS = Document("d", 0, "train", "", tuple("Anna met Bob and Anna left".split()), (0,))
FACTS = {
    "name": "gpt2e, seed 1",
    "training_data": "A corpus of 7 words.",
    "licence": "CC BY 4.0",
    "labels": "gold",
    "training": {"steps": 30, "learning rate": 2e-5},
    "metrics": {
        "perplexity a token, test": {"on": 123.456789, "off": 234.5},
        "LAMBADA, last word": {"on": None, "off": 99.0},
    },
}


def test_card_holds_data_scores_switches_and_the_leak() -> None:
    card = render_model_card(
        GPT2EConfig(entity_values="both", memory_gradient_windows=2).to_dict(), FACTS
    )
    front = yaml.safe_load(card.split("---")[1])
    assert front["library_name"] == "transformers"
    assert front["license"] == "other"
    assert card.endswith("they were trained on: CC BY 4.0.\n")
    assert "MIT licence" in card
    assert "A corpus of 7 words." in card
    assert "| perplexity a token, test | 123.5 | 234.5 |" in card
    assert "| LAMBADA, last word | - | 99 |" in card
    assert "| learning rate | 2e-05 |" in card
    assert "| entity_values | both |" in card
    assert "| memory_write | last |" in card
    assert "| memory_gradient_windows | 2 |" in card
    assert "gold coreference labels" in card
    with pytest.raises(ValueError, match="needs metrics among its facts"):
        render_model_card({}, {key: value for key, value in FACTS.items() if key != "metrics"})


def test_the_example_of_the_card_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = learn_tokenizer([WORDS], 280, "every_word")
    config = GPT2EConfig(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=16,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=tokenizer.token_to_id(END),
        eos_token_id=tokenizer.token_to_id(END),
    )
    GPT2EForCausalLM(config).save_pretrained(tmp_path)
    save_tokenizer(tokenizer, tmp_path, config.n_positions)
    (code,) = re.findall(
        r"```python\n(.*?)```", render_model_card(config.to_dict(), FACTS), re.DOTALL
    )
    monkeypatch.chdir(tmp_path)  # the example stands in the folder that it loads
    names: dict[str, Any] = {}
    exec(code, names)
    tokens, ids = names["input_ids"], names["entity_ids"]
    assert names["tokenizer"].decode(tokens[0]) == f"{END}Anna met Bob."
    assert names["logits"].shape == (1, tokens.shape[1], config.vocab_size)
    last = int((ids[0] == 2).nonzero().max())
    assert torch.equal(names["memory"].states[0, 2], names["hidden"][0, last])
    assert names["tokenizer"].model_max_length == 16


def test_the_card_of_vectors_holds_their_facts_and_how_they_are_read() -> None:
    facts = {
        "name": "glove, seed 1",
        "about": "Static vectors.",
        "training_data": "7 words.",
        "licence": "CC BY 4.0",
        "training": {"epochs": 3, "rate": 0.05},
    }
    config = {"model_type": "glove", "width": 4, "vocabulary": 5}
    card = render_vectors_card(config, facts)
    assert yaml.safe_load(card.split("---")[1])["library_name"] == "gensim"
    for text in (
        "# glove, seed 1",
        "Static vectors.",
        "7 words.",
        "| width | 4 |",
        "| rate | 0.05 |",
    ):
        assert text in card
    assert "n-grams" not in card
    assert "fasttext.load(Path())" in render_vectors_card(config | {"longest": 6}, facts)
    with pytest.raises(ValueError, match="needs about, licence, training among its facts"):
        render_vectors_card(config, {"name": "x", "training_data": "y"})


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ("gold", "gold coreference chains"),
        ("none", "no entity labels"),
        ("resolver:names-causal", "coreference chains of the resolver names-causal"),
        (
            "lagged-resolver:names",
            "coreference chains of the resolver names, each known only after its mention has ended",
        ),
    ],
)
def test_the_card_says_whose_labels_the_scores_with_entities_use(layer: str, words: str) -> None:
    assert describe_labels(layer) == words
    card = render_model_card(GPT2EConfig().to_dict(), FACTS | {"labels": layer})
    assert ("gold coreference labels" in card) == (layer == "gold")
    assert (f"Scores with entities use {words}," in card) == ("resolver" in layer)
    assert ("scored without entity labels" in card) == (layer == "none")


@pytest.mark.parametrize("kind", ["gpt2-pointer", "gpt2e-pointer"])
def test_the_card_of_a_pointer_reads_a_text(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = learn_tokenizer([WORDS], 280, "every_word")
    model = tiny_model(kind, tokenizer.get_vocab_size())
    model.save(tmp_path)
    save_tokenizer(tokenizer, tmp_path, model.context)
    card = render_model_card(read_json(tmp_path / "config.json"), FACTS)
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(tmp_path)  # the example stands in the folder that it loads
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["read"].perplexity != names["plain"].perplexity
    assert "with an entity pointer at its output" in card


HUB = ["gpt2", "gpt2-antecedent", "gpt1", "transformer-xl", "xlnet"]


@pytest.mark.parametrize("kind", HUB)
@torch.no_grad()
def test_transformers_loads_a_folder_as_its_card_says(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = learn_tokenizer([WORDS], 280, "every_word")
    model = lively_model(kind, tokenizer.get_vocab_size(), window=32)
    model.save(tmp_path)
    save_tokenizer(tokenizer, tmp_path, model.context)
    card = render_plain_card(model.kind, read_json(tmp_path / "config.json"), FACTS)
    head = yaml.safe_load(card.split("---")[1])
    assert head["library_name"] == "transformers"
    assert (head.get("pipeline_tag") == "text-generation") == (kind[:3] == "gpt")
    theirs, ours = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert "entity_transformers" not in theirs
    monkeypatch.chdir(tmp_path)  # the examples stand in the folder that they load
    names: dict[str, Any] = {}
    exec(theirs, names)
    hidden, _ = model.encode(Batch(names["input_ids"]), model.start(1))
    wanted = hidden @ model.output_weight.T
    torch.testing.assert_close(names["logits"], wanted, rtol=0, atol=1e-5)
    exec(ours, names)
    hidden, _ = model.encode(Batch(names["input_ids"]), model.start(1))
    torch.testing.assert_close(names["logits"], hidden @ model.output_weight.T, rtol=0, atol=1e-5)
    rows = re.findall(r"^\| (\w+) \|", card, re.MULTILINE)
    assert "vocab_size" in rows
    assert not [name for name in rows if name.startswith(("summary", "start_n", "end_n", "use_"))]
    assert ("Scores are of prediction from left to right alone." in card) == (kind == "xlnet")


@pytest.mark.parametrize("kind", ["elmo", "taglm", "lstm"])
def test_the_card_of_a_model_without_entities_holds_its_facts_and_runs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = learn_tokenizer([WORDS], 280, "every_word")
    vocabulary = tokenizer.get_vocab_size()
    model = tiny_model(kind, vocabulary)
    model.save(tmp_path)
    save_tokenizer(tokenizer, tmp_path, model.context)
    monkeypatch.chdir(tmp_path)  # the example stands in the folder that it loads
    card = render_plain_card(model.kind, read_json(tmp_path / "config.json"), FACTS)
    assert yaml.safe_load(card.split("---")[1])["library_name"] == "entity-transformers"
    assert f"of kind {model.kind.label}, without entities" in card
    assert "A corpus of 7 words." in card
    assert "| perplexity a token, test | 234.5 |" in card
    assert "| LAMBADA, last word | 99 |" in card
    halves = kind in ("elmo", "taglm")
    assert ("Scores are of prediction by its forward half alone." in card) == halves
    names: dict[str, Any] = {}
    examples = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    with torch.no_grad():
        for example in examples:
            exec(example, names)
    assert tokenizer.decode(names["input_ids"][0].tolist()) == "Anna met Bob."
    assert names["logits"].shape == (*names["input_ids"].shape, vocabulary)
    assert len(examples) == 1 + halves
    if halves:
        assert names["vectors"].shape[-1] == names["encoder"].width
    with pytest.raises(ValueError, match="needs metrics among its facts"):
        render_plain_card(model.kind, {}, {k: v for k, v in FACTS.items() if k != "metrics"})
