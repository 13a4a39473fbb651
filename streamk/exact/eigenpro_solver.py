"""EigenPro 3 over given centers: its preconditioners, batch and projection, and what a batch teaches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.rows import slices
from streamk.exact.centers import Centers
from streamk.exact.eigenpro_steps import (
    INNER_EXPONENT,
    Batch,
    ExactProjection,
    InexactProjection,
    Projection,
    delayed_steps,
    preconditioner,
    step,
)
from streamk.exact.similarities import Similarities
from streamk.kernel_blocks import Floats
from streamk.kernels import Kernel

Array = NDArray[np.float64]
PROJECTIONS = ("exact", "inexact", "delayed")
DELAY = 4  # batches that one delayed projection follows
_SUBSAMPLE = 2000
_SMALLEST, _LARGEST = 128, 2048  # rows of a batch, if the centers would have others
_LEAST_INSIDE = 64  # centers of a batch of a projection


class Settings(NamedTuple):
    """What a learner was asked for; None is automatic."""

    projection: str
    subsample: int | None
    rank: int | None
    batch: int | None


class EigenPro:
    """A solver for one set of centers; it knows nothing of coefficients.

    Parameters
    ----------
    kernel, bandwidth
        The kernel.
    centers
        ``Z`` and their masses.
    settings
        Projection, subsample, rank and batch. A subsample is at most 2,000 centers if none is given; a batch
        half as many rows as there are centers, from 128 to 2,048, but no more than the preconditioner allows.

    Raises
    ------
    ValueError
        If similarities of the centers cannot be held in single precision, or not be factored.
    """

    def __init__(self, kernel: Kernel, bandwidth: float, centers: Centers, settings: Settings) -> None:
        self._kernel, self._bandwidth, self.centers = kernel, bandwidth, centers.vectors
        self._delayed = settings.projection == "delayed"
        count = len(self.centers)
        size = min(count, settings.subsample or _SUBSAMPLE)
        top = self.block(self.centers[:size], self.centers[:size]).astype(np.float64)
        if not np.isfinite(top).all():
            raise ValueError(
                "the kernel of the centers is too large for single precision; use a larger bandwidth"
            )
        wanted = settings.batch or min(max(count // 2, _SMALLEST), _LARGEST)
        self._by = preconditioner(top, centers.masses[:size], settings.rank, wanted)
        if settings.batch is not None:
            self.batch = settings.batch
        else:
            self.batch = min(self._by.batch, wanted if settings.rank is None else _LARGEST)
        self._project = self._projection(top, settings)

    def _projection(self, top: Array, settings: Settings) -> Projection:
        count = len(self.centers)
        if settings.projection == "exact":
            return ExactProjection(lambda part: self.block(self.centers[part], self.centers), count)
        together = max(_LEAST_INSIDE, count // 4)
        inside = preconditioner(top, np.ones(len(top)), settings.rank, together, INNER_EXPONENT)
        own = Similarities(self._kernel, self._bandwidth, self.centers, self.centers)
        return InexactProjection(own.part, inside)

    @property
    def together(self) -> int:
        """Rows that are learned at once: a batch, or all that one projection follows."""
        return self.batch * (DELAY if self._delayed else 1)

    def block(self, X: Floats, Z: Floats) -> Floats:
        """Return ``K(X, Z)``."""
        return self._kernel.block(X, Z, self._bandwidth)

    def learn(
        self, coefficients: Array, X: Floats, targets: Array, weights: Array, similar: Floats | None = None
    ) -> Array:
        """Return the coefficients ``(p, K)`` after the rows are learned, batch by batch.

        Parameters
        ----------
        coefficients
            Those before, ``(p, K)``.
        X
            Dense rows ``(n, d)``, best ``together`` of them.
        targets, weights
            What their answers should be, ``(n, K)``, and how much each counts, ``(n,)``.
        similar
            ``K(X, Z)``, if it is known.
        """
        if similar is None:
            similar = self.block(X, self.centers)
        batches = [Batch(X[p], similar[p], targets[p], weights[p]) for p in slices(len(X), self.batch)]
        if self._delayed:
            return delayed_steps(batches, coefficients, self._by, self._project, self.block)
        for batch in batches:
            coefficients = step(batch, coefficients, self._by, self._project)
        return coefficients
