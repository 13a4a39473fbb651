"""Checkpoints, and the protocol of the backends that store them.

A checkpoint is an operator's state and the positions up to which it has learned, in one file. It is a model
file (:mod:`streamk.model_file`) whose tensors are the operator's parts, as bytes, and whose header also holds
the positions: what was learned and up to where can never disagree. ``streamk.load`` opens the part that is
named ``model``.

A session has four requests to a backend: restore the stored state, report the position of a partition, store
the present state, and release a partition. :mod:`connectors.state.disk` stores one checkpoint of everything,
:mod:`connectors.state.topic` a snapshot of every partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, Protocol, TypedDict, TypeVar

import numpy as np

from connectors.contract.records import Assigned, Committed, Processor
from connectors.contract.sections import StartPolicy
from connectors.formats.addresses import Place, RemotePath
from streamk import model_file
from streamk.arrays import Arrays
from streamk.learners.learner import Learner
from streamk.learners.loading import MODEL, loads

SUFFIX = ".checkpoint"
REFUSED = "refused in a row"  # the part from which a restart counts on
CHALLENGER = "challenger "  # with its name, the part with the model of a challenger; with COMPARED also,
COMPARED = " compared"  # that with its comparison with the model
WATCH = "watch"  # the part with what is known of the stream
RECENT = "recent keys"  # the part with the keys of the last events
WAITING = "waiting"  # the part with what waits for labels, and labels that wait
_VERSION = 2
L = TypeVar("L", bound=Learner)
Excluded = dict[str, list[tuple[int, ...]]]  # ranges of offsets that are not processed, by partition
REMEDY = "put the settings back, or give them a checkpoints.directory and a source.group of their own"


@dataclass
class Progress:
    """How far a partition has been read, and what became of its events.

    Attributes
    ----------
    position
        Of the next record.
    identity
        Of the topic; empty if it has none.
    learned, predicted, refused, skipped
        Events learned; events without a target, which were predicted only; dead letters; tombstones and
        repeated events.
    """

    position: int
    identity: str = ""
    learned: int = 0
    predicted: int = 0
    refused: int = 0
    skipped: int = 0


class Adoption(TypedDict):
    """Settings that were accepted later: when, and the key, the old and the new value of each."""

    when: str
    changes: list[list[object]]


@dataclass
class Checkpoint:
    """What was saved together.

    Attributes
    ----------
    parts
        The operator's state, by name.
    source
        The name of the topic or log.
    partitions
        Progress by partition.
    source_mark, sink_marks
        What identifies the source and the sinks.
    number
        Of the file; 0 if there is none yet.
    written
        When, as ISO 8601 in UTC.
    training
        The settings that the model is trained with (:mod:`connectors.state.training`); None if not known.
    adopted
        Changes of these settings that were accepted (:func:`connectors.state.edits.adopt`).
    excluded
        Events that are not to be learned (:mod:`connectors.state.exclusion`): ranges by partition.
    """

    source: str
    parts: dict[str, bytes] = field(default_factory=dict)
    partitions: dict[str, Progress] = field(default_factory=dict)
    source_mark: object = None
    sink_marks: dict[str, object] = field(default_factory=dict)
    number: int = 0
    written: str = ""
    training: dict[str, object] | None = None
    adopted: list[Adoption] = field(default_factory=list)
    excluded: Excluded = field(default_factory=dict)

    def learner(self) -> Learner:
        """Return the model among the parts, as a new object.

        Raises
        ------
        ValueError
            If there is none, or it is not whole.
        """
        if MODEL not in self.parts:
            raise ValueError(f"checkpoint {self.number} holds no model")
        return loads(self.parts[MODEL], f"checkpoint {self.number}")

    @classmethod
    def read(cls, path: Place) -> Checkpoint:
        """Return the checkpoint in a file.

        Raises
        ------
        streamk.model_file.FormatError
            If another version of streamk wrote it.
        ValueError
            If it is damaged, or is no checkpoint.
        """
        return cls.unpack(path.read_bytes(), str(path), int(path.name.removesuffix(SUFFIX)))

    @classmethod
    def unpack(cls, data: bytes, where: str, number: int = 0) -> Checkpoint:
        """Return the checkpoint in the bytes of a file, which errors call ``where``, as :meth:`read` does."""
        header, arrays = model_file.unpack(data, where)
        try:
            extra = header["extra"]
            version = extra["version"]
            if version != _VERSION:
                raise model_file.FormatError(
                    f"{where} has checkpoint version {version!r} and this streamk reads version {_VERSION}; "
                    "run the version that wrote it"
                )
            if any(array.dtype != np.uint8 for array in arrays.values()):
                raise TypeError
            return cls(
                extra["source"], {name: array.tobytes() for name, array in arrays.items()},
                {name: Progress(**values) for name, values in extra["partitions"].items()},
                extra["source_mark"], extra["sink_marks"], number, extra["written"],
                extra.get("training"), extra.get("adopted", []),
                {name: list(map(tuple, ranges)) for name, ranges in extra.get("excluded", {}).items()},
            )  # fmt: skip
        except (TypeError, KeyError, AttributeError):
            raise ValueError(f"{where} is a model file, but not a checkpoint") from None

    def write(self, path: Place) -> int:
        """Write the file in one step, and return its size in bytes; at an address it must be new."""
        if isinstance(path, RemotePath):
            return path.create(self.pack())
        return model_file.write(path, *self._content())

    def pack(self) -> bytes:
        """Return what :meth:`write` would write."""
        return model_file.pack(*self._content())

    def _content(self) -> tuple[dict[str, object], Arrays]:
        extra: dict[str, object] = {
            "version": _VERSION,
            "source": self.source,
            "partitions": {name: asdict(progress) for name, progress in self.partitions.items()},
            "source_mark": self.source_mark,
            "sink_marks": self.sink_marks,
            "written": self.written,
        }
        if self.training is not None:
            extra["training"] = self.training
        if self.adopted:
            extra["adopted"] = self.adopted
        if self.excluded:
            extra["excluded"] = self.excluded
        arrays = {name: np.frombuffer(part, np.uint8) for name, part in self.parts.items()}
        return {"extra": extra}, arrays


def lag(ends: Mapping[str, int], partitions: Mapping[str, Progress]) -> dict[str, int]:
    """Return how far each partition's position is behind its end."""
    return {name: max(ends[name] - p.position, 0) for name, p in partitions.items() if name in ends}


