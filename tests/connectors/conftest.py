import pytest

from connectors.daemon.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "kept").locked() as store:
        yield store
