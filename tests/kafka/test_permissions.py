"""A broker that authorizes: what `streamk check` finds denied, and the permissions that are documented."""

import contextlib
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

import streamk
from connectors.cli.check import check
from connectors.contract.errors import DENIED, Failure
from connectors.kafka.client import options
from connectors.kafka.compacted import cut
from connectors.kafka.producer import StandardProducer
from connectors.kafka.sections import Kafka
from connectors.settings.file import load
from tests.processes import ROOT, run

from .broker import PASSWORD, USER, Broker, lacking
from .stand import SHORT, Stand, events, producer_of

PRINCIPAL = f"User:{USER}"
ANY = ACLFilter(
    PRINCIPAL, None, ACLOperation.ANY, ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)  # fmt: skip
ALLOW, DENY = ACLPermissionType.ALLOW, ACLPermissionType.DENY
PREFIX = "streamk-"
TOPICS = {
    "source": "in", "labels": "labels", "predictions": "out", "dead_letters": "dead", "snapshots": "models",
    "learner": "models",
}  # fmt: skip
GROUP_OF_LOG = ("group", PREFIX, "prefixed", "READ")


def documented():
    """Return the rows of the two tables in the documentation: of every daemon, and more for a log on disk."""
    text = (ROOT / "docs" / "daemon.md").read_text().partition("### Permissions")[2].partition("###")[0]
    tables = [part.splitlines()[2:] for part in text.split("\n\n") if part.startswith("|")]
    cells = [[line.strip("| ").split(" | ") for line in table] for table in tables]
    every, of_log = [[tuple(cell.strip("`") for cell in row) for row in table] for table in cells]
    return every, of_log


