"""Libraries that only some kinds or steps need, which an extra of the package installs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Library:
    """A module that may not be installed, and the extra that installs it."""

    name: str
    extra: str

    def explain(self, who: str, what: str) -> str:
        """That ``who`` needs it, or else ``what`` may be left out, in a line; "" where it is
        installed.
        """
        if find_spec(self.name) is not None:
            return ""
        return (
            f"{who} needs {self.name}, which is not installed: pip install"
            f" 'entity-transformers[{self.extra}]', or leave {what} out"
        )


GENSIM = Library("gensim", "vectors")
