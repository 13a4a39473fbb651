"""Columns of recent labels, behind the plain columns of every part.

They change from one answer to the next: an event is predicted from the labels that have arrived, and learned
with the same ones (:mod:`streamk.encoding.label_history`). Without a label memory they are 0.
"""

from __future__ import annotations

from collections import namedtuple

from streamk.dispatch import implements
from streamk.encoding.label_history import COLUMNS
from streamk.encoding.label_history import recall as copy_labels
from streamk.features.columns.family import Family, fill, recall
from streamk.features.columns.plain import LINEAR
from streamk.vector.linear_algebra import clear, copy

LabelRecord = namedtuple("LabelRecord", "first")


class LabelColumns(Family):
    """Recent labels."""

    name = "labels"
    record_type = LabelRecord


@implements(fill, LabelRecord)
def _fill(family, sections, scratch, i, learned, phi):
    row = i * phi.shape[1] + LINEAR
    for p in range(sections.starts.shape[0]):
        clear(phi, row + sections.starts[p], COLUMNS)


@implements(recall, LabelRecord)
def _recall(family, sections, memory, when, phi, i):
    copy_labels(memory, when, sections.amplitude, phi, i, LINEAR)
    row = i * phi.shape[1] + LINEAR
    for p in range(1, sections.starts.shape[0]):
        copy(phi, row + sections.starts[p], phi, row, COLUMNS)
