"""Switches that must not change what is learnt: bfloat16, and the modes of torch.compile."""

from pathlib import Path

import pytest
import torch
from tiny import tiny_params
from trainings import make_training

from entity_transformers.train.progress import CurveRow

HALF_PRECISION = 5e-3


@pytest.mark.parametrize("kind", ["gpt2", "gpt2e"])
def test_bfloat16_learns_what_float32_learns(tmp_path: Path, kind: str) -> None:
    """With dropout."""
    curves = []
    for precision in ("float32", "bfloat16"):
        rows: list[CurveRow] = []
        how = {"precision": precision, "steps": 40, "validate_every": 10}
        training = make_training(tmp_path / precision, kind, **how)
        training.write_row = lambda index, row, rows=rows: rows.append(row)
        training.run()
        assert {one.dtype for one in training.model.module.parameters()} == {torch.float32}
        losses = [row[column] for row in rows for column in ("train_loss", "dev_loss_on")]
        curves.append([float(loss) for loss in losses if loss != ""])
    assert curves[0] != curves[1]
    assert curves[0][0] - min(curves[0]) > 20 * HALF_PRECISION  # learnt more than is tolerated
    assert curves[1] == pytest.approx(curves[0], abs=HALF_PRECISION)


def test_a_bare_off_of_yaml_means_off_and_another_mode_of_compile_is_refused() -> None:
    for written, read in ((False, "off"), ("off", "off"), ("default", "default")):
        assert tiny_params(compile=written).lm.compile == read
    for written in (True, "max-autotune", None):
        with pytest.raises(ValueError, match="'off', 'default' or 'reduce-overhead'"):
            tiny_params(compile=written)


def test_cuda_graphs_are_refused_where_gradients_accumulate() -> None:
    """CUDA graphs give .grad a buffer that the next pass overwrites (pytorch issue 169545)."""
    with pytest.raises(ValueError, match="reduce-overhead loses gradients with accumulation 2"):
        tiny_params(documents_per_step=4, accumulation=2, compile="reduce-overhead")
    recomputed = {"gradient_checkpointing": True, "memory_gradient_windows": 2}
    with pytest.raises(ValueError, match="loses gradients where windows are recomputed"):
        tiny_params(**recomputed, compile="reduce-overhead")
