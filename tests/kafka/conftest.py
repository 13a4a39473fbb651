import os
import shutil
import tempfile
from pathlib import Path

import pytest

from .broker import Broker
from .stand import Stand


def pytest_collection_modifyitems(items):
    """One worker runs all of these, with one broker."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("kafka"))


@pytest.fixture(scope="session")
def broker():
    directory = Path(tempfile.mkdtemp(prefix="streamk-kafka-"))
    broker = Broker(directory)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def servers(request):
    """Return the address of the brokers that everybody may use; they are not stopped."""
    return os.environ.get("STREAMK_TEST_KAFKA") or request.getfixturevalue("broker").servers


@pytest.fixture
def stand(servers, tmp_path):
    with Stand(servers, tmp_path) as stand:
        yield stand
