"""The benchmarks' own arithmetic and logic, in tiny sizes: FLOP against a count of every product,
parts of a run, rows that end, turns, targets, and the page that is made of the figures.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from entity_transformers.kinds import ModelEntry
from entity_transformers.models.base import Batch, LanguageModel
from entity_transformers.models.registry import build_model
from entity_transformers.train.progress import TrainingError

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import bidirectional  # noqa: E402
import common  # noqa: E402
import gpt2e_step  # noqa: E402
import gpu  # noqa: E402
import memory_gradient  # noqa: E402
import precision  # noqa: E402
import recurrence  # noqa: E402
import startup  # noqa: E402
import table  # noqa: E402
import training  # noqa: E402

LAYERS, WIDTH, WINDOW, BATCH, VOCABULARY = 2, 16, 12, 3, 50


def tiny_entry(name: str, **changes: Any) -> ModelEntry:
    size = {
        "layers": LAYERS,
        "width": WIDTH,
        "heads": 2,
        "window": WINDOW,
        "dropout": 0.0,
        "precision": "float32",
    }
    return training.resize(gpu.PAPER.model(name), **(size | changes))


def tiny_model(name: str, **changes: Any) -> LanguageModel:
    return build_model(tiny_entry(name, **changes), VOCABULARY, 0, seed=1).eval()


def count_products(model: LanguageModel, rows: int) -> float:
    """FLOP per token of one forward pass, loss included, as torch counts them product by product,
    three times.
    """
    model.show_attention()  # SDPA's CPU kernel is not counted
    tokens = torch.randint(VOCABULARY, (BATCH, WINDOW))
    labels = torch.randint(1, rows, (BATCH, WINDOW))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        hidden, _ = model.encode(Batch(tokens, labels), model.start(BATCH, rows - 1))
        model.nats(hidden, tokens)
    return 3 * counter.get_total_flops() / tokens.numel()


@pytest.mark.parametrize(
    ("name", "values"),
    [("gpt2", {}), ("gpt2e", {}), ("gpt2e", {"entity_values": "both"})],
)
@pytest.mark.parametrize("rows", [5, WINDOW + 4])
def test_flop_of_a_token_are_those_of_its_products(
    name: str, values: dict[str, str], rows: int
) -> None:
    model = tiny_model(name, **values)
    own, added = training.count_flops(model.module, WINDOW, rows=rows)
    assert own + added == pytest.approx(count_products(model, rows), rel=1e-12)
    assert (added > 0) == (name == "gpt2e")


def test_flop_of_gpt2_are_the_formula_s() -> None:
    model = tiny_model("gpt2").module
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


def test_the_parts_of_a_run_are_all_of_it(tmp_path: Path) -> None:
    entry = tiny_entry("gpt2e", steps=20, documents_per_step=2, validate_every=10)
    corpus = training.make_corpus([100, 200, 300], VOCABULARY)
    run = training.make_training(entry, corpus, tmp_path, VOCABULARY, checkpoint_every=10)
    begin = time.perf_counter()
    watch = training.time_run(run)
    assert watch.seconds.total() == pytest.approx(time.perf_counter() - begin, rel=0.1)
    assert watch.calls == {
        "batching": 20,
        "forward": 40,
        "backward": 20,
        "optimizer": 20,
        "memory": 20,
        "curve and log": 20,
        "checkpoints": 2,
        "rest": 1,
    }
    assert run.progress.step == 20
    assert "forward" not in vars(run.model.module.transformer)
    report = make_report(training.COLUMNS)
    training.report_overhead(watch, report)
    total, *parts, checkpoints = (figure["value"] for figure in report.figures)
    core = sum(watch.seconds[part] for part in training.CORE)
    assert total == pytest.approx(100 * (1 - core / watch.seconds.total()))
    assert total == pytest.approx(sum(parts))
    assert checkpoints == pytest.approx(watch.seconds["checkpoints"] / 2)


def test_random_documents_have_a_quarter_of_their_tokens_in_mentions() -> None:
    corpus = training.make_corpus([5000, 1, 4999], vocabulary=VOCABULARY, entities=7)
    assert corpus.offsets.tolist() == [0, 5000, 5001, 10000]
    assert np.mean(corpus.gold > 0) == pytest.approx(0.25, abs=0.02)
    assert set(corpus.gold.tolist()) == set(range(8))
    assert (corpus.mentions >= 0).tolist() == (corpus.gold > 0).tolist()


def run_gpu(output: Path, *flags: str) -> dict[str, Any]:
    sizes = "--layers 1 --width 16 --window 16 --steps 1 --rounds 1 --threads 1".split()
    gpu.main(["--device", "cpu", "--tiny", *sizes, "--output", str(output), *flags])
    return json.loads(output.read_text())


def get_values(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    rows = table.pivot(result["figures"])
    return {what: {title: f["value"] for title, f in row.items()} for what, row in rows.items()}


def list_pairs(result: dict[str, Any]) -> list[int]:
    rows = (what for what in get_values(result) if what.endswith("gpt2e / gpt2"))
    return [gpu.find_batch({"what": what}) for what in rows]


def test_the_gpu_benchmark_runs_on_a_cpu(tmp_path: Path) -> None:
    result = run_gpu(tmp_path / "gpu.json", "--peak-tflops", "0.5")
    # as the package's metadata has it, in some wheels without the name of the build
    assert torch.__version__.startswith(result["versions"]["torch"])
    assert (result["settings"]["peak_tflops"], result["settings"]["width"]) == (0.5, 16)
    rows = get_values(result)
    assert list(rows) == [
        f"B={b}, compile off, {which}"
        for b in (1, 2)
        for which in ("gpt2", "gpt2e", "gpt2e / gpt2")
    ]
    for b in (1, 2):
        gpt2, gpt2e, pair = (
            rows[f"B={b}, compile off, {which}"] for which in ("gpt2", "gpt2e", "gpt2e / gpt2")
        )
        for side in (gpt2, gpt2e):
            assert side["speed"] == pytest.approx(16 * b / (side["step"] / 1000))
            flop_per_second = side["speed"] * side["FLOP"] * 1e6
            assert side["utilisation"] == pytest.approx(100 * flop_per_second / 5e11)
        assert pair["step, ratio"] == pytest.approx(gpt2e["step"] / gpt2["step"])
        both = (gpt2["step"] + gpt2e["step"]) / 1000
        assert pair["training of both"] == pytest.approx(100_000 / b * both / 3600)
        saving = gpt2["checkpoint"] + gpt2e["checkpoint"]
        assert pair["saving of both"] == pytest.approx(20 * saving / 3600)


def test_each_batch_can_have_a_call_of_its_own(tmp_path: Path) -> None:
    def measure(**settings: str) -> list[int]:
        flags = [text for name, value in settings.items() for text in (f"--{name}", value)]
        return list_pairs(run_gpu(tmp_path / "gpu.json", "--peak-tflops", "0.5", *flags))

    assert measure(batches="2") == [2]
    assert measure(batches="1") == [1, 2]
    assert measure(batches="2") == [1, 2]
    assert measure(batches="4", vocabulary="600") == [4]


def test_a_tiny_run_leaves_no_figures_behind() -> None:
    assert gpu.read_options(["--tiny"]).output is None
    assert gpu.read_options([]).output == common.RESULTS / "gpu.json"


def test_a_model_that_does_not_fit_ends_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make = gpu.make_training

    def fill(entry: ModelEntry, *rest: Any, **flags: Any) -> Any:
        if entry.lm.documents_per_step > {"gpt2": 2, "gpt2e": 1}[entry.name]:
            raise torch.OutOfMemoryError("no room")
        return make(entry, *rest, **flags)

    monkeypatch.setattr(gpu, "make_training", fill)
    monkeypatch.setitem(gpu.TINY, "batches", None)
    result = run_gpu(tmp_path / "gpu.json")
    tried = [(what, "remark" not in row) for what, row in get_values(result).items()]
    assert tried == [
        ("B=1, compile off, gpt2", True),
        ("B=1, compile off, gpt2e", True),
        ("B=1, compile off, gpt2e / gpt2", True),
        ("B=2, compile off, gpt2", True),
        ("B=2, compile off, gpt2e", False),
        ("B=4, compile off, gpt2", False),
    ]
    assert capsys.readouterr().out.count("out of memory: its row ends here") == 2
    assert "out of memory: its row ends here" in table.draw(result)


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
        options = gpu.read_options(["--device", "cuda"])
        assert gpu.find_peak(options) == (peak, "data sheet")


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


def test_sides_take_turns_after_a_call_that_does_not_count() -> None:
    calls: list[str] = []
    sides = {name: lambda name=name: calls.append(name) for name in "ab"}
    seconds = common.interleave(sides, 2, calls=2)
    assert "".join(calls) == "ab" + "aabb" * 2
    assert [len(s.wall) for s in seconds.values()] == [2, 2]


def test_seconds_are_those_of_a_call_and_cpu_time_leaves_waiting_out() -> None:
    found = common.interleave({"": lambda: time.sleep(0.02)}, 1, calls=3, warm_up=False)[""]
    assert found.wall[0] >= 0.02
    assert found.cpu[0] < 0.02


def make_report(
    columns: dict[str, common.Column], output: Path | None = None, **settings: Any
) -> common.Report:
    options = argparse.Namespace(threads=1, output=output, note="", **settings)
    return common.Report("One thing against another:\nwhat\n\nMore.", columns, options)


COLUMNS = {
    "time": common.Column("time", "ms"),
    "ratio": common.Column("ratio", "ratio", "the peer"),
    "gap": common.Column("gap", "nats per token", middle=mean),
}


def test_a_ratio_is_the_median_of_the_rounds_and_keeps_their_spread(tmp_path: Path) -> None:
    report = make_report(COLUMNS, tmp_path / "x.json", rounds=3, study=Path("/home/me/sample"))
    ours, peer = [2.0, 30.0, 4.0], [1.0, 10.0, 1.0]
    report.row("ours", ratio=common.ratios(ours, peer), time=ours, at_most=2.5)
    report.row("seeds", gap=[1.0, 2.0, 6.0])
    report.write()
    result = json.loads((tmp_path / "x.json").read_text())
    ratio, time_of_ours, gap = result["figures"]
    assert ratio == {
        "what": "ours",
        "column": "ratio",
        "unit": "ratio",
        "ratio_of": "the peer",
        "value": 3.0,
        "min": 2.0,
        "median": 3.0,
        "max": 4.0,
        "target": {"bound": "at most", "limit": 2.5},
    }
    assert "target" not in time_of_ours
    assert "ratio_of" not in time_of_ours
    assert (gap["value"], gap["median"]) == (3.0, 2.0)
    assert result["compares"] == "One thing against another: what"
    assert result["settings"] == {"rounds": 3, "study": "sample"}


def test_figures_say_on_what_machine_they_were_measured_but_not_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "node", lambda: "name-of-a-host")
    monkeypatch.setattr(socket, "gethostname", lambda: "name-of-a-host")
    make_report(COLUMNS, tmp_path / "x.json").write()
    text = (tmp_path / "x.json").read_text()
    result = json.loads(text)
    assert result["machine"].startswith(common.find_processor())
    assert result["machine"].endswith(", 1 thread")
    assert "name-of-a-host" not in text
    assert {"commit", "date", "versions", "note"} <= result.keys()


@pytest.mark.parametrize(
    ("bound", "value", "said"),
    [
        ("at_most", 2.0, "ratio at most 2: met"),
        ("at_most", 2.01, "ratio at most 2: missed"),
        ("at_least", 2.0, "ratio at least 2: met"),
        ("at_least", 1.99, "ratio at least 2: missed"),
    ],
)
def test_a_row_says_whether_its_target_is_met(
    bound: str, value: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = make_report(COLUMNS)
    targets: dict[str, Any] = {bound: 2.0}
    report.row("ours", ratio=value, time=9.0, **targets)
    assert capsys.readouterr().out.rstrip().endswith(said)
    assert table.draw(report.head | {"figures": report.figures}).splitlines()[-1] == (
        f"| ours | 9.000 | {value:.3f} | {said} |"
    )


def test_a_table_has_a_row_per_thing_and_a_column_per_kind_of_figure() -> None:
    report = make_report(COLUMNS)
    report.row("one", time=[1234.4, 1000.0, 2000.0])
    report.row("two", ratio=0.0512, ratio_of="one")
    report.row("three", ratio=0.0, ratio_of="another")
    assert table.draw(report.head | {"figures": report.figures}).splitlines() == [
        "|  | time, ms | ratio |",
        "| --- | ---: | ---: |",
        "| one | 1,234 (1,000 to 2,000) |  |",
        "| two |  | 0.0512 |",
        "| three |  | 0 |",
    ]


@pytest.mark.parametrize("hidden", [None, 2 * bidirectional.WIDTH])
@torch.no_grad()
def test_the_peer_of_elmo_has_its_weights_and_its_loss(hidden: int | None) -> None:
    model = build_model(bidirectional.make_entry(hidden), VOCABULARY, 0, seed=1)
    peer = bidirectional.Plain(hidden, VOCABULARY)
    halves = {"forward_half.layers": "halves.0", "backward_half.layers": "halves.1"}
    renamed = model.module.state_dict()
    for ours, theirs in halves.items():
        renamed = {name.replace(ours, theirs): tensor for name, tensor in renamed.items()}
    peer.load_state_dict(renamed)
    for module in (*model.module.modules(), *peer.modules()):
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    tokens = torch.randint(VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(1))
    model.module.train()
    hidden_states, state = model.encode(Batch(tokens), model.start(3))
    behind = model.backward_half(state)
    assert behind is not None
    ahead = model.nats(hidden_states[:, :-1], tokens[:, 1:])
    expected = (ahead.sum() + model.nats(*behind).sum()) / (2 * ahead.numel())
    for loss in (bidirectional.torch_loss, bidirectional.own_loss):
        torch.testing.assert_close(peer(tokens, loss), expected, rtol=1e-5, atol=0)


def test_the_page_opens_with_the_targets_that_are_missed() -> None:
    figure = {"what": "a", "column": "ratio", "unit": "ratio", "value": 2.0}
    found = {
        "one": {"figures": [figure | {"target": {"bound": "at least", "limit": 3}}, figure]},
        "two": {"figures": [figure | {"target": {"bound": "at most", "limit": 3}}]},
    }
    assert table.say_targets(found).splitlines() == [
        "1 of 2 targets are met. Missed:",
        "",
        "- [one](#one), a: 2.000, wanted: ratio at least 3",
    ]
    assert table.say_targets({"two": found["two"]}) == "1 of 1 targets are met.\n"


def test_the_page_of_benchmarks_is_made_of_the_figures() -> None:
    assert table.TABLE.read_text(encoding="utf-8") == table.render(), (
        "run python benchmarks/table.py"
    )


@pytest.mark.parametrize("name", table.find_benchmarks())
def test_columns_of_a_benchmark_have_titles_of_their_own(name: str) -> None:
    titles = [column.title for column in importlib.import_module(name).COLUMNS.values()]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("name", table.find_benchmarks())
def test_a_benchmark_says_in_one_sentence_what_it_compares(name: str) -> None:
    doc = importlib.import_module(name).__doc__ or ""
    compares = " ".join(doc.split("\n\n")[0].split())
    assert compares.endswith(".")
    assert not {". ", "? "} & {compares[i : i + 2] for i in range(len(compares))}
    file = common.RESULTS / f"{name}.json"
    if file.exists():
        assert json.loads(file.read_text())["compares"] == compares


def test_figures_of_other_benchmarks_are_not_left_lying_about() -> None:
    assert {file.stem for file in common.RESULTS.glob("*")} <= set(table.find_benchmarks())


def test_a_training_step_hands_its_memory_on(monkeypatch: pytest.MonkeyPatch) -> None:
    case = gpt2e_step.make_case(read_step_options(), dropout=0.0)
    read: list[torch.Tensor] = []
    encode = type(case.gpt2e).encode

    def watch(model: Any, batch: Batch, state: Any) -> Any:
        if batch.labels is not None:
            read.append(state.states)
        return encode(model, batch, state)

    monkeypatch.setattr(type(case.gpt2e), "encode", watch)
    step = gpt2e_step.make_training_step(case.gpt2e, case, True, autocast=False)
    step()
    step()
    assert (read[0] == 1).all()
    mentioned = torch.zeros(read[1].shape[:2], dtype=torch.bool).scatter(1, case.ids, True)
    mentioned[:, 0] = False
    assert ((read[1] != 1).any(-1) == mentioned).all()
    assert not read[1].requires_grad


def read_step_options() -> argparse.Namespace:
    sizes = {"layers": 1, "vocabulary": 50, "width": 16, "heads": 2, "window": 16}
    return argparse.Namespace(
        **(gpt2e_step.SIZES | sizes | {"entities": 5, "rounds": 1, "bf16": False, "device": "cpu"})
    )


def test_gpt2e_is_compared_with_gpt2_in_every_row() -> None:
    report = make_report(gpt2e_step.COLUMNS)
    gpt2e_step.run(read_step_options(), 0.1, report)
    rows = table.pivot(report.figures)
    assert len(rows) == 8
    for what, row in rows.items():
        if "tokens in mentions" in what or "no entities" in what:
            assert row["time or bytes"]["ratio_of"] == row["CPU time"]["ratio_of"] == "GPT2"
            assert row["least by arithmetic"]["value"] > 1
    assert rows["dropout 0.1: peak memory of training"]["time or bytes"]["value"] > 1


def test_the_peak_of_a_step_is_what_it_holds_at_one_time() -> None:
    def step() -> None:
        first = torch.empty(500_000, dtype=torch.float64)
        del first
        torch.empty(250_000, dtype=torch.float64)

    assert memory_gradient.measure_peak(step) == pytest.approx(4.0, rel=0.01)


def test_the_cpu_time_of_a_command_is_its_own_and_its_childrens() -> None:
    burn = "import time\nwhile time.process_time() < 0.1: pass"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    command = [sys.executable, "-c", nested]
    side = {"": lambda: startup.run(command, ROOT, check=True)}
    clock = startup.count_children
    found = common.interleave(side, 1, warm_up=False, cpu_clock=clock)[""]
    assert found.cpu[0] >= 0.1


def test_a_transformer_xl_s_two_ways_of_reading_agree_where_both_see_everything() -> None:
    size = {"layers": LAYERS, "width": WIDTH, "heads": 2}
    remembers, forgets = recurrence.make_readers(WINDOW, size, VOCABULARY)
    tokens = torch.randint(1, VOCABULARY, (BATCH, WINDOW + 1))
    state, found = remembers.start(BATCH), []
    for place in range(0, WINDOW, 4):
        nats, state = recurrence.read_on(remembers, tokens[:, place : place + 5], state)
        found.append(nats)
    for new in (1, 3, WINDOW):
        begun = [
            recurrence.read_anew(forgets, tokens[:, : place + 1], new)
            for place in range(new, WINDOW + 1, new)
        ]
        torch.testing.assert_close(torch.cat(found, 1), torch.cat(begun, 1))


def test_a_command_that_fails_is_not_timed() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        startup.run([sys.executable, "-c", "raise SystemExit(3)"], ROOT, check=True)


def make_tools(folder: Path, planned: str, changed: bool) -> Path:
    """Tools that write down how they are called."""
    (folder / "study").mkdir()
    answers = {"snakemake": f"echo '{planned}'", "dvc": f"exit {int(changed)}"}
    for name, answer in answers.items():
        tool = folder / name
        tool.write_text(f'#!/bin/sh\necho "{name} $*" >> {folder}/calls\n{answer}\n')
        tool.chmod(0o755)
    return folder / "study"


@pytest.mark.parametrize(
    ("planned", "changed", "why"),
    [
        ("Nothing to be done", False, None),
        ("Nothing to be done", True, "dvc has something to do"),
        ("35 of 35 steps to do", False, "35 of 35 steps to do"),
    ],
)
def test_a_study_that_is_not_finished_is_left_alone(
    planned: str,
    changed: bool,
    why: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(startup, "BIN", tmp_path)
    found = startup.find_unfinished(make_tools(tmp_path, planned, changed), tmp_path)
    assert found is None if why is None else why in (found or "")
    for call in (tmp_path / "calls").read_text().splitlines():
        assert call.endswith(" -n") or call == "dvc status --quiet dvc.yaml"


def test_a_study_is_looked_for_in_its_own_checkout(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").touch()
    study = tmp_path / "studies" / "mine"
    study.mkdir(parents=True)
    assert startup.find_checkout(study) == tmp_path
    (tmp_path / "Snakefile").unlink()
    with pytest.raises(ValueError, match="no Snakefile there or above"):
        startup.find_checkout(study)


def test_without_a_study_the_tools_are_left_out_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "startup.json"
    startup.main(["--rounds", "1", "--output", str(output)])
    printed = capsys.readouterr().out
    assert "snakemake and dvc are left out: no --study is given" in printed
    rows = table.pivot(json.loads(output.read_text())["figures"])
    assert list(rows) == list(startup.list_commands())
