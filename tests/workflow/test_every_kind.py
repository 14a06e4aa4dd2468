"""Every kind of model in one study, from the corpus to the report."""

import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_study
import yaml
from checkout import ROOT, make_checkout, read_records, run
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM
from written import teach

from entity_transformers.kinds import KINDS
from entity_transformers.study.params import STEPS, load
from entity_transformers.study.plan import Plan

pytestmark = pytest.mark.slow
LEFT_OUT = {"transfer", "decisions", "recall", "examples", "choices"}
"""Steps on data of their own, which have tests of their own."""
KEPT = {
    "windows": [16], "context": 8, "budgets": [8], "tokens": 60, "texts": ["original", "renamed"],
    "kept": [{"policy": "recent"}, {"policy": "half entities", "labels": "gold"}],
}  # fmt: skip
LLAMA = {"initial_weights": "weights/llama"}
SMALL = yaml.safe_load(tiny_study.TINY)
TINY = SMALL | {
    "tokenizer": {"kind": "pretrained", "path": LLAMA["initial_weights"]},
    "corpus": {"sample_words": 4500}, "lm": SMALL["lm"] | {"heads": 4}, "cache": {"sizes": [4, 8]},
    "kinds": {
        "word2vec": {"epochs": 1}, "fasttext": {"epochs": 1, "buckets": 1000},
        "glove": {"epochs": 2}, "pretrained": LLAMA,
        "pretrained-encoder": {"initial_weights": "weights/bert"},
        "pretrained-entities": {**LLAMA, "blocks": 1, "learning_rates": [1e-3]},
    },
    "mentions": {"caches": [4, 8], "tokens": 200},
    "capacity": {"memories": [[2, 4]]}, "pseudo_perplexity": {"documents": 2},
    "text_memory": {**KEPT, "batch_tokens": 48},
    "kept_cache": KEPT, "kept_keys": KEPT, "kept_pointer": {**KEPT, "size": 4, "epochs": 1},
    "setlm": {"steps": 2, "tokens": 200, "learning_rates": [1e-3]},
}  # fmt: skip


def save_pretrained(folder: Path) -> None:
    """A language model and an encoder that others might have trained, with tokenizers."""
    sizes = {"vocab_size": 400, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 16}
    shape: dict[str, Any] = {**sizes, "num_attention_heads": 4, "max_position_embeddings": 64}
    LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(folder / "llama")
    BertModel(BertConfig(**shape)).save_pretrained(folder / "bert")
    teach("a tiny text").save(str(folder / "bert/tokenizer.json"))
    text = (ROOT / "docs/notebooks/netherfield.txt").read_text()
    teach(text[:9000], 400).save(str(folder / "llama/tokenizer.json"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of one model of each kind, with gold labels where it reads any."""
    folder = make_checkout(tmp_path_factory.mktemp("kinds"))
    save_pretrained(folder / "weights")
    models = {
        name: {"kind": name, **({"labels": "gold"} if kind.can & {"entities", "guided"} else {})}
        for name, kind in KINDS.items()
    }
    # the sample's own entry has more steps
    models["gpt2-pointer"] |= {name: TINY["lm"][name] for name in ("steps", "validate_every")}
    steps = [name for name in STEPS if name not in LEFT_OUT]
    own = TINY | {"study": {"steps": steps}, "models": models}
    (folder / "studies/kinds.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
    script = run(sys.executable, "workflow/commands.py", "studies/kinds.yaml", folder=folder)
    (folder / "commands.sh").write_text(script)
    logs = script.partition("mkdir -p ")[2].splitlines()[0].split()
    run("mkdir", "-p", *logs, folder=folder)
    one = str(ROOT / "tests/helpers/in_one_process.py")
    printed = run(sys.executable, one, "commands.sh", folder=folder)
    assert f"{script.count('| tee logs/')} commands done" in printed
    return folder


def test_each_step_has_results_of_the_kinds_that_meet_its_needs(home, monkeypatch):
    """And the overview of the report has a row for each kind."""
    monkeypatch.chdir(home)
    params = load(Path("studies/kinds.yaml"))
    plan = Plan(params, Path("studies/kinds.yaml"))
    assert set(read_records(home)) == set(plan.records())
    assert list(plan.stale()) == []
    text = (home / "results/kinds/README.md").read_text()
    for entry in params.entries():
        assert entry.kind.label in text, entry.name
