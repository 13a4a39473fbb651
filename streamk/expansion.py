"""The expansion ``f(x) = Σ_b φ_b(x)ᵀ A_b``: a feature map that is a seed, and coefficients over it.

Coefficients are ``(experts, sets, outputs, width)`` float32: several experts may learn on one
``φ(x)``; a set is the iterate alone or the iterate and its average; the width is the number of
features rounded up to whole blocks, the surplus features being zero.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.features.feature_map import FeatureMap
from streamk.features.lanes import add_scaled, aligned
from streamk.inner_product import inner_products
from streamk.kernels import Kernel

LARGEST_COEFFICIENT = 1e15  # keeps outputs finite in float32


@njit(cache=True, error_model="numpy")
def evaluate(coefficients, first, phi, i, out):  # type: ignore[no-untyped-def]
    """Fill ``out[k]`` (float32) with ``φ_iᵀA_k``, ``A_k`` being row ``first + k`` of coefficients."""
    inner_products(coefficients, first, phi, i, out)


@njit(cache=True, error_model="numpy")
def accumulate(coefficients, row, gain, phi, i):  # type: ignore[no-untyped-def]
    """Add ``gain · φ_i`` to one output's coefficients."""
    add_scaled(coefficients, row, gain, phi, i)


class Expansion(FeatureMap):
    """A feature map and coefficients over it.

    Parameters
    ----------
    kernel, bandwidth, scales, features, seed, slots
        As for :class:`streamk.features.feature_map.FeatureMap`.
    sets
        1 for the iterate alone, 2 for the iterate and its average.
    outputs
        Outputs to begin with; :meth:`add_outputs` adds more.
    """

    def __init__(
        self,
        kernel: Kernel,
        bandwidth: float,
        scales: tuple[float, ...],
        features: int,
        seed: int,
        slots: int | None = None,
        sets: int = 1,
        outputs: int = 1,
    ) -> None:
        super().__init__(kernel, bandwidth, scales, features, seed, slots)
        self.outputs = outputs
        self.coefficients: NDArray[np.float32] = aligned(np.zeros((1, sets, outputs, self.width), np.float32))

    def add_outputs(self, outputs: int) -> None:
        """Make room for ``outputs`` outputs; the new ones are zero, the old ones unchanged."""
        self.outputs = max(self.outputs, outputs)
        self._make_room()

    def extend(self, features: int) -> None:
        """Make room for ``features`` features; the new coefficients are 0, the old ones unchanged."""
        super().extend(features)
        self._make_room()

    def _make_room(self) -> None:
        old = self.coefficients
        shape = (*old.shape[:2], self.outputs, self.width)
        if shape != old.shape:
            grown = np.zeros(shape, dtype=np.float32)
            grown[:, :, : old.shape[2], : old.shape[3]] = old
            self.coefficients = aligned(grown)
