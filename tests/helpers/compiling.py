"""What a test of torch.compile on a CPU needs."""

import shutil
import sysconfig
from pathlib import Path

import pytest

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++")))
    or not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists(),
    reason="torch.compile needs a C++ compiler and Python's headers, which this machine lacks",
)
