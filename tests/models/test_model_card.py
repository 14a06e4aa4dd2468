"""The model card holds the facts it was given, and its examples run and give its numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny import lively_model

from entity_transformers import GPT2EConfig
from entity_transformers.artifacts import read_json
from entity_transformers.cli.export import save_tokenizer
from entity_transformers.corpus.alignment import learn_tokenizer
from entity_transformers.corpus.document import Document
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
ENTITIES = ["gpt2e", "gpt2-pointer", "gpt2e-pointer"]
HUB = ["gpt2", "gpt2-antecedent", "gpt1", "transformer-xl", "xlnet"]
OWN = ["elmo", "taglm", "lstm"]


@pytest.mark.parametrize("kind", [*ENTITIES, *HUB, *OWN])
@torch.no_grad()
def test_a_card_holds_its_facts_and_its_examples_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = learn_tokenizer([WORDS], 280, "every_word")
    model = lively_model(kind, tokenizer.get_vocab_size(), window=32)
    model.save(tmp_path)
    save_tokenizer(tokenizer, tmp_path, model.context)
    monkeypatch.chdir(tmp_path)  # the examples stand in the folder that they load
    config = read_json(tmp_path / "config.json")
    own = kind in ENTITIES
    render = render_model_card if own else lambda *given: render_plain_card(model.kind, *given)
    card = render(config, FACTS)
    head = yaml.safe_load(card.split("---")[1])
    theirs = kind in HUB or kind == "gpt2e"
    assert head["library_name"] == ("transformers" if theirs else "entity-transformers")
    assert "A corpus of 7 words." in card
    assert "| learning rate | 2e-05 |" in card
    assert f"| LAMBADA, last word | {'- | ' * own}99 |" in card
    assert "CC BY 4.0" in card
    examples = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    names: dict[str, Any] = {}
    for number, example in enumerate(examples):
        if kind in HUB and number == 0:
            assert "entity_transformers" not in example
        exec(example, names)
        if not own:
            hidden, _ = model.encode(Batch(names["input_ids"]), model.start(1))
            expected = hidden @ model.output_weight.T
            torch.testing.assert_close(names["logits"], expected, rtol=0, atol=1e-5)
    if kind == "gpt2e":
        last = int((names["entity_ids"][0] == 2).nonzero().max())
        assert torch.equal(names["memory"].states[0, 2], names["hidden"][0, last])
        assert "gold coreference labels" in card
    elif own:
        assert names["read"].perplexity != names["plain"].perplexity
    with pytest.raises(ValueError, match="needs metrics among its facts"):
        render(config, {key: value for key, value in FACTS.items() if key != "metrics"})


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
    assert "fasttext.load(Path())" in render_vectors_card(config | {"longest": 6}, facts)
    with pytest.raises(ValueError, match="needs about, licence, training among its facts"):
        render_vectors_card(config, {"name": "x", "training_data": "y"})


@pytest.mark.parametrize(
    "layer", ["gold", "none", "resolver:names-causal", "lagged-resolver:names"]
)
def test_the_card_says_whose_labels_the_scores_with_entities_use(layer: str) -> None:
    card = render_model_card(GPT2EConfig().to_dict(), FACTS | {"labels": layer})
    assert ("gold coreference labels" in card) == (layer == "gold")
    assert (f"Scores with entities use {describe_labels(layer)}," in card) == ("resolver" in layer)
    assert ("scored without entity labels" in card) == (layer == "none")
