"""The commands of models that see later tokens: training, pseudo-perplexity, a folder to share."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tiny import tiny_params
from transformers import pipeline
from written import write_documents

from entity_transformers.artifacts import (
    DIGESTS,
    read_tokenizer,
    write_arrays,
    write_json,
)
from entity_transformers.cli import main
from entity_transformers.corpus.alignment import AlignedCorpus, align_split, learn_tokenizer
from entity_transformers.kinds import KINDS
from entity_transformers.models.base import Batch
from entity_transformers.models.registry import load_model
from entity_transformers.study.steps import STEPS
from entity_transformers.tasks.pseudo_perplexity import score_hidden

KIND = ["bert", "electra"]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A params.yaml and a small prepared corpus."""
    values = tiny_params(steps=4, warmup_steps=1, validate_every=2, window=32).model_dump(
        mode="json"
    )
    values["models"] = {kind: {"kind": kind} for kind in KIND}
    values["models"]["berte"] = {"kind": "berte", "labels": "gold"}
    values["study"]["steps"] = ["corpus", "lm", "pseudo_perplexity"]
    values["pseudo_perplexity"] = {"splits": ["dev"], "documents": 2, "batch": 3}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    documents = write_documents(12, longest=50, mentions=8)
    corpus = tmp_path / "results" / "corpus"
    corpus.mkdir(parents=True)
    tokenizer = learn_tokenizer(documents, 300, "natural")
    tokenizer.save(str(corpus / "tokenizer.json"))
    for split, part in {"train": documents[:8], "dev": documents[8:]}.items():
        aligned = align_split(part, tokenizer, split=split, policy="outermost", spacing="natural")
        write_arrays(corpus / f"{split}.safetensors", *aligned.arrays())
    write_json(corpus / "statistics.json", {"splits": {"train": {"words": 1234}}})
    return tmp_path


def run(study: Path, command: str, kind: str, *more: str) -> None:
    main([command, "--params", str(study / "params.yaml"), "--model", kind, "--seed", "1", *more])


def train(study: Path, kind: str) -> Path:
    output = study / "results" / "lm" / kind / "1"
    corpus, work = str(study / "results" / "corpus"), str(study / "work")
    run(study, "train-lm", kind, "--corpus", corpus, "--work", work, "--output", str(output))
    return output


@pytest.mark.parametrize("kind", KIND)
def test_a_training_writes_the_step_s_files_with_the_name_of_its_objective(
    study: Path, kind: str
) -> None:
    output = train(study, kind)
    assert {path.name for path in output.iterdir()} == {*STEPS["lm"].outputs, DIGESTS}
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["objective"] == {"bert": "masked", "electra": "replaced"}[kind]
    assert metrics["tokens_seen"] == 4 * 2 * 32
    shutil.rmtree(output)
    assert "objective" in json.loads((train(study, kind) / "metrics.json").read_text())


def test_pseudo_perplexity_is_of_the_first_documents(study: Path) -> None:
    lm, corpus = train(study, "bert"), study / "results" / "corpus"
    output = study / "results" / "pseudo_perplexity" / "bert" / "1"
    run(
        study, "score-pseudo-perplexity", "bert", "--corpus", str(corpus), "--lm", str(lm),
        "--output", str(output),
    )  # fmt: skip
    outputs = {*STEPS["pseudo_perplexity"].outputs, DIGESTS}
    assert {path.name for path in output.iterdir()} == outputs
    found = json.loads((output / "pseudo_perplexity.json").read_text())["splits"]["dev"]["off"]
    text = AlignedCorpus.load(corpus / "dev.safetensors").head(2)
    nll = score_hidden(load_model(lm, KINDS["bert"]), text, window=32, batch=1)
    assert (found["documents"], found["tokens"]) == (2, len(text.tokens) - 2)
    assert found["pseudo_loss"] == pytest.approx(nll.sum(dtype=np.float64) / found["tokens"])
    assert (output / "documents.csv").read_text().startswith("split,document,tokens,nll_off\ndev,")


