"""The benchmarks' own arithmetic, peers that compute the same, and the page of the figures."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import tiny_llama
from torch.utils.flop_counter import FlopCounterMode

from entity_transformers.corpus.labels import give
from entity_transformers.models.base import Batch, LanguageModel, build_model
from entity_transformers.models.pretrained import PretrainedLM
from entity_transformers.tasks.perplexity import score_corpus

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import bidirectional
import common
import gpu
import reading
import recurrence
import table
import training

BOTH = {"entity_values": "both"}
LAYERS, WIDTH, WINDOW, BATCH, VOCABULARY = 2, 16, 12, 3, 50


def tiny_model(name: str, **changes: Any) -> LanguageModel:
    changes |= {"layers": LAYERS, "width": WIDTH, "heads": 2, "window": WINDOW, "dropout": 0.0}
    entry = training.resize(gpu.PAPER.model(name), precision="float32", **changes)
    return build_model(entry, VOCABULARY, 0, seed=1).eval()


def count_products(model: LanguageModel, rows: int) -> float:
    """Three times the FLOP per token of a forward pass with its loss, as torch counts them."""
    model.show_attention()  # SDPA's CPU kernel is not counted
    tokens = torch.randint(VOCABULARY, (BATCH, WINDOW))
    labels = torch.randint(1, rows, (BATCH, WINDOW))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        hidden, _ = model.encode(Batch(tokens, labels), model.start(BATCH, rows - 1))
        model.nats(hidden, tokens)
    return 3 * counter.get_total_flops() / tokens.numel()


@pytest.mark.parametrize(("name", "values"), [("gpt2", {}), ("gpt2e", {}), ("gpt2e", BOTH)])
@pytest.mark.parametrize("rows", [5, WINDOW + 4])
def test_flop_of_a_token_are_those_of_its_products(name: str, values: Any, rows: int) -> None:
    model = tiny_model(name, **values)
    own, added = training.count_flops(model.module, WINDOW, rows=rows)
    assert own + added == pytest.approx(count_products(model, rows), rel=1e-12)
    assert (added > 0) == (name == "gpt2e")


def test_the_gpu_benchmark_runs_on_a_cpu(tmp_path: Path) -> None:
    sizes = "--layers 1 --width 16 --window 16 --steps 1 --rounds 1 --threads 1 --peak-tflops 0.5"
    gpu.main(f"--device cpu --tiny {sizes} --output {tmp_path / 'x.json'}".split())
    found = table.pivot(json.loads((tmp_path / "x.json").read_text())["figures"])
    rows = {what: {title: f["value"] for title, f in row.items()} for what, row in found.items()}
    for b in (1, 2):
        sides = ("gpt2", "gpt2e", "gpt2e / gpt2")
        gpt2, gpt2e, pair = (rows[f"B={b}, compile off, {side}"] for side in sides)
        for side in (gpt2, gpt2e):
            assert side["speed"] == pytest.approx(16 * b / (side["step"] / 1000))
            assert side["utilisation"] == pytest.approx(side["speed"] * side["FLOP"] * 1e8 / 5e11)
        assert pair["step, ratio"] == pytest.approx(gpt2e["step"] / gpt2["step"])
        both = 100_000 / b * (gpt2["step"] + gpt2e["step"]) / 3.6e6
        assert pair["training of both"] == pytest.approx(both)


def test_a_ratio_is_the_median_of_the_rounds_and_keeps_their_spread(tmp_path: Path) -> None:
    about = {"output": tmp_path / "x.json", "rounds": 3, "study": Path("/home/me/sample")}
    options = argparse.Namespace(threads=1, note="", **about)
    report = common.Report("One thing against another:\nwhat\n\nMore.", common.SPEEDS, options)
    ours, peer = [2.0, 30.0, 4.0], [1.0, 10.0, 1.0]
    report.row("ours", ratio=common.ratios(ours, peer), speed=ours, at_most=2.5, ratio_of="peer")
    report.write()
    result = json.loads((tmp_path / "x.json").read_text())
    spread = {"value": 3.0, "min": 2.0, "median": 3.0, "max": 4.0}
    assert result["figures"][0].items() >= spread.items()
    assert result["settings"] == {"rounds": 3, "study": "sample"}  # no one's folders


@pytest.mark.parametrize("hidden", [None, 2 * bidirectional.WIDTH])
@torch.no_grad()
def test_the_peer_of_elmo_has_its_weights_and_its_loss(hidden: int | None) -> None:
    model = build_model(bidirectional.make_entry(hidden), VOCABULARY, 0, seed=1)
    peer = bidirectional.Plain(hidden, VOCABULARY)
    weights = model.module.state_dict()
    for ours, theirs in (("forward_half.layers", "halves.0"), ("backward_half.layers", "halves.1")):
        weights = {name.replace(ours, theirs): tensor for name, tensor in weights.items()}
    peer.load_state_dict(weights)
    for module in (*model.module.modules(), *peer.modules()):
        module.p = 0.0  # the rate, of a dropout
    tokens = torch.randint(VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(1))
    model.module.train()
    hidden_states, state = model.encode(Batch(tokens), model.start(3))
    ahead = model.nats(hidden_states[:, :-1], tokens[:, 1:])
    expected = (ahead.sum() + model.nats(*state.backward).sum()) / (2 * ahead.numel())
    for loss in (bidirectional.torch_loss, bidirectional.own_loss):
        torch.testing.assert_close(peer(tokens, loss), expected, rtol=1e-5, atol=0)


def test_the_page_of_benchmarks_is_made_of_the_figures() -> None:
    assert table.TABLE.read_text(encoding="utf-8") == table.render(), "run benchmarks/table.py"


def test_the_plain_loop_over_a_pretrained_model_finds_its_losses(monkeypatch):
    monkeypatch.setattr(reading, "WINDOW", WINDOW)
    torch.manual_seed(1)
    model = PretrainedLM(tiny_llama(vocab_size=VOCABULARY))
    corpus = give(training.make_corpus([5, 2 * WINDOW + 1, 30], VOCABULARY), "none")
    found = score_corpus(model, corpus, window=WINDOW, stride=WINDOW, batch=BATCH)
    assert reading.read_plainly(model.module, corpus) == pytest.approx(found, rel=1e-5)


def test_a_transformer_xl_s_two_ways_of_reading_agree_where_both_see_everything() -> None:
    size = {"layers": LAYERS, "width": WIDTH, "heads": 2}
    remembers, forgets = recurrence.make_readers(WINDOW, size, VOCABULARY)
    tokens = torch.randint(1, VOCABULARY, (BATCH, WINDOW + 1))
    state, found = remembers.start(BATCH), []
    for place in range(0, WINDOW, 4):
        nats, state = recurrence.read_on(remembers, tokens[:, place : place + 5], state)
        found.append(nats)
    for new in (1, 3, WINDOW):
        places = range(new, WINDOW + 1, new)
        begun = [recurrence.read_anew(forgets, tokens[:, : end + 1], new) for end in places]
        torch.testing.assert_close(torch.cat(found, 1), torch.cat(begun, 1))
