"""A study in bfloat16 says beforehand where the processor has no instructions for it."""

import pytest
from tiny import ROOT

from entity_transformers.study import processor
from entity_transformers.study.params import load


@pytest.mark.parametrize(("file", "flags", "gpus", "overrides", "warned"), [
    ("params.yaml", "fpu avx2 bmi2", 0, {}, True),
    ("params.yaml", "fpu amx_bf16 avx2", 0, {}, False),
    ("params.yaml", None, 0, {}, False),  # the machine does not say
    ("studies/sample.yaml", "fpu avx2", 0, {}, False),  # in float32
    ("params.yaml", "fpu avx2", 0, {"run.device": "cuda:0"}, False),
    ("params.yaml", "fpu avx2", 1, {}, False),
])  # fmt: skip
def test_one_is_warned_of(tmp_path, monkeypatch, file, flags, gpus, overrides, warned):
    for name in ("CPU", "GPU"):
        monkeypatch.setattr(processor, name, tmp_path / name)
    for number in range(gpus):
        (tmp_path / "GPU" / str(number)).mkdir(parents=True)
    if flags is not None:
        (tmp_path / "CPU").write_text(f"processor\t: 0\nflags\t\t: {flags}\n\n")
    line = processor.warn_of_bfloat16(load(ROOT / file, overrides))
    assert (line is not None) is warned
    if line:
        assert "lm.precision: float32" in line
        assert "\n" not in line
