"""What tests of bad input expect most often."""

import pytest

from entity_transformers.cli import main
from entity_transformers.corpus.document import CorpusError


def refused(message: str) -> pytest.RaisesExc[CorpusError]:
    """A block that raises CorpusError with a message that the pattern is found in."""
    return pytest.raises(CorpusError, match=message)


def fail(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that ends with 2 prints."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    return capsys.readouterr().err
