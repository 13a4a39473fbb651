import pytest

from tests.kafka.stand import Stand


@pytest.fixture
def stand(tmp_path):
    """Processes of daemons on logs on disk, without a broker."""
    stand = Stand("127.0.0.1:1", tmp_path)
    stand.name = "none"
    yield stand
    for process in stand.daemons:
        process.end()
