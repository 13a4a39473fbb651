"""What operators of brokers do on an ordinary day: nothing of it may lose an event, or count one twice."""

import contextlib
import json
import time
from collections import Counter

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewPartitions

from tests.processes import run as command

from .stand import LIMIT, Stand, events


def learned(stand, count, name="daemon"):
    return lambda: (c := stand.checkpoint(name)) and c.learner().events >= count


def position(stand, partition=0, name="daemon"):
    checkpoint = stand.checkpoint(name)
    progress = checkpoint and checkpoint.partitions.get(f"{stand.topic('in')}-{partition}")
    return progress.position if progress else None


def run_until(stand, path, done, environment=None):
    """Run a daemon until something holds, and stop it."""
    daemon = stand.start(path, environment)
    daemon.until(done)
    assert daemon.stop() == 0
    return daemon


def offsets(stand):
    return sorted(json.loads(record.value)["offset"] for record in stand.read())


def remake(stand, partitions=1):
    """Delete the input topic, and make it anew."""
    with stand.admin() as admin:
        admin.delete_topics([stand.topic("in")])
        deadline = time.monotonic() + LIMIT
        while stand.topic("in") in admin.list_topics() and time.monotonic() < deadline:
            time.sleep(0.1)
    stand.topics(partitions, names=("in",))


# ---- 1. topics that are recreated


@pytest.mark.parametrize("policy", ["fail", "earliest"])
def test_a_topic_deleted_and_recreated(stand, policy):
    stand.topics()
    stand.send(events(100))
    path = stand.settings(source__expired=policy)
    run_until(stand, path, learned(stand, 100))
    remake(stand)
    stand.send(events(300, 2))  # more than were read of the other
    daemon = stand.start(path)
    if policy == "fail":
        assert daemon.wait() == 7
        assert "its topic was deleted and recreated" in daemon.text()
        assert stand.checkpoint().learner().events == 100
        return
    daemon.until(learned(stand, 400))
    assert daemon.stop() == 0
    assert position(stand) == 300


def test_a_topic_recreated_while_it_is_read(stand):
    stand.topics()
    stand.send(events(100))
    daemon = stand.start(stand.settings())
    daemon.until(learned(stand, 100))
    remake(stand)
    stand.send(events(300, 2))
    assert daemon.wait() == 7
    assert "its topic was deleted and recreated" in daemon.text()
    assert stand.checkpoint().learner().events == 100


# ---- 2. partitions that are added


def test_a_partition_added_to_a_topic_that_is_read_from_its_end(stand):
    stand.topics()
    stand.send(events(50))
    path = stand.settings(source__start="latest")
    daemon = stand.start(path)
    daemon.until(lambda: "-0: reading from position 50" in daemon.text())
    stand.send(events(10))
    daemon.until(learned(stand, 10))
    assert daemon.stop() == 0
    with stand.admin() as admin:
        admin.create_partitions({stand.topic("in"): NewPartitions(2)})
    stand.send(events(30, 2), partition=1)
    run_until(stand, path, learned(stand, 40))
    assert position(stand, 1) == 30


# ---- 3. events that expire while predictions are ahead of the checkpoint


def test_predictions_are_not_written_again_when_events_have_expired(stand):
    stand.topics()
    stand.send(events(1000))
    path = stand.settings(source__expired="earliest", checkpoints__events=10**6, checkpoints__seconds=1000.0)
    daemon = stand.start(path)
    deadline = time.monotonic() + LIMIT
    while len(stand.read()) < 1000 and time.monotonic() < deadline:
        time.sleep(0.2)
    daemon.kill()
    assert position(stand) in (None, 0)
    with stand.admin() as admin:
        admin.delete_records({TopicPartition(stand.topic("in"), 0): 500})
    stand.send(events(100, 2))
    run_until(stand, path, lambda: len(stand.read()) >= 1100)
    assert offsets(stand) == list(range(1100))
    assert stand.checkpoint().learner().events == 600


# ---- 4. positions that are set from outside


def set_position(stand, offset):
    with stand.admin() as admin:
        place = TopicPartition(stand.topic("in"), 0)
        done = admin.alter_group_offsets(stand.name, {place: OffsetAndMetadata(offset, "", -1)})
    assert all(error.errno == 0 for error in done.values())


