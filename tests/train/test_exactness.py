"""Switches that must not change what is learnt, with the tolerances that precision leaves:
bfloat16; and the modes of torch.compile.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import tiny_params
from trainings import make_training

from entity_transformers.kinds import LmParams
from entity_transformers.train.checkpoint import CurveRow

HALF_PRECISION = 5e-3


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


def test_cuda_graphs_are_refused_where_windows_are_recomputed() -> None:
    """CUDA graphs give .grad a buffer that the next pass overwrites (pytorch issue 169545)."""
    with pytest.raises(ValueError, match="loses gradients where windows are recomputed"):
        tiny_params(
            gradient_checkpointing=True, memory_gradient_windows=2, compile="reduce-overhead"
        )
