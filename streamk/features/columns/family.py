"""The interface of families of columns, which experts see of an event.

A *part* of the map begins with plain columns and those of the labels, and its cosines follow: these families
are in every part. Columns of other families follow all parts. A family is one file: its :class:`Family`, for
Python code, and its implementations of :func:`fill` and :func:`recall`, for compiled code
(:mod:`streamk.dispatch`). The registry is :data:`streamk.features.columns.FAMILIES`; the loop over events
names none of them.

``scratch`` has the scaled inputs of rows (:class:`streamk.learners.kernel_loop.Buffers`): ``inputs``, their
``keys`` and ``slots``, ``counts`` of them, ``units``, the factors by which numbers were multiplied, and
``raw`` features.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from streamk.arrays import Integers
from streamk.dispatch import default
from streamk.features.plans import GridPlan
from streamk.state import Stateful


def fill(family: object, sections: object, scratch: object, i: object, learned: object, phi: object) -> None:
    """Fill the columns of row ``i`` of ``phi``, which is ``learned`` or predicted only (in compiled code)."""
    raise NotImplementedError("for compiled code")


def recall(family: object, sections: object, memory: object, when: object, phi: object, i: object) -> None:
    """Fill the columns of the labels that have arrived ``when`` (in compiled code).

    ``memory`` is that of :mod:`streamk.encoding.label_history`. Most families have no such columns.
    """
    raise NotImplementedError("for compiled code")


@default(recall)
def _without_labels(family, sections, memory, when, phi, i):
    pass


class Family(Stateful):
    """A family of columns.

    Parameters
    ----------
    plan
        That of the grids.
    quadratic
        Whether there are products of two inputs.

    Attributes
    ----------
    width, first
        The number of columns after the parts, and the first of these.
    """

    name: ClassVar[str]

    def __init__(self, plan: GridPlan, quadratic: bool) -> None:
        self.width = self.first = 0

    @property
    def columns(self) -> slice:
        """The columns after the parts."""
        return slice(self.first, self.first + self.width)

    def draw(self, seed: int, blocks: int) -> None:
        """Draw what depends on the seed of a map with so many blocks under relevance."""

    def forget(self) -> None:
        """Forget what was computed for the fields of the last event."""

    def moved(self, plain: Integers) -> Integers:
        """Return the place of each column after the parts, −1 for none.

        Plain column ``j`` moves to ``plain[j]``.
        """
        return np.arange(self.width)
