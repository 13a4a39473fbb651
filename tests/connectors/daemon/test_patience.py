"""How long interruptions are borne: absent brokers for a time, other causes a number of times."""

import pytest

from connectors.daemon import run as daemon
from connectors.stream import AWAY, STUCK, Away, Failure, Interruption


@pytest.fixture
def clock(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(daemon.time, "monotonic", lambda: clock[0])
    return clock


def bears(patience, clock, seconds, error=None, ready=False, lasted=1.0):
    """Return the code of the failure that ends it, None if it is borne."""
    clock[0] += seconds
    try:
        patience.bear(error or Away("no broker answers"), ready, lasted)
    except Failure as failure:
        return failure.code
    return None


def test_an_address_that_never_answered_is_not_waited_for(clock):
    patience = daemon._Patience(300.0, 3)
    found = [bears(patience, clock, 4.0) for _ in range(4)]
    assert found == [None, None, None, AWAY]


def test_brokers_that_have_answered_may_be_away(clock):
    patience = daemon._Patience(300.0, 3)
    patience.advanced({})
    found = [bears(patience, clock, 100.0) for _ in range(5)]
    assert found == [None, None, None, None, AWAY]


def test_absences_do_not_add_up(clock):
    patience = daemon._Patience(300.0, 3)
    for k in range(10):
        patience.advanced({"p-0": k})
        assert [bears(patience, clock, 200.0), bears(patience, clock, 200.0)] == [None, None]


def test_sessions_without_progress_are_counted(clock):
    patience = daemon._Patience(300.0, 3)
    cause = Interruption("records cannot be read")
    found = []
    for _ in range(4):
        patience.advanced({"p-0": 70})  # as far as the others came
        found.append(bears(patience, clock, 1.0, cause))
    assert found == [None, None, None, STUCK]


def test_progress_begins_the_count_anew(clock):
    patience = daemon._Patience(300.0, 3)
    cause = Interruption("the group has given the partitions to others")
    for k in range(20):
        patience.advanced({"p-0": 70, "p-1": k // 3})
        assert bears(patience, clock, 1.0, cause) is None


def test_a_partition_that_goes_back_is_no_progress(clock):
    patience = daemon._Patience(300.0, 3)
    found = []
    for k in range(4):
        patience.advanced({"p-0": 70 - k})
        found.append(bears(patience, clock, 1.0, Interruption("gone")))
    assert found == [None, None, None, STUCK]


def test_a_session_that_lasted_was_not_in_vain(clock):
    """On a quiet topic a daemon may lose its place in the group now and then, for months."""
    patience = daemon._Patience(300.0, 3)
    cause = Interruption("the group has given the partitions to others")
    for _ in range(20):
        patience.advanced({"p-0": 70})
        assert bears(patience, clock, 100.0, cause, lasted=61.0) is None
        assert bears(patience, clock, 1.0, cause, lasted=1.0) is None


def test_the_sentence_says_what_it_was():
    patience = daemon._Patience(300.0, 1)
    patience.advanced({"p-0": 1})
    patience.bear(Interruption("a cause"), False, 1.0)
    with pytest.raises(Failure, match=r"a cause; 2 sessions have ended without progress \(limits.restarts\)"):
        patience.bear(Interruption("a cause"), False, 1.0)
