"""The registry of connectors: a line for each kind of source and sink that settings can name."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Annotated, NamedTuple

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from connectors.contract.sections import (
    LabelSection,
    PredictionSection,
    Section,
    SinkSection,
    SourceSection,
)
from connectors.files.sections import FileSinkSection, FileSourceSection, LabelFile, PredictionFile
from connectors.kafka.sections import LabelTopic, PredictionTopic, TopicSinkSection, TopicSourceSection


class Entry(NamedTuple):
    """A connector: its tables of the settings, and the module that opens what they name.

    Attributes
    ----------
    source, sink, predictions
        The table of a source, of a sink, and of a sink of predictions.
    module
        Which has a ``CONNECTOR`` (:class:`connectors.settings.connector.Connector`); imported when needed.
    labels
        The table of labels in separate records, if events of this kind can have them.
    """

    source: type[SourceSection]
    sink: type[SinkSection]
    predictions: type[PredictionSection]
    module: str
    labels: type[LabelSection] | None = None


REGISTRY = {  # by the kind in the settings; the example of the settings shows the first
    "topic": Entry(
        TopicSourceSection, TopicSinkSection, PredictionTopic, "connectors.kafka.connector", LabelTopic
    ),
    "file": Entry(
        FileSourceSection, FileSinkSection, PredictionFile, "connectors.files.connector", LabelFile
    ),
}


def tables(role: str) -> tuple[type[Section], ...]:
    """Return the tables of ``"source"``, ``"labels"``, ``"sink"`` or ``"predictions"``, one for each kind.

    >>> [table.__name__ for table in tables("sink")]
    ['TopicSinkSection', 'FileSinkSection']
    """
    of_kinds = (entry._asdict()[role] for entry in REGISTRY.values())
    return tuple(table for table in of_kinds if table is not None)


class _OneOf:
    """Validates a table by its kind, as one of those in the registry."""

    def __init__(self, role: str) -> None:
        self._role = role

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        union: object = Annotated[reduce(or_, tables(self._role)), Field(discriminator="kind")]
        return handler.generate_schema(union)


AnySource = Annotated[SourceSection, _OneOf("source")]
AnyLabels = Annotated[LabelSection, _OneOf("labels")]
AnySink = Annotated[SinkSection, _OneOf("sink")]
AnyPredictions = Annotated[PredictionSection, _OneOf("predictions")]
