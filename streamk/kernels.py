"""Kernels as values: the exact similarity, and how to draw its random frequencies.

Most are radial: a radial kernel is a scale mixture of Gaussians, ``k(r) = E_a[exp(−a r²/2)]``, so its
frequencies are ``ω = √a · z`` with ``z ~ N(0, I)`` (Bochner's theorem applied to each Gaussian of the
mixture). One scheme of directions ``z`` therefore serves every kernel here, and a kernel only has to say
how ``√a`` is distributed. ``r = ‖x − z‖₂`` throughout and ``ℓ`` is the bandwidth, in the units of the
inputs after scaling.

>>> import numpy as np
>>> kernel("matern:2.5")
Matern(nu=2.5)
>>> X = np.array([[0.0, 0.0], [3.0, 4.0]])
>>> kernel("gaussian")(X, X, bandwidth=5.0).round(4)
array([[1.    , 0.6065],
       [0.6065, 1.    ]])
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from streamk.features.activation import COSINE, RAMP, SQUARED_RAMP, STEP
from streamk.features.counter import mix64_int, uniforms

Array = NDArray[np.float64]


class Kernel(Protocol):
    """A kernel: exact values, and the radial part of its frequencies."""

    name: ClassVar[str]

    @property
    def activation(self) -> int:
        """What angles become: see :mod:`streamk.features.activation`."""
        ...

    def radii(self, key: int, count: int) -> Array:
        """Return ``√a`` of features ``0 … count − 1`` of the stream ``key``, for bandwidth 1."""
        ...

    def __call__(self, X: Array, Z: Array, bandwidth: float = 1.0) -> Array:
        """Return the exact kernel matrix."""
        ...


class _Radial:
    activation = COSINE

    def profile(self, r: Array) -> Array:
        """Return ``k`` at distances ``r``, in units of the bandwidth."""
        raise NotImplementedError

    def __call__(self, X: Array, Z: Array, bandwidth: float = 1.0) -> Array:
        """Return the exact kernel matrix ``k(x_i, z_j)``, shape ``(len(X), len(Z))``."""
        squared = (X**2).sum(1)[:, None] + (Z**2).sum(1)[None, :] - 2.0 * (X @ Z.T)
        return self.profile(np.sqrt(np.maximum(squared, 0.0)) / bandwidth)


@dataclass(frozen=True)
class Gaussian(_Radial):
    """``k = exp(−r²/2ℓ²)``; ``√a = 1/ℓ``."""

    name: ClassVar[str] = "gaussian"

    def profile(self, r: Array) -> Array:
        """Return ``exp(−r²/2)``."""
        return np.exp(-0.5 * r * r)

    def radii(self, key: int, count: int) -> Array:
        """Return ones: a Gaussian's frequencies are Gaussian."""
        return np.ones(count)


@dataclass(frozen=True)
class Laplace(_Radial):
    """``k = exp(−r/ℓ)``, with the Euclidean norm; ``√a = 1/(ℓ|u|)``, ``u ~ N(0, 1)``.

    The frequencies are multivariate Cauchy. The product kernel of the 1-norm is another kernel.
    """

    name: ClassVar[str] = "laplace"

    def profile(self, r: Array) -> Array:
        """Return ``exp(−r)``."""
        return np.exp(-r)

    def radii(self, key: int, count: int) -> Array:
        """Return ``1/|u|`` (the Matérn kernel of order ½, whose ``χ²₁`` is ``u²``)."""
        return Matern(0.5).radii(key, count)