@pytest.mark.parametrize(
    ("offset", "to", "count"), [(150, "group", 150), (40, "group", 260), (150, "checkpoint", 200)]
)
def test_a_position_set_from_outside(stand, offset, to, count):
    """Refused both ways, and each of the two commands that it names resolves it."""
    stand.topics()
    stand.send(events(100))
    path = stand.settings()
    run_until(stand, path, learned(stand, 100))
    stand.send(events(100, 2))
    set_position(stand, offset)
    daemon = stand.start(path)
    assert daemon.wait() == 7
    assert f"set to {offset} from outside, and this model has read up to 100" in daemon.text()
    dry = command("reset", path, "--to", to, "--dry-run")
    assert "nothing was set" in dry.stdout
    assert position(stand) == 100
    done = command("reset", path, "--to", to)
    assert done.returncode == 0, done.stderr
    run_until(stand, path, lambda: position(stand) == 200)
    assert stand.checkpoint().learner().events == count
    expected = Counter(range(100))
    expected.update(range(offset if to == "group" else 100, 200))
    assert Counter(offsets(stand)) == expected


def test_reset_refuses_what_it_cannot_do(stand):
    stand.topics()
    stand.send(events(100))
    path = stand.settings()
    daemon = stand.start(path)
    daemon.until(learned(stand, 100))
    running = command("reset", path, "--to", "earliest")
    assert running.returncode == 4
    assert "another process uses the checkpoints" in running.stderr
    assert daemon.stop() == 0
    for to, words in (
        ("3000", "holds 0 to 100, and not 3000"),
        ("then", "give earliest, latest, group"),
        ("2999-01-01T00:00", "--to 2999-01-01T00:00: this time is in the future; give latest"),
        ("2999-01-01", "this time is in the future"),
    ):
        done = command("reset", path, "--to", to)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    done = command("reset", path, "--to", "0", "--partition", "7")
    assert (done.returncode, "has no partition 7" in done.stderr) == (2, True)
    assert position(stand) == 100
    assert command("reset", path, "--to", "2026-01-01T00:00").returncode == 0
    run_until(stand, path, learned(stand, 200))
    assert Counter(offsets(stand)) == Counter([*range(100)] * 2)


# ---- 5. topics that are written by transactions


@contextlib.contextmanager
def transactions(stand):
    producer = KafkaProducer(
        bootstrap_servers=stand.servers, transactional_id=f"{stand.name}-tx", max_block_ms=20_000
    )
    producer.init_transactions()

    def write(sent, commit=True):
        producer.begin_transaction()
        for x in sent:
            producer.send(stand.topic("in"), json.dumps(x).encode(), partition=0)
        if commit:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()

    try:
        yield write
    finally:
        producer.close(timeout=5)


def test_quix_1017_stuck_behind_transaction_markers(stand):
    """Commit and abort markers are no events: the position passes them, and so does the position on disk."""
    stand.topics()
    with transactions(stand) as write:
        write(events(50))
        write(events(30, 2), commit=False)
        write(events(20, 3))
        write(events(10, 4), commit=False)
    end = 50 + 1 + 30 + 1 + 20 + 1 + 10 + 1
    path = stand.settings()
    run_until(stand, path, lambda: position(stand) == end)
    assert stand.checkpoint().learner().events == 70
    # all of it expires, markers too; nothing has been missed
    with stand.admin() as admin:
        admin.delete_records({TopicPartition(stand.topic("in"), 0): end})
    with transactions(stand) as write:
        write(events(5, 5))
    run_until(stand, path, learned(stand, 75))
    assert len(stand.read()) == 75


def test_quix_1114_a_committed_position_that_has_expired(stand):
    """It is found at the start and ends the run: it never reads nothing while it looks alive."""
    stand.topics()
    stand.send(events(100))
    path = stand.settings()
    run_until(stand, path, learned(stand, 100))
    stand.send(events(100, 2))
    with stand.admin() as admin:
        admin.delete_records({TopicPartition(stand.topic("in"), 0): 200})
    daemon = stand.start(path)
    assert daemon.wait() == 7
    assert "is empty, and starts at 200, and the next event to read is 100" in daemon.text()
    assert command("reset", path, "--to", "earliest").returncode == 0
    stand.send(events(10, 3))
    run_until(stand, path, learned(stand, 110))


