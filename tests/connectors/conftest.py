import pytest

from connectors.state.disk import CheckpointStore


@pytest.fixture
def store(tmp_path):
    with CheckpointStore(tmp_path / "kept").locked() as store:
        yield store