@pytest.mark.parametrize("kind", KIND)
def test_an_exported_model_is_read_by_transformers_as_the_card_says(
    study: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm, results = train(study, kind), study / "results"
    if kind == "bert":
        test_pseudo_perplexity_is_of_the_first_documents(study)
    shared = study / "shared"
    run(study, "export-model", kind, "--results", str(results), "--output", str(shared))
    card = (shared / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["library_name"] == "transformers"
    assert "1,234 words" in card
    assert "they hold nothing of anybody's." in card  # the sample, which is generated
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((shared / "model.safetensors").stat().st_mode) == 0o666 & ~mask
    assert ("pseudo-perplexity, dev" in card) == (kind == "bert")
    assert "| dev loss, nats per hidden token" in card
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(shared)
    names: dict[str, object] = {}
    with torch.no_grad():
        exec(code, names)
    trained, text = load_model(lm, KINDS[kind]), names["text"]
    tokens = torch.tensor([read_tokenizer(results / "corpus" / "tokenizer.json").encode(text).ids])
    tokens = tokens[:, : trained.context]
    with torch.no_grad():
        hidden, _ = trained.encode(Batch(tokens), None)
        expected = (
            trained.module.cls(hidden) if kind == "bert" else trained.discriminate(Batch(tokens))
        )
    torch.testing.assert_close(names["logits"], expected, rtol=0, atol=1e-6)


def test_the_mask_of_an_exported_bert_is_filled_as_by_the_model(study: Path) -> None:
    lm, shared = train(study, "bert"), study / "shared"
    values = yaml.safe_load((study / "params.yaml").read_text())
    values["study"]["steps"] = ["corpus", "lm"]
    (study / "params.yaml").write_text(yaml.safe_dump(values))
    results = str(study / "results")
    run(study, "export-model", "bert", "--results", results, "--output", str(shared))
    assert "## Scores" not in (shared / "README.md").read_text()
    fill = pipeline("fill-mask", str(shared), device="cpu", top_k=1)
    (guess,) = fill("<|endoftext|> a" + fill.tokenizer.mask_token + " b")
    trained = load_model(lm, KINDS["bert"])
    tokenizer = read_tokenizer(study / "results" / "corpus" / "tokenizer.json")
    before, after = (tokenizer.encode(part).ids for part in ("<|endoftext|> a", " b"))
    tokens = torch.tensor([[*before, trained.mask, *after]])
    with torch.no_grad():
        hidden, _ = trained.encode(Batch(tokens), None)
    assert guess["token"] == trained.guess(hidden)[0, len(before)].item()


def test_an_exported_berte_is_read_with_its_entities_as_the_card_says(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm, results, shared = train(study, "berte"), study / "results", study / "shared"
    run(
        study, "score-pseudo-perplexity", "berte", "--corpus", str(results / "corpus"),
        "--lm", str(lm), "--output", str(results / "pseudo_perplexity" / "berte" / "1"),
    )  # fmt: skip
    run(study, "export-model", "berte", "--results", str(results), "--output", str(shared))
    card = (shared / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["library_name"] == "entity-transformers"
    assert "1,234 words, with gold coreference chains" in card
    assert "| dev loss with entities, nats per hidden token |" in card
    scored = json.loads((results / "pseudo_perplexity/berte/1/pseudo_perplexity.json").read_text())[
        "splits"
    ]["dev"]
    on, off = (f"{scored[mode]['pseudo_perplexity']:.4g}" for mode in ("on", "off"))
    assert f"| pseudo-perplexity, dev | {on} | {off} |" in card
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(shared)
    names: dict[str, Any] = {}
    with torch.no_grad():
        exec(code, names)
        trained = load_model(lm, KINDS["berte"])
        batch = Batch(names["input_ids"], names["entity_ids"])
        assert trained.mask in batch.tokens
        hidden, memory = trained.encode(batch, trained.start(1, 20))
        wanted = trained.module.cls(hidden)
    torch.testing.assert_close(names["logits"], wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(names["memory"].states, memory.states, rtol=0, atol=1e-6)
    values = yaml.safe_load((study / "params.yaml").read_text())
    values["models"]["berte"]["labels"] = "resolver:names-causal"
    values["corpus"]["resolvers"] = ["names-causal"]
    (study / "params.yaml").write_text(yaml.safe_dump(values))
    run(study, "export-model", "berte", "--results", str(results), "--output", str(shared))
    card = (shared / "README.md").read_text()
    assert "1,234 words, with coreference chains of the resolver names-causal" in card
    assert "gold coreference" not in card


def test_an_encoder_of_another_study_is_refused(study: Path) -> None:
    train(study, "bert")
    documents = write_documents(3, longest=9, mentions=2)
    other = learn_tokenizer(documents, 290, "natural")
    other.save(str(study / "results" / "corpus" / "tokenizer.json"))
    with pytest.raises(SystemExit):
        run(
            study, "export-model", "bert", "--results", str(study / "results"),
            "--output", str(study / "shared"),
        )  # fmt: skip
