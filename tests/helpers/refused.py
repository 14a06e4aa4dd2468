"""What tests of readers expect most often."""

import pytest

from entity_transformers.corpus.document import CorpusError


def refused(message: str) -> pytest.RaisesExc[CorpusError]:
    """A block that raises CorpusError with a message that the pattern is found in."""
    return pytest.raises(CorpusError, match=message)
