"""The snapshots of partitions to one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from connectors.daemon.checkpoint import Checkpoint
from connectors.daemon.learning import restored
from connectors.daemon.partition_bound import strange
from connectors.errors import CHECKPOINT, USAGE, Failure
from connectors.kafka.sections import TopicSource
from connectors.publish.version import Place, Version, write
from streamk import model_file
from streamk.distributed.merging import Merging
from streamk.learners import Learner
from streamk.learners.loading import loads


class Row(NamedTuple):
    """A partition: up to where its model has learned it, how much, and how large it is; None without one."""

    partition: str
    position: int | None = None
    learned: int | None = None
    bytes: int | None = None


class Merged(NamedTuple):
    """A model of all partitions.

    Attributes
    ----------
    model
        The bytes of a model file, which has ``about`` in its header as ``extra``.
    about
        ``source``, ``partitions`` (the version), ``events``, and whether it ``learns``.
    """

    model: bytes
    about: dict[str, Any]
    version: Version
    rows: list[Row]


def merged(
    source: TopicSource,
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
        A learner of the same settings that knows nothing.
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
            rows.append(Row(name, progress.position, progress.learned, size))
        else:
            rows.append(Row(name))
        try:
            tree.put(leaf, model)
        except ValueError as error:
            raise Failure(USAGE, f"the models of the partitions cannot be merged: {error}") from None
    learner = loads(tree.model())
    made = tree.model() if learns else learner.frozen().to_bytes()
    header, arrays = model_file.unpack(made, "the merged model")
    about = {
        "source": source.topic,
        "partitions": write(version),
        "events": learner.events,
        "learns": learns,
    }
    return Merged(model_file.pack({**header, "extra": about}, arrays), about, version, rows)


def _leaf(source: TopicSource, name: str, snapshot: Checkpoint, blank: Learner) -> bytes | None:
    """Return the model of a partition with nothing waiting for its block, None if it has learned nothing."""
    where = f"the snapshot of {name}"
    if whose := strange(snapshot, source.topic, source.group):
        raise Failure(CHECKPOINT, f"{where} {whose}")
    try:
        learner = restored(snapshot.parts, blank)
    except ValueError as error:
        raise Failure(CHECKPOINT, f"{where} {error}; put the settings back") from None
    learner.flush()
    return learner.to_bytes() if learner.events else None
