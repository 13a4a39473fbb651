"""Publishing: read the snapshots, merge, write the merged model to a topic and a file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from connectors.errors import POSITION, USAGE, Failure
from connectors.kafka.chunks import cut
from connectors.kafka.client import describe, options
from connectors.kafka.compacted import CompactedTopic
from connectors.kafka.sections import TopicSource
from connectors.kafka.snapshots import SnapshotReader
from connectors.kafka.transactions import Transactions
from connectors.publish.fetching import PARTITION, published
from connectors.publish.merging import Merged, Row, merged
from connectors.publish.version import Version, goes_back, read
from connectors.settings import Settings, Snapshots
from streamk import model_file
from streamk.learners.loading import loads_with_extra


class Target(NamedTuple):
    """Where a model is published: in a topic by a name, in a file, or both.

    Attributes
    ----------
    force
        Whether a model that knows less may replace one that knows more.
    learns
        Whether the model can learn on.
    """

    topic: str | None
    name: str
    path: Path | None
    force: bool = False
    learns: bool = False


class Outcome(NamedTuple):
    """What was published, and where: of the topic and the file, those that had not this version yet."""

    model: Merged
    written: list[str]

    @property
    def missing(self) -> list[Row]:
        """Partitions without a snapshot."""
        return [row for row in self.model.rows if row.position is None]


def target_of(
    settings: Settings,
    to: str | None,
    name: str | None,
    path: Path | None,
    force: bool,
    learns: bool = False,
) -> Target:
    """Return where to publish.

    Raises
    ------
    Failure
        If that is nowhere, or the settings have no snapshots.
    """
    source = settings.source
    if settings.snapshots is None or not isinstance(source, TopicSource):
        raise Failure(USAGE, "snapshots: only models of partitions are published; see [snapshots]")
    if to is None and path is None:
        raise Failure(USAGE, "say where to publish: --to TOPIC, -o FILE, or both")
    if to in (settings.snapshots.topic, source.topic):
        raise Failure(USAGE, f"--to {to}: the settings use this topic otherwise; name one of its own")
    return Target(to, name or source.topic, path, force, learns)


def publish(settings: Settings, target: Target) -> Outcome:
    """Publish what the newest snapshots know together.

    Raises
    ------
    Failure
        If what is published already knows more, or the models cannot be merged.
    Interruption
        If no broker answers.
    """
    source, snapshots = settings.source, settings.snapshots
    assert isinstance(source, TopicSource)
    assert isinstance(snapshots, Snapshots)
    with ExitStack() as stack:
        before: dict[str, dict[str, Any]] = {}
        chunks, transactions = 0, None
        if target.topic is not None:
            # before anything is read: who began to publish earlier can then no longer replace what comes
            compacted = stack.enter_context(CompactedTopic(target.topic, "--to", options(settings.kafka)))
            name = f"streamk-publish-{target.topic}-{target.name}"
            transactions = stack.enter_context(Transactions(settings.kafka, name, "--to"))
            if (there := published(compacted, target.name)) is not None:
                before[target.topic], chunks = there.about, there.chunks
        if target.path is not None and target.path.exists():
            before[str(target.path)] = _about(target.path)
        partitions, identity = describe(source.topic, "source.topic", options(settings.kafka))
        reader = stack.enter_context(SnapshotReader(snapshots.topic, settings.kafka))
        found = merged(source, partitions, reader.all(partitions), settings.learner.build(), target.learns)
        if not found.version:
            raise Failure(USAGE, f"{snapshots.topic} has no snapshot of {source.topic} yet")
        _require_progress(found.version, before, identity, target.force)
        written = []
        if transactions is not None and before.get(str(target.topic)) != found.about:
            messages = cut(target.name, found.model, found.about, PARTITION, chunks)
            transactions.write(str(target.topic), messages)
            written.append(str(target.topic))
        if target.path is not None and before.get(str(target.path)) != found.about:
            model_file.write(target.path, *model_file.unpack(found.model, "the merged model"))
            written.append(str(target.path))
    return Outcome(found, written)


def _about(path: Path) -> dict[str, Any]:
    """Return what a published model in a file says of itself, nothing if it is something else."""
    try:
        extra: Any = loads_with_extra(path.read_bytes(), str(path))[1]
    except ValueError:
        return {}
    return extra if isinstance(extra, dict) else {}


def _require_progress(
    version: Version, before: Mapping[str, dict[str, Any]], identity: str, force: bool
) -> None:
    for place, was in before.items():
        if not force and (less := goes_back(version, read(was.get("partitions")), identity)):
            raise Failure(
                POSITION,
                f"{place} has a model that knows more: {less}. After `streamk reset` that is so until the "
                "events have been learned again; --force replaces it",
            )
