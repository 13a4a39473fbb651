"""Tensor sketches: features of the polynomial kernel ``(xᵀz/ℓ² + c)^p`` (Pham and Pagh 2013).

A count sketch of length ``D`` adds ``s(j) x_j`` to cell ``h(j)``, ``h`` and ``s`` being a random cell and
sign of input ``j``. The ``p``-fold convolution of independent sketches of ``(x/ℓ, √c)`` is a count sketch
of its ``p``-fold tensor power, so inner products of two such convolutions are unbiased estimates of the
kernel. A convolution is a product of Fourier transforms, and as the transform keeps inner products
(Parseval), the spectrum itself serves as features: real parts in the first half, imaginary parts in the
second. The cost of a row is its nonzero inputs and ``p`` transforms, whatever the number of inputs.

Cells and signs come from the key of the input: bits ``0 …`` and bit 63 of
``stream_key(mix64(seed ^ degree), key)``, as frequencies do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Array, Floats
from streamk.compiling import INNER, both
from streamk.features.counter import mix64_int, stream_key

_LARGEST_CELL = np.float32(1e12)  # keeps transforms and their products finite in float32
_LARGEST = np.float32(1e15)
CONSTANT_KEY = np.uint64(0x636F6E7374616E74)  # of the input √c


class Sketch(NamedTuple):
    """Tables for compiled code: one sketch of ``cosines.size`` features for every scale of every block.

    ``keys`` are ``(sketches, degree)``, ``gains`` ``1/ℓ`` of every sketch, ``constant`` is ``√c``.
    ``cosines`` and ``sines`` are of ``t/D`` turns.
    """

    keys: NDArray[np.uint64]
    gains: Floats
    constant: np.float32
    cosines: Floats
    sines: Floats


def sketch_size(features: int, scales: int) -> int:
    """Return the features of each scale.

    Raises
    ------
    ValueError
        If that is not a power of two, as the Fourier transform requires.
    """
    size = features // scales
    if size * scales != features or size < 2 or size & (size - 1):
        enough = scales * max(2, 1 << (max(size, 1) - 1).bit_length())
        raise ValueError(
            f"features={features!r}: the polynomial kernel needs a power of two for each of its {scales} "
            f"scales, such as features={enough}"
        )
    return size


def sketch_of(
    seed: int, degree: int, constant: float, bandwidths: Array, block: int, blocks: int = 1
) -> Sketch:
    """Return the tables of ``blocks`` times ``block`` features, shared by one sketch for every bandwidth."""
    size = sketch_size(block, len(bandwidths))
    bandwidths = np.tile(bandwidths, blocks)
    scales = len(bandwidths)
    keys = [
        [mix64_int(mix64_int(seed ^ 0x736B65746368) + s * degree + i) for i in range(degree)]
        for s in range(scales)
    ]
    turns = 2.0 * np.pi * np.arange(size) / size
    return Sketch(
        np.array(keys, dtype=np.uint64),
        np.minimum(1.0 / np.maximum(bandwidths, 1e-15), 1e15).astype(np.float32),
        np.float32(np.sqrt(constant)),
        np.cos(turns).round(12).astype(np.float32),
        np.sin(turns).round(12).astype(np.float32),
    )


@both(nogil=True)
def tensor_sketch(source, inputs, keys, counts, features, amplitude, phi):
    """Fill ``phi`` with the features of rows of scaled inputs.

    Parameters
    ----------
    source
        The tables.
    inputs, keys, counts
        Nonzero inputs, first in their row ``(n, w)``, their keys, and their number.
    features, amplitude
        ``φᵀφ`` estimates ``amplitude² · features/2`` times the kernel.
    phi
        ``(≥ n, ≥ features)`` float32; surplus columns become 0.
    """
    scales, degree = source.keys.shape
    size = source.cosines.shape[0]
    real, imaginary = np.empty(size, np.float32), np.empty(size, np.float32)
    product, other = np.empty(size, np.float32), np.empty(size, np.float32)
    work = np.empty((2, size), np.float32)
    # the norm of a transform is √D that of its sketch; of the half kept, √½ of that
    scale = np.float32(amplitude * np.sqrt(features / (2.0 * scales) / size))
    both = np.float32(np.sqrt(2.0)) * scale
    half = size // 2
    for i in range(counts.shape[0]):
        for s in range(scales):
            for d in range(degree):
                _count_sketch(source, s, d, inputs, keys, i, counts[i], real)
                imaginary[:] = np.float32(0.0)
                _transform(real, imaginary, source.cosines, source.sines, work)
                for t in range(half + 1):
                    a, b = real[t], imaginary[t]
                    if d > 0:
                        a, b = product[t] * a - other[t] * b, product[t] * b + other[t] * a
                    product[t], other[t] = _within(a, _LARGEST), _within(b, _LARGEST)
            first = s * size
            phi[i, first] = _within(scale * product[0], _LARGEST)
            phi[i, first + half] = _within(scale * product[half], _LARGEST)
            for t in range(1, half):
                phi[i, first + t] = _within(both * product[t], _LARGEST)
                phi[i, first + half + t] = _within(both * other[t], _LARGEST)
        for f in range(features, phi.shape[1]):
            phi[i, f] = np.float32(0.0)


@njit(**INNER)
def _count_sketch(source, s, d, inputs, keys, i, count, cells):
    """Fill ``cells`` with the count sketch of a row and the constant."""
    cells[:] = np.float32(0.0)
    mask = np.uint64(cells.shape[0] - 1)
    key = source.keys[s, d]
    for j in range(count + 1):
        value, name = source.constant, CONSTANT_KEY
        if j < count:
            value, name = inputs[i, j] * source.gains[s], keys[i, j]
        word = stream_key(key, name)
        cells[word & mask] += -value if word >> np.uint64(63) else value
    for t in range(cells.shape[0]):
        cells[t] = _within(cells[t], _LARGEST_CELL)


@njit(cache=True, inline="always", error_model="numpy")
def _within(value, most):
    return min(max(value, -most), most)


@njit(**INNER)
def _transform(real, imaginary, cosines, sines, work):
    """Transform in place: ``X_t = Σ_k x_k e^{−2πi kt/D}``, ``D`` a power of two (in Stockham's order)."""
    size = real.shape[0]
    length, step = size // 2, 1
    while length >= 1:
        for k in range(length):
            c, s = cosines[k * step], -sines[k * step]
            for q in range(step):
                a, b = k * step + q, (k + length) * step + q
                sum_r, sum_i = real[a] + real[b], imaginary[a] + imaginary[b]
                dif_r, dif_i = real[a] - real[b], imaginary[a] - imaginary[b]
                to = 2 * k * step + q
                work[0, to], work[1, to] = sum_r, sum_i
                work[0, to + step] = dif_r * c - dif_i * s
                work[1, to + step] = dif_r * s + dif_i * c
        for t in range(size):
            real[t], imaginary[t] = work[0, t], work[1, t]
        length //= 2
        step *= 2
