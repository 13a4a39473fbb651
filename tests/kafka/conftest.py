import fcntl
import os

import pytest

from .broker import Broker, StandIn, lacking
from .stand import Stand


@pytest.fixture(scope="session")
def broker(request, tmp_path_factory):
    """The broker of all workers, started by the first that asks; it ends with their parent process."""
    if lacking() or not hasattr(request.config, "workerinput"):
        yield from ended(new(tmp_path_factory.mktemp("kafka")))
    else:
        yield shared(tmp_path_factory.getbasetemp().parent / "kafka", os.getppid())


@pytest.fixture(scope="session")
def own_broker(tmp_path_factory):
    """A broker of one worker, for tests that end it and start it again.

    Those are of one group of pytest-xdist, so that there is one.
    """
    yield from ended(new(tmp_path_factory.mktemp("kafka")))


def new(directory):
    return StandIn(directory) if lacking() else Broker(directory)


def shared(directory, owner):
    directory.mkdir(exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        broker = Broker(directory, owner=owner)
        if not (directory / "started").exists():
            broker.start()
            (directory / "started").touch()
        return broker


def ended(broker):
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.fixture(scope="session")
def servers(request):
    """Return the address of the brokers that everybody may use; they are not stopped."""
    return os.environ.get("STREAMK_TEST_KAFKA") or request.getfixturevalue("broker").servers


@pytest.fixture
def stand(servers, tmp_path):
    with Stand(servers, tmp_path) as stand:
        yield stand


@pytest.fixture
def own(own_broker, tmp_path):
    """A stand on the broker that tests stop and start."""
    if not own_broker.running:
        own_broker.start()
    with Stand(own_broker.servers, tmp_path) as stand:
        yield stand