def test_a_chain_of_two_daemons(stand):
    """The predictions of one are the events of the other, markers between them."""
    stand.topics()
    sent = events(2000)
    stand.send(sent)
    first = stand.start(stand.settings("first"))
    second = stand.start(
        stand.settings(
            "second",
            source={"kind": "topic", "topic": stand.topic("out"), "group": f"{stand.name}-2"},
            events={"target": "target", "ignore": ["partition", "offset", "probabilities"]},
            predictions=None,
            dead_letters=None,
        )
    )
    second.until(learned(stand, 2000, "second"))
    first.until(learned(stand, 2000, "first"))
    end = stand.end("out")
    second.until(lambda: stand.checkpoint("second").partitions[f"{stand.topic('out')}-0"].position == end)
    assert end > 2000
    assert first.stop() == second.stop() == 0
    assert stand.checkpoint("second").learner().events == 2000


# ---- 6. restarts without end


def test_a_wrong_address_ends_it_in_seconds(stand):
    stand.name = "none"
    path = stand.settings(kafka__servers=["127.0.0.1:1"])
    daemon = stand.start(path)
    assert daemon.wait() == 5  # brokers that have answered may be absent for 300 seconds
    assert "none has answered since the start" in daemon.text()


# ---- 7. a directory that is lost


def test_another_directory_and_the_same_group(stand):
    stand.topics()
    stand.send(events(100))
    run_until(stand, stand.settings(), learned(stand, 100))
    stand.send(events(50, 2))
    other = stand.settings("other")
    daemon = stand.start(other)
    assert daemon.wait() == 4
    assert "the group has read up to 100, and the model in this checkpoints.directory holds" in daemon.text()
    run_until(stand, other, learned(stand, 50, "other"), {"STREAMK_SOURCE__BLANK": "true"})
    assert stand.checkpoint("other").learner().events == 50
    assert offsets(stand) == list(range(150))


# ---- 9, 10. labels without bound, tombstones


def test_labels_without_bound_and_tombstones(stand):
    stand.topics()
    sent = [{**x, "y": f"user {i}"} for i, x in enumerate(events(30))]
    stand.send([*sent, {**sent[3], "id": 99}])
    producer = KafkaProducer(bootstrap_servers=stand.servers)
    producer.send(stand.topic("in"), None, key=b"gone", partition=0)
    producer.flush()
    producer.close(timeout=5)
    path = stand.settings(limits__labels=20, events__tombstones="skip")
    run_until(stand, path, lambda: position(stand) == 32)
    progress = stand.checkpoint().partitions[f"{stand.topic('in')}-0"]
    assert (progress.learned, progress.refused, progress.skipped) == (21, 10, 1)
    dead = stand.read("dead")
    assert len(dead) == 10
    reasons = [dict(record.headers)["streamk-reason"] for record in dead]
    assert all(b"(limits.labels)" in reason for reason in reasons)


def test_two_daemons_that_share_a_topic_are_left_alone(stand):
    """Each sees that the partitions that are not its own are the other's."""
    stand.topics(partitions=4)
    paths = [stand.settings(name, source__blank=True) for name in ("a", "b")]
    daemons = [stand.start(path) for path in paths]
    stand.send(events(400), lambda i: i % 4)
    for daemon in daemons:
        daemon.until(lambda daemon=daemon: daemon.text().count("running") >= 2)
    assert [daemon.stop() for daemon in daemons] == [0, 0]
    assert not any("have no owner; joining again" in daemon.text() for daemon in daemons)
    found = [stand.checkpoint(name) for name in ("a", "b")]
    assert sum(c.learner().events for c in found) == 400


# ---- targets that are missing, and labels without inputs


def test_a_mistyped_target_ends_the_daemon(stand):
    stand.topics()
    stand.send(events(3000)[:1000])
    path = stand.settings(events__target="labl", limits__without_target=2500, checkpoints__events=100)
    daemon = stand.start(path)
    daemon.until(lambda: position(stand))  # a checkpoint before the end, in which nothing was learned
    stand.send(events(3000)[1000:])
    assert daemon.wait() == 3
    assert "events has the field 'labl'; the fields of the last one are 'f00'" in daemon.text()
    assert "limits.without_target" in daemon.text()
    for _ in range(2):  # the second time after a session that began again and saved nothing
        daemon = stand.start(stand.settings(events__target="yy", checkpoints__events=100_000))
        assert daemon.wait() == 3
        assert "did you mean 'y'?" in daemon.text()
    run_until(stand, stand.settings(), learned(stand, 3000))  # with the right name, nothing is lost
    assert sorted(offsets(stand)) == list(range(3000))