def restored(parts: Mapping[str, bytes], wanted: L) -> L:
    """Return the model of a checkpoint.

    Raises
    ------
    ValueError
        If it is not of the class and the parameters of the one that is wanted.
    """
    models = {name for name in parts if not name.startswith(CHALLENGER)} - {RECENT, REFUSED, WAITING, WATCH}
    if models != {MODEL}:
        raise ValueError(f"holds {', '.join(sorted(parts)) or 'nothing'}, and a model is needed")
    try:
        learner = loads(parts[MODEL])
    except ValueError as error:
        raise ValueError(f"cannot be used: {error}") from None
    if not isinstance(learner, type(wanted)):
        raise ValueError(
            f"holds a {type(learner).__name__}, and the settings ask for a {type(wanted).__name__}"
        )
    have, want = learner._get_params(), wanted._get_params()
    keys = [key for key in want if have[key] != want[key]]
    if keys:
        differ = (f"with {key}={have[key]!r}, and the settings ask for {want[key]!r}" for key in keys)
        raise ValueError(f"holds a learner {'; '.join(differ)}")
    return learner


class Committable(Protocol):
    """Returns what to commit."""

    def __call__(self, durable: Collection[str] = ()) -> dict[str, Committed]:
        """Return positions and metadata; for ``durable`` partitions, all that was read counts as stored."""


class Saved(NamedTuple):
    """How many bytes were written, and whether the positions were committed."""

    size: int
    committed: bool


class StateBackend(Protocol):
    """Stores the state of an operator.

    Attributes
    ----------
    operator
        Processes records.
    owner
        The name of the model in offset metadata (:mod:`connectors.state.positions`).
    progress
        How far partitions have been read; the session counts here.
    has_state
        Whether anything was stored when the session started.
    untried
        Whether it is not known yet that anything can be stored here.
    excluded
        Ranges of offsets that are not processed, by partition.
    """

    excluded: Excluded
    owner: str
    progress: dict[str, Progress]
    has_state: bool
    untried: bool

    @property
    def operator(self) -> Processor:
        """The operator whose state this is."""

    def admit(self, assigned: Assigned, policy: StartPolicy) -> bool:
        """Set ``progress`` to where a partition was read up to, and restore its state.

        False means that this cannot be known yet: ask again at the next poll.

        Raises
        ------
        Failure
            If the state of what the group has read is not here.
        """

    def save(self, committable: Committable) -> Saved:
        """Make outputs visible, store the state, and commit the positions."""

    def release(self, partitions: Sequence[str]) -> None:
        """Release partitions that other processes get."""

    def close(self) -> None:
        """Close the connections."""
