"""The solution of an exact solver: the expansion ``f(x) = Σ_i k(x, z_i) a_i + b`` over stored centers.

Centers are dense vectors. A vector has a column for every input, sorted by the inputs' keys and scaled by the
statistics at the time of the solution; both belong to the expansion and never change. Without a
bandwidth, :func:`bandwidth_for` computes it from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Arrays, Floats, typed
from streamk.encoding.rows import ABSENT, EncodedRows, slices
from streamk.encoding.scaling import COUNT, scale_rows
from streamk.kernels import Kernel
from streamk.threads import one_blas_thread

_PIECE = 4096
MOST_COLUMNS = 65_536


class InputColumns(NamedTuple):
    """The columns of vectors: sorted ``keys`` of inputs ``(d,)``, and the ``statistics`` of their scales."""

    keys: NDArray[np.uint64]
    statistics: Array

    @classmethod
    def of(cls, parts: Iterable[EncodedRows], statistics: Array) -> InputColumns:
        """Return the columns of all inputs of rows, which may be in several parts.

        The last names have no scale if no event was learned with them: a batch registers its names before it
        learns the first of its rows, while a loop registers them later.
        """
        keys = np.unique(np.concatenate([np.unique(rows.keys) for rows in parts]))
        keys = keys[keys != ABSENT]
        if len(keys) > MOST_COLUMNS:
            raise ValueError(
                f"the events have {len(keys):,} different inputs, and an exact solver holds "
                f"{MOST_COLUMNS:,}; remove free-form strings, or use a streaming learner"
            )
        learned = np.flatnonzero(statistics[:, COUNT])
        return cls(keys, statistics[: int(learned.max(initial=-1)) + 1].copy())

    def dense(self, rows: EncodedRows, slots: int) -> Floats:
        """Return scaled rows as vectors ``(n, d)``; inputs without a column are ignored.

        ``slots`` is the present number of slots.
        """
        statistics = np.zeros((max(slots, len(self.statistics)), self.statistics.shape[1]))
        statistics[: len(self.statistics)] = self.statistics
        out = np.zeros((len(rows.values), len(self.keys)), dtype=np.float32)
        for part in slices(len(out), _PIECE):
            scaled, keys, counts = scale_rows(rows.select(part), statistics, (0.0,))
            places = np.searchsorted(self.keys, keys)
            held = np.arange(keys.shape[1]) < counts[:, None]
            held &= np.append(self.keys, ABSENT)[places] == keys
            i, j = np.nonzero(held)
            out[part][i, places[i, j]] = scaled[0][i, j]
        return out


class Expansion(NamedTuple):
    """Centers ``(m, d)``, coefficients ``(m, K)`` and bias ``(K,)``, of a kernel with its bandwidth."""

    kernel: Kernel
    bandwidth: float
    columns: InputColumns
    centers: Floats
    coefficients: Array
    bias: Array

    def outputs(self, X: Floats) -> Array:
        """Return ``f`` of dense rows, ``(n, K)``."""
        out = np.empty((len(X), len(self.bias)))
        coefficients = self.coefficients.astype(np.float32)
        for part in slices(len(X), _PIECE):
            block = self.kernel.block(X[part], self.centers, self.bandwidth)
            out[part] = products(block, coefficients) + self.bias
        return out

    def supported(self) -> Expansion:
        """Return the expansion without centers whose coefficients are all 0."""
        used = self.coefficients.any(axis=1)
        return self._replace(centers=self.centers[used], coefficients=self.coefficients[used])

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file."""
        return {
            "expansion.keys": self.columns.keys,
            "expansion.statistics": self.columns.statistics,
            "expansion.centers": self.centers,
            "expansion.coefficients": self.coefficients,
            "expansion.bias": self.bias,
            "expansion.bandwidth": np.array([self.bandwidth]),
        }

    @classmethod
    def restored(cls, kernel: Kernel, arrays: Arrays, kept: int) -> Expansion | None:
        """Return the expansion of a model file, None if it has none."""
        if "expansion.keys" not in arrays:
            return None
        count, width = arrays["expansion.centers"].shape
        outputs, known = len(arrays["expansion.bias"]), len(arrays["expansion.statistics"])
        made = cls(
            kernel,
            float(typed(arrays, "expansion.bandwidth", np.float64, (1,))[0]),
            InputColumns(
                typed(arrays, "expansion.keys", np.uint64, (width,)),
                typed(arrays, "expansion.statistics", np.float64, (known, kept)),
            ),
            typed(arrays, "expansion.centers", np.float32, (count, width)),
            typed(arrays, "expansion.coefficients", np.float64, (count, outputs)),
            typed(arrays, "expansion.bias", np.float64, (outputs,)),
        )
        numbers = (made.centers, made.coefficients, made.bias)
        if not all(np.isfinite(each).all() for each in numbers) or not 0.0 < made.bandwidth < np.inf:
            raise ValueError("its centers or coefficients are impossible")
        if (made.columns.keys[1:] <= made.columns.keys[:-1]).any():
            raise ValueError("its columns are not in order")
        return made


def products(block: Floats, coefficients: Floats) -> Array:
    """Return ``block @ coefficients``, summed in double precision over pieces of the centers."""
    out = np.zeros((len(block), coefficients.shape[1]))
    with one_blas_thread():
        for part in slices(len(coefficients), 2 * _PIECE):
            out += block[:, part] @ coefficients[part]
    return out


_LOOKED_AT = 500  # rows and more, evenly spaced


def bandwidth_for(kernel: Kernel, X: Floats) -> float:
    """Return the median distance between rows, in the kernel's metric.

    For a kernel of inner products it is the root of the rows' mean squared length, so that products are about
    1. If all rows are the same, it is 1.
    """
    from scipy.spatial.distance import pdist  # a fifth of a second, which no other learner needs

    rows = X[:: max(1, len(X) // _LOOKED_AT)].astype(np.float64)
    metric = getattr(kernel, "metric", None)
    if metric is None:
        typical = float(np.sqrt(np.mean(np.sum(rows * rows, axis=1)))) if len(rows) else 0.0
    else:
        distances = pdist(rows, metric)
        positive = distances[distances > 0.0]
        typical = float(np.median(positive)) if len(positive) else 0.0
    return typical if typical > 0.0 else 1.0
