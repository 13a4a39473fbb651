"""Editing what a stopped daemon stores: its newest checkpoint, or the newest snapshot of every partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connectors.connector import connector_of
from connectors.daemon import ownership
from connectors.daemon.checkpoint import Checkpoint
from connectors.daemon.learning import restored
from connectors.daemon.reset import open_snapshots
from connectors.daemon.store import Store
from connectors.errors import CHECKPOINT, Failure
from connectors.settings import Settings
from connectors.stream import Committed
from streamk.learners import Learner

Change = Callable[[Checkpoint, Learner], None]


def edit(settings: Settings, change: Change, digest: str | None = None, dry_run: bool = False) -> None:
    """Apply a change to every stored model, and write all of them or none.

    Parameters
    ----------
    settings
        Of the daemon, which is not running.
    change
        Called with each checkpoint or snapshot and the model in it.
    digest
        For the notes of the group (:mod:`connectors.daemon.training`); they stay as they are if it is None.
    dry_run
        Whether to write nothing.

    Raises
    ------
    Failure
        If a model is of another learner, or a daemon of the group is running.
    """
    store = Store(settings.checkpoints.directory, settings.checkpoints.keep)
    with store.locked():
        if settings.snapshots is not None:
            _edit_snapshots(settings, store, change, digest, dry_run)
            return
        paths = store.paths()
        checkpoint = Checkpoint.read(paths[-1]) if paths else None
        if checkpoint is not None:
            _apply(change, checkpoint, settings, str(paths[-1]))
            if not dry_run:
                store.write(checkpoint)
        if settings.source.start_policy.group and digest is not None:
            with connector_of(settings.source.kind).open_positions(settings, None) as places:
                if not dry_run:
                    places.commit(_committed(places, digest))


def _edit_snapshots(
    settings: Settings, store: Store, change: Change, digest: str | None, dry_run: bool
) -> None:
    from connectors.kafka.snapshots import snapshot_messages

    with open_snapshots(settings, store, None) as (places, transactions, reader):
        messages = []
        for name, snapshot in reader.settled(places.partitions()).items():
            _apply(change, snapshot, settings, f"the snapshot of {name}")
            messages += snapshot_messages(name, snapshot, reader.siblings, reader.chunks[name])
        if not dry_run:
            positions = places.offsets(_committed(places, digest))
            transactions.write(reader.topic, messages, positions, places.group)


def _apply(change: Change, checkpoint: Checkpoint, settings: Settings, where: str) -> None:
    try:
        learner = restored(checkpoint.parts, settings.learner.build())
    except ValueError as error:
        raise Failure(
            CHECKPOINT,
            f"{where} {error}; a changed learner cannot continue from this model. Give the settings a "
            "checkpoints.directory and a source.group of their own",
        ) from None
    change(checkpoint, learner)


def _committed(places: Any, digest: str | None) -> dict[str, Committed]:
    """Return what daemons of the group have committed, with another digest unless it is None."""
    found = {}
    for name in places.partitions():
        committed = places.committed(name)
        if committed is not None and (note := ownership.read(committed.note)).owners:
            note = note if digest is None else note._replace(digest=digest)
            found[name] = Committed(committed.position, ownership.write(note))
    return found
