import pytest
from made import make_entries, make_study

from entity_transformers.kinds import ModelEntry
from entity_transformers.report.results import Results


@pytest.fixture(scope="session")
def entries() -> dict[str, ModelEntry]:
    return make_entries()


@pytest.fixture(scope="session")
def small() -> Results:
    return make_study()
