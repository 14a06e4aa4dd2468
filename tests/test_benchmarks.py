"""The benchmarks' own arithmetic and logic, in tiny sizes: FLOP against a count of every product,
parts of a run, rows that end.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from entity_transformers.models.step import compute_hidden, compute_losses
from torch.utils.flop_counter import FlopCounterMode

from entity_transformers.models.gpt2e.memory import EntityMemory
from entity_transformers.models.registry import build_model
from entity_transformers.study.params import load
from entity_transformers.train.progress import TrainingError

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu  # noqa: E402
import precision  # noqa: E402
import training  # noqa: E402

LAYERS, WIDTH, WINDOW, BATCH, VOCABULARY = 2, 16, 12, 3, 50


def tiny_params(**changes: Any) -> Any:
    values = load(ROOT / "params.yaml").lm.model_dump()
    size = {
        "layers": LAYERS,
        "width": WIDTH,
        "heads": 2,
        "window": WINDOW,
        "dropout": 0.0,
        "precision": "float32",
    }
    return type(load(ROOT / "params.yaml").lm)(**(values | size | changes))


def count_products(model: Any, rows: int) -> float:
    """FLOP a token of one forward pass, loss included, as torch counts them product by product,
    three times.
    """
    model.set_attn_implementation("eager")  # SDPA's CPU kernel is not counted
    tokens = torch.randint(VOCABULARY, (BATCH, WINDOW))
    entities = torch.randint(1, rows, (BATCH, WINDOW))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        hidden = compute_hidden(model, tokens, entities, EntityMemory(BATCH, rows - 1, WIDTH))
        compute_losses(model, hidden, tokens)
    return 3 * counter.get_total_flops() / tokens.numel()


@pytest.mark.parametrize(
    ("name", "values"), [("gpt2", "hidden"), ("gpt2e", "hidden"), ("gpt2e", "both")]
)
@pytest.mark.parametrize("rows", [5, WINDOW + 4])
def test_flop_of_a_token_are_those_of_its_products(name: str, values: str, rows: int) -> None:
    model = build_model(name, tiny_params(entity_values=values), VOCABULARY, 0, seed=1).eval()
    own, added = training.count_flops(model, WINDOW, rows=rows)
    assert own + added == pytest.approx(count_products(model, rows), rel=1e-12)
    assert (added > 0) == (name == "gpt2e")


def test_flop_of_gpt2_are_the_formula_s() -> None:
    model = build_model("gpt2", tiny_params(), VOCABULARY, 0, seed=1)
    weights = 12 * LAYERS * WIDTH**2 + VOCABULARY * WIDTH
    assert training.count_flops(model, WINDOW) == (6 * weights + 12 * LAYERS * WIDTH * WINDOW, 0)
    assert training.count_flops(model, WINDOW, visible=0.5) == (
        6 * weights + 6 * LAYERS * WIDTH * WINDOW,
        0,
    )


def test_a_part_inside_another_is_counted_once() -> None:
    watch = training.Stopwatch()
    inner = watch.wrap("inner", lambda: time.sleep(0.02))
    watch.wrap("outer", lambda: (inner(), inner(), time.sleep(0.01)))()
    assert watch.calls == {"inner": 2, "outer": 1}
    assert watch.seconds["inner"] >= 0.04
    assert 0.01 <= watch.seconds["outer"] < watch.seconds["inner"]


def test_the_parts_of_a_run_are_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params = tiny_params(steps=20, documents_per_step=2, validate_every=10, checkpoint_every=10)
    run = training.make_training(
        "gpt2e", training.make_corpus(5, vocabulary=VOCABULARY), tmp_path, params, VOCABULARY
    )
    begin = time.perf_counter()
    watch = training.time_run(run)
    assert watch.seconds.total() == pytest.approx(time.perf_counter() - begin, rel=0.1)
    assert watch.calls == {
        "batching": 20, "forward": 40, "backward": 20, "optimizer": 20, "memory": 20, "curve and log": 20, "checkpoints": 2, "rest": 1
    }  # fmt: skip
    assert run.progress.step == 20
    assert "forward" not in vars(run.model.transformer)
    training.show_overhead(watch)
    printed = capsys.readouterr().out
    outside = (
        sum(watch.seconds[part] for part in watch.seconds if part not in training.CORE)
        / watch.seconds.total()
    )
    assert printed.startswith(f"gpt2e, 20 steps: {outside:.2%} of the time")
    assert "2 checkpoint(s)" in printed


def run_gpu(output: Path, *flags: str) -> dict[str, Any]:
    sizes = [
        "--layers",
        "1",
        "--width",
        "16",
        "--window",
        "16",
        "--steps",
        "1",
        "--rounds",
        "1",
        "--threads",
        "1",
    ]
    gpu.main(["--device", "cpu", "--tiny", *sizes, "--output", str(output), *flags])
    return json.loads(output.read_text())


def test_the_gpu_benchmark_runs_on_a_cpu(tmp_path: Path) -> None:
    result = run_gpu(tmp_path / "gpu.json", "--peak-tflops", "0.5")
    assert (result["device"], result["torch"], result["peak_flops"]) == (
        "cpu",
        torch.__version__,
        5e11,
    )
    sides, pairs = (
        [row for row in result["rows"] if ("ratio" in row) == pair] for pair in (False, True)
    )
    assert [(row["documents"], row["model"], row["fits"]) for row in sides] == [
        (b, m, True) for b in (1, 2) for m in ("gpt2", "gpt2e")
    ]
    for row in sides:
        assert row["tokens_per_second"] == pytest.approx(
            16 * row["documents"] / row["seconds_per_step"]
        )
        assert row["utilisation"] == pytest.approx(
            row["tokens_per_second"] * row["flop_per_token"] / 5e11
        )
    for pair, (gpt2, gpt2e) in zip(pairs, (sides[:2], sides[2:]), strict=True):
        both = gpt2["seconds_per_step"] + gpt2e["seconds_per_step"]
        assert pair["hours"] == pytest.approx(100_000 / pair["documents"] * both / 3600)
        assert pair["hours_saving"] == pytest.approx(
            20 * sum(row["seconds_per_checkpoint"] for row in (gpt2, gpt2e)) / 3600
        )


def test_each_batch_can_have_a_call_of_its_own(tmp_path: Path) -> None:
    def batches(**settings: str) -> list[int]:
        flags = [text for name, value in settings.items() for text in (f"--{name}", value)]
        rows = run_gpu(tmp_path / "gpu.json", "--peak-tflops", "0.5", *flags)["rows"]
        return [row["documents"] for row in rows if "ratio" in row]

    assert batches(batches="2") == [2]
    assert batches(batches="1") == [1, 2]
    assert batches(batches="2") == [1, 2]
    assert batches(batches="4", vocabulary="600") == [4]


def test_a_model_that_does_not_fit_ends_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make = gpu.make_training

    def fill(name: str, corpus: Any, folder: Path, params: Any, *rest: Any) -> Any:
        if params.documents_per_step > {"gpt2": 2, "gpt2e": 1}[name]:
            raise torch.OutOfMemoryError("no room")
        return make(name, corpus, folder, params, *rest)

    monkeypatch.setattr(gpu, "make_training", fill)
    monkeypatch.setitem(gpu.TINY, "batches", None)
    result = run_gpu(tmp_path / "gpu.json")
    tried = [
        (row["documents"], row["model"], row["fits"])
        for row in result["rows"]
        if "ratio" not in row
    ]
    assert tried == [
        (1, "gpt2", True),
        (1, "gpt2e", True),
        (2, "gpt2", True),
        (2, "gpt2e", False),
        (4, "gpt2", False),
    ]
    assert [row["documents"] for row in result["rows"] if "ratio" in row] == [1]
    assert capsys.readouterr().out.count("out of memory: its row ends here") == 2


def test_out_of_memory_in_a_timed_round_ends_the_row_too() -> None:
    def fill() -> None:
        raise TrainingError("2 windows do not fit") from torch.OutOfMemoryError("no room")

    def fail() -> None:
        raise TrainingError("loss nan")

    side = gpu.Side("gpt2", "off", 1, training=object())  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="loss nan"):
        gpu.drop_if_too_large(side, fail)
    assert side.training is not None
    gpu.drop_if_too_large(side, fill)
    assert side.training is None


@pytest.mark.parametrize(("flags", "code"), [([], 0), (["--device", "cuda"], 1)])
def test_without_a_gpu_it_says_what_to_do(
    flags: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as stop:
        gpu.main(flags)
    assert int(stop.value.code or 0) == code
    assert "--device cpu --tiny" in capsys.readouterr().out


def test_every_known_device_has_its_own_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "NVIDIA H100 80GB HBM3": 989,
        "NVIDIA H100 PCIe": 756,
        "NVIDIA H200": 989,
        "NVIDIA A100-SXM4-80GB": 312,
        "NVIDIA GeForce RTX 4090": 165,
    }
    for name, peak in names.items():
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        options = gpu.read_options([])
        options.device = torch.device("cuda")
        assert gpu.find_peak(options) == (peak * 1e12, "data sheet")


def test_precisions_are_compared_within_a_seed_and_seeds_within_float32() -> None:
    def curve(*losses: float) -> tuple[np.ndarray, np.ndarray]:
        return np.array(losses), np.array(losses) + 1

    curves = {
        ("float32", 1): curve(4, 3),
        ("bfloat16", 1): curve(4.5, 2.75),
        ("float32", 2): curve(6, 3.25),
        ("bfloat16", 2): curve(6, 3.5),
    }
    assert precision.compare(curves, [1, 2]) == {
        "training, two precisions": [0.5, 0.25],
        "dev, bfloat16 less float32": [-0.25, 0.25],
        "training, two seeds": [2.0],
        "dev, two seeds": [0.25],
    }
