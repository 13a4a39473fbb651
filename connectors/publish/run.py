"""Publishing: read the stored models, merge those of partitions, write one model to a topic and a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple, TypedDict

from connectors.contract.errors import CHECKPOINT, POSITION, USAGE, Failure
from connectors.contract.sections import SourceSection
from connectors.events.model_files import stored_of_checkpoint
from connectors.kafka.client import describe, options
from connectors.kafka.compacted import CompactedTopic, cut
from connectors.kafka.producer import TransactionalWriter
from connectors.kafka.sections import TopicSourceSection
from connectors.publish.fetching import PARTITION, Place, Version, goes_back, published, read, write
from connectors.settings.tables import Settings
from connectors.state.checkpoint import Checkpoint, restored
from connectors.state.disk import CheckpointStore
from connectors.state.topic import SnapshotReader, other_owner
from streamk import model_file
from streamk.distributed.merging import Merging
from streamk.learners.learner import Learner
from streamk.learners.loading import loads, loads_with_extra


class NoModelYetError(Failure):
    """Nothing has been learned and stored so far."""

    def __init__(self, message: str) -> None:
        super().__init__(USAGE, message)


class About(TypedDict):
    """What a published model says of itself: ``partitions`` is its version, ``format`` how to read events."""

    source: str
    partitions: dict[str, list[int | str]]
    events: int
    learns: bool
    format: Mapping[str, object] | None


class PartitionModel(NamedTuple):
    """A partition: up to where its model has learned it, how much, and how large it is; None without one."""

    partition: str
    position: int | None = None
    learned: int | None = None
    bytes: int | None = None


class Merged(NamedTuple):
    """A model of all partitions: merged of theirs, or that of one daemon.

    Attributes
    ----------
    model
        The bytes of a model file, which has ``about`` in its header as ``extra``.
    about
        ``source``, ``partitions`` (the version), ``events``, and whether it ``learns``.
    """

    model: bytes
    about: About
    version: Version
    rows: list[PartitionModel]


def merged(
    source: TopicSourceSection,
    partitions: Sequence[str],
    snapshots: Mapping[str, Checkpoint],
    blank: Learner,
    learns: bool = False,
) -> Merged:
    """Merge models in a tree whose shape depends on the number of partitions alone.

    Parameters
    ----------
    source, partitions
        Of the settings, and the names of the topic's partitions in order.
    snapshots
        Of those that have one.
    blank
        A learner of the same settings without events.
    learns
        Whether the model can learn on; otherwise it is the one to deploy where no labels come (``frozen()``).

    Raises
    ------
    Failure
        If the models are not of these settings, or cannot be merged.
    """
    tree, rows, version = Merging(blank.to_bytes(), len(partitions)), [], {}
    for leaf, name in enumerate(partitions):
        snapshot = snapshots.get(name)
        model = None
        if snapshot is not None:
            progress = snapshot.partitions[name]
            model = _leaf(source, name, snapshot, blank)
            version[name] = Place(progress.position, progress.identity)
            size = sum(map(len, snapshot.parts.values()))
            rows.append(PartitionModel(name, progress.position, progress.learned, size))
        else:
            rows.append(PartitionModel(name))
        try:
            tree.put(leaf, model)
        except ValueError as error:
            raise Failure(USAGE, f"the models of the partitions cannot be merged: {error}") from None
    stored = next(map(_format_of, snapshots.values()), None)
    return _made(source, loads(tree.model()), version, rows, learns, stored)


def _made(
    source: SourceSection,
    learner: Learner,
    version: Version,
    rows: list[PartitionModel],
    learns: bool,
    format: Mapping[str, object] | None,
) -> Merged:
    made = learner if learns else learner.frozen()
    header, arrays = model_file.unpack(made.to_bytes(), "the model")
    partitions = write(version)
    about = About(
        source=source.name, partitions=partitions, events=learner.events, learns=learns, format=format
    )
    return Merged(model_file.pack({**header, "extra": about}, arrays), about, version, rows)


def _format_of(checkpoint: Checkpoint) -> Mapping[str, object] | None:
    return stored_of_checkpoint({"training": checkpoint.training, "source_mark": checkpoint.source_mark})


def of_checkpoint(settings: Settings, learns: bool = False) -> Merged:
    """Return the model of the newest checkpoint of a daemon, which may run meanwhile.

    Raises
    ------
    Failure
        If there is none, or it is not of these settings.
    """
    store = CheckpointStore(settings.checkpoints.directory, settings.checkpoints.keep)
    checkpoint = store.newest(aside=False)
    if checkpoint is None:
        raise NoModelYetError(f"checkpoints.directory: {store.directory} holds no checkpoint yet")
    where = f"checkpoint {checkpoint.number} in {store.directory}"
    if not settings.source.continues(checkpoint.source, checkpoint.partitions):
        named = f"{checkpoint.source!r}, and the source is {settings.source.name!r}"
        raise Failure(CHECKPOINT, f"{where} belongs to {named}")
    try:
        learner = restored(checkpoint.parts, settings.learner.build())
    except ValueError as error:
        raise Failure(CHECKPOINT, f"{where} {error}; put the settings back") from None
    learner.flush()
    events = {name: p for name, p in checkpoint.partitions.items() if settings.events_of(name) is None}
    version = {name: Place(progress.position, progress.identity) for name, progress in events.items()}
    rows = [PartitionModel(name, p.position, p.learned) for name, p in sorted(checkpoint.partitions.items())]
    return _made(settings.source, learner, version, rows, learns, _format_of(checkpoint))


def _leaf(source: TopicSourceSection, name: str, snapshot: Checkpoint, blank: Learner) -> bytes | None:
    """Return the model of a partition with nothing waiting for its block, None if it has learned nothing."""
    where = f"the snapshot of {name}"
    if other := other_owner(snapshot, source):
        raise Failure(CHECKPOINT, f"{where} {other}")
    try:
        learner = restored(snapshot.parts, blank)
    except ValueError as error:
        raise Failure(CHECKPOINT, f"{where} {error}; put the settings back") from None
    learner.flush()
    return learner.to_bytes() if learner.events else None


class Destination(NamedTuple):
    """Where a model is published: in a topic by a name, in a file, or both.

    Attributes
    ----------
    force
        Whether a model that has learned less may replace one that has learned more.
    learns
        Whether the model can learn on.
    """

    topic: str | None
    name: str
    path: Path | None
    force: bool = False
    learns: bool = False


class Publication(NamedTuple):
    """What was published, and where: of the topic and the file, those that had not this version yet."""

    model: Merged
    written: list[str]

    @property
    def missing(self) -> list[PartitionModel]:
        """Partitions without a snapshot."""
        return [row for row in self.model.rows if row.position is None]


def target_of(
    settings: Settings,
    to: str | None,
    name: str | None,
    path: Path | None,
    force: bool,
    learns: bool = False,
) -> Destination:
    """Return where to publish.

    Raises
    ------
    Failure
        If that is nowhere, or the settings learn nothing.
    """
    if settings.learner.follow is not None:
        raise Failure(USAGE, "learner.follow: these settings learn no model; publish that of others")
    if to is None and path is None:
        raise Failure(USAGE, "say where to publish: --to TOPIC, -o FILE, or both")
    places = [section.place for section in settings.sections.values() if section.kind == "topic"]
    if to is not None and (to in places or settings.source.reads(to)):
        raise Failure(USAGE, f"--to {to}: the settings use this topic otherwise; name one of its own")
    source = settings.source
    return Destination(
        to, name or (source.name if source.partitioned else Path(source.name).stem), path, force, learns
    )


def publish(settings: Settings, target: Destination) -> Publication:
    """Publish what the newest snapshots have learned together, or what the newest checkpoint has learned.

    Raises
    ------
    Failure
        If a published model has learned more, or the models cannot be merged.
    Interruption
        If no broker answers.
    """
    with ExitStack() as stack:
        before: dict[str, Mapping[str, object]] = {}
        chunks, writer = 0, None
        if target.topic is not None:
            # before anything is read: an earlier publisher can then no longer replace what comes
            compacted = CompactedTopic(target.topic, "--to", options(settings.kafka))
            stack.callback(compacted.close)
            name = f"streamk-publish-{target.topic}-{target.name}"
            writer = TransactionalWriter(settings.kafka, name, "--to")
            stack.callback(writer.close)
            if (there := published(compacted, target.name)) is not None:
                before[target.topic], chunks = there.about, there.chunks
        if target.path is not None and target.path.exists():
            before[str(target.path)] = _about(target.path)
        if settings.snapshots is None:
            combined = of_checkpoint(settings, target.learns)
            identities = {place.identity for place in combined.version.values()}
        else:
            combined, identities = _of_snapshots(settings, settings.snapshots.topic, target.learns)
        if not combined.about["events"]:
            raise NoModelYetError(f"{settings.source.name}: nothing has been learned yet")
        _require_progress(combined.version, before, identities, target.force)
        written = []
        if writer is not None and before.get(str(target.topic)) != combined.about:
            messages = cut(target.name, combined.model, combined.about, PARTITION, chunks)
            writer.write({str(target.topic): messages})
            written.append(str(target.topic))
        if target.path is not None and before.get(str(target.path)) != combined.about:
            model_file.write(target.path, *model_file.unpack(combined.model, "the merged model"))
            written.append(str(target.path))
    return Publication(combined, written)


def _of_snapshots(settings: Settings, topic: str, learns: bool) -> tuple[Merged, set[str]]:
    """Return the merged model of all partitions, and the identities of the topics of events."""
    source, kafka = TopicSourceSection.of(settings.source), settings.kafka
    partitions, identities = describe(source.topic, "source.topic", options(kafka))
    with closing(SnapshotReader(topic, kafka)) as reader:
        combined = merged(source, partitions, reader.all(partitions), settings.learner.build(), learns)
    if not combined.version:
        raise NoModelYetError(f"{topic} has no snapshot of {source.name} yet")
    return combined, identities


def _about(path: Path) -> Mapping[str, object]:
    """Return what a published model in a file says of itself, nothing if it is something else."""
    try:
        extra = loads_with_extra(path.read_bytes(), str(path))[1]
    except ValueError:
        return {}
    return extra if isinstance(extra, dict) else {}


def _require_progress(
    version: Version, before: Mapping[str, Mapping[str, object]], identities: set[str], force: bool
) -> None:
    for place, was in before.items():
        if not force and (less := goes_back(version, read(was.get("partitions")), identities)):
            raise Failure(
                POSITION,
                f"{place} has a model that has learned more: {less}. After `streamk reset` that is so until "
                "the events have been learned again; --force replaces it",
            )
