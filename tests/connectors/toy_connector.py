"""A connector in one file: events that count up to a given number, and a list of outputs."""

import contextlib
import json
from typing import ClassVar, Literal

from connectors.contract.records import Assigned, Log, Polled, Raw, RawBatch, Sink, Source
from connectors.contract.sections import PredictionSection, SinkSection, SourceSection
from connectors.events.decoding import Record


class CounterSection(SourceSection):
    """Numbers from 0 on."""

    has_header: ClassVar[bool] = True
    kind: Literal["counter"]
    count: int = 100

    @property
    def place(self):
        return f"counter to {self.count}"


class ListSection(SinkSection):
    """A list in memory."""

    kind: Literal["counter"]

    @property
    def place(self):
        return "a list"


class ListPredictions(PredictionSection, ListSection):
    """A list in memory."""

    kind: Literal["counter"]


class ListSink(Sink):
    """Shows what was written once it is committed."""

    committed: ClassVar[list] = []

    def __init__(self):
        self._written = []

    def write(self, outputs):
        self._written += [json.loads(output.body) for output in outputs]
        return 0

    def commit(self, positions):
        self.committed += self._written
        self._written.clear()
        return False

    def close(self):
        self._written.clear()


def value(number):
    return json.dumps({"a": number % 5, "y": number % 2 == 0}).encode()


class CounterSource(Source):
    """Reads the numbers as records; a position is the next number."""

    def __init__(self, section):
        self.name, self._count, self._next, self._assigned = section.name, section.count, 0, False

    def poll(self, seconds, most=10):
        if not self._assigned:
            self._assigned = True
            return Polled(assigned=[Assigned(self.name, None, 0, self._count)])
        stop = min(self._next + most, self._count)
        records = [Raw(number, value(number)) for number in range(self._next, stop)]
        self._next = stop
        return Polled({self.name: RawBatch(records, stop)}) if records else Polled(finished=True)

    def begin(self, partition, position):
        self._next = position

    def partitions(self):
        return [self.name]

    def ends(self):
        return {self.name: self._count}

    def close(self, leaving):
        pass


class CounterLog(Log):
    """The numbers as a log."""

    def __init__(self, section, format):
        self.name, self.target, self.format, self._count = section.place, "y", format, section.count

    def __iter__(self):
        for number in range(self._count):
            event = self.format.decoder("json")(value(number))
            yield Record(number, event.fields, event.target)


class CounterConnector:
    """What the commands of the test need."""

    def open_source(self, settings, model):
        return CounterSource(settings.source)

    def open_sinks(self, sections, settings, model, source):
        for kind in sections:
            yield kind, ListSink()

    @contextlib.contextmanager
    def open_log(self, settings, start, end, strict):
        yield CounterLog(settings.source, settings.format)

    def check(self, sections, settings, model):
        for key, section in sections.items():
            yield f"{key}: {section.place} is there"


CONNECTOR = CounterConnector()
