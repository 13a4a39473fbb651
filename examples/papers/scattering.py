"""Wavelet scattering of small images: averages of moduli of wavelet coefficients (Bruna and Mallat 2013).

With complex wavelets ``ψ_λ`` of ``J`` scales and ``L`` angles, and a Gaussian ``φ`` of width
``0.8 · 2^(J−1)``, the coefficients of an image ``x`` are

    x ∗ φ      |x ∗ ψ_λ| ∗ φ      ||x ∗ ψ_λ| ∗ ψ_μ| ∗ φ  for every coarser scale in μ than in λ

on a grid of every ``2^J``-th pixel. They change little if the image is shifted by less than ``2^J`` pixels
or bent a little. Wavelets are those of the library kymatio, whose last release (0.3.0) cannot be imported
with SciPy 1.17. Unlike in kymatio, images are padded with zeros, and averages are products with Gaussian
matrices, so their points are symmetric about the middle of the image.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import fft

Floats = NDArray[np.float32]
BATCH = 32  # images transformed at once: their products with all wavelets of an angle fit into the cache
PIECE = 1024  # images whose coefficients are held at once


class Scattering:
    """The transform of square images of one size.

    Parameters
    ----------
    side
        Pixels of a side; padded with at least ``2^J`` zeros to a multiple of ``2^J``.
    scales
        ``J``.
    angles
        ``L``, angles of a half turn.
    """

    def __init__(self, side: int, scales: int = 2, angles: int = 8) -> None:
        self.side, self.scales, self.angles = side, scales, angles
        stride = 1 << scales
        self.padded = stride * (-(-side // stride) + 1)
        self._before = (self.padded - side) // 2
        self.points = -(-side // stride)
        places = self._before + (side - 1) / 2.0 + stride * (np.arange(self.points) - (self.points - 1) / 2.0)
        self._averages = [
            gaussian(places, self.padded, 1 << j, 0.8 * 2 ** (scales - 1)) for j in range(scales)
        ]
        # for every resolution 2^j, the transforms of the wavelets of scales j, j + 1, …: (L, n, n)
        self._wavelets = [
            [wavelets(self.padded >> j, k - j, angles) for k in range(j, scales)] for j in range(scales)
        ]

    @property
    def paths(self) -> int:
        """Number of averages at a point."""
        J, L = self.scales, self.angles
        return 1 + J * L + L * L * (J * (J - 1) // 2)

    def __call__(self, images: NDArray[np.generic]) -> Floats:
        """Return ``(n, paths, points, points)`` of images ``(n, side · side)``: order 0, then 1, then 2."""
        out = np.empty((len(images), self.paths, self.points, self.points), dtype=np.float32)
        for start in range(0, len(images), BATCH):
            part = images[start : start + BATCH].reshape(-1, self.side, self.side)
            self._transform(part.astype(np.float32), out[start : start + BATCH])
        return out

    def _transform(self, images: Floats, out: Floats) -> None:
        whole = np.zeros((len(images), self.padded, self.padded), dtype=np.float32)
        inner = slice(self._before, self._before + self.side)
        whole[:, inner, inner] = images
        out[:, 0] = self._average(whole, 0)
        first, second = 1, 1 + self.scales * self.angles
        spectrum = fft.fft2(whole)
        for j in range(self.scales):
            moduli = self._moduli(spectrum[:, None], self._wavelets[0][j], j)
            out[:, first : first + self.angles] = self._average(moduli, j)
            first += self.angles
            if j + 1 == self.scales:
                break
            inner_spectrum = fft.fft2(moduli)
            for k in range(j + 1, self.scales):
                for wavelet in self._wavelets[j][k - j]:
                    again = self._moduli(inner_spectrum, wavelet, k - j)
                    out[:, second : second + self.angles] = self._average(again, k)
                    second += self.angles

    @staticmethod
    def _moduli(spectrum: NDArray[np.complex64], wavelet: NDArray[np.float32], octaves: int) -> Floats:
        """Return moduli of the convolution at every ``2^octaves``-th pixel.

        Skipping pixels adds the parts of the spectrum that then coincide.
        """
        product = spectrum * wavelet
        if octaves:
            step, size = 1 << octaves, product.shape[-1] >> octaves
            parts = product.reshape(*product.shape[:-2], step, size, step, size)
            product = parts.sum(axis=(-4, -2)) / np.float32(step * step)
        return np.abs(fft.ifft2(product, overwrite_x=True))

    def _average(self, moduli: Floats, octaves: int) -> Floats:
        matrix = self._averages[octaves]
        return np.asarray(matrix @ (moduli @ matrix.T))


class RootScattering:
    """Roots of scattering coefficients, each relative to the size of its path in some images.

    Paths differ in size by a factor of up to fifty, and those of second order, which are the smallest, are as
    useful for classification. Bruna and Mallat divide by the largest norm of a path.

    Parameters
    ----------
    images
        Training images ``(n, side · side)``, which determine the sizes.
    scales, angles
        As for :class:`Scattering`.
    """

    def __init__(self, images: NDArray[np.generic], scales: int = 3, angles: int = 6) -> None:
        self._transform = Scattering(round(images.shape[1] ** 0.5), scales, angles)
        squares = np.zeros(self._transform.paths)
        for start in range(0, len(images), PIECE):
            squares += (self._transform(images[start : start + PIECE]) ** 2).sum(
                axis=(0, 2, 3), dtype=np.float64
            )
        sizes = np.sqrt(squares / len(images))
        self._sizes = np.where(sizes > 0.0, sizes, 1.0).astype(np.float32)[:, None, None]

    def __call__(self, images: NDArray[np.generic]) -> Floats:
        """Return the inputs ``(n, paths · points²)`` of some images."""
        found = self._transform(images)
        found /= self._sizes
        np.sqrt(np.maximum(found, 0.0, out=found), out=found)
        return found.reshape(len(images), -1)


def gaussian(places: NDArray[np.float64], size: int, step: int, width: float) -> Floats:
    """Return the matrix ``(points, size / step)`` of Gaussian averages around places of a periodic line."""
    gaps = np.abs(places[:, None] - np.arange(0, size, step))
    weights = np.exp(-0.5 * (np.minimum(gaps, size - gaps) / width) ** 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


def wavelets(size: int, scale: int, angles: int) -> NDArray[np.float32]:
    """Return the Fourier transforms of Morlet wavelets of one scale, ``(angles, size, size)``: real numbers.

    A wave of ``3π/4 · 2^−scale`` under a Gaussian of width ``0.8 · 2^scale`` across its fronts and
    ``angles/4`` times that along them, less as much of the Gaussian as makes its sum zero.
    """
    width, wave, slant = 0.8 * 2.0**scale, 0.75 * np.pi / 2.0**scale, 4.0 / angles
    line = np.arange(-2 * size, 3 * size)  # the wavelet is repeated with the image, so its tails are added
    down, right = np.meshgrid(line, line, indexing="ij")
    found = np.empty((angles, size, size), dtype=np.float32)
    for number in range(angles):
        angle = np.pi * number / angles
        across = down * np.cos(angle) + right * np.sin(angle)
        along = right * np.cos(angle) - down * np.sin(angle)
        envelope = np.exp(-(across**2 + (slant * along) ** 2) / (2.0 * width**2))
        both = [
            part.reshape(5, size, 5, size).sum(axis=(0, 2))
            for part in (envelope, envelope * np.exp(1j * wave * across))
        ]
        morlet = (both[1] - both[1].sum() / both[0].sum() * both[0]) * slant / (2.0 * np.pi * width**2)
        found[number] = fft.fft2(morlet).real
    return found
