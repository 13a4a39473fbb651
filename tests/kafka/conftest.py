import os
import shutil
import tempfile
from pathlib import Path

import pytest

from .broker import Broker, StandIn, lacking
from .stand import Stand


@pytest.fixture(scope="session")
def broker():
    """One for each worker: some tests end it and start it again."""
    directory = Path(tempfile.mkdtemp(prefix="streamk-kafka-"))
    broker = StandIn(directory) if lacking() else Broker(directory)
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
