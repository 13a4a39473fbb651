"""The random feature map as a river transformer: kernels for any linear model."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from river import base

from streamk.batches import Batch
from streamk.features.feature_map import BLOCK, FeatureMap, featurize, wave
from streamk.features.frequencies import CACHE_BYTES, frequency_rows
from streamk.features.panel import ROWS, fill_angles, pack
from streamk.features.products import on_threads
from streamk.frames import batch
from streamk.inputs import Event, Inputs
from streamk.kernels import kernel as kernel_named
from streamk.parameters import check_map
from streamk.rows import ABSENT, Rows, slices
from streamk.scaling import scale_rows

Floats = NDArray[np.float32]
_PIECE = 4096  # rows encoded at once
_ROWS = 64  # rows a thread takes at once, a multiple of four


@njit(cache=True, nogil=True, error_model="numpy")
def _transform_row(inputs, found, counts, block_keys, waves, features, table, used, frequencies, phi):  # type: ignore[no-untyped-def]
    where = np.empty(found.shape, dtype=np.int32)
    frequency_rows(found, block_keys, waves, table, used, frequencies, where)
    featurize(inputs, where, counts, frequencies, waves, features, phi)


class RandomFeatures(base.MiniBatchTransformer):
    """Random features of a kernel: ``z(x)ᵀz(x') ≈ k(x, x')``.

    ``z_f(x) = √(2/F) cos(ω_fᵀx + b_f)``, with frequencies drawn from the kernel's spectral distribution, so
    a linear model of ``z`` is a kernel machine (Rahimi and Recht 2007). The features are *joint*: every one
    depends on all inputs, where river's ``RBFSampler`` gives one cosine per input and component, an additive
    kernel. Nothing is stored but the seed.

    Parameters
    ----------
    kernel
        ``"gaussian"``, ``"laplace"``, ``"matern[:ν]"``, ``"rational-quadratic[:a]"`` or
        ``"exponential-power[:p]"``.
    bandwidth
        Kernel bandwidth ``ℓ``, in units of the inputs; ``√d`` is a good start for ``d`` standardised inputs.
    scales
        Multipliers of the bandwidth; every 32 features take the next of them, and the kernel is their mean.
    features
        Number of features ``F``.
    directions
        ``"keyed"`` ties random directions to the names of fields, ``"dense"`` those of numbers to positions,
        in the order in which :meth:`learn_one` met them.
    seed
        The only source of randomness. None draws one.

    Notes
    -----
    Strings and booleans are one-hot as ``name=value``, ``None`` adds nothing. The bytes of a row depend
    neither on the rows beside it nor on the number of threads.

    References
    ----------
    [^1]: Rahimi, A. and Recht, B., 2007. Random features for large-scale kernel machines. NIPS.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> import streamk
    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | streamk.RandomFeatures(bandwidth=0.5, features=200, seed=7)
    ...     | linear_model.LogisticRegression()
    ... )
    >>> evaluate.progressive_val_score(datasets.Bananas(), model, metrics.Accuracy())
    Accuracy: 82.66%
    """

    def __init__(
        self,
        kernel: str = "gaussian",
        bandwidth: float = 1.0,
        scales: tuple[float, ...] = (1.0,),
        features: int = 512,
        directions: str = "keyed",
        seed: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.scales = scales
        self.features = features
        self.directions = directions
        self.seed = seed
        check_map(kernel, bandwidth, scales, features, directions, seed)
        self._inputs = Inputs(directions, scaled=False)
        drawn = secrets.randbits(63) if seed is None else seed
        self._map = FeatureMap(kernel_named(kernel), bandwidth, tuple(scales), features, drawn)
        self._names = [f"z{f}" for f in range(features)]
        self._norm = np.float32(1.0 / np.sqrt(features))

    @property
    def _supervised(self) -> bool:
        return False

    def learn_one(self, x: Event) -> None:
        """Learn the positions of numbers not met before; changes nothing with keyed directions."""
        self._inputs.encode_checked(x, True)

    def learn_many(self, X: Any, names: Sequence[str] | None = None) -> None:
        """Learn the positions of numbers not met before, in the order of a loop of :meth:`learn_one`."""
        rows = batch(X, names)
        with self._inputs.forgetting_on_error():
            rows.prepare(self._inputs, np.ones(len(rows), dtype=bool))

    def transform_one(self, x: Event) -> dict[str, float]:  # type: ignore[override]
        """Return the features of one event, ``z0 … z{F−1}``.

        Raises
        ------
        ValueError
            If a value cannot be taken, naming its field.
        """
        rows = self._inputs.encode_checked(x, False)
        scaled, found, counts = scale_rows(rows, self._inputs.statistics)
        e = self._map
        e.cache.reserve(scaled.shape[1])
        phi = np.empty((1, e.width), dtype=np.float32)
        _transform_row(
            scaled, found, counts, e.block_keys, e.waves, e.features, e.cache.table, e.cache.counts,
            e.cache.rows, phi,
        )  # fmt: skip
        e.cache.grow()
        return dict(zip(self._names, (phi[0, : self.features] * self._norm).tolist(), strict=True))

    def transform(self, X: Any, names: Sequence[str] | None = None) -> Floats:
        """Return the features of many rows as an array ``(n, features)``, float32.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame, a NumPy array with ``names``, or a list of dicts.
        names
            Column names of an array; ``0, 1, …`` by default.
        """
        if isinstance(X, np.ndarray) and X.ndim == 2 and names is None:
            names = [str(j) for j in range(X.shape[1])]
        return self._transform(batch(X, names))

    def transform_many(self, X: Any) -> Any:
        """Return the features of every row of a frame, as a frame of the same library."""
        rows = batch(X)
        return rows.table(self._names, self._transform(rows))

    def _transform(self, rows: Batch) -> Floats:
        rows.prepare(self._inputs, None)
        out = np.empty((len(rows), self.features), dtype=np.float32)
        for part in slices(len(rows), _PIECE):
            piece = rows.rows(self._inputs, part.start, part.stop)
            _fill(self._map, piece, self._inputs.statistics, self._norm, out[part])
        return out

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"features": 70, "seed": 7}
        yield {"features": 64, "kernel": "matern:2.5", "scales": (2.0, 1.0), "directions": "dense", "seed": 7}


def _fill(e: FeatureMap, rows: Rows, statistics: NDArray[np.float64], norm: np.float32, out: Floats) -> None:
    """Fill ``out`` with features; rows that share their fields take the faster way to the same bytes."""
    if len(rows.keys) == 1 and len(out) >= ROWS:
        _fill_alike(e, rows, norm, out)
        return
    scaled, found, counts = scale_rows(rows, statistics)
    keys, place = np.unique(found, return_inverse=True)
    where = place.reshape(found.shape).astype(np.int32)
    e.hold_frequencies(keys)
    for tile in _tiles(e.width, len(keys)):
        frequencies = np.ascontiguousarray(e.frequencies(keys, slice(None), tile))
        waves = np.ascontiguousarray(e.waves[:, tile])
        used = min(e.features, tile.stop) - tile.start

        def fill(chunk: slice, f: Any = frequencies, w: Any = waves, u: int = used, t: slice = tile) -> None:
            phi = np.empty((chunk.stop - chunk.start, w.shape[1]), dtype=np.float32)
            featurize(scaled[chunk], where[chunk], counts[chunk], f, w, u, phi)
            np.multiply(phi[:, :u], norm, out=out[chunk, t.start : t.start + u])

        on_threads(fill, slices(len(out), _ROWS))


def _fill_alike(e: FeatureMap, rows: Rows, norm: np.float32, out: Floats) -> None:
    present = rows.keys[0] != ABSENT
    keys = rows.keys[0][present]
    inputs = np.zeros((len(out) + -len(out) % ROWS, len(keys)), dtype=np.float32)
    inputs[: len(out)] = rows.values[:, present]
    e.hold_frequencies(keys)
    for tile in _tiles(e.width, len(keys)):
        panels = pack(e.frequencies(keys, slice(None), tile))
        phases = np.ascontiguousarray(e.phases[tile])
        used = min(e.features, tile.stop) - tile.start

        def fill(chunk: slice, p: Any = panels, q: Any = phases, u: int = used, t: slice = tile) -> None:
            count = chunk.stop - chunk.start
            phi = np.empty((count + -count % ROWS, len(q)), dtype=np.float32)
            fill_angles(inputs, chunk.start, chunk.stop, p, q, phi)
            wave(phi, count, u)
            np.multiply(phi[:count, :u], norm, out=out[chunk, t.start : t.start + u])

        on_threads(fill, slices(len(out), _ROWS))


def _tiles(width: int, inputs: int) -> list[slice]:
    """Return tiles of whole blocks, with as many columns as 64 MiB of frequencies allow, at most 1,024."""
    columns = min(1024, max(1, CACHE_BYTES // (4 * BLOCK * max(inputs, 1))) * BLOCK)
    return slices(width, columns)
