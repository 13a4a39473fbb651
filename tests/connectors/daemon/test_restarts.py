"""How many interruptions a daemon takes: absent brokers for a time, other causes a number of times."""

import pytest

from connectors.contract.errors import AWAY, STUCK, BrokerUnavailable, Failure, Interruption
from connectors.daemon import run
from connectors.daemon.run import RestartLimit


@pytest.fixture
def clock(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: clock[0])
    return clock


class Session:
    """A session that has committed and processed so much."""

    def __init__(self, committed=(), processed=0):
        self.committed, self.processed = dict(committed), processed


def bears(limit, clock, seconds, error=None, idle=False, lasted=1.0):
    """Return the code of the failure that ends it, None if there is none."""
    clock[0] += seconds
    try:
        limit.count(error or BrokerUnavailable("no broker answers"), idle, lasted)
    except Failure as failure:
        return failure.code
    return None


def end_of(limit, session):
    """Return the type of the exception that ends a session, one that never opened if it is None."""
    try:
        with limit.applied():
            if session is not None:
                limit.follow(session)
            raise Interruption("a cause")
    except (Interruption, Failure) as error:
        return type(error)


def test_an_address_that_never_answered_is_not_waited_for(clock):
    limit = RestartLimit(300.0, 3)
    found = [bears(limit, clock, 4.0) for _ in range(4)]
    assert found == [None, None, None, AWAY]


def test_brokers_that_have_answered_may_be_absent(clock):
    limit = RestartLimit(300.0, 3)
    limit.follow(Session())
    found = [bears(limit, clock, 100.0) for _ in range(5)]
    assert found == [None, None, None, None, AWAY]


def test_absences_do_not_add_up(clock):
    limit = RestartLimit(300.0, 3)
    limit.follow(Session())
    for k in range(10):
        limit.advance({"p-0": k})
        assert [bears(limit, clock, 200.0), bears(limit, clock, 200.0)] == [None, None]


def test_sessions_without_progress_are_counted(clock):
    limit = RestartLimit(300.0, 3)
    cause = Interruption("records cannot be read")
    found = []
    for _ in range(4):
        limit.advance({"p-0": 70})  # as far as the others came
        found.append(bears(limit, clock, 1.0, cause))
    assert found == [None, None, None, STUCK]


def test_progress_resets_the_count(clock):
    limit = RestartLimit(300.0, 3)
    cause = Interruption("the group has given the partitions to others")
    for k in range(20):
        limit.advance({"p-0": 70, "p-1": k // 3})
        assert bears(limit, clock, 1.0, cause) is None


def test_a_partition_that_goes_back_is_no_progress(clock):
    limit = RestartLimit(300.0, 3)
    found = []
    for k in range(4):
        limit.advance({"p-0": 70 - k})
        found.append(bears(limit, clock, 1.0, Interruption("gone")))
    assert found == [None, None, None, STUCK]


def test_a_long_session_counts_as_progress(clock):
    """On a quiet topic a daemon may lose its place in the group now and then, for months."""
    limit = RestartLimit(300.0, 3)
    cause = Interruption("the group has given the partitions to others")
    for _ in range(20):
        limit.advance({"p-0": 70})
        assert bears(limit, clock, 100.0, cause, idle=True, lasted=61.0) is None
        assert bears(limit, clock, 1.0, cause, lasted=1.0) is None


def test_the_sentence_says_what_it_was():
    limit = RestartLimit(300.0, 1)
    limit.advance({"p-0": 1})
    limit.count(Interruption("a cause"), False, 1.0)
    with pytest.raises(Failure, match=r"a cause; 2 sessions have ended without progress \(limits.restarts\)"):
        limit.count(Interruption("a cause"), False, 1.0)


def test_long_sessions_that_commit_nothing_count():
    """A commit that waits a minute for its answer makes the session long, and not a working one."""
    limit = RestartLimit(300.0, 2)
    for _ in range(2):
        limit.count(Interruption("a cause"), False, 100.0)
    with pytest.raises(Failure, match="3 sessions have ended without progress"):
        limit.count(Interruption("a cause"), False, 100.0)


def test_absences_add_up_while_nothing_is_committed(clock):
    """Brokers that answer readers and no writers are absent all the same."""
    limit = RestartLimit(300.0, 3)
    limit.follow(Session())
    found = [bears(limit, clock, 70.0, lasted=70.0) for _ in range(6)]
    assert found == [None] * 5 + [AWAY]


def test_absences_of_an_idle_session_do_not_add_up(clock):
    limit = RestartLimit(300.0, 3)
    limit.follow(Session())
    assert [bears(limit, clock, 70.0, idle=True, lasted=70.0) for _ in range(20)] == [None] * 20


@pytest.mark.parametrize("processed", [0, 5])
def test_an_applied_limit_measures_the_session_by_what_it_commits(clock, processed):
    limit = RestartLimit(300.0, 2)
    sessions = [Session({"p-0": at}, processed) for at in (5, 5, 6, 6, 6)]
    ends = [end_of(limit, session) for session in sessions]
    assert ends == [Interruption] * 4 + [Failure]


def test_a_session_that_never_opened_has_made_no_progress(clock):
    limit = RestartLimit(300.0, 1)
    ends = [end_of(limit, session) for session in (Session({"p-0": 5}), None)]
    assert ends == [Interruption, Failure]
