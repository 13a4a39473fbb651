"""The random feature map as a river transformer: kernels for any linear model."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import cast

import numpy as np
from river import base

from streamk.arrays import AnyArray, Floats, Integers, Json, Pickled, Table
from streamk.encoding.batches import Batch, Mask
from streamk.encoding.fields import Event, name_of
from streamk.encoding.frames import batch
from streamk.encoding.inputs import Inputs
from streamk.encoding.rows import MOST_SLOTS, EncodedRows, slices
from streamk.features.map import STRUCTURED, FeatureMap, choose_for, largest_unscaled
from streamk.features.matrix import empty, fill, fill_here, project
from streamk.features.structured import slots_of_first
from streamk.parameters import check_map, directions_of, kernels_of

_PIECE = 4096  # rows encoded at once


class RandomFeatures(Pickled, base.MiniBatchTransformer):
    """Random features of a kernel: ``z(x)ᵀz(x') ≈ k(x, x')``.

    ``z_f(x) = √(2/F) cos(ω_fᵀx + b_f)``, with frequencies drawn from the kernel's spectral distribution, so
    a linear model of ``z`` is a kernel machine (Rahimi and Recht 2007). The features are *joint*: every one
    depends on all inputs, where river's ``RBFSampler`` gives one cosine per input and component, an additive
    kernel. Only the seed is stored.

    Parameters
    ----------
    kernel
        ``"gaussian"``, ``"laplace"``, ``"laplacian"`` (of the 1-norm), ``"matern[:ν]"``,
        ``"rational-quadratic[:a]"``, ``"exponential-power[:p]"``, ``"arc-cosine[:n]"`` or
        ``"polynomial[:p[:c]]"``. Several, such as ``("laplacian", "gaussian")``, take 64 features in turn.
    bandwidth
        Kernel bandwidth ``ℓ``, in units of the inputs; ``√d`` is a good start for ``d`` standardised inputs.
    scales
        Multipliers of the bandwidth; every 32 features of a kernel use the next one. The kernel is the mean
        over scales if the features are a multiple of 32 times their number (with several kernels, of 64 times
        kernels times scales).
    features
        Number of features ``F``.
    directions
        ``"keyed"``: random directions depend on the names of fields, and the order of names never matters.
        ``"structured"``: directions of numbers come from fast transforms of their positions, much faster from
        about ten numbers on. ``"dense"``: independent directions by position. ``"auto"`` chooses keyed or
        structured by the first event. Categories are always keyed.
        Positions are in the order of the first :meth:`learn_one` with the names; without it, of the call.
    seed
        The only source of randomness. None draws one.

    Notes
    -----
    Strings and booleans are one-hot as ``name=value``; missing values, ``None`` and NaN, add nothing. After
    :meth:`learn_one` or :meth:`learn_many` with the names, the bytes of a row depend neither on other rows
    nor on the number of threads; before, a call with structured directions has the slots of its rows.
    Do not use a map from several threads at once.

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
        kernel: str | tuple[str, ...] = "gaussian",
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
        check_map(self._get_params())
        if bandwidth is None:
            raise ValueError("bandwidth=None: bandwidth must be a number above 0")
        kernels = kernels_of(kernel)
        largest = largest_unscaled(kernels, bandwidth, tuple(scales))
        self._inputs = Inputs(directions_of(kernels, directions), scaled=False, largest=largest)
        self._seed = secrets.randbits(63) if seed is None else seed
        self._places: tuple[object, Integers, int] | None = None
        self._amplitude = np.float32(np.sqrt(2.0 / features))
        self._slots: int | None = None  # of the first segment, fixed by the first learned event
        self._map: FeatureMap | None = None

    def _map_of(self, slots: int) -> FeatureMap:
        """Return the map; before any learning, a new map for rows whose slots do not fit."""
        structured = self._inputs.directions == STRUCTURED
        first = slots if self._slots is None else self._slots
        e = self._map
        if e is None or (structured and slots_of_first(first) != slots_of_first(e.slots or 0)):
            e = self._map = FeatureMap(
                kernels_of(self.kernel), self.bandwidth, tuple(self.scales), self.features, self._seed,
                first if structured else None,
            )  # fmt: skip
        e.cover(slots)
        return e

    def _settle(self, rows: EncodedRows) -> None:
        """Choose automatic directions by the first row, if they are not chosen yet."""
        if not self._inputs.settled:
            self._inputs.settle(choose_for(rows, False, self.features, len(self.scales), block_size=1))

    def _encode(self, x: Event, learning: bool) -> EncodedRows:
        if not self._inputs.settled:
            self._settle(self._inputs.encode_checked(x, False))
        return self._inputs.encode_checked(x, learning)

    def _prepare(self, rows: Batch, learned: Mask | None) -> None:
        if len(rows) and not self._inputs.settled:
            rows.prepare(self._inputs, None)
            self._settle(rows.rows(self._inputs, 0, 1))
        rows.prepare(self._inputs, learned)

    def _takes_matrix(self, X: AnyArray) -> bool:
        """Return whether slots are filled from the array itself: chosen structured directions, and floats."""
        return (
            self._inputs.settled
            and self._inputs.directions == STRUCTURED
            and X.dtype in (np.float32, np.float64)
        )

    def _learned(self, rows: EncodedRows) -> None:
        if self._slots is None:
            self._slots = rows.most_slots()

    @cached_property
    def _names(self) -> list[str]:
        identity = repr(
            (self.kernel, self.bandwidth, tuple(self.scales), self.features, self.directions, self._seed)
        )
        tag = blake2b(identity.encode(), digest_size=3).hexdigest()
        return [f"z{tag}_{f}" for f in range(self.features)]

    @property
    def _supervised(self) -> bool:
        return False

    def learn_one(self, x: Event) -> None:
        """Learn the positions of new numbers; changes nothing with keyed directions."""
        self._learned(self._encode(x, True))

    def learn_many(self, X: object, names: Sequence[str] | None = None) -> None:
        """Learn the positions of new numbers, in the order of a loop of :meth:`learn_one`."""
        rows = batch(X, _columns(X, names))
        with self._inputs.forgetting_on_error():
            self._prepare(rows, np.ones(len(rows), dtype=bool))
        if len(rows):
            self._learned(rows.rows(self._inputs, 0, 1))

    def transform_one(self, x: Event) -> dict[str, float]:  # type: ignore[override]
        """Return the features of one event, named ``z…_0`` to ``z…_{F−1}`` after parameters and seed.

        Raises
        ------
        ValueError
            If a value is invalid, naming its field.
        """
        rows = self._encode(x, False)
        e = self._map_of(rows.most_slots())
        phi = np.empty((1, e.width), dtype=np.float32)
        fill_here(e, rows, self._inputs.statistics, self._amplitude, phi)
        return dict(zip(self._names, phi[0, : self.features].tolist(), strict=True))

    def transform(self, X: object, names: Sequence[str] | None = None, out: Floats | None = None) -> Floats:
        """Return the features of many rows as an array ``(n, features)``, float32.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame, a NumPy array with ``names``, or a list of dicts.
        names
            Column names of an array; ``0, 1, …`` by default.
        out
            Array to fill and return, ``(n, features)`` float32 and contiguous; a new one by default.
            Reusing an array avoids its allocation, which takes as long as the features.

        Raises
        ------
        ValueError
            If a value is invalid, naming row and field, or ``out`` is not such an array.
        """
        if isinstance(X, np.ndarray) and X.ndim == 2 and self._takes_matrix(X):
            places = self._places_of(names, X.shape[1])
            if places is not None:
                features = self._room(len(X), out)
                if project(self._map_of(places[1]), X, places[0], self._amplitude, features):
                    return features
        return self._transform(batch(X, _columns(X, names)), out)

    def transform_many(self, X: Table) -> Table:
        """Return the features of every row of a frame, as a frame of the same library."""
        rows = batch(X)
        return cast(Table, rows.table(self._names, self._transform(rows)))

    def _room(self, rows: int, out: Floats | None) -> Floats:
        shape = (rows, self.features)
        if out is None:
            return empty(*shape)
        if not isinstance(out, np.ndarray):
            raise ValueError(f"out is a {type(out).__name__}; it must be an array")
        if out.shape != shape or out.dtype != np.float32 or not out.flags.carray:
            raise ValueError(
                f"out is {out.dtype} of shape {out.shape}; it must be writeable, contiguous float32 of shape "
                f"{shape}"
            )
        return out

    def _transform(self, rows: Batch, buffer: Floats | None = None) -> Floats:
        out = self._room(len(rows), buffer)
        self._prepare(rows, None)
        parts = slices(len(rows), _PIECE)
        most = 0
        if self._slots is None and len(parts) > 1:  # one map for the whole call
            most = max(rows.rows(self._inputs, part.start, part.stop).most_slots() for part in parts)
        for part in parts:
            piece = rows.rows(self._inputs, part.start, part.stop)
            e = self._map_of(max(most, piece.most_slots()))
            fill(e, piece, self._inputs.statistics, self._amplitude, out[part])
        return out

    def _places_of(self, names: Sequence[str] | None, columns: int) -> tuple[Integers, int] | None:
        """Return the slots of an array's columns and their number, None if the names do not fit."""
        asked = (None if names is None else tuple(map(name_of, names)), columns, len(self._inputs.numbers))
        if self._places is None or self._places[0] != asked:
            texts = list(map(name_of, range(columns) if names is None else names))
            if len(texts) != columns or len(set(texts)) != columns or not 0 < columns <= MOST_SLOTS:
                return None
            order = sorted(range(columns), key=texts.__getitem__)
            places = np.empty(columns, dtype=np.int64)
            places[order] = self._inputs.positions([texts[j] for j in order])
            if places.max() >= MOST_SLOTS:
                return None
            self._places = asked, places, int(places.max()) + 1
        return self._places[1:]

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        # dates of river's streams are numbers near a million, and nothing is scaled here
        yield {"bandwidth": 100.0, "features": 70, "seed": 7}
        yield {"bandwidth": 100.0, "features": 64, "kernel": "matern:2.5", "directions": "dense", "seed": 7}


def _columns(X: object, names: Sequence[str] | None) -> Sequence[str] | None:
    """Return names, or the numbers of the columns of an array without names."""
    if names is None and isinstance(X, np.ndarray) and X.ndim == 2:
        return [str(j) for j in range(X.shape[1])]
    return names
