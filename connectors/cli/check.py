"""``streamk check``: try what a daemon will need, joining no group and writing nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from rich.console import Console

from connectors.cli.arguments import Config
from connectors.cli.exits import exits, working
from connectors.contract.errors import AWAY, CHECKPOINT, Failure, Interruption
from connectors.daemon.logs import load_and_log
from connectors.daemon.telemetry import Telemetry
from connectors.formats.addresses import RemotePath
from connectors.formats.open_file import require_writable
from connectors.kafka.sections import TopicSourceSection
from connectors.publish.following import Follower
from connectors.settings.connector import by_connector, connector_of
from connectors.settings.tables import Settings
from connectors.state.checkpoint import Checkpoint, restored
from connectors.state.disk import CheckpointStore, require_no_checkpoints
from connectors.state.positions import lost_position, metadata_of
from connectors.state.topic import other_owner
from connectors.state.training import policy_of, require_same_digest, require_same_training, training_of


def check_command(config: Config) -> None:
    """Read the settings, then try the connections, the files and the checkpoints, changing nothing."""
    with exits():
        settings = load_and_log(config)
        console = Console()
        console.print("settings: good")
        lines = check(settings)
        while True:
            with working("checking"):
                line = next(lines, None)
            if line is None:
                break
            console.print(line, highlight=False, soft_wrap=True)


def check(settings: Settings) -> Iterator[str]:
    """Yield a line for everything that is there.

    Raises
    ------
    Failure
        At the first that is not.
    """
    store = CheckpointStore(settings.checkpoints.directory, settings.checkpoints.keep)
    for connector, sections in by_connector(settings.sections):
        yield from connector.check(sections, settings, store.identity())
    if not isinstance(directory := store.directory, RemotePath):  # an address is tried by reading it
        there = next(each for each in (directory, *directory.absolute().parents) if each.exists())
        require_writable(there, CHECKPOINT, "checkpoints.directory")
    if settings.snapshots is not None:
        require_no_checkpoints(store)
        yield _snapshots(settings, settings.snapshots.topic)
        return
    if settings.learner.follow is None:
        yield _checkpoints(settings, store)
    else:
        yield _followed(settings)
    if settings.source.start_policy.group:
        yield _group(settings, store)


def _group(settings: Settings, store: CheckpointStore) -> str:
    """Return how far the group has read, if no other model and no other program is in it."""
    policy = policy_of(settings)
    paths, mine = store.paths(), store.identity()
    saved = Checkpoint.read(paths[-1]).partitions if paths else {}
    try:
        positions = connector_of(settings.source.kind).committed(settings)
    except Interruption as error:
        raise Failure(AWAY, str(error)) from None
    for name, committed in positions.items():
        if committed is None and name in saved:
            raise lost_position(name, saved[name].position, policy.group)
        metadata = metadata_of(committed)
        if not metadata.owners or metadata.owners[-1].model != mine:
            require_same_digest(name, metadata.digest, policy)
    count = sum(committed is not None for committed in positions.values())
    return f"source.group: {policy.group} has read from {count} of {len(positions)} partitions"


def _followed(settings: Settings) -> str:
    """Return which published model would predict."""
    follower = Follower(settings, Telemetry())
    try:
        follower.look()
    except Interruption as error:
        raise Failure(AWAY, str(error)) from None
    finally:
        follower.close()
    if follower.current is None:
        return f"learner.follow: no model is published in {follower.follow} yet"
    origin = follower.current.origin
    return f"learner.follow: {follower.follow} holds {origin.model} {origin.version}"


def _snapshots(settings: Settings, topic: str) -> str:
    from connectors.kafka.client import describe, options
    from connectors.state.topic import KEY, SnapshotReader

    source = TopicSourceSection.of(settings.source)
    blank, events = settings.learner.build(), 0
    try:
        partitions, _ = describe(source.topic, "source.topic", options(settings.kafka))
        with closing(SnapshotReader(topic, settings.kafka)) as reader:
            snapshots = reader.all(partitions)
    except Interruption as error:
        raise Failure(AWAY, str(error)) from None
    for name, snapshot in snapshots.items():
        where = f"the snapshot of {name} in {topic}"
        if other := other_owner(snapshot, source):
            raise Failure(CHECKPOINT, f"{where} {other}")
        try:
            events += restored(snapshot.parts, blank).events
        except ValueError as error:
            raise Failure(CHECKPOINT, f"{where} {error}") from None
        require_same_training(snapshot, training_of(settings), where)
    there = f"{len(snapshots)} of {len(partitions)} partitions have a snapshot"
    return f"{KEY}: {topic} is compacted; {there}, and have learned {events:,} events"


def _checkpoints(settings: Settings, store: CheckpointStore) -> str:
    source, paths = settings.source.name, store.paths()
    if not paths:
        return f"checkpoints.directory: {store.directory} holds none yet"
    try:
        newest = Checkpoint.read(paths[-1])
    except ValueError as error:
        raise Failure(CHECKPOINT, f"{error}; a run would use the one before it") from None
    where = f"checkpoint {newest.number} in {store.directory}"
    if not settings.source.continues(newest.source, newest.partitions):
        raise Failure(CHECKPOINT, f"{where} belongs to {newest.source!r}, and the source is {source!r}")
    try:
        learner = restored(newest.parts, settings.learner.build())
    except ValueError as error:
        raise Failure(CHECKPOINT, f"{where} {error}") from None
    require_same_training(newest, training_of(settings), where)
    return f"checkpoints.directory: checkpoint {newest.number} has learned {learner.events:,} events"