@dataclass(frozen=True)
class Matern(_Radial):
    """Matérn kernel of order ``ν``: ``k = 2^{1−ν}/Γ(ν) · s^ν K_ν(s)``, ``s = √(2ν) r/ℓ``.

    ``√a = √(2ν/χ²_{2ν})/ℓ`` (the frequencies are multivariate Student's t; Rasmussen and
    Williams 2006, eqs. 4.14 and 4.15).
    """

    nu: float = 1.5
    name: ClassVar[str] = "matern"

    def profile(self, r: Array) -> Array:
        """Return the Matérn function of distances in units of the bandwidth."""
        from scipy.special import gamma, kv

        s = np.maximum(np.sqrt(2.0 * self.nu) * r, 1e-10)
        value = 2.0 ** (1.0 - self.nu) / gamma(self.nu) * s**self.nu * kv(self.nu, s)
        return np.where(r == 0.0, 1.0, value)

    def radii(self, key: int, count: int) -> Array:
        """Return ``√(ν/g)``, ``g ~ Gamma(ν, 1)``."""
        return np.sqrt(self.nu / _gamma_quantile(self.nu, key, count))


@dataclass(frozen=True)
class RationalQuadratic(_Radial):
    """``k = (1 + r²/2aℓ²)^{−a}``; ``√a = √(g/a)/ℓ``, ``g ~ Gamma(a, 1)``."""

    a: float = 1.0
    name: ClassVar[str] = "rational-quadratic"

    def profile(self, r: Array) -> Array:
        """Return ``(1 + r²/2a)^{−a}``."""
        return (1.0 + r * r / (2.0 * self.a)) ** -self.a

    def radii(self, key: int, count: int) -> Array:
        """Return ``√(g/a)``."""
        return np.sqrt(_gamma_quantile(self.a, key, count) / self.a)


@dataclass(frozen=True)
class ExponentialPower(_Radial):
    """``k = exp(−(r/ℓ)^p)``, ``0 < p < 2``; ``√a = √(2S)/ℓ``, ``S`` positive ``p/2``-stable.

    ``S`` is drawn by Kanter's (1975) representation: with ``α = p/2``, ``U`` uniform on (0, π) and
    ``E`` exponential, ``S = sin(αU)/sin(U)^{1/α} · (sin((1 − α)U)/E)^{(1−α)/α}``, whose Laplace
    transform is ``exp(−s^α)``.
    """

    p: float = 1.0
    name: ClassVar[str] = "exponential-power"

    def __post_init__(self) -> None:
        if self.p >= 2.0:
            raise ValueError(
                f"kernel 'exponential-power:{self.p:g}': the power must be below 2; "
                "for power 2 use 'gaussian'"
            )

    def profile(self, r: Array) -> Array:
        """Return ``exp(−r^p)``."""
        return np.exp(-(r**self.p))

    def radii(self, key: int, count: int) -> Array:
        """Return ``√(2S)``."""
        alpha = self.p / 2.0
        u = np.pi * uniforms(key, count)
        e = -np.log(uniforms(mix64_int(key + 1), count))
        tail = (np.sin((1.0 - alpha) * u) / e) ** ((1.0 - alpha) / alpha)
        return np.sqrt(2.0 * np.sin(alpha * u) / np.sin(u) ** (1.0 / alpha) * tail)


@dataclass(frozen=True)
class ArcCosine:
    """Arc-cosine kernel of order ``n`` (Cho and Saul 2009): that of wide networks of ramps, and not radial.

    ``k = ‖x‖ⁿ‖z‖ⁿ J_n(θ)/(π ℓ²ⁿ)`` with ``θ`` the angle between ``x`` and ``z`` and ``J₀ = π − θ``,
    ``J₁ = sin θ + (π − θ) cos θ``, ``J₂ = 3 sin θ cos θ + (π − θ)(1 + 2cos² θ)``.
    """

    order: int = 1
    name: ClassVar[str] = "arc-cosine"

    def __post_init__(self) -> None:
        if self.order not in (0, 1, 2):
            raise ValueError(f"kernel 'arc-cosine:{self.order:g}': the order must be 0, 1 or 2")

    @property
    def activation(self) -> int:
        """Return the ramp of the order."""
        return (STEP, RAMP, SQUARED_RAMP)[int(self.order)]

    def radii(self, key: int, count: int) -> Array:
        """Return ones: the directions are Gaussian."""
        return np.ones(count)

    def __call__(self, X: Array, Z: Array, bandwidth: float = 1.0) -> Array:
        """Return the exact kernel matrix ``k(x_i, z_j)``, shape ``(len(X), len(Z))``."""
        lengths = np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(Z, axis=1))
        cosine = np.clip(X @ Z.T / np.where(lengths > 0.0, lengths, 1.0), -1.0, 1.0)
        angle, sine = np.arccos(cosine), np.sqrt(1.0 - cosine**2)
        shapes = (
            np.pi - angle,
            sine + (np.pi - angle) * cosine,
            3.0 * sine * cosine + (np.pi - angle) * (1.0 + 2.0 * cosine**2),
        )
        value: Array = (lengths / bandwidth**2) ** self.order * shapes[int(self.order)] / np.pi
        return value


