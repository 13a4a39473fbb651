"""The connector of files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from connectors.contract.errors import SINK, USAGE, Failure
from connectors.contract.records import DeadLetter, LabelReader, Log, Positions, Retried, Sink, Source
from connectors.contract.sections import SinkSection
from connectors.files.log import ReplayLog
from connectors.files.sections import FileSourceSection, LabelFile
from connectors.files.sink import FileSink, letters
from connectors.files.source import FileLabels, FileSource, LogPositions
from connectors.formats.open_file import require_writable
from connectors.formats.records import missing_fields
from connectors.settings.connector import Connector, MeasuredShard
from connectors.settings.tables import AnyPlace, Settings


def _source(settings: Settings) -> FileSourceSection:
    return FileSourceSection.of(settings.source)


def _fields(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each field that the settings name and the first records of a log do not have."""
    format = settings.format if settings.labels is None else replace(settings.format, target=None)
    log = ReplayLog(_source(settings).path, format.unlabelled(), settings.events.format)
    if not log.size:
        return  # nothing is written yet
    try:
        with contextlib.closing(log.batches()) as batches:
            next(batches, None)
    except ValueError as error:
        raise Failure(USAGE, str(error)) from None
    yield from missing_fields(log.columns, replace(format, ignore=[*format.ignore, *format.roles]))


class FileConnector(Connector):
    """Files as sources and sinks; see :class:`connectors.settings.connector.Connector`."""

    def open_source(self, settings: Settings, model: str) -> Source:
        """Open the log."""
        section = _source(settings)
        return FileSource(section.path, settings.events.format, section.follow, settings.format)

    def open_labels(self, settings: Settings) -> LabelReader:
        """Open the log of labels, which is followed if that of the events is."""
        section = LabelFile.of(settings.labels)
        return FileLabels(
            section.path, settings.events.format, _source(settings).follow, settings.label_format
        )

    def open_sinks(
        self, sections: Mapping[str, SinkSection], settings: Settings, model: str, source: Source
    ) -> Iterator[tuple[str, Sink]]:
        """Yield a sink for each file."""
        for kind, section in sections.items():
            yield kind, FileSink(Path(section.place), kind)

    @contextlib.contextmanager
    def open_log(self, settings: Settings, start: str | None, end: str | None, strict: bool) -> Iterator[Log]:
        """Open the log, which has no bounds."""
        if start is not None or end is not None:
            option = "--from" if start is not None else "--to"
            raise ValueError(f"{option}: it is for topics, and the source is a log on disk")
        format = replace(settings.format, numbers=None)
        yield ReplayLog(_source(settings).path, format, settings.events.format, strict)

    def open_positions(self, settings: Settings, partitions: Sequence[int] | None) -> Positions:
        """Open the log."""
        if partitions:
            raise Failure(USAGE, "--partition: a log has none")
        section, labels = _source(settings), settings.labels
        paths = [section.path] if labels is None else [section.path, LabelFile.of(labels).path]
        return LogPositions(paths, settings.events.format, section.follow)

    def check(self, sections: Mapping[str, AnyPlace], settings: Settings, model: str | None) -> Iterator[str]:
        """Yield which files can be read and written."""
        for key, section in sections.items():
            if section is settings.source:
                self.open_source(settings, "").close(leaving=True)
                yield f"{key}.path: {section.place} can be read"
                yield from _fields(settings)
            elif section is settings.labels:
                self.open_labels(settings).close()
                yield f"{key}.path: {section.place} can be read"
            else:
                path = Path(section.place)
                require_writable(path if path.exists() else path.absolute().parent, SINK, f"{key}.path")
                yield f"{key}.path: {path} can be written"

    def shards(self, settings: Settings, start: str | None, end: str | None) -> Sequence[MeasuredShard]:
        """Raise ValueError: files are cut by name."""
        place = settings.source.place
        raise ValueError(f"the source of these settings is a log on disk; name that log, {place}")

    def dead_letters(self, section: SinkSection, settings: Settings) -> Iterator[DeadLetter]:
        """Yield the dead letters of a file."""
        return letters(Path(section.place))

    def retry(self, section: SinkSection, settings: Settings, dry_run: bool) -> Retried:
        """Raise Failure: nothing is sent to a file."""
        raise Failure(
            USAGE, "source.kind is 'file', and nothing is sent to a log on disk; append the events to it"
        )


CONNECTOR = FileConnector()
