"""Spectra: the distributions of kernels' random frequencies, and their activations.

A radial kernel is a scale mixture of Gaussians, ``k(r) = E_a[exp(−a r²/2)]``, so its frequencies are ``ω = √a
· z`` with ``z ~ N(0, I)`` (Bochner's theorem applied to each Gaussian of the mixture). One scheme of
directions ``z`` therefore serves every radial kernel, and a kernel only defines the distribution of ``√a``,
for bandwidth 1:

=========================  =========================================================================
kernel                     ``√a``
=========================  =========================================================================
Gaussian                   1
Laplace                    ``1/|u|``, ``u ~ N(0, 1)``: Matérn of order ½
Matérn                     ``√(ν/g)``, ``g ~ Gamma(ν, 1)`` (Rasmussen and Williams 2006, eq. 4.15)
rational quadratic         ``√(g/a)``, ``g ~ Gamma(a, 1)``
exponential power          ``√(2S)``, ``S`` positive ``p/2``-stable (below)
=========================  =========================================================================

The frequencies of the Laplacian, the product of ``exp(−|x_j − z_j|/ℓ)``, are one Cauchy number for every
feature *and input* (Rahimi and Recht 2007): a separate *family* of directions, keyed or dense.

``S`` is drawn by Kanter's (1975) representation: with ``α = p/2``, ``U`` uniform on (0, π) and ``E``
exponential, ``S = sin(αU)/sin(U)^{1/α} · (sin((1 − α)U)/E)^{(1−α)/α}``, whose Laplace transform is
``exp(−s^α)``.

The activation turns angles into features: ``√2 cos 2πp`` of angles ``p`` in turns; for the arc-cosine kernel
of order ``n`` (Cho and Saul 2009) ``√2 max(0, p)ⁿ`` of projections ``p``, which for order 0 is ``√2`` where
``p > 0``. Features are limited to 10¹⁵.
"""

from __future__ import annotations

import numpy as np

from streamk.arrays import Array
from streamk.compiling import both
from streamk.features.counter import mix64_int, uniforms
from streamk.kernels import (
    ArcCosine,
    ExponentialPower,
    Kernel,
    Laplace,
    Laplacian,
    Matern,
    Polynomial,
    RationalQuadratic,
)
from streamk.vector.lanes import LANES
from streamk.vector.sweeps import cosines

NORMAL, CAUCHY = 0, 1  # families of directions
COSINE, STEP, RAMP, SQUARED_RAMP = 0, 1, 2, 3
AMPLITUDE = np.float32(np.sqrt(2.0))
LARGEST = np.float32(1e15)  # of a feature: the sum of squares stays finite


def family(kernel: Kernel) -> int:
    """Return the distribution of the directions of a kernel: normal or Cauchy."""
    return CAUCHY if isinstance(kernel, Laplacian) else NORMAL


def activation(kernel: Kernel) -> int:
    """Return the activation of a kernel's angles."""
    return (STEP, RAMP, SQUARED_RAMP)[kernel.order] if isinstance(kernel, ArcCosine) else COSINE


def mixable(kernel: Kernel) -> bool:
    """Return whether a kernel can be combined with others: cosines with a phase."""
    return not isinstance(kernel, ArcCosine | Polynomial)


def radii(kernel: Kernel, key: int, count: int) -> Array:
    """Return ``√a`` of features ``0 … count − 1`` of the stream ``key``, for bandwidth 1."""
    if isinstance(kernel, Laplace) and not isinstance(kernel, Laplacian):
        kernel = Matern(0.5)
    if isinstance(kernel, Matern):
        return np.asarray(np.sqrt(kernel.nu / _gamma_quantile(kernel.nu, key, count)))
    if isinstance(kernel, RationalQuadratic):
        drawn: Array = np.sqrt(_gamma_quantile(kernel.a, key, count) / kernel.a)
        return drawn
    if isinstance(kernel, ExponentialPower):
        alpha = kernel.p / 2.0
        u = np.pi * uniforms(key, count)
        e = -np.log(uniforms(mix64_int(key + 1), count))
        logarithm = np.log(np.sin(alpha * u)) - np.log(np.sin(u)) / alpha
        logarithm += (np.log(np.sin((1.0 - alpha) * u)) - np.log(e)) * (1.0 - alpha) / alpha
        stable: Array = np.exp(np.minimum(0.5 * (np.log(2.0) + logarithm), 300.0))
        return stable
    return np.ones(count)


def _gamma_quantile(shape: float, key: int, count: int) -> Array:
    """Return ``Gamma(shape, 1)`` numbers by inverting the distribution function."""
    from scipy.special import gammaincinv

    # A shape near 0 has quantiles below the smallest float; a radius must be finite.
    quantiles: Array = gammaincinv(shape, uniforms(key, count))
    return np.maximum(quantiles, 1e-60)


@both(nogil=True)
def activate(kind, amplitude, angles, rows, features):
    """Turn the angles of rows into features, in place; columns from ``features`` on become 0.

    ``angles`` is ``(≥ rows, width)`` float32, the width a multiple of 16; ``amplitude`` replaces ``√2``.
    """
    width = angles.shape[1]
    for i in range(rows):
        if kind == COSINE:
            for f in range(0, width, LANES):
                cosines(angles, i, f, amplitude)
        else:
            for f in range(width):
                ramp = max(angles[i, f], np.float32(0.0))
                if kind == STEP:
                    ramp = np.float32(angles[i, f] > np.float32(0.0))
                elif kind == SQUARED_RAMP:
                    ramp = ramp * ramp
                angles[i, f] = min(amplitude * ramp, LARGEST)
        for f in range(features, width):
            angles[i, f] = np.float32(0.0)
