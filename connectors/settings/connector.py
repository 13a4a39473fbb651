"""Connectors: what commands do with a source or a sink, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Protocol, TypeVar

from connectors.contract.errors import USAGE, Failure
from connectors.contract.records import (
    Committed,
    DeadLetter,
    LabelReader,
    Log,
    Positions,
    RecordRange,
    Retried,
    Sink,
    Source,
)
from connectors.contract.sections import SinkSection
from connectors.settings.registry import REGISTRY
from connectors.settings.tables import AnyPlace, Settings
from streamk.distributed import Shard

S = TypeVar("S", bound=AnyPlace)


class MeasuredShard(Shard, Protocol):
    """A shard that reports how much of it was read."""

    def done(self, position: Any) -> float:
        """Return which part of it is before a position, from 0 to 1."""


class Connector(Protocol):
    """What commands do with sources and sinks of one kind; the defaults are those without a group.

    Every method may raise a :class:`~connectors.contract.errors.Failure` that names the setting at fault, and
    an :class:`~connectors.contract.errors.Interruption` if nothing answers.
    """

    def open_source(self, settings: Settings, model: str) -> Source:
        """Open the source of a run, as the reader of this model."""

    def open_labels(self, settings: Settings) -> LabelReader:
        """Open the labels of the events."""
        raise Failure(USAGE, "labels.kind: this kind of source has no labels in separate records")

    def open_sinks(
        self, sections: Mapping[str, SinkSection], settings: Settings, model: str, source: Source
    ) -> Iterator[tuple[str, Sink]]:
        """Yield the name and the sink of the places that kinds of outputs go to, each once it is open."""

    def open_log(
        self, settings: Settings, start: str | None, end: str | None, strict: bool
    ) -> AbstractContextManager[Log]:
        """Open the records of the source that are there now, between two bounds, as a log."""

    def open_range(
        self, settings: Settings, start: str | None, end: str | None, partitions: Sequence[int] | None
    ) -> RecordRange:
        """Open records of the source without a group, as they are."""
        raise Failure(USAGE, "source.kind: only a topic can be recorded")

    def open_positions(self, settings: Settings, partitions: Sequence[int] | None) -> Positions:
        """Open the positions of a source that no daemon reads; of all partitions if None."""

    def committed(self, settings: Settings) -> Mapping[str, Committed | None]:
        """Return what the group has committed for every partition, without joining it."""
        return {}

    def restart_outputs(
        self, sections: Iterable[SinkSection], settings: Settings, model: str, position: int
    ) -> None:
        """Write outputs of a source without a group again from a position on."""
        return

    def check(self, sections: Mapping[str, AnyPlace], settings: Settings, model: str | None) -> Iterator[str]:
        """Yield a sentence for everything that a run needs of these sections and finds.

        ``model`` is the name of the model, None before the first run.
        """

    def shards(self, settings: Settings, start: str | None, end: str | None) -> Sequence[MeasuredShard]:
        """Return the shards (:mod:`streamk.distributed`) that the source is learned in."""

    def dead_letters(self, section: SinkSection, settings: Settings) -> Iterator[DeadLetter]:
        """Yield the dead letters of a sink."""

    def retry(self, section: SinkSection, settings: Settings, dry_run: bool) -> Retried:
        """Send the dead letters of a sink back to the source, each once."""


def connector_of(kind: str) -> Connector:
    """Return the connector of a kind; its module is imported now."""
    connector: Connector = import_module(REGISTRY[kind].module).CONNECTOR
    return connector


def by_connector(sections: Mapping[str, S]) -> Iterator[tuple[Connector, dict[str, S]]]:
    """Yield each connector that sections need, and its sections."""
    for kind in REGISTRY:
        if chosen := {key: section for key, section in sections.items() if section.kind == kind}:
            yield connector_of(kind), chosen
