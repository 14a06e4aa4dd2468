"""Switches that must not change what is learnt, with the tolerances that precision leaves:
accumulation, torch.compile, bfloat16.

A gradient is compared after one step (its largest numbers are of the order 0.1), a loss after
several.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from compiling import needs_compiler
from tiny import tiny_params
from trainings import gradients, make_training

from entity_transformers.kinds import LmParams
from entity_transformers.train.loop import Training
from entity_transformers.train.progress import CurveRow

GRADIENT, LOSS = 1e-6, 2e-5
HALF_PRECISION = 5e-3
STEADY: dict[str, Any] = {"dropout": 0.0, "steps": 12, "validate_every": 4}


def assert_same(one: Training, other: Training) -> None:
    """The first step's gradients, then the losses of the whole run."""
    first, second = gradients(one), gradients(other)
    assert first.keys() == second.keys()
    assert max(float((first[name] - second[name]).abs().max()) for name in first) <= GRADIENT
    for training in (one, other):
        training.optimizer.zero_grad()
        training.streams.states = [
            training.model.start(part.stop - part.start, training.plan.rows)
            for part in training.streams.groups
        ]
    ends = [training.run() for training in (one, other)]
    for name in ("train_loss", "dev_loss_on", "dev_loss_off", "best_dev_loss"):
        assert getattr(ends[0], name) == pytest.approx(getattr(ends[1], name), abs=LOSS), name


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_model_trains_as_the_plain_one(tmp_path: Path, mode: str) -> None:
    plain = make_training(tmp_path / "1", layers=1, **STEADY)
    compiled = make_training(tmp_path / "2", layers=1, compile=mode, **STEADY)
    assert plain.model.module.transformer._compiled_call_impl is None
    assert compiled.model.module.transformer._compiled_call_impl is not None
    assert_same(plain, compiled)


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e"])
def test_bfloat16_learns_what_float32_learns(tmp_path: Path, kind: str) -> None:
    """With dropout."""
    curves = []
    for precision in ("float32", "bfloat16"):
        rows: list[CurveRow] = []
        training = make_training(
            tmp_path / precision, kind, precision=precision, steps=40, validate_every=10
        )
        training.write_row = lambda index, row, rows=rows: rows.append(row)
        training.run()
        assert {parameter.dtype for parameter in training.model.module.parameters()} == {
            torch.float32
        }
        curves.append(
            [
                float(row[column])
                for row in rows
                for column in ("train_loss", "dev_loss_on")
                if row[column] != ""
            ]
        )
    assert curves[0] != curves[1]
    assert curves[0][0] - min(curves[0]) > 20 * HALF_PRECISION  # learnt more than is tolerated
    assert curves[1] == pytest.approx(curves[0], abs=HALF_PRECISION)


@pytest.mark.parametrize(
    ("written", "read"), [(False, "off"), ("off", "off"), ("default", "default")]
)
def test_a_bare_off_of_yaml_means_off(written: Any, read: str) -> None:
    values = tiny_params().lm.model_dump() | {"compile": written}
    assert LmParams(**values).compile == read


@pytest.mark.parametrize("written", [True, "max-autotune", None])
def test_another_mode_of_compile_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="'off', 'default' or 'reduce-overhead'"):
        LmParams(**(tiny_params().lm.model_dump() | {"compile": written}))


def test_cuda_graphs_are_refused_where_gradients_accumulate() -> None:
    """CUDA graphs give .grad a buffer that the next pass overwrites (pytorch issue 169545)."""
    with pytest.raises(ValueError, match="reduce-overhead loses gradients with accumulation 2"):
        tiny_params(documents_per_step=4, accumulation=2, compile="reduce-overhead")
    with pytest.raises(ValueError, match="loses gradients where windows are recomputed"):
        tiny_params(
            gradient_checkpointing=True, memory_gradient_windows=2, compile="reduce-overhead"
        )
