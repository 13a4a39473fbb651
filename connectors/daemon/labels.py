"""Forgetting a label that was learned by mistake."""

from __future__ import annotations

from connectors.daemon.checkpoint import Checkpoint
from connectors.daemon.editing import edit
from connectors.daemon.outputs import name_of
from connectors.errors import USAGE, Failure
from connectors.settings import Settings
from streamk.learners import Learner
from streamk.learners.loading import MODEL


def forget(settings: Settings, label: str) -> int:
    """Let models whose only label this is start again, and return how many events they had learned.

    Raises
    ------
    Failure
        If no model has the label, a model has others beside it, or a daemon of the group is running.
    """
    found: list[int] = []
    seen: set[str] = set()

    def start_again(checkpoint: Checkpoint, learner: Learner) -> None:
        labels = [name_of(known) for known in getattr(learner, "labels", ())]
        seen.update(labels)
        if label in labels:
            if len(labels) > 1:
                others = ", ".join(repr(other) for other in labels if other != label)
                raise Failure(
                    USAGE,
                    f"{label!r}: the model has learned {others}, too, and forgets no label alone. `streamk "
                    "checkpoints rollback` returns to a checkpoint without it",
                )
            found.append(learner.events)
            checkpoint.parts = {MODEL: settings.learner.build().to_bytes()}

    edit(settings, start_again)
    if not found:
        there = ", ".join(map(repr, sorted(seen))) or "none"
        raise Failure(USAGE, f"{label!r}: no model has learned this label; the labels are {there}")
    return sum(found)