def test_a_first_label_of_another_type_is_forgotten_on_request(stand):
    """It makes the model refuse all others; once it is forgotten, a retry learns them."""
    stand.topics()
    sent = events(60)
    stand.send([{**sent[0], "y": "test"}, *sent[1:]])
    path = stand.settings()
    run_until(stand, path, lambda: position(stand) == 60)
    reasons = {dict(record.headers)["streamk-reason"] for record in stand.read("dead")}
    assert all(b"`streamk labels forget SETTINGS test`" in reason for reason in reasons)
    wrong = command("labels", "forget", path, "tset")
    assert wrong.returncode == 2
    assert "the labels are 'test'" in wrong.stderr
    done = command("labels", "forget", path, "test")
    assert done.returncode == 0, done.stderr
    assert "forgot 'test', which 1 learned events had" in done.stdout
    assert command("dead-letters", "retry", path).returncode == 0
    run_until(stand, path, lambda: stand.checkpoint().learner().events == 59)
    assert sorted(stand.checkpoint().learner().labels) == [False, True]
    refused = command("labels", "forget", path, "true")
    assert refused.returncode == 2
    assert "the model has learned 'false', too" in refused.stderr


def test_a_restart_counts_refused_events_on(stand):
    """A daemon that stopped since too many were refused refuses a first batch, and not as many again."""
    stand.topics()
    sent = events(5000)
    stand.send([{**sent[0], "y": "test"}, *sent[1:]])
    path = stand.settings(limits__consecutive=500)
    dead = [0]
    for _ in range(3):
        assert stand.start(path).wait() == 3
        dead.append(len(stand.read("dead")))
    assert dead[1] >= 500
    assert dead[3] - dead[2] == dead[2] - dead[1] == 64
    assert command("labels", "forget", path, "test").returncode == 0
    run_until(stand, path, lambda: position(stand) == 5000)
    assert stand.checkpoint().learner().events == 4999 - dead[3]


def test_labels_that_come_later_are_waited_for_on_request(stand):
    stand.topics()
    stand.send([{key: value for key, value in x.items() if key != "y"} for x in events(1500)])
    stand.send(events(100, 2))
    run_until(stand, stand.settings(limits__without_target=0), learned(stand, 100))


def test_labels_in_records_of_their_own_are_dead_letters(stand):
    stand.topics()
    sent = events(100)
    late = [{"id": x["id"], "y": x["y"]} for x in sent]
    stand.send([*sent[:50], *late[:50], *sent[50:]])
    run_until(stand, stand.settings(), lambda: position(stand) == 150)
    assert stand.checkpoint().learner().events == 100
    reasons = {dict(record.headers)["streamk-reason"] for record in stand.read("dead")}
    assert len(reasons) == 1
    assert b"it has a target and no input" in reasons.pop()


# ---- batches that are damaged on the broker's disk


def test_a_batch_that_cannot_be_read(broker, tmp_path):
    """What is before it is learned; then the daemon ends, with the cause, and a reset goes on behind it."""
    with Stand(broker.servers, tmp_path) as stand:
        stand.topics()
        stand.send(events(100))
        stand.send([{**events(1)[0], "note": "DAMAGE-ME"}])
        stand.send(events(50, 2))
        log = next(broker.directory.rglob(f"{stand.topic('in')}-0/*.log"))
        data = log.read_bytes()
        at = data.index(b"DAMAGE-ME")
        with log.open("r+b") as file:
            file.seek(at)
            file.write(b"d")
        path = stand.settings(limits__restarts=2, kafka__session_seconds=30.0)
        daemon = stand.start(path)
        assert daemon.wait() == 9
        assert "the batch at offset 100 cannot be read" in daemon.text()
        assert "sessions have ended without progress (limits.restarts)" in daemon.text()
        assert position(stand) == 100
        # at once: a daemon that fails for good has left the group
        assert command("reset", path, "--to", "101").returncode == 0
        run_until(stand, path, learned(stand, 150))
        assert offsets(stand) == [*range(100), *range(101, 151)]


def test_a_log_that_is_reset_is_emitted_again(stand):
    """The topic holds up to where the log was emitted, and a reset sets that as well."""
    stand.topics()
    log = stand.directory / "log.jsonl"
    log.write_text("".join(json.dumps(x) + "\n" for x in events(100)))
    path = stand.settings(source={"kind": "file", "path": log})
    for count in (100, 200):
        daemon = stand.start(path)
        assert daemon.wait() == 0
        assert stand.checkpoint().learner().events == count
        assert len(stand.read()) == count
        assert command("reset", path, "--to", "earliest").returncode == 0
