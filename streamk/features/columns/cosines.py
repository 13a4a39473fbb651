"""Columns of random features: those of every part, behind its plain columns and those of the labels.

A part of the map has separate scales and inputs (:mod:`streamk.features.sections`), and experts use whole
parts, halves of them, or a part with its plain columns. Least squares, projections and the subspace all read
these columns in place, so they are copied once for all experts.

The features of a row are computed together (:mod:`streamk.features.sources`), in the order of
:mod:`streamk.features.map`; a part has one or two runs of them. A run that the map has not grown to is 0.
"""

from __future__ import annotations

from collections import namedtuple

from streamk.dispatch import implements
from streamk.features.columns.family import Family, fill
from streamk.vector.linear_algebra import clear, copy

CosineRecord = namedtuple("CosineRecord", "first")


class CosineColumns(Family):
    """Random features of all parts.

    They are in the parts, so the family has no columns after these, and its record nothing to read: runs are
    those of the sections.
    """

    name = "cosines"
    record_type = CosineRecord


@implements(fill, CosineRecord)
def _fill(family, sections, scratch, i, learned, phi):
    row, source = i * phi.shape[1], scratch.raw.shape[1] * i
    for p in range(sections.parts.shape[0]):
        first, column, there = sections.parts[p, 0], sections.parts[p, 1], sections.parts[p, 3] > 0
        if there:
            copy(phi, row + column, scratch.raw, source + first, sections.parts[p, 2])
        else:
            clear(phi, row + column, sections.parts[p, 2])
