"""The paper's params.yaml, which stands at the root, goes into the wheel as data of the package."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithParams(build_py):
    """Copies params.yaml too; an editable install finds it at the root."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file("params.yaml", str(Path(self.build_lib) / "entity_transformers"))


setup(cmdclass={"build_py": BuildWithParams})
