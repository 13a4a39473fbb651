"""Preprocessing of images in the papers, and digits deformed at random.

Images are rows of pixels ``(n, side · side)``, or ``(n, side · side · 3)`` for three channels, one after the
other; results are single precision.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Floats = NDArray[np.float32]


def unit_images(images: NDArray[np.generic]) -> Floats:
    """Return images with their mean removed, at unit norm (Andrecut 2016, eqs. 61 and 62)."""
    return _unit(_centred(_rows(images)))


def fourier_images(images: NDArray[np.generic], channels: int = 1) -> Floats:
    """Return images followed by the roots of the magnitudes of their Fourier transforms (eqs. 69 to 75).

    The transform is symmetric, so the first half of its values, column by column, is used: 784 pixels give
    1,176 numbers.
    """
    pixels = _centred(_rows(images))
    side = _side(pixels, channels)
    found = np.fft.fft2(pixels.reshape(len(pixels), channels, side, side))
    half = np.abs(found.transpose(0, 1, 3, 2)[:, :, : side // 2]).reshape(len(pixels), -1) ** 0.5
    both = np.hstack([_unit(pixels), _unit(_centred(half.astype(np.float32)))])
    return np.asarray(both / np.float32(np.sqrt(2.0)))


SPECTRA = (
    "by columns",
    "by rows",
    "whole",
    "padded",
    "row after row",
    "column after column",
    "rows",
    "columns",
)


def spectra(images: NDArray[np.generic], kind: str) -> Floats:
    """Return magnitudes of a Fourier transform of square images of one channel, their mean removed.

    Parameters
    ----------
    images
        ``(n, side · side)``.
    kind
        Of the transform of the image the half ``"by columns"`` (as in :func:`fourier_images`) or
        ``"by rows"``, the ``"whole"``, or the half after the image was ``"padded"`` with zeros to twice its
        side; half of the transform of the pixels in one line, ``"row after row"`` or
        ``"column after column"``; halves of the transforms of single ``"rows"`` or ``"columns"``; those of
        ``"windows"`` half a side wide, or a quarter (``"small windows"``), that overlap by half.
    """
    pixels = _centred(_rows(images))
    side = _side(pixels, 1)
    squares = pixels.reshape(-1, side, side)
    half = side // 2
    match kind:
        case "by columns":
            found = np.fft.fft2(squares)[:, :, :half].transpose(0, 2, 1)
        case "by rows":
            found = np.fft.fft2(squares)[:, :half]
        case "whole":
            found = np.fft.fft2(squares)
        case "padded":
            found = np.fft.fft2(squares, (2 * side, 2 * side))[:, :side]
        case "row after row":
            found = np.fft.fft(pixels)[:, : pixels.shape[1] // 2]
        case "column after column":
            turned = squares.transpose(0, 2, 1).reshape(pixels.shape)
            found = np.fft.fft(turned)[:, : pixels.shape[1] // 2]
        case "rows":
            found = np.fft.fft(squares, axis=2)[:, :, :half]
        case "columns":
            found = np.fft.fft(squares, axis=1)[:, :half]
        case "windows":
            found = _windows(squares, half)
        case "small windows":
            found = _windows(squares, side // 4)
        case _:
            raise ValueError(f"kind={kind!r}: not a transform; see SPECTRA")
    return np.abs(found).reshape(len(pixels), -1).astype(np.float32)


def _windows(squares: Floats, size: int) -> NDArray[np.complex64]:
    """Return halves of the transforms of windows that overlap by half, weighed towards their middle."""
    windows = np.lib.stride_tricks.sliding_window_view(squares, (size, size), axis=(1, 2))
    step = (size + 1) // 2
    taken = windows[:, ::step, ::step]
    bell = np.hanning(size + 2)[1:-1].astype(np.float32)
    return np.asarray(np.fft.rfft2(taken * np.outer(bell, bell)))


def windowed_images(images: NDArray[np.generic], channels: int = 1) -> Floats:
    """Return images weighed towards their middle: ``exp(−4 ((i − L/2)² + (j − L/2)²)/L²)`` (eq. 76)."""
    pixels = _rows(images)
    side = _side(pixels, channels)
    squares = (np.arange(1, side + 1) - side / 2.0) ** 2
    window = np.exp(-4.0 / side**2 * (squares[:, None] + squares)).astype(np.float32)
    return np.asarray(pixels * np.tile(window.ravel(), channels))


def principal_components(rows: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the mean ``(d,)`` and the ``count`` leading directions ``(d, count)`` of some rows.

    Signs are those that make the largest entry of each direction positive.
    """
    taken = rows.astype(np.float64)
    mean = taken.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(taken, rowvar=False))
    leading = vectors[:, np.argsort(values)[::-1][:count]]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])])
    return mean.astype(np.float32), (leading * signs).astype(np.float32)


def deformed_digits(
    images: NDArray[np.uint8],
    rng: np.random.Generator,
    turn: float = 10.0,
    shift: float = 0.5,
    bend: float = 20.0,
) -> NDArray[np.uint8]:
    """Return each image deformed at random, as in data sets of millions of digits (Loosli et al. 2007).

    Rotated by up to ``turn`` degrees, scaled by up to a tenth, shifted by up to ``shift`` pixels, and bent by
    a smooth random field (Simard et al. 2003) of strength ``bend``, in pixels before it is smoothed.

    Parameters
    ----------
    images
        ``(n, side · side)``, values from 0 to 255.
    rng
        Source of the deformations.
    """
    count = len(images)
    side = _side(images, 1)
    middle = (side - 1) / 2.0
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij")).reshape(2, -1) - middle
    angles = np.deg2rad(rng.uniform(-turn, turn, size=count))
    scales = rng.uniform(0.9, 1.1, size=count)
    shifts = rng.uniform(-shift, shift, size=(count, 2))
    fields = rng.uniform(-1.0, 1.0, size=(count, 2, side, side)).astype(np.float32)
    fields = bend * ndimage.gaussian_filter(fields, (0.0, 0.0, 4.0, 4.0), mode="constant")
    out = np.empty((count, side * side), dtype=np.uint8)
    for k, image in enumerate(images.reshape(count, side, side)):
        cosine, sine = np.cos(angles[k]) / scales[k], np.sin(angles[k]) / scales[k]
        turned = np.array([[cosine, -sine], [sine, cosine]]) @ grid
        places = turned + middle + shifts[k][:, None] + fields[k].reshape(2, -1)
        values = ndimage.map_coordinates(image.astype(np.float32), places, order=1, mode="constant")
        out[k] = np.clip(np.rint(values), 0.0, 255.0)
    return out


def unit_parts(parts: list[Floats]) -> Floats:
    """Return parts in one row, with its mean removed, at unit norm."""
    return _unit(_centred(np.hstack(parts)))


def _rows(images: NDArray[np.generic]) -> Floats:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255.0)


def _centred(rows: Floats) -> Floats:
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0.0, lengths, 1.0), dtype=np.float32)


def _side(rows: NDArray[np.generic], channels: int) -> int:
    """Return the length of a side of square images."""
    side = round((rows[0].size / channels) ** 0.5)
    if side * side * channels != rows[0].size:
        raise ValueError(f"images of {rows[0].size} pixels are not squares of {channels} channel(s)")
    return side
