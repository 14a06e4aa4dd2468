"""BERT with entity attention: BERT where it is shut, else transformers' through the adapter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import SMALL, VOCABULARY, lively_model, random_memory, tiny_corpus, tiny_entry, tiny_model
from transformers import AutoModelForMaskedLM, BertForMaskedLM

from entity_transformers import EntityMemory, add_entity_attention
from entity_transformers.corpus.labels import give
from entity_transformers.models.base import Batch
from entity_transformers.models.bert import BERTE
from entity_transformers.tasks.held_out import measure_held_out

WINDOW, WIDTH = SMALL["window"], SMALL["width"]


def make_input() -> tuple[Batch, EntityMemory]:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(1, VOCABULARY + 1, (4, WINDOW), generator=generator)
    labels = torch.randint(0, 4, (4, WINDOW), generator=generator)
    torch.manual_seed(2)
    return Batch(tokens, labels), random_memory(4, 3, WIDTH)


@torch.no_grad()
def test_transformers_bert_through_the_adapter_reads_the_folder(tmp_path: Path) -> None:
    model = lively_model("berte")
    model.save(tmp_path)
    plain = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert type(plain) is BertForMaskedLM
    other = add_entity_attention(plain, gate="none").eval()
    missing = other.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    assert not missing.unexpected_keys
    batch, memory = make_input()
    found, written = model.encode(batch, memory)
    hidden = other.bert(batch.tokens, entity_ids=batch.entity_ids, memory=memory).last_hidden_state
    torch.testing.assert_close(found, hidden, rtol=0, atol=1e-5)
    assert torch.equal(written.states, memory.write(batch.entity_ids, found).states)


def test_the_held_out_loss_is_with_the_labels_that_are_given() -> None:
    model = lively_model("berte")
    dev, params = tiny_corpus(5, seed=9, split="dev"), tiny_entry("berte").lm
    on, off = (measure_held_out(model, give(dev, layer), params) for layer in ("gold", "none"))
    assert abs(on - off) > 0.01
    assert measure_held_out(model, give(dev, "gold"), params) == on


def test_a_bert_without_entity_attention_is_refused(tmp_path: Path) -> None:
    tiny_model("bert").save(tmp_path)
    with pytest.raises(ValueError, match="a model without entity attention: name another folder"):
        BERTE.load(tmp_path)
    with pytest.raises(ValueError, match="a model without entity attention"):
        tiny_model("berte", initial_weights=str(tmp_path))
