"""Connectors: what commands do with a kind of source or sink, whichever it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol, TypeVar

from connectors.dead_letters import DeadLetter, Retried
from connectors.log import Log
from connectors.registry import REGISTRY
from connectors.sections import SinkSection, SourceSection
from connectors.settings import Settings
from connectors.stream import Committed, Raw, Sink, Source

S = TypeVar("S", bound=SourceSection | SinkSection)


class Positions(Protocol):
    """The positions of a source that no daemon reads, to look at and to set."""

    identity: str
    siblings: int

    def partitions(self) -> Sequence[str]:
        """Return the names of the partitions."""
        ...

    def committed(self, partition: str) -> Committed | None:
        """Return what the group has committed, None if nothing or if there is no group."""
        ...

    def range(self, partition: str) -> tuple[int, int]:
        """Return the first position that is there, and the one after the last."""
        ...

    def at(self, partition: str, moment: datetime) -> int:
        """Return the position of the first record that is not before a time."""
        ...

    def mark(self, positions: Mapping[str, int]) -> Any:
        """Return what a checkpoint stores of the source, to recognise it."""
        ...

    def commit(self, positions: Mapping[str, Committed]) -> None:
        """Set what the group has committed, if there is a group."""
        ...

    def __enter__(self) -> Positions:
        """Return the positions."""
        ...

    def __exit__(self, *details: Any) -> None:
        """Close the source."""
        ...


class RecordRange(Protocol):
    """Records between two bounds, in the order of time."""

    size: int

    def __iter__(self) -> Iterator[tuple[str, Raw]]:
        """Yield each record after the name of its partition."""
        ...

    def __enter__(self) -> RecordRange:
        """Return the range."""
        ...

    def __exit__(self, *details: Any) -> None:
        """Close the source."""
        ...


class Connector(Protocol):
    """What commands do with sources and sinks of one kind.

    Every method may raise a :class:`connectors.errors.Failure` that names the setting at fault, and an
    :class:`connectors.errors.Interruption` if nothing answers.
    """

    def open_source(self, settings: Settings, model: str) -> Source:
        """Open the source of a run, as the reader of this model."""
        ...

    def open_sinks(
        self, sections: Mapping[str, SinkSection], settings: Settings, model: str, source: Source
    ) -> Iterator[tuple[str, Sink]]:
        """Yield the name and the sink of the places that kinds of outputs go to, each once it is open."""
        ...

    def open_log(
        self, settings: Settings, start: str | None, end: str | None, strict: bool
    ) -> AbstractContextManager[Log]:
        """Open the records of the source that are there now, between two bounds, as a log."""
        ...

    def open_range(
        self, settings: Settings, start: str | None, end: str | None, partitions: Sequence[int] | None
    ) -> RecordRange:
        """Open records of the source without a group, as they are."""
        ...

    def open_positions(self, settings: Settings, partitions: Sequence[int] | None) -> Positions:
        """Open the positions of a source that no daemon reads; of all partitions if None."""
        ...

    def committed(self, settings: Settings) -> Mapping[str, Committed | None]:
        """Return what the group has committed for every partition, without joining it."""
        ...

    def restart_outputs(
        self, sections: Iterable[SinkSection], settings: Settings, model: str, position: int
    ) -> None:
        """Write outputs of a source without a group again from a position on."""
        ...

    def check(self, sections: Mapping[str, SourceSection | SinkSection], settings: Settings) -> Iterator[str]:
        """Yield a sentence for everything that a run needs of these sections and finds."""
        ...

    def shards(self, settings: Settings, start: str | None, end: str | None) -> Sequence[Any]:
        """Return the shards (:mod:`streamk.distributed`) that the source is learned in."""
        ...

    def dead_letters(self, section: SinkSection, settings: Settings) -> Iterator[DeadLetter]:
        """Yield the dead letters of a sink."""
        ...

    def retry(self, section: SinkSection, settings: Settings, dry_run: bool) -> Retried:
        """Send the dead letters of a sink back to the source, each once."""
        ...


def connector_of(kind: str) -> Connector:
    """Return the connector of a kind; its module is imported now."""
    connector: Connector = import_module(REGISTRY[kind].module).CONNECTOR
    return connector


def by_connector(sections: Mapping[str, S]) -> Iterator[tuple[Connector, dict[str, S]]]:
    """Yield each connector that some sections need, and its sections."""
    for kind in REGISTRY:
        if own := {key: section for key, section in sections.items() if section.kind == kind}:
            yield connector_of(kind), own
