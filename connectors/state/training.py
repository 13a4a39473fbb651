"""The settings that a model is trained with, and what happens if they change.

Checkpoints and snapshots store the settings that decide what an event teaches: target, inputs and learner.
The metadata of every committed position has their digest. A daemon whose settings differ stops, so neither a
changed target nor a second model in the same consumer group goes unnoticed; ``streamk adopt`` continues
with the change. Settings at their defaults do not count in the digest, so that daemons of two versions may
share a group as long as a setting that only one of them has is not used.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from typing import NamedTuple

from connectors.contract.errors import CHECKPOINT, USAGE, Failure
from connectors.contract.sections import StartPolicy
from connectors.events.learners import learner_classes
from connectors.events.names import SEED
from connectors.settings.tables import Schema, Settings
from connectors.state.checkpoint import Checkpoint, restored
from streamk.learners.loading import MODEL

Training = dict[str, object]
_EVENTS = {"format", "columns", "target", "key", "time", "weight"}
_LABELS = {"columns", "target", "key", "time"}
_DIGITS = 12  # of a digest
_PARAMETER = "learner.parameters."


class Change(NamedTuple):
    """A setting, its value while the model was trained, and its value now."""

    key: str
    before: object
    now: object


def training_of(settings: Settings) -> Training:
    """Return the settings that decide what an event teaches, by key, as JSON stores them."""
    events, learner = settings.events, settings.learner
    features = events.features
    if isinstance(features, list):
        features = {name: name for name in features}
    training: Training = {f"events.{key}": value for key, value in events if key in _EVENTS}
    if events.record:
        training["events.record"] = events.record
    if (labels := settings.labels) is not None:
        training |= {f"labels.{key}": value for key, value in labels if key in _LABELS}
    training |= {"events.features": features, "events.ignore": sorted(set(events.ignore))}
    training |= {
        f"schema.{key}": value
        for key, value in settings.schema_
        if value != Schema.model_fields[key].get_default() and key != "encoding"
    }
    training |= {"learner.name": learner.name, "learner.task": learner.task}
    training |= {f"{_PARAMETER}{key}": value for key, value in learner.build()._get_params().items()}
    stored: Training = json.loads(json.dumps(training, default=str))
    return stored


def _with_effect(training: Training) -> Training:
    """Return the settings without those that are not set, and without parameters at their defaults."""
    cls = learner_classes(str(training["learner.name"]))[str(training["learner.task"])]
    parameters = inspect.signature(cls).parameters
    defaults = {f"{_PARAMETER}{name}": parameter.default for name, parameter in parameters.items()}
    stored: Training = json.loads(json.dumps({**defaults, f"{_PARAMETER}seed": SEED}, default=str))
    return {
        key: value
        for key, value in training.items()
        if value not in (None, [], {}) and not (key in stored and value == stored[key])
    }


def digest_of(training: Training) -> str:
    """Return twelve hexadecimal digits that differ between settings of different meanings."""
    return _digest(_with_effect(training))


def _digest(training: Training) -> str:
    text = json.dumps(training, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def policy_of(settings: Settings) -> StartPolicy:
    """Return where a daemon starts to read, with the digests that its group may have committed."""
    policy, training = settings.source.start_policy, training_of(settings)
    if not policy.group:
        return policy
    if (follow := settings.learner.follow) is not None:  # nothing else decides what a prediction means
        return policy._replace(
            digest=_digest({"learner.follow": follow, "learner.model": settings.learner.model})
        )
    return policy._replace(digest=digest_of(training), digest_before=_digest(training))


def changes(before: Mapping[str, object], now: Mapping[str, object]) -> list[Change]:
    """Return the settings that differ, in the order of their keys.

    Parameters that only one of the two versions has are no change: the model has a value for each of those
    of this version (:mod:`streamk.model_file`), with which the settings must agree first.
    """
    in_both = before.keys() & now.keys()
    keys = sorted(in_both | {key for key in before.keys() | now.keys() if not key.startswith(_PARAMETER)})
    return [Change(k, before.get(k), now.get(k)) for k in keys if before.get(k) != now.get(k)]


def first_model(settings: Settings) -> bytes:
    """Return the model of a daemon without checkpoints: that of ``learner.start``, or a new one.

    Raises
    ------
    Failure
        If the file cannot be read, or its model is of another learner or does not learn.
    """
    blank, path = settings.learner.build(), settings.learner.start
    if path is None:
        return blank.to_bytes()
    try:
        learner = restored({MODEL: path.read_bytes()}, blank)
    except (OSError, ValueError) as error:
        why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else error
        raise Failure(USAGE, f"learner.start: {path} {why}") from None
    if getattr(learner, "_is_frozen", False):
        raise Failure(
            USAGE, f"learner.start: {path} holds a model that does not learn; publish with --learns"
        )
    return learner.to_bytes()


def has_learned(checkpoint: Checkpoint) -> bool:
    """Return whether the model of a checkpoint has learned any event."""
    return any(progress.learned for progress in checkpoint.partitions.values())


def begins_again(checkpoint: Checkpoint, now: Training | None, exceeds: bool) -> bool:
    """Return whether nothing was learned, under other settings or before a session that began again.

    ``exceeds`` says that the checkpoint has read more than the group has committed.
    """
    changed = checkpoint.training is not None and checkpoint.training != now
    return not has_learned(checkpoint) and (changed or exceeds)


def require_same_training(checkpoint: Checkpoint, now: Training | None, where: str) -> None:
    """Raise Failure if a checkpoint's model was trained with other settings than these.

    A model without events was trained with none, and earlier versions do not record them.

    Raises
    ------
    Failure
        It names every setting that changed, and what to do.
    """
    if not has_learned(checkpoint) or checkpoint.training is None or now is None:
        return
    if changed := changes(checkpoint.training, now):
        before = ", ".join(f"{key} = {was!r}" for key, was, _ in changed)
        after = ", ".join(f"{key} = {value!r}" for key, _, value in changed)
        raise Failure(
            CHECKPOINT,
            f"{where} was trained with {before}, and the settings have {after}. Restore the settings, give "
            "them a checkpoints.directory and a source.group of their own, or run `streamk adopt "
            "SETTINGS` to continue with the change",
        )


def require_same_digest(partition: str, stored: str, policy: StartPolicy) -> None:
    """Raise Failure if the group's metadata of a partition has the digest of other settings."""
    if stored and policy.digest and stored not in (policy.digest, policy.digest_before):
        raise Failure(
            CHECKPOINT,
            f"{partition}: a model with other settings (events or learner) reads it in the group "
            f"{policy.group!r}. "
            "Give this model a source.group of its own, or stop all daemons of the group and run `streamk "
            "adopt SETTINGS`, to continue from its positions with these settings",
        )
