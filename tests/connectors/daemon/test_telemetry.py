import math
import random
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import streamk
from connectors.contract.errors import (
    INTERRUPTIONS,
    NO_BROKER,
    USAGE,
    BrokerUnavailable,
    Failure,
    Interruption,
    UnreadableRecords,
)
from connectors.contract.records import Processed, Raw, Tally
from connectors.daemon import telemetry as module
from connectors.daemon.telemetry import SERIES, Telemetry
from connectors.events.decoding import Event
from connectors.operators.learning import tally
from connectors.operators.outputs import Outcome

from .world import HISTORIES, PlayedSink, World, try_histories

LEARNER = SimpleNamespace(feature_count=256, events=1000)


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that goes when it is told."""
    clock = SimpleNamespace(now=1000.0)
    now = {"monotonic": lambda: clock.now, "time": lambda: 1e9 + clock.now}
    monkeypatch.setattr(module, "time", SimpleNamespace(**now))
    return clock


def outcome(target, prediction):
    return Outcome(Raw(0, b""), Event({}, target, None, None, None), prediction, "")


REFUSED = Outcome(Raw(0, b""), None, None, "cannot be decoded")


def work(telemetry, outcomes, seconds=0.01, learner=LEARNER):
    telemetry.learned(outcomes, learner)
    telemetry.begin("a-0", 0, 10**6)
    telemetry.count("a-0", 1, Processed([], tally(outcomes, 0), len(outcomes)))
    telemetry.worked(seconds)


def metrics(telemetry):
    """Return the metrics by name and labels, as the text has them."""
    code, kind, body = telemetry.answer("/metrics")
    assert code == 200
    assert kind.startswith("text/plain")
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


# ---- delays


def delays(telemetry):
    """Return how many delays there are up to each bound, the sum, and all."""
    found = {k.removeprefix("streamk_delay_seconds"): v for k, v in metrics(telemetry).items()}
    buckets = {k[12:-2]: v for k, v in found.items() if k.startswith('_bucket{le="')}
    return buckets, found["_sum"], found["_count"]


def record(telemetry, *ages, after=10):
    now = 1e9 + 1000.0
    raws = [
        Raw(k, b"", timestamp=None if age is None else int((now - age) * 1000)) for k, age in enumerate(ages)
    ]
    telemetry.count("a-0", after, Processed([], Tally(len(ages), 0, 0, 0), len(ages)), raws)


def test_delays_count_once_predictions_are_committed(clock):
    telemetry = Telemetry()
    telemetry.begin("a-0", 0, 10**6)
    record(telemetry, 0.0, 2.0, None)
    assert delays(telemetry)[2] == 0.0  # they are not committed yet
    clock.now += 5.0
    telemetry.delivered()
    buckets, total, count = delays(telemetry)
    assert (total, count) == (12.0, 2.0)
    assert (buckets["3.0"], buckets["10.0"], buckets["+Inf"]) == (0.0, 2.0, 2.0)
    clock.now += 1000.0
    telemetry.delivered()
    assert delays(telemetry) == (buckets, total, count)  # silence adds nothing


def test_delays_are_never_negative_and_replays_add_none(clock):
    telemetry = Telemetry()
    telemetry.begin("a-0", 0, 10**6)
    record(telemetry, -3600.0, 10**6)  # by a clock that is an hour ahead, and after more than a week
    telemetry.replays(True)
    record(telemetry, 1.0)
    telemetry.delivered()
    buckets, total, count = delays(telemetry)
    assert (total, count) == (10.0**6, 2.0)
    assert (buckets["0.01"], buckets["300000.0"], buckets["+Inf"]) == (1.0, 1.0, 2.0)


def test_a_delay_includes_the_time_of_an_interruption(clock):
    telemetry = Telemetry()
    telemetry.begin("a-0", 0, 10**6)
    record(telemetry, 0.0)
    telemetry.restarted("the broker is away")
    clock.now += 50.0
    telemetry.begin("a-0", 0, 10**6)
    telemetry.replays(True)
    record(telemetry, 50.0)
    telemetry.delivered()
    assert delays(telemetry)[1:] == (50.0, 1.0)


# ---- metrics


def test_metrics_of_nothing():
    found = metrics(Telemetry())
    for result in ("learned", "predicted", "refused"):
        assert found[f'streamk_events_total{{result="{result}"}}'] == 0.0
    for name in ("restarts_total", "drifts_total", "batch_seconds_count", "checkpoint_bytes", "features"):
        assert found[f"streamk_{name}"] == 0.0
    assert found["streamk_checkpoint_age_seconds"] == found["streamk_partitions"] == 0.0
    assert not [name for name in found if name.startswith("streamk_lag")]


def test_metrics(clock):
    telemetry = Telemetry()
    work(telemetry, [outcome("a", {"a": 0.5, "b": 0.5}), outcome(None, {}), REFUSED, REFUSED], 0.02)
    work(telemetry, [outcome("b", {"a": 0.25, "b": 0.75})], 2.0, SimpleNamespace(feature_count=512, events=7))
    telemetry.waiting({"clicks-0": 7, "clicks-1": 0}, {"clicks-1": 12})
    telemetry.checkpointed(4096)
    telemetry.restarted()
    clock.now += 2.5
    found = metrics(telemetry)
    assert found['streamk_events_total{result="learned"}'] == 2
    assert found['streamk_events_total{result="predicted"}'] == 1
    assert found['streamk_events_total{result="refused"}'] == 2
    assert found['streamk_lag{partition="clicks-0"}'] == 7
    assert found['streamk_lag{partition="clicks-1"}'] == 0
    assert found['streamk_lag_uncommitted{partition="clicks-1"}'] == 12
    assert found["streamk_batch_seconds_count"] == 2
    assert found["streamk_batch_seconds_sum"] == pytest.approx(2.02)
    assert found['streamk_batch_seconds_bucket{le="0.03"}'] == 1
    assert (found["streamk_features"], found["streamk_model_events"]) == (512, 7)
    assert found["streamk_checkpoint_bytes"] == 4096
    assert found["streamk_restarts_total"] == 1
    telemetry.waiting({"clicks-1": 3})
    assert [name for name in metrics(telemetry) if "lag" in name] == ['streamk_lag{partition="clicks-1"}']


def test_a_lag_that_is_not_known_any_more_is_nan(clock):
    telemetry = Telemetry(silence=4.0)
    telemetry.waiting({"clicks-0": 7}, {"clicks-0": 12})
    clock.now += 3.5
    found = metrics(telemetry)
    assert np.isnan(found['streamk_lag{partition="clicks-0"}'])
    assert np.isnan(found['streamk_lag_uncommitted{partition="clicks-0"}'])
    telemetry.waiting({"clicks-0": 9})
    assert metrics(telemetry)['streamk_lag{partition="clicks-0"}'] == 9


def test_every_metric_has_a_help_text():
    text = Telemetry(classes=False).answer("/metrics")[2].decode()
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    for name in names:
        assert re.search(rf"# HELP {name} \w.{{8}}", text) or name.endswith("_created")
    ours = {name for name in names if name.startswith("streamk_") and not name.endswith("_created")}
    assert ours == {series.name for series in SERIES}
    assert {name.partition("_")[0] for name in names - ours} == {"streamk", "process", "python"}


def test_the_documentation_lists_every_series():
    page = (Path(__file__).parents[3] / "docs" / "daemon.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `streamk_")]
    assert rows == [row(series) for series in SERIES]


def row(series):
    """Return the line of docs/daemon.md for a series."""
    labels = [
        f"`{label}`" + (": " if values else "") + ", ".join(f"`{value}`" for value in values)
        for label, values in series.labels.items()
    ]
    return f"| `{series.name}` | {series.kind} | {'; '.join(labels)} | {series.help} |"


def test_runs_share_nothing():
    one, two = Telemetry(classes=False), Telemetry(classes=False)
    work(one, [outcome(1.0, 0.0)])
    assert metrics(two)['streamk_events_total{result="learned"}'] == 0


# ---- replays


class Scored:
    """An operator of the played world that reports a loss for every record, as :class:`Learning` does."""

    def __init__(self, operator, telemetry, scored):
        self._operator, self._telemetry, self._scored = operator, telemetry, scored

    def process(self, partition, records):
        processed = self._operator.process(partition, records)
        places = [(partition, raw.offset) for raw in records]
        refused = [place for place in places if place[1] % 7 == 3]
        self._scored += places if not self._telemetry._replaying else []
        self._telemetry.scored(np.ones((2, len(records))), LEARNER)
        tally = Tally(len(records) - len(refused), refused=len(refused))
        return processed._replace(tally=tally, causes={"limits": len(refused)})

    def __getattr__(self, name):
        return getattr(self._operator, name)


def measured(names=("a", "b", "c"), sinks=True):
    """Return a world with a telemetry for each member, which crashes do not end, and what they scored."""
    world = World(names, sinks=sinks)
    for p in world.broker.end:
        world.broker.wanted.setdefault(p, names[0])
    scored = {}
    for member in world.members.values():
        member.telemetry, scored[member.name] = Telemetry(classes=False), []
        begin(member, scored[member.name])
    return world, scored


def begin(member, scored):
    start = member.start

    def started():
        session = start()
        session._operator = Scored(session._operator, member.telemetry, scored)
        return session

    member.start = started


def counted(member):
    found = metrics(member.telemetry)
    return {result: found[f'streamk_events_total{{result="{result}"}}'] for result in Tally._fields}


def distinct(world):
    return sorted((p, k) for p, end in world.broker.end.items() for k in range(end) if k % 11 != 10)


def live(world, choices):
    """Live a story in which polls bring more or fewer records, so that replays end inside batches."""
    for choice in choices:
        for member in world.members.values():
            member.most = 1 + choice % 5
        world.live([choice])
    return world


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("count", HISTORIES)
def test_events_are_counted_once_after_any_story(count, sinks):
    """One process whose sessions end between any two effects: every event is counted and scored once."""

    def check(choices):
        world, scored = measured(("a",), sinks)
        live(world, choices).finish()
        events, found = distinct(world), counted(world.members["a"])
        refused = sum(k % 7 == 3 for _, k in events)
        assert found == {
            "learned": len(events) - refused, "refused": refused, "predicted": 0, "skipped": 0, "repeated": 0
        }  # fmt: skip
        assert sorted(scored["a"]) == events
        telemetry = world.members["a"].telemetry
        assert telemetry._losses.total == len(events)
        assert metrics(telemetry)['streamk_dead_letters_total{cause="limits"}'] == refused

    try_histories(count, check)


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("count", HISTORIES)
def test_no_process_counts_an_event_twice(count, sinks):
    """Several processes: each counts an event once at most, and together they count all of them."""

    def check(choices):
        world, scored = measured(sinks=sinks)
        live(world, choices).finish()
        for name, member in world.members.items():
            found = counted(member)
            assert (
                sum(found.values())
                == len(scored[name])
                == len({*scored[name]})
                == member.telemetry._losses.total
            )
        assert {*chain.from_iterable(scored.values())} == {*distinct(world)}

    try_histories(count, check)


def test_a_new_process_does_not_count_what_was_emitted():
    world, _ = measured(("a",))
    member = world.members["a"]
    member.events = 10**6  # no checkpoint for a while
    for _ in range(7):
        world.take("step", "a")
    before, emitted = sum(counted(member).values()), world.broker.committed["p-0"].position
    assert emitted > 0
    member.telemetry = Telemetry(classes=False)
    again = []
    begin(member, again)
    world.take("crash", "a")
    world.finish()
    committed = {place for place in distinct(world) if place[0] == "p-0" and place[1] < emitted}
    assert not committed & {*again}
    assert metrics(member.telemetry)["streamk_replayed_events_total"] > 0
    assert before + sum(counted(member).values()) >= len(distinct(world))


@pytest.mark.parametrize(
    ("emitted", "end", "identity", "wanted"),
    [
        (0, 100, "t1", 40),  # replayed
        (60, 100, "t1", 60),  # another process went on meanwhile
        (10, 20, "t1", 20),  # the broker lost the end of the log
        (5, 100, "t2", 5),  # the topic was deleted and created again
    ],
)
def test_where_counting_resumes(emitted, end, identity, wanted):
    telemetry = Telemetry(classes=False)
    telemetry.begin("p-0", 3, 100, "t1")
    assert telemetry.counted("p-0") == 3
    telemetry.count("p-0", 40, Processed([], Tally(37), 37))
    telemetry.restarted()
    telemetry.begin("p-0", emitted, end, identity)
    assert telemetry.counted("p-0") == wanted


def test_a_sink_that_interrupts_does_not_score_events_twice():
    """The operator has scored the records when the sink cannot take them."""
    world, scored = measured(("a",))
    member = world.members["a"]
    for _ in range(3):
        world.take("step", "a")
    session = member.session

    def refuse(outputs):
        raise Interruption("no broker answers")

    session._sinks["topics"].write = refuse
    for _ in range(3):
        world.take("step", "a")
    assert member.session is not session
    world.finish()
    assert sorted(scored["a"]) == distinct(world)
    assert sum(counted(member).values()) == len(distinct(world))


# ---- checkpoints, commits, rebalances, interruptions


def age(telemetry):
    return metrics(telemetry)["streamk_checkpoint_age_seconds"]


def test_the_age_of_a_checkpoint_counts_from_the_first_event_that_it_lacks(clock):
    telemetry = Telemetry(classes=False)
    clock.now += 100
    assert age(telemetry) == 0
    telemetry.unsaved()
    clock.now += 10
    telemetry.unsaved()
    clock.now += 5
    assert age(telemetry) == 15
    telemetry.restarted()  # the next session has to read them again
    clock.now += 5
    assert age(telemetry) == 20
    telemetry.checkpointed(4096)
    clock.now += 1000
    assert age(telemetry) == 0


def test_events_that_another_process_has_taken_over_do_not_age(clock):
    telemetry = Telemetry(classes=False)
    telemetry.unsaved()
    telemetry.restarted()
    clock.now += 10
    telemetry.waiting({})
    telemetry.caught_up()  # before the group has given anything
    assert age(telemetry) == 10
    telemetry.ready = True
    telemetry.waiting({"p-0": 3})
    telemetry.caught_up()  # before the first poll
    assert age(telemetry) == 10
    telemetry.waiting({"p-0": 0})
    telemetry.caught_up()
    assert age(telemetry) == 0


def test_the_age_of_a_checkpoint_in_a_session(clock):
    world, _ = measured(("a",))
    member = world.members["a"]
    member.events = 10**6
    seen = []
    for _ in range(12):
        world.take("step", "a")
        clock.now += 1
        seen.append((member.session._unsaved > 0, age(member.telemetry) > 0))
    assert all(unsaved == aging for unsaved, aging in seen)
    assert {aging for _, aging in seen} == {True, False}
    world.finish()
    clock.now += 1000
    assert age(member.telemetry) == 0


def test_commits_and_checkpoints_are_timed():
    world, _ = measured(("a",))
    world.finish()
    found, effects = metrics(world.members["a"].telemetry), world.members["a"].effects
    assert found['streamk_commit_seconds_count{kind="checkpoint"}'] == effects.count("written") > 0
    assert found['streamk_commit_seconds_count{kind="outputs"}'] > 0


def test_rebalances_are_counted():
    world, _ = measured(("a", "b"))
    a, b = world.members["a"], world.members["b"]
    world.broker.wanted = {"p-0": "a", "p-1": "a"}
    for _ in range(3):
        world.take("step", "a")
    assert rebalances(a) == {"assigned": 2, "revoked": 0, "lost": 0, "partitions": 2, "rebalances": 1}
    world.take("want", "b", "p-1")
    for name in "aabb":
        world.take("step", name)
    assert rebalances(a) == {"assigned": 2, "revoked": 1, "lost": 0, "partitions": 1, "rebalances": 2}
    assert rebalances(b) == {"assigned": 1, "revoked": 0, "lost": 0, "partitions": 1, "rebalances": 1}
    a.telemetry.restarted()
    assert rebalances(a) == {"assigned": 2, "revoked": 1, "lost": 1, "partitions": 0, "rebalances": 2}


def rebalances(member):
    found = metrics(member.telemetry)
    changes = {
        change: found[f'streamk_rebalanced_partitions_total{{change="{change}"}}']
        for change in ("assigned", "revoked", "lost")
    }
    return changes | {
        "partitions": found["streamk_partitions"],
        "rebalances": found["streamk_rebalances_total"],
    }


def test_the_last_interruption(clock):
    telemetry = Telemetry(classes=False)
    telemetry.restarted("no broker answers", NO_BROKER)
    clock.now += 10
    telemetry.restarted("the group has given the partitions to others")
    found = metrics(telemetry)
    times = [found[f'streamk_last_interruption_timestamp_seconds{{cause="{c}"}}'] for c in INTERRUPTIONS]
    assert times == [1e9 + 1000, 0.0, 1e9 + 1010]


def test_causes_of_interruptions():
    assert [kind("it").cause for kind in (BrokerUnavailable, UnreadableRecords, Interruption)] == list(
        INTERRUPTIONS
    )


def test_truncated_dead_letters_are_counted_when_they_are_committed(monkeypatch):
    """A transaction that is undone takes its stubs along; the next session writes them again."""
    world, _ = measured(("a",))
    member, failures = world.members["a"], [2]
    write, commit = PlayedSink.write, PlayedSink.commit

    def truncating(sink, outputs):
        before = len(sink._open)
        write(sink, outputs)
        return sum(offset % 7 == 3 for _, offset in sink._open[before:])

    def failing(sink, positions):
        if sink._open and failures[0]:
            failures[0] -= 1
            raise Interruption("no broker answers")
        return commit(sink, positions)

    monkeypatch.setattr(PlayedSink, "write", truncating)
    monkeypatch.setattr(PlayedSink, "commit", failing)
    while failures[0]:
        world.take("step", "a")
        assert metrics(member.telemetry)["streamk_truncated_dead_letters_total"] == 0
    world.finish()
    wanted = sum(k % 7 == 3 for _, k in distinct(world))
    assert metrics(member.telemetry)["streamk_truncated_dead_letters_total"] == wanted


def test_the_version():
    assert metrics(Telemetry(classes=False))[f'streamk_build_info{{version="{streamk.__version__}"}}'] == 1.0


# ---- loss and error


def scores(telemetry):
    found = metrics(telemetry)
    return found["streamk_loss"], found["streamk_error"]


@pytest.mark.parametrize(
    ("target", "prediction", "loss", "error"),
    [
        ("a", {"a": 0.8, "b": 0.2}, -math.log(0.8), 0.0),
        ("a", {"a": 0.2, "b": 0.8}, -math.log(0.2), 1.0),
        ("a", {"a": 0.5, "b": 0.5}, math.log(2), 0.0),
        (True, {False: 0.9, True: 0.1}, -math.log(0.1), 1.0),
        ("c", {"a": 0.5, "b": 0.5}, -math.log(1e-15), 1.0),
        ("a", {"a": 0.0, "b": 1.0}, -math.log(1e-15), 1.0),
        ("a", {"a": 0.0}, -math.log(1e-15), 1.0),
        ("a", {}, -math.log(1e-15), 1.0),
    ],
)
def test_the_loss_of_labels(target, prediction, loss, error):
    telemetry = Telemetry()
    work(telemetry, [outcome(target, prediction)])
    assert scores(telemetry) == pytest.approx((loss, error))


def test_the_loss_of_numbers():
    telemetry = Telemetry(classes=False)
    work(telemetry, [outcome(3, 1.5), outcome(-1.0, 1.0), outcome(None, 100.0), REFUSED])
    assert scores(telemetry) == pytest.approx((1.75, 1.75))


@pytest.mark.parametrize("window", [1, 7, 50])
def test_the_loss_is_that_of_the_window(window):
    chance = random.Random(3)
    telemetry = Telemetry(window=window, classes=False)
    errors = []
    for size in (1, 3, 0, 20, 60, 2, 7, 1, 50, 51):
        batch = [chance.random() for _ in range(size)]
        errors += batch
        work(telemetry, [outcome(0.0, error) for error in batch])
        last = errors[-window:]
        assert scores(telemetry) == pytest.approx((sum(last) / len(last),) * 2)


def follow(telemetry, chance, errors, batch=100):
    """Work through errors that come with so much probability."""
    for start in range(0, len(errors), batch):
        part = errors[start : start + batch]
        wrong = [{"a": 0.4, "b": 0.6}, {"a": 0.6, "b": 0.4}]
        work(telemetry, [outcome("a", wrong[chance.random() >= p]) for p in part])


@pytest.mark.parametrize("seed", range(3))
def test_a_change_is_detected(seed):
    chance, telemetry = random.Random(seed), Telemetry()
    follow(telemetry, chance, [0.1] * 20_000)
    assert metrics(telemetry)["streamk_drifts_total"] == 0
    follow(telemetry, chance, [0.6] * 4_000)
    assert metrics(telemetry)["streamk_drifts_total"] >= 1


def test_a_change_is_detected_wherever_batches_end():
    found = []
    for batch in (1, 33, 5000):
        telemetry = Telemetry()
        follow(telemetry, random.Random(1), [0.1] * 3000 + [0.8] * 3000, batch)
        found.append(metrics(telemetry)["streamk_drifts_total"])
    assert found[0] == found[1] == found[2] >= 1


# ---- health


def answer(telemetry, path="/healthz"):
    code, _, body = telemetry.answer(path)
    return code, body.decode()


def test_a_loop_that_does_not_advance(clock):
    telemetry = Telemetry(stall=60.0, classes=False)
    clock.now += 60
    assert telemetry.problem() == ""
    clock.now += 1
    assert telemetry.problem() == "the loop has stood still for 61 seconds"
    assert answer(telemetry) == (503, "the loop has stood still for 61 seconds\n")
    telemetry.beat()
    assert answer(telemetry) == (200, "ok\n")


def test_events_that_wait_and_are_not_read(clock):
    telemetry = Telemetry(stall=60.0, classes=False)

    def turn(seconds):
        for _ in range(seconds):
            clock.now += 1
            telemetry.beat()

    telemetry.waiting({"a-0": 4, "a-1": 3})
    turn(60)
    assert telemetry.problem() == ""
    turn(40)
    assert telemetry.problem() == "7 wait, and none has been read for 100 seconds"
    assert answer(telemetry, "/ready")[0] == 503
    work(telemetry, [REFUSED])
    assert telemetry.problem() == ""
    turn(60)
    assert telemetry.problem() == ""
    turn(1)
    assert telemetry.problem() == "7 wait, and none has been read for 61 seconds"
    telemetry.waiting({"a-0": 0})
    assert telemetry.problem() == ""
    turn(1000)
    assert telemetry.problem() == ""


def test_events_that_come_after_a_quiet_time(clock):
    telemetry = Telemetry(stall=60.0, classes=False)
    for _ in range(200):
        clock.now += 1
        telemetry.beat()
        telemetry.waiting({"a-0": 0})
    telemetry.waiting({"a-0": 5})
    assert telemetry.problem() == ""
    clock.now += 61
    telemetry.beat()
    assert "5 wait" in telemetry.problem()


def test_sessions_that_restart_without_progress(clock):
    telemetry = Telemetry(stall=60.0, classes=False)
    telemetry.restarted("a topic rejects a message")
    assert telemetry.problem() == ""
    telemetry.restarted("a topic rejects a message")
    trouble = "2 sessions in a row have ended without progress: a topic rejects a message"
    assert answer(telemetry) == (503, trouble + "\n")
    telemetry.ready = True  # which says nothing of what it will commit
    telemetry.waiting({"a-0": 5})
    telemetry.caught_up()
    assert telemetry.problem() == trouble
    telemetry.progressed()
    assert telemetry.problem() == ""
    telemetry.restarted("a cause")
    assert telemetry.problem() == ""


def test_absent_brokers_are_healthy_for_a_time(clock):
    telemetry = Telemetry(stall=60.0, classes=False)
    for _ in range(61):
        assert telemetry.problem() == ""
        telemetry.restarted("no broker answers", NO_BROKER)
        clock.now += 1.0
        telemetry.beat()
    assert telemetry.problem() == "61 sessions in a row have ended without progress: no broker answers"
    telemetry.waiting({"a-0": 0})
    telemetry.caught_up()
    assert telemetry.problem() == ""


def test_readiness():
    telemetry = Telemetry(classes=False)
    assert answer(telemetry) == (200, "ok\n")
    code, said = answer(telemetry, "/ready")
    assert code == 503
    assert said == "the checkpoint is not loaded yet, or the source is not open\n"
    telemetry.ready = True
    assert answer(telemetry, "/ready") == (200, "ok\n")
    telemetry.restarted()
    assert answer(telemetry, "/ready")[0] == 503
    assert answer(telemetry)[0] == 200


def test_it_is_not_ready_while_brokers_do_not_answer(clock):
    telemetry = Telemetry(silence=4.0)
    telemetry.ready = True

    def ready():
        return answer(telemetry, "/ready")

    with telemetry.awaits("commit"):
        clock.now += 2.0
        with telemetry.awaits("write"):  # of which the commit has to wait
            assert ready()[0] == 200
        clock.now += 2.0
        assert ready() == (503, "a commit has taken 4 seconds so far\n")
    telemetry.waiting({"p-0": 0})
    assert ready()[0] == 200
    telemetry.unanswered()
    assert ready()[0] == 200
    clock.now += 4.0
    assert ready() == (503, "the brokers have not answered a request for the lag for 4 seconds\n")
    telemetry.waiting({"p-0": 0})
    telemetry.granted(False)
    clock.now += 4.0
    telemetry.granted(False)
    assert ready() == (503, "the group has not accepted a position for 4 seconds\n")
    telemetry.granted(True)
    assert ready()[0] == 200
    telemetry.beat()
    clock.now += 50.0  # of work: the loop does not wait for the brokers
    assert ready()[0] == 200


# ---- the port


@contextmanager
def served(telemetry):
    server = telemetry.serve("127.0.0.1", 0)
    try:
        yield "http://{}:{}".format(*server.server_address[:2])
    finally:
        server.shutdown()
        server.server_close()


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.headers["Content-Type"], response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_the_port():
    telemetry = Telemetry(classes=False)
    work(telemetry, [outcome(2.0, 1.0)] * 3)
    with served(telemetry) as url:
        code, kind, text = get(f"{url}/metrics")
        assert code == 200
        assert kind.startswith("text/plain; version=")
        assert 'streamk_events_total{result="learned"} 3.0' in text
        assert "streamk_loss 1.0" in text
        assert get(f"{url}/healthz?verbose=1") == (200, "text/plain; charset=utf-8", "ok\n")
        assert get(f"{url}/ready")[0] == 503
        telemetry.ready = True
        assert get(f"{url}/ready")[::2] == (200, "ok\n")
        telemetry._beaten -= 1e6
        code, _, text = get(f"{url}/healthz")
        assert code == 503
        assert text.startswith("the loop has stood still for 1000")
        assert get(f"{url}/ready")[0] == 503
        for path in ("/", "/metric", "/metrics/", "/healthz/x"):
            assert get(url + path)[::2] == (404, "there are /metrics, /report, /healthz and /ready\n")


def test_silent_clients_do_not_pile_up(monkeypatch):
    """Each would hold a thread for ever; those beyond are hung up on, and the page answers again."""
    monkeypatch.setattr(module, "_REQUEST", 0.5)
    with served(Telemetry(classes=False)) as url:
        host, port = url.removeprefix("http://").split(":")
        before = threading.active_count()
        silent = [socket.create_connection((host, int(port))) for _ in range(60)]
        time.sleep(0.2)
        assert threading.active_count() - before <= module._AT_ONCE
        deadline = time.monotonic() + 10.0
        while threading.active_count() > before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert get(f"{url}/healthz")[0] == 200
        for client in silent:
            client.close()


@pytest.mark.parametrize("host", ["", "a b", "x" * 100, "\0", "é" * 70, "256.0.0.1"])
def test_a_host_that_is_none(host):
    if host == "":  # every address
        server = Telemetry(classes=False).serve(host, 0)
        server.shutdown()
        server.server_close()
        return
    with pytest.raises(Failure, match=r"telemetry.port: .* cannot be used"):
        Telemetry(classes=False).serve(host, 0)


def test_nothing_is_logged_of_requests(capfd):
    with served(Telemetry(classes=False)) as url:
        get(f"{url}/healthz")
    assert capfd.readouterr() == ("", "")


def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            Failure, match=rf"telemetry\.port: 127\.0\.0\.1:{port} cannot be used: "
        ) as raised:
            Telemetry(classes=False).serve("127.0.0.1", port)
    assert raised.value.code == USAGE
    with pytest.raises(Failure, match=r"telemetry\.port: 203\.0\.113\.1:0 cannot be used"):
        Telemetry(classes=False).serve("203.0.113.1", 0)


@pytest.mark.parametrize(
    ("window", "kept"), [(3, [5.0, 6.0, 7.0]), (10, [4.0, 5.0, 6.0, 7.0]), (4, [4, 5, 6, 7])]
)
def test_another_window_keeps_the_newest_losses(window, kept):
    telemetry = Telemetry(4, classes=False)
    telemetry.adjust(4, 7.0)
    assert telemetry._stall == 7.0
    telemetry._follow(np.array([range(8), range(8)], dtype=float))
    telemetry.adjust(window, 7.0)
    assert telemetry.figures()["loss"] == round(sum(kept) / len(kept), 4)
    telemetry._follow(np.array([[9.0], [9.0]]))
    expected = [*kept, 9.0][-window:]
    assert telemetry.figures()["loss"] == round(sum(expected) / len(expected), 4)
