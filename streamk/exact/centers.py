"""Centers of an expansion: random rows or the means of clusters, and their masses in rows.

Centers are distinct, so a matrix of their similarities can be solved: if there are fewer distinct rows than
centers wanted, there are fewer centers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamk.arrays import Array, Floats, Places
from streamk.encoding.rows import slices
from streamk.features.counter import permutation
from streamk.kernels import distances

CHOICES = ("random", "k-means")
_PIECE = 2048  # rows of a mini-batch
_PASSES = 12  # after the first, by whole passes, at most
_STANDS = 0.999  # of the error before a pass: where less is gained, it was the last
_ORDER = 0x4345_4E54  # a separate stream of random numbers


class Centers(NamedTuple):
    """Distinct vectors ``(p, d)``, and their masses ``(p,)``, in rows."""

    vectors: Floats
    masses: Array


def centers(
    choose: str, X: Floats, count: int, seed: int, passed: Callable[[], None] = lambda: None
) -> Centers:
    """Return at most ``count`` centers of rows.

    Parameters
    ----------
    choose
        ``"random"`` or ``"k-means"``.
    X
        Dense rows ``(n, d)``.
    count, seed
        How many are wanted, and the source of randomness.
    passed
        Called at most ``passes(choose)`` times, whenever a pass over the rows is done.
    """
    order = permutation(seed, _ORDER, len(X))
    first = X[distinct(X, order, count)]
    if choose == "random" or len(first) < count:
        return Centers(first, np.ones(len(first)))
    return k_means(X, order, first, passed)


def passes(choose: str) -> int:
    """Return how many passes over the rows a choice takes at most."""
    return 1 + _PASSES if choose == "k-means" else 0


def distinct(X: Floats, order: Places, count: int) -> Places:
    """Return the first ``count`` places, in an order, of rows that are all different."""
    seen: dict[bytes, int] = {}
    for place in order.tolist():
        seen.setdefault((X[place] + np.float32(0.0)).tobytes(), place)  # +0.0 and −0.0 are one number
        if len(seen) == count:
            break
    return np.fromiter(seen.values(), dtype=np.intp, count=len(seen))


def k_means(X: Floats, order: Places, first: Floats, passed: Callable[[], None]) -> Centers:
    """Return the means of clusters, starting from ``first``.

    In the first pass every mini-batch moves the means of its rows' clusters; a mean is that of all rows
    assigned to the cluster so far (Sculley 2010). In each later pass, all rows are assigned to the present
    means, and then all means move (Lloyd 1982), until the squared error falls by less than a thousandth. A
    center that is nearest to no row does not move.
    """
    means = first.astype(np.float64)
    masses = np.zeros(len(means))
    for part in slices(len(X), _PIECE):
        sums, counts, _ = _assigned(X[order[part]], means.astype(np.float32))
        masses += counts
        met = counts > 0.0
        means[met] += (sums[met] - counts[met, None] * means[met]) / masses[met, None]
    passed()
    before = np.inf
    for _ in range(_PASSES):
        sums, masses, error = np.zeros_like(means), np.zeros(len(means)), 0.0
        for part in slices(len(X), _PIECE):
            more, counts, squares = _assigned(X[part], means.astype(np.float32))
            sums += more
            masses += counts
            error += squares
        met = masses > 0.0
        means[met] = sums[met] / masses[met, None]
        passed()
        if not error < _STANDS * before:
            break
        before = error
    single = means.astype(np.float32)
    apart = np.sort(distinct(single, np.arange(len(single)), len(single)))
    return Centers(single[apart], np.maximum(masses[apart], 1.0))


def _assigned(rows: Floats, means: Floats) -> tuple[Array, Array, float]:
    """Return the sum ``(p, d)`` and number ``(p,)`` of the rows nearest to each mean, and their error."""
    from scipy.sparse import csr_matrix  # not loaded for other learners

    apart = distances(rows, means, lambda tile: tile)
    nearest = apart.argmin(axis=1)
    squares = apart[np.arange(len(rows)), nearest].astype(np.float64) ** 2
    chosen = csr_matrix((np.ones(len(rows)), (nearest, np.arange(len(rows)))), shape=(len(means), len(rows)))
    counts = np.bincount(nearest, minlength=len(means)).astype(np.float64)
    return np.asarray(chosen @ rows.astype(np.float64)), counts, float(squares.sum())
