"""A study in bfloat16 says beforehand where the processor has no instructions for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import ROOT

from entity_transformers.study.params import Params, load
from entity_transformers.study.processor import warn_of_bfloat16


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine without a GPU, whose processor knows AVX2."""
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx2 bmi2\n\n")
    return tmp_path


def warn(params: Params, machine: Path) -> str | None:
    return warn_of_bfloat16(params, machine / "cpuinfo", machine / "gpus")


def read(file: str, device: str = "auto") -> Params:
    return load(ROOT / file, {"run.device": device})


def test_a_study_in_bfloat16_is_warned_of(machine: Path) -> None:
    line = warn(read("params.yaml"), machine)
    assert line is not None
    assert "lm.precision: float32" in line
    assert "gpt2" in line
    assert "\n" not in line


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16"])
def test_not_where_the_processor_has_instructions_for_it(machine: Path, flag: str) -> None:
    (machine / "cpuinfo").write_text(f"flags\t\t: fpu {flag} avx2\n")
    assert warn(read("params.yaml"), machine) is None


def test_not_of_float32(machine: Path) -> None:
    assert warn(read("studies/sample.yaml"), machine) is None


def test_not_where_a_gpu_takes_it(machine: Path) -> None:
    assert warn(read("params.yaml", device="cuda:0"), machine) is None
    (machine / "gpus" / "0").mkdir(parents=True)
    assert warn(read("params.yaml"), machine) is None
    assert warn(read("params.yaml", device="cpu"), machine) is not None


def test_not_where_the_machine_does_not_tell(tmp_path: Path) -> None:
    assert warn(read("params.yaml"), tmp_path) is None