@dataclass(frozen=True)
class Polynomial:
    """``k = (xᵀz/ℓ² + c)^p``, by a tensor sketch (:mod:`streamk.features.sketch`)."""

    degree: int = 2
    constant: float = 1.0
    name: ClassVar[str] = "polynomial"
    activation: ClassVar[int] = COSINE

    def __post_init__(self) -> None:
        if self.degree != int(self.degree) or not 1 <= self.degree <= 8:
            raise ValueError(
                f"kernel 'polynomial:{self.degree:g}': the degree must be a whole number from 1 to 8"
            )
        object.__setattr__(self, "degree", int(self.degree))

    def radii(self, key: int, count: int) -> Array:
        """Return ones: a sketch has no frequencies."""
        return np.ones(count)

    def __call__(self, X: Array, Z: Array, bandwidth: float = 1.0) -> Array:
        """Return the exact kernel matrix ``k(x_i, z_j)``, shape ``(len(X), len(Z))``."""
        value: Array = (X @ Z.T / bandwidth**2 + self.constant) ** self.degree
        return value


def _gamma_quantile(shape: float, key: int, count: int) -> Array:
    """Return ``Gamma(shape, 1)`` numbers by inverting the distribution function."""
    from scipy.special import gammaincinv

    # A shape near 0 has quantiles below the smallest float; a radius must stay finite.
    quantiles: Array = gammaincinv(shape, uniforms(key, count))
    return np.maximum(quantiles, 1e-60)


_KERNELS: dict[str, Any] = {
    k.name: k for k in (Gaussian, Laplace, Matern, RationalQuadratic, ExponentialPower, ArcCosine, Polynomial)
}


def kernel(text: str) -> Kernel:
    """Return the kernel that ``text`` names: ``"gaussian"``, ``"matern:2.5"`` and so on.

    Parameters
    ----------
    text
        ``gaussian``, ``laplace``, ``matern[:ν]`` (default 1.5), ``rational-quadratic[:a]``
        (default 1), ``exponential-power[:p]`` (default 1, below 2), ``arc-cosine[:n]`` (default 1) or
        ``polynomial[:p[:c]]`` (default 2 and 1).

    Raises
    ------
    ValueError
        If the name is unknown or a number after a colon is not one the kernel takes.
    """
    name, *numbers = text.split(":") if isinstance(text, str) else ("",)
    cls = _KERNELS.get(name)
    if cls is None:
        raise ValueError(f"kernel {text!r} is unknown; use one of {', '.join(_KERNELS)}")
    most = len(fields(cls))
    if len(numbers) > most:
        raise ValueError(
            f"kernel {text!r}: {name} takes {most or 'no'} number{'s' * (most > 1)} after the colon"
        )
    values = []
    for i, number in enumerate(numbers):
        try:
            value = float(number)
        except ValueError:
            value = np.nan
        zero = (cls is ArcCosine) or (cls is Polynomial and i == 1)
        if not (0.0 <= value < np.inf) or (value == 0.0 and not zero):
            wanted = "a number, at least 0" if zero else "a positive number"
            raise ValueError(f"kernel {text!r}: {number!r} is not {wanted}")
        values.append(value)
    made: Kernel = cls(*values)
    return made
