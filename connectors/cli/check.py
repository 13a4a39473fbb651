"""``streamk check``: try what a daemon will need, joining no group and writing nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from connectors.cli.arguments import Config
from connectors.cli.exits import exits
from connectors.cli.logged_settings import load_and_log
from connectors.daemon import ownership
from connectors.daemon.beginning import lost_position
from connectors.daemon.checkpoint import Checkpoint
from connectors.daemon.learning import restored
from connectors.daemon.partition_bound import require_none, strange
from connectors.daemon.store import Store
from connectors.daemon.training import digest_of, require_same_digest, require_same_training, training_of
from connectors.files.source import FileSource
from connectors.kafka import librdkafka
from connectors.settings import Settings, TopicSource
from connectors.stream import AWAY, CHECKPOINT, SINK, Failure, Interruption


def check_command(config: Config) -> None:
    """Read the settings, then try the connections, the files and the checkpoints, changing nothing."""
    with exits():
        settings = load_and_log(config)
        console = Console()
        console.print("settings: good")
        for line in check(settings):
            console.print(line, highlight=False, soft_wrap=True)


def check(settings: Settings) -> Iterator[str]:
    """Yield a line for everything that is there.

    Raises
    ------
    Failure
        At the first that is not.
    """
    source: Any = settings.source
    named = {"source": source, "predictions": settings.predictions, "dead_letters": settings.dead_letters}
    if settings.kafka.producer == "confluent-kafka":
        librdkafka.load()
        yield "kafka.producer: confluent-kafka is installed"
    topics = {f"{k}.topic": p.topic for k, p in named.items() if p is not None and p.kind == "topic"}
    if settings.snapshots is not None:
        topics["snapshots.topic"] = settings.snapshots.topic
    if topics:
        yield from _topics(settings, topics)
    if source.kind == "file":
        FileSource(source.path, settings.events.format, source.follow, settings.format).close(leaving=True)
        yield f"source.path: {source.path} can be read"
    for key in ("predictions", "dead_letters"):
        place: Any = named[key]
        if place is not None and place.kind == "file":
            _require_writable(
                place.path if place.path.exists() else place.path.absolute().parent, SINK, f"{key}.path"
            )
            yield f"{key}.path: {place.path} can be written"
    if settings.snapshots is not None:
        store = Store(settings.checkpoints.directory)
        _require_writable(store.directory, CHECKPOINT, "checkpoints.directory")
        require_none(store)
        yield _snapshots(settings, settings.snapshots.topic, source)
        return
    yield _checkpoints(settings, source.topic if source.kind == "topic" else source.path.name)
    if source.kind == "topic":
        yield _group(settings, source)


def _group(settings: Settings, source: TopicSource) -> str:
    """Return how far the group has read, if no other model and no other program is in it."""
    from connectors.kafka.group import Group
    from connectors.kafka.positions import committed_positions

    store = Store(settings.checkpoints.directory, settings.checkpoints.keep)
    paths, mine = store.paths(), store.identity()
    saved = Checkpoint.read(paths[-1]).partitions if paths else {}
    digest = digest_of(training_of(settings))
    try:
        found, positions = committed_positions(source, settings.kafka)
        Group(found, source.group).require_daemons()
    except Interruption as error:
        raise Failure(AWAY, str(error)) from None
    for name, committed in positions.items():
        if committed is None and name in saved:
            raise lost_position(name, saved[name].position, source.group)
        note = ownership.read("" if committed is None else committed.note)
        if not note.owners or note.owners[-1].model != mine:
            require_same_digest(name, note.digest, digest, source.group)
    count = sum(committed is not None for committed in positions.values())
    return f"source.group: {source.group} has read from {count} of {len(positions)} partitions"


def _topics(settings: Settings, topics: dict[str, str]) -> Iterator[str]:
    from kafka import KafkaConsumer, TopicPartition

    from connectors.daemon.permissions import permissions
    from connectors.kafka.client import explained, options, require_topics
    from connectors.kafka.permissions import require_permissions

    try:
        found = options(settings.kafka)
        require_permissions(found, permissions(settings))
        yield "permissions: the broker denies nothing that a run needs"
        with explained("kafka"), contextlib.closing(KafkaConsumer(**found)) as consumer:
            yield f"kafka.servers: {', '.join(settings.kafka.servers)} answer"
            require_topics(consumer, topics)
            for key, topic in topics.items():
                partitions = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic))]
                records = sum(consumer.end_offsets(partitions).values())
                yield f"{key}: {topic} has {len(partitions)} partitions; their ends add up to {records:,}"
    except Interruption as error:
        raise Failure(AWAY, str(error)) from None


def _snapshots(settings: Settings, topic: str, source: TopicSource) -> str:
    from connectors.kafka.client import describe, options
    from connectors.kafka.snapshots import KEY, SnapshotReader

    blank, events = settings.learner.build(), 0
    try:
        partitions, _ = describe(source.topic, "source.topic", options(settings.kafka))
        with SnapshotReader(topic, settings.kafka) as reader:
            found = reader.all(partitions)
    except Interruption as error:
        raise Failure(AWAY, str(error)) from None
    for name, snapshot in found.items():
        if whose := strange(snapshot, source.topic, source.group):
            raise Failure(CHECKPOINT, f"the snapshot of {name} in {topic} {whose}")
        where = f"the snapshot of {name} in {topic}"
        try:
            events += restored(snapshot.parts, blank).events
        except ValueError as error:
            raise Failure(CHECKPOINT, f"{where} {error}") from None
        require_same_training(snapshot, training_of(settings), where)
    there = f"{len(found)} of {len(partitions)} partitions have a snapshot"
    return f"{KEY}: {topic} is compacted; {there}, and have learned {events:,} events"


def _require_writable(path: Path, code: int, key: str) -> None:
    while code == CHECKPOINT and not path.exists() and path != path.parent:
        path = path.absolute().parent  # directories of checkpoints are made
    if not os.access(path, os.W_OK):
        raise Failure(code, f"{key}: {path} cannot be written, or is not there")


def _checkpoints(settings: Settings, source: str) -> str:
    store = Store(settings.checkpoints.directory, settings.checkpoints.keep)
    _require_writable(store.directory, CHECKPOINT, "checkpoints.directory")
    paths = store.paths()
    if not paths:
        return f"checkpoints.directory: {store.directory} holds none yet"
    try:
        newest = Checkpoint.read(paths[-1])
    except ValueError as error:
        raise Failure(CHECKPOINT, f"{error}; a run would use the one before it") from None
    where = f"checkpoint {newest.number} in {store.directory}"
    if newest.source != source:
        raise Failure(CHECKPOINT, f"{where} belongs to {newest.source!r}, and the source is {source!r}")
    try:
        learner = restored(newest.parts, settings.learner.build())
    except ValueError as error:
        raise Failure(CHECKPOINT, f"{where} {error}") from None
    require_same_training(newest, training_of(settings), where)
    return f"checkpoints.directory: checkpoint {newest.number} has learned {learner.events:,} events"
