"""Accepting changed settings on purpose, in checkpoints or snapshots and in the group."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from connectors.daemon import ownership
from connectors.daemon.checkpoint import Checkpoint
from connectors.daemon.learning import restored
from connectors.daemon.reset import open_snapshots
from connectors.daemon.store import Store
from connectors.daemon.training import Change, Training, changes, digest_of, training_of
from connectors.settings import Settings
from connectors.stream import CHECKPOINT, Committed, Failure


def adopt(settings: Settings, dry_run: bool) -> list[Change]:
    """Let the model of these settings continue with them, and return what has changed.

    The newest checkpoint, or the newest snapshot of every partition, records the change and when it was
    adopted; the notes in the group get the new digest.

    Parameters
    ----------
    settings
        Of the daemon, which is not running.
    dry_run
        Whether to write nothing.

    Raises
    ------
    Failure
        If the learner itself has changed, or a daemon of the group is running.
    """
    store = Store(settings.checkpoints.directory, settings.checkpoints.keep)
    training = training_of(settings)
    with store.locked():
        if settings.snapshots is not None:
            return _adopt_snapshots(settings, store, training, dry_run)
        paths = store.paths()
        checkpoint = Checkpoint.read(paths[-1]) if paths else None
        found = [] if checkpoint is None else _adopted(checkpoint, settings, training, f"{paths[-1]}")
        if settings.source.kind == "topic":
            from connectors.kafka.positions import GroupPositions

            with GroupPositions(settings.source, settings.kafka, None) as places:
                if not dry_run:
                    if checkpoint is not None:
                        store.write(checkpoint)
                    places.commit(_with_digest(places, digest_of(training)))
        elif checkpoint is not None and not dry_run:
            store.write(checkpoint)
    return found


def _adopt_snapshots(settings: Settings, store: Store, training: Training, dry_run: bool) -> list[Change]:
    from connectors.kafka.snapshots import snapshot_messages

    with open_snapshots(settings, store, None) as (places, transactions, reader):
        snapshots = reader.settled(places.partitions())
        found, messages = [], []
        for name, snapshot in snapshots.items():
            found += _adopted(snapshot, settings, training, f"the snapshot of {name}")
            messages += snapshot_messages(name, snapshot, reader.siblings, reader.chunks[name])
        if not dry_run:
            positions = places.offsets(_with_digest(places, digest_of(training)))
            transactions.write(reader.topic, messages, positions, places.group)
    return list({change.key: change for change in found}.values())


def _adopted(checkpoint: Checkpoint, settings: Settings, training: Training, where: str) -> list[Change]:
    """Record the settings in a checkpoint, and return what has changed."""
    try:
        restored(checkpoint.parts, settings.learner.build())
    except ValueError as error:
        raise Failure(
            CHECKPOINT,
            f"{where} {error}; a changed learner cannot continue from this model. Give the settings a "
            "checkpoints.directory and a source.group of their own",
        ) from None
    found = [] if checkpoint.training is None else changes(checkpoint.training, training)
    checkpoint.training = training
    if found:
        entry: dict[str, Any] = {"when": datetime.now(UTC).isoformat(timespec="seconds")}
        checkpoint.adopted.append(entry | {"changes": [list(change) for change in found]})
    return found


def _with_digest(places: Any, digest: str) -> Mapping[str, Committed]:
    """Return what the group has committed, with another digest."""
    found = {}
    for name in places.partitions():
        committed = places.committed(name)
        if committed is not None and (note := ownership.read(committed.note)).owners:
            note = note._replace(digest=digest)
            found[name] = Committed(committed.position, ownership.write(note))
    return found
