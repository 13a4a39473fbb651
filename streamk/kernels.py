"""Kernels as values: the exact similarity ``k(X, Z)``.

Most are *radial*, functions of ``r = ‖x − z‖₂``; the Laplacian is one of ``‖x − z‖₁``; arc-cosine and
polynomial kernels are functions of inner products. ``ℓ`` is the bandwidth, in the units of the inputs after
scaling. Distances are sums of differences, never differences of sums, so they are exact also far from the
origin. :mod:`streamk.features.spectra` draws the random frequencies of kernels.

>>> import numpy as np
>>> kernel("matern:2.5")
Matern(nu=2.5)
>>> X = np.array([[0.0, 0.0], [3.0, 4.0]])
>>> kernel("gaussian")(X, X, bandwidth=5.0).round(4)
array([[1.    , 0.6065],
       [0.6065, 1.    ]])
>>> kernel("laplacian")(X, X, bandwidth=7.0).round(4)
array([[1.    , 0.3679],
       [0.3679, 1.    ]])

``block`` is the same in single precision, for large matrices: tiled, on several threads, and exact where rows
nearly meet. Inner products are matrix products of tiles. Squared distances are ``‖x‖² + ‖z‖² − 2 xᵀz`` about
the mean of the second rows; where that cancels, for a distance far below the lengths of the rows, it is the
sum of squared differences instead, so a row has distance 0 from itself. Every tile is one product on one
thread, and its shape depends on the shapes of the arguments alone: the number of threads never shows in a
result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Array, Floats, Json
from streamk.compiling import ENTRY
from streamk.threads import on_threads, one_blas_thread

Profile = Callable[[Floats], Floats]
ROWS = 256  # of a matrix product
_NUMBERS = 131_072  # of which a function is taken at once, so that they stay near the processor
MOST = 1e15
_CANCELLED = 1e-3  # of the squared lengths


def inner_products(X: Floats, Z: Floats, profile: Profile) -> Floats:
    """Return ``profile(xᵢᵀzⱼ)``, shape ``(len(X), len(Z))``, held between ±10¹⁵.

    Only absurd inputs come so far, and products of such similarities still are numbers.
    """

    def held(tile: Floats) -> Floats:
        with np.errstate(over="ignore"):
            similarities = profile(tile)
        return np.clip(similarities, -MOST, MOST, out=similarities)

    def fill(part: slice, tile: Floats) -> None:
        np.matmul(X[part], Z.T, out=tile)

    return _tiles(X, Z, fill, held)


def distances(X: Floats, Z: Floats, profile: Profile) -> Floats:
    """Return ``profile(‖xᵢ − zⱼ‖₂)``, shape ``(len(X), len(Z))``."""
    if not (len(X) and len(Z)):
        return np.empty((len(X), len(Z)), dtype=np.float32)
    same = X is Z
    centre = Z.mean(axis=0, dtype=np.float64).astype(np.float32)
    Z = Z - centre
    X = Z if same else X - centre
    of_x, of_z = _squares(X), _squares(Z)

    def fill(part: slice, tile: Floats) -> None:
        np.matmul(X[part], Z.T, out=tile)
        _to_distances(X[part], Z, of_x[part], of_z, tile)

    return _tiles(X, Z, fill, profile)


def absolute_distances(X: Floats, Z: Floats, profile: Profile) -> Floats:
    """Return ``profile(Σ_k |x_ik − z_jk|)``, shape ``(len(X), len(Z))``."""
    columns = np.ascontiguousarray(Z.T)

    def fill(part: slice, tile: Floats) -> None:
        _absolute_distances(X[part], columns, tile)

    return _tiles(X, Z, fill, profile)


def as_floats(X: NDArray[np.floating]) -> Floats:
    """Return rows in single precision, one after the other in memory."""
    return np.ascontiguousarray(X, dtype=np.float32)


def _tiles(X: Floats, Z: Floats, fill: Callable[[slice, Floats], None], profile: Profile) -> Floats:
    """Return the matrix whose tiles of rows are filled, and then the function of them."""
    out = np.empty((len(X), len(Z)), dtype=np.float32)
    step = max(1, _NUMBERS // max(1, len(Z)))

    def work(start: int) -> None:
        part = slice(start, min(start + ROWS, len(X)))
        fill(part, out[part])
        for first in range(part.start, part.stop, step):
            piece = out[first : min(first + step, part.stop)]
            piece[:] = profile(piece)

    with one_blas_thread():
        on_threads(work, range(0, len(X), ROWS))
    return out


def _squares(X: Floats) -> Array:
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


@njit(nogil=True, **ENTRY)
def _to_distances(X, Z, of_x, of_z, tile):
    """Turn inner products into distances."""
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            whole = of_x[i] + of_z[j]
            squared = whole - 2.0 * np.float64(tile[i, j])
            tile[i, j] = np.float32(squared)
        for j in range(tile.shape[1]):
            if not tile[i, j] > _CANCELLED * (of_x[i] + of_z[j]):
                squared = 0.0
                for k in range(X.shape[1]):
                    squared += (np.float64(X[i, k]) - np.float64(Z[j, k])) ** 2
                tile[i, j] = np.float32(squared)
        for j in range(tile.shape[1]):
            tile[i, j] = np.sqrt(tile[i, j])


@njit(nogil=True, **ENTRY)
def _absolute_distances(X, columns, tile):
    """Fill a tile with sums of absolute differences; ``columns`` are the second rows, transposed."""
    tile[:] = np.float32(0.0)
    for i in range(tile.shape[0]):
        for k in range(columns.shape[0]):
            value = X[i, k]
            for j in range(tile.shape[1]):
                tile[i, j] += abs(value - columns[k, j])


class Kernel(Protocol):
    """A kernel: a name with numbers, and exact values."""

    name: ClassVar[str]

    def __call__(self, X: Array, Z: Array, bandwidth: float = 1.0) -> Array:
        """Return the exact kernel matrix ``k(x_i, z_j)``, shape ``(len(X), len(Z))``."""
        ...

    def block(self, X: Floats, Z: Floats, bandwidth: float = 1.0) -> Floats:
        """Return the kernel matrix in single precision, in tiles on several threads."""
        ...


class _Distance:
    metric: ClassVar[str] = "euclidean"

    def profile(self, r: AnyArray) -> AnyArray:
        """Return ``k`` at distances ``r``, in units of the bandwidth."""
        raise NotImplementedError

    def __call__(self, X: Array, Z: Array, bandwidth: float = 1.0) -> Array:
        """Return the exact kernel matrix ``k(x_i, z_j)``, shape ``(len(X), len(Z))``."""
        from scipy.spatial.distance import cdist

        return self.profile(np.asarray(cdist(X, Z, self.metric)) / bandwidth)

    def block(self, X: Floats, Z: Floats, bandwidth: float = 1.0) -> Floats:
        """Return the kernel matrix in single precision, in tiles on several threads."""
        of = absolute_distances if self.metric == "cityblock" else distances
        scale = np.float32(1.0 / bandwidth)
        X, Z = as_floats(X), as_floats(Z)

        def profile(tile: Floats) -> Floats:
            return np.asarray(self.profile(tile * scale), dtype=np.float32)

        return of(X, Z, profile)


@dataclass(frozen=True)
class Gaussian(_Distance):
    """``k = exp(−r²/2ℓ²)``."""

    name: ClassVar[str] = "gaussian"

    def profile(self, r: AnyArray) -> AnyArray:
        """Return ``exp(−r²/2)``."""
        return np.asarray(np.exp(-0.5 * r * r))


@dataclass(frozen=True)
class Laplace(_Distance):
    """``k = exp(−r/ℓ)``, with the Euclidean norm: the Matérn kernel of order ½."""

    name: ClassVar[str] = "laplace"

    def profile(self, r: AnyArray) -> AnyArray:
        """Return ``exp(−r)``."""
        return np.asarray(np.exp(-r))


@dataclass(frozen=True)
class Laplacian(Laplace):
    """``k = exp(−Σ_j |x_j − z_j|/ℓ)``: a product of one kernel per input, and not radial.

    Each of its features depends on few inputs, as trees do, which suits tabular data.
    """

    name: ClassVar[str] = "laplacian"
    metric: ClassVar[str] = "cityblock"


@dataclass(frozen=True)
class Matern(_Distance):
    """Matérn kernel of order ``ν``: ``k = 2^{1−ν}/Γ(ν) · s^ν K_ν(s)``, ``s = √(2ν) r/ℓ``.

    Rasmussen and Williams 2006, eq. 4.14. ``ν`` is at most 100, where it is Gaussian to 0.3 %.
    """

    nu: float = 1.5
    name: ClassVar[str] = "matern"

    def __post_init__(self) -> None:
        if self.nu > 100.0:
            raise ValueError(
                f"kernel 'matern:{self.nu:g}': the order must be at most 100; use 'gaussian', which it "
                "approaches"
            )

    def profile(self, r: AnyArray) -> AnyArray:
        """Return the Matérn function of distances in units of the bandwidth."""
        from scipy.special import gammaln, kve

        if self.nu in (1.5, 2.5):  # closed forms, a hundred times as fast
            near = np.sqrt(np.float32(2.0 * self.nu) if r.dtype == np.float32 else 2.0 * self.nu) * r
            value = 1.0 + near if self.nu == 1.5 else 1.0 + near + near * near / 3.0
            return np.asarray(value * np.exp(-near))
        s = np.sqrt(2.0 * self.nu) * np.asarray(r, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            logarithm = self.nu * np.log(s) + np.log(kve(self.nu, s)) - s
            value = np.exp((1.0 - self.nu) * np.log(2.0) - gammaln(self.nu) + logarithm)
            # where K_ν is too large for a float, two terms of its series at 0 are exact to 10⁻¹⁰
            near = 1.0 - s * s / (4.0 * (self.nu - 1.0)) if self.nu > 1.0 else np.ones_like(s)
        return np.where(np.isfinite(value), np.minimum(value, 1.0), np.where(s > self.nu, 0.0, near))


@dataclass(frozen=True)
class RationalQuadratic(_Distance):
    """``k = (1 + r²/2aℓ²)^{−a}``."""

    a: float = 1.0
    name: ClassVar[str] = "rational-quadratic"

    def profile(self, r: AnyArray) -> AnyArray:
        """Return ``(1 + r²/2a)^{−a}``."""
        return np.asarray(np.exp(-self.a * np.log1p(r * r / (2.0 * self.a))))


@dataclass(frozen=True)
class ExponentialPower(_Distance):
    """``k = exp(−(r/ℓ)^p)``, ``0.1 ≤ p < 2``; below, it is almost constant and its frequencies overflow."""

    p: float = 1.0
    name: ClassVar[str] = "exponential-power"

    def __post_init__(self) -> None:
        if not 0.1 <= self.p < 2.0:
            raise ValueError(
                f"kernel 'exponential-power:{self.p:g}': the power must be from 0.1 to below 2; "
                "for power 2 use 'gaussian'"
            )

    def profile(self, r: AnyArray) -> AnyArray:
        """Return ``exp(−r^p)``."""
        return np.asarray(np.exp(-(r**self.p)))


@dataclass(frozen=True)
class ArcCosine:
    """Arc-cosine kernel of order ``n`` (Cho and Saul 2009): of wide rectifier networks, and not radial.

    ``k = ‖x‖ⁿ‖z‖ⁿ J_n(θ)/(π ℓ²ⁿ)`` with ``θ`` the angle between ``x`` and ``z`` and ``J₀ = π − θ``,
    ``J₁ = sin θ + (π − θ) cos θ``, ``J₂ = 3 sin θ cos θ + (π − θ)(1 + 2cos² θ)``.
    """

    order: int = 1
    name: ClassVar[str] = "arc-cosine"

    def __post_init__(self) -> None:
        if self.order not in (0, 1, 2):
            raise ValueError(f"kernel 'arc-cosine:{self.order:g}': the order must be 0, 1 or 2")
        object.__setattr__(self, "order", int(self.order))

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
        value: Array = (lengths / bandwidth**2) ** self.order * shapes[self.order] / np.pi
        return value

    def block(self, X: Floats, Z: Floats, bandwidth: float = 1.0) -> Floats:
        """Return the kernel matrix in single precision; the angle of nearly parallel rows needs double."""
        out = np.empty((len(X), len(Z)), dtype=np.float32)
        for part in range(0, len(X), ROWS):
            rows = slice(part, part + ROWS)
            tile, others = np.asarray(X[rows], dtype=np.float64), np.asarray(Z, dtype=np.float64)
            out[rows] = np.minimum(self(tile, others, bandwidth), MOST)
        return out


@dataclass(frozen=True)
class Polynomial:
    """``k = (xᵀz/ℓ² + c)^p``, by a tensor sketch (:mod:`streamk.features.sketch`)."""

    degree: int = 2
    constant: float = 1.0
    name: ClassVar[str] = "polynomial"

    def __post_init__(self) -> None:
        if self.degree != int(self.degree) or not 1 <= self.degree <= 8:
            raise ValueError(
                f"kernel 'polynomial:{self.degree:g}': the degree must be a whole number from 1 to 8"
            )
        object.__setattr__(self, "degree", int(self.degree))

    def __call__(self, X: Array, Z: Array, bandwidth: float = 1.0) -> Array:
        """Return the exact kernel matrix ``k(x_i, z_j)``, shape ``(len(X), len(Z))``."""
        value: Array = (X @ Z.T / bandwidth**2 + self.constant) ** self.degree
        return value

    def block(self, X: Floats, Z: Floats, bandwidth: float = 1.0) -> Floats:
        """Return the kernel matrix in single precision, in tiles on several threads."""
        scale, constant = np.float32(1.0 / bandwidth**2), np.float32(self.constant)

        def power(tile: Floats) -> Floats:
            value = base = tile * scale + constant
            for _ in range(self.degree - 1):  # a product takes a tenth of the time of a power
                value = value * base
            return value

        return inner_products(as_floats(X), as_floats(Z), power)


_KERNELS: Json = {
    k.name: k
    for k in (
        Gaussian, Laplace, Laplacian, Matern, RationalQuadratic, ExponentialPower, ArcCosine, Polynomial,
    )
}  # fmt: skip


def kernel(text: str) -> Kernel:
    """Return the kernel that ``text`` names: ``"gaussian"``, ``"matern:2.5"`` and so on.

    Parameters
    ----------
    text
        ``gaussian``, ``laplace``, ``laplacian``, ``matern[:ν]`` (default 1.5, at most 100),
        ``rational-quadratic[:a]`` (default 1), ``exponential-power[:p]`` (default 1, from 0.1 to below 2),
        ``arc-cosine[:n]`` (default 1) or ``polynomial[:p[:c]]`` (default 2 and 1).

    Raises
    ------
    ValueError
        If the name is unknown, or a number after a colon is invalid for the kernel.
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