@pytest.fixture(scope="module")
def authorizing():
    """A broker that denies what is not allowed, except to those of its open listener."""
    if lacking():
        pytest.skip("ACLs need Apache Kafka, which needs Java")
    directory = Path(tempfile.mkdtemp(prefix="streamk-kafka-"))
    broker = Broker(
        directory,
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(directory, ignore_errors=True)


class Guarded(Stand):
    """Topics that a daemon may use as far as a test allows it."""

    def __init__(self, broker, directory):
        super().__init__(broker.servers, directory)
        self.secure = {
            "servers": [broker.secure], "session_seconds": SHORT, "tls": True, "ca": broker.authority,
            "mechanism": "PLAIN", "username": USER, "password": PASSWORD,
        }  # fmt: skip

    def resource(self, name):
        """Return the name of the topic or group of a setting; others are names themselves."""
        section, _, key = name.partition(".")
        return self.name if key == "group" else self.topic(TOPICS[section]) if key else name

    def rules(self, rows, permission):
        for kind, name, pattern, operations in rows:
            place = ResourcePattern(
                ResourceType[kind.upper().replace(" ", "_")],
                self.resource(name),
                ACLResourcePatternType[pattern.upper()],
            )
            for operation in operations.split(", "):
                yield ACL(PRINCIPAL, "*", ACLOperation[operation], permission, place)

    def set(self, allowed, denied=()):
        """Have the broker allow and deny these rows, and nothing else."""
        with self.admin() as admin:
            admin.delete_acls([ANY])
            until(lambda: not admin.describe_acls(ANY)[0])
            wanted = [*self.rules(allowed, ALLOW), *self.rules(denied, DENY)]
            if wanted:
                assert not admin.create_acls(wanted)["failed"]
            until(lambda: len(admin.describe_acls(ANY)[0]) == len(wanted))

    def guarded(self, name="daemon", **changes):
        return self.settings(name, kafka=self.secure, **changes)


def until(true, seconds=30):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def guarded(authorizing, tmp_path):
    with Guarded(authorizing, tmp_path) as stand:
        stand.topics(names=("in", "labels", "out", "dead"))
        stand.topics(names=["models"], configs={"cleanup.policy": "compact"})
        stand.send(events(200))
        yield stand


def refused(path):
    """Return the sentences of what is denied."""
    with pytest.raises(Failure) as raised:
        list(check(load(path, {})))
    assert raised.value.code == DENIED
    return str(raised.value).splitlines()


def kind_of(stand, kind):
    """Return settings with snapshots and labels, of a topic alone, of a scorer, or of a log on disk."""
    if kind == "log":
        log = stand.directory / "log.jsonl"
        log.write_text('{"a": 1, "y": true}\n')
        return stand.guarded(source={"kind": "file", "path": log})
    if kind == "topic":
        return stand.guarded()
    if kind == "scorer":
        return stand.guarded(learner={"follow": stand.topic("models")})
    labels = {"kind": "topic", "topic": stand.topic("labels")}
    return stand.guarded(snapshots={"topic": stand.topic("models")}, labels=labels)


def rows_of(kind):
    """Return the permissions for these settings."""
    every, of_log = documented()
    of_kind = {"snapshots": {"labels.topic", "snapshots.topic"}, "scorer": {"learner.follow"}}
    unused = {"labels.topic", "snapshots.topic", "learner.follow"} - of_kind.get(kind, set())
    if kind == "log":
        return [row for row in every if row[1] not in unused | {"source.topic", "source.group"}] + of_log
    return [row for row in every if row[1] not in unused]


def publish(stand):
    """Put a model where scorers look for it."""
    learner = streamk.KaczmarzClassifier(features=64, seed=0)
    learner.learn_many(*zip(*[({"f00": x["f00"]}, x["y"]) for x in events(100)], strict=True))
    with contextlib.closing(producer_of(stand.servers)) as producer:
        for message in cut("m", learner.frozen().to_bytes(), {"events": 100}, 0):
            producer.send(stand.topic("models"), message.value, message.key, message.headers, 0)


def test_the_documentation_lists_the_permissions():
    every, of_log = documented()
    assert (len(every), len(of_log)) == (8, 2)
    assert GROUP_OF_LOG in of_log


@pytest.mark.parametrize(
    "kind", ["snapshots", "log", "scorer", pytest.param("topic", marks=pytest.mark.long)]
)
def test_the_permissions_of_the_documentation_suffice(guarded, kind):
    if kind == "scorer":
        publish(guarded)
    guarded.set(rows_of(kind))
    path = kind_of(guarded, kind)
    done = run("check", path)
    assert done.returncode == 0, done.stderr
    assert "permissions: the broker denies nothing that a run needs" in done.stdout
    daemon = guarded.start(path)
    if kind == "log":
        assert daemon.wait() == 0, daemon.text()
        assert len(guarded.read()) == 1
    else:
        daemon.until(lambda: len(guarded.read()) == 200)
        list(check(load(path, {})))  # while it runs, by the identity that it has now
        assert daemon.stop() == 0, daemon.text()
    list(check(load(path, {})))
    assert "denie" not in daemon.text()
    assert "refuse" not in daemon.text()


@pytest.mark.parametrize("kind", ["topic", "snapshots", "scorer", "log"])
def test_each_permission_of_the_documentation_is_needed(guarded, kind):
    path, needed = kind_of(guarded, kind), rows_of(kind)
    for row in needed:
        others = [other for other in needed if other != row]
        guarded.set(others)
        (line,) = refused(path)
        setting = "checkpoints.directory" if row[1] == PREFIX else row[1]
        described = any(other[:2] == row[:2] for other in others)
        missing = row[3] if described else "DESCRIBE"
        assert line.startswith(f"{setting}: the broker denies {missing} on the {row[0]} '")
        assert row[3].replace(", ", " and ") in line.partition("; allow this client ")[2]


@pytest.mark.parametrize(
    ("kind", "name", "operations"),
    [
        ("topic", "source.topic", "READ"),
        ("topic", "source.topic", "DESCRIBE"),
        ("topic", "labels.topic", "READ"),
        ("group", "source.group", "READ"),
        ("group", "source.group", "DESCRIBE"),
        ("topic", "predictions.topic", "WRITE"),
        ("topic", "predictions.topic", "DESCRIBE"),
        ("topic", "dead_letters.topic", "WRITE"),
        ("topic", "snapshots.topic", "READ"),
        ("topic", "snapshots.topic", "WRITE"),
        ("topic", "snapshots.topic", "READ, WRITE"),
        ("transactional id", PREFIX, "WRITE"),
        ("transactional id", PREFIX, "DESCRIBE"),
    ],
)
def test_what_is_denied_is_named(guarded, kind, name, operations):
    own = name == PREFIX
    guarded.set(rows_of("snapshots"), [(kind, name, "prefixed" if own else "literal", operations)])
    (line,) = refused(kind_of(guarded, "snapshots"))
    setting, resource = ("checkpoints.directory", PREFIX) if own else (name, guarded.resource(name))
    denied = operations.replace(", ", " and ")
    assert line.startswith(f"{setting}: the broker denies {denied} on the {kind} '{resource}")


def test_a_group_of_a_log_that_is_denied_is_named(guarded):
    guarded.set(rows_of("log"), [GROUP_OF_LOG])
    (line,) = refused(kind_of(guarded, "log"))
    assert line.startswith("checkpoints.directory: the broker denies READ on the group 'streamk-")
    assert line.endswith("; allow this client READ on the prefix 'streamk-'")


def test_the_transactional_id_is_that_of_the_directory(guarded):
    """Before the first run nobody knows it, so permission on the prefix as a name is not enough."""
    others = [row for row in rows_of("topic") if row[1] != PREFIX]
    path = kind_of(guarded, "topic")
    guarded.set([*others, ("transactional id", PREFIX, "literal", "WRITE")])
    (line,) = refused(path)
    assert line.endswith("; allow this client WRITE on the prefix 'streamk-'")
    directory = guarded.directory / "daemon-checkpoints"
    directory.mkdir()
    (directory / "identity").write_text(guarded.name)
    (line,) = refused(path)
    assert f"the transactional id 'streamk-{guarded.name}'" in line
    guarded.set([*others, ("transactional id", f"streamk-{guarded.name}", "literal", "WRITE")])
    list(check(load(path, {})))


def test_everything_that_is_denied_is_named_at_once(guarded):
    guarded.set([])
    lines = refused(kind_of(guarded, "snapshots"))
    assert [line.partition(":")[0] for line in lines] == [
        "source.topic", "source.group", "labels.topic", "predictions.topic", "dead_letters.topic",
        "snapshots.topic", "checkpoints.directory",
    ]  # fmt: skip


def test_run_and_check_end_alike(guarded):
    """A transactional id that may be described and not used: the producer finds it when it begins."""
    guarded.set(rows_of("topic"), [("transactional id", PREFIX, "prefixed", "WRITE")])
    path = kind_of(guarded, "topic")
    done = run("check", path)
    assert done.returncode == DENIED
    assert len(done.stderr.splitlines()) == 1
    assert guarded.start(path).wait(60) == DENIED


def test_check_disturbs_no_transaction_and_leaves_no_trace(guarded):
    """The check asks with the transactional id of a daemon that may be running."""
    guarded.set(rows_of("topic"))
    path = kind_of(guarded, "topic")
    directory = guarded.directory / "daemon-checkpoints"
    directory.mkdir()
    (directory / "identity").write_text(guarded.name)
    producer = StandardProducer(options(Kafka(servers=[guarded.servers])), f"streamk-{guarded.name}")
    producer.open()
    producer.begin()
    producer.send(guarded.topic("out"), b"one", None, [])
    with guarded.admin() as admin:

        def seen():
            groups = [group for group in admin.list_groups() if group["group_id"] == guarded.name]
            ends = [guarded.end(name) for name in TOPICS.values()]
            return admin.describe_transactions([f"streamk-{guarded.name}"]), groups, ends

        before = seen()
        list(check(load(path, {})))
        assert seen() == before
    producer.commit({}, None)
    producer.close()
    assert len(guarded.read()) == 1
    assert [file.name for file in directory.iterdir()] == ["identity"]
