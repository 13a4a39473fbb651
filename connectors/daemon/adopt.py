"""Accepting changed settings on purpose, in checkpoints or snapshots and in the group."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from connectors.daemon.checkpoint import Checkpoint
from connectors.daemon.editing import edit
from connectors.daemon.learning import REFUSED
from connectors.daemon.training import Change, changes, digest_of, training_of
from connectors.settings import Settings
from streamk.learners import Learner


def adopt(settings: Settings, dry_run: bool) -> list[Change]:
    """Let the model of these settings continue with them, and return what has changed.

    The newest checkpoint, or the newest snapshot of every partition, records the change and when it was
    adopted; the notes in the group get the new digest.

    Raises
    ------
    Failure
        If the learner itself has changed, or a daemon of the group is running.
    """
    training, found = training_of(settings), dict[str, Change]()

    def record(checkpoint: Checkpoint, learner: Learner) -> None:
        changed = [] if checkpoint.training is None else changes(checkpoint.training, training)
        found.update({change.key: change for change in changed})
        checkpoint.training = training
        checkpoint.parts.pop(REFUSED, None)  # which other settings may accept
        if changed:
            entry: dict[str, Any] = {"when": datetime.now(UTC).isoformat(timespec="seconds")}
            checkpoint.adopted.append(entry | {"changes": [list(change) for change in changed]})

    edit(settings, record, digest_of(training), dry_run)
    return list(found.values())
