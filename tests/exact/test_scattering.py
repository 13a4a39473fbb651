"""Inputs of the papers' images: scattering against direct sums, its properties, and Fourier magnitudes."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "papers"))  # whose modules are scripts

from images import SPECTRA, fourier_images, spectra, unit_images, unit_parts
from scattering import RootScattering, Scattering, gaussian, wavelets


def convolved(image, kernel):
    """Return the periodic convolution as a sum over all pairs of pixels."""
    size = len(image)
    rows = np.arange(size)
    out = np.zeros((size, size), dtype=complex)
    for i in range(size):
        for j in range(size):
            out[i, j] = np.sum(image * kernel[np.ix_((i - rows) % size, (j - rows) % size)])
    return out


def direct(image, scales, angles):
    """Return the averages of one image, with kernels in pixels, of which every 2^j-th result is used."""
    transform = Scattering(len(image), scales, angles)
    size, side, stride = transform.padded, len(image), 1 << scales
    before = (size - side) // 2
    whole = np.pad(image, (before, size - side - before))
    points = -(-side // stride)
    places = before + (side - 1) / 2 + stride * (np.arange(points) - (points - 1) / 2)

    def moduli(image, coarse, octaves):
        kernels = np.fft.ifft2(wavelets(size >> coarse, octaves, angles))
        return [np.abs(convolved(image, one))[:: 1 << octaves, :: 1 << octaves] for one in kernels]

    first = [moduli(whole, 0, j) for j in range(scales)]
    found = [whole, *(one for group in first for one in group)]
    for j in range(scales):
        for k in range(j + 1, scales):
            second = [moduli(one, j, k - j) for one in first[j]]
            found += [one for angle in zip(*second, strict=True) for one in angle]
    matrices = {
        size // step: gaussian(places, size, step, 0.8 * stride / 2).astype(float)
        for step in (1 << j for j in range(scales))
    }
    return np.array([matrices[len(one)] @ one @ matrices[len(one)].T for one in found])


def smooth(rng, count, side):
    """Return random images whose details span several pixels, as those of digits do."""
    images = np.zeros((count, side, side))
    rows, columns = np.indices((side, side))
    for image in images:
        for _ in range(4):
            y, x = rng.uniform(2, side - 2, size=2)
            image += np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 3.0)
    return images.reshape(count, -1).astype(np.float32)


@pytest.mark.parametrize(("side", "scales", "angles"), [(12, 2, 4), (10, 3, 2)])
def test_transform_equals_direct_convolution(side, scales, angles):
    images = smooth(np.random.default_rng(0), 2, side)
    found = Scattering(side, scales, angles)(images)
    for image, coefficients in zip(images, found, strict=True):
        wanted = direct(image.reshape(side, side).astype(float), scales, angles)
        assert coefficients.shape == wanted.shape
        assert np.abs(coefficients - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_coefficients_move_with_the_image():
    """A shift by the distance of two points shifts the coefficients by one point."""
    images = np.zeros((3, 32, 32), dtype=np.float32)
    images[:, 8:20, 8:20] = smooth(np.random.default_rng(1), 3, 12).reshape(3, 12, 12)
    transform = Scattering(32, 2, 4)
    still = transform(images.reshape(3, -1))
    moved = transform(np.roll(images, 4, axis=2).reshape(3, -1))
    assert np.abs(moved[..., 1:] - still[..., :-1]).max() < 1e-5 * np.abs(still).max()


def test_small_shifts_change_coefficients_less_than_pixels():
    images = np.zeros((8, 28, 28), dtype=np.float32)
    images[:, 6:20, 6:20] = smooth(np.random.default_rng(2), 8, 14).reshape(8, 14, 14)
    shifted = np.roll(images, 1, axis=1).reshape(8, -1)
    images = images.reshape(8, -1)
    transform = Scattering(28, 3, 6)
    change = np.linalg.norm(transform(shifted) - transform(images)) / np.linalg.norm(transform(images))
    assert change < 0.5 * np.linalg.norm(shifted - images) / np.linalg.norm(images)


def test_wavelets_have_sum_zero_and_bounded_energy():
    """With the Gaussian, they do not expand an image, which is why coefficients are stable."""
    line = 2 * np.pi * np.fft.fftfreq(64)
    for angles, scales in ((4, 2), (6, 3), (8, 2)):
        bank = [wavelets(64, j, angles) for j in range(scales)]
        assert max(np.abs(one[:, 0, 0]).max() for one in bank) < 1e-6
        squares = sum((one**2).sum(axis=0) for one in bank)
        both = squares + np.roll(squares[::-1, ::-1], 1, axis=(0, 1))  # −λ has the same moduli
        width = 0.8 * 2 ** (scales - 1)
        average = np.exp(-((width * line[:, None]) ** 2 + (width * line) ** 2))
        assert (both / 2 + average).max() < 1.001


def test_result_is_independent_of_other_images():
    images = smooth(np.random.default_rng(3), 70, 12)
    transform = Scattering(12, 2, 4)
    whole = transform(images)
    assert whole.dtype == np.float32
    assert whole.shape == (70, transform.paths, 3, 3)
    assert np.allclose(transform(images[40:41]), whole[40:41], rtol=1e-5, atol=1e-6)


def test_roots_are_relative_to_the_size_of_their_path():
    images = smooth(np.random.default_rng(4), 50, 12)
    describe = RootScattering(images, 2, 4)
    found = describe(images)
    paths = Scattering(12, 2, 4).paths
    fourth = (found.reshape(50, paths, -1) ** 4).sum(axis=2).mean(axis=0)
    assert np.allclose(fourth, 1.0, rtol=1e-3)
    assert np.allclose(RootScattering(10.0 * images, 2, 4)(10.0 * images), describe(images), rtol=1e-3)


def test_spectra_by_columns_are_those_of_the_paper():
    images = np.random.default_rng(5).integers(0, 256, size=(20, 144)).astype(np.uint8)
    found = unit_parts([spectra(images, "by columns") ** 0.5])
    assert np.allclose(
        np.hstack([unit_images(images), found]) / np.sqrt(2.0), fourier_images(images), atol=1e-6
    )


@pytest.mark.parametrize("kind", [*SPECTRA, "windows", "small windows"])
def test_spectra_are_magnitudes(kind):
    """They do not depend on the sign of an image, and are as many as the transform has."""
    images = np.random.default_rng(6).normal(size=(3, 144))
    found = spectra(images, kind)
    assert np.allclose(found, spectra(-images, kind), atol=1e-6)
    assert found.min() >= 0.0
    counts = {"whole": 144, "padded": 288, "windows": 3 * 3 * 6 * 4, "small windows": 5 * 5 * 3 * 2}
    assert found.shape == (3, counts.get(kind, 72))


def test_an_unknown_kind_of_spectrum_is_named():
    with pytest.raises(ValueError, match="not a transform"):
        spectra(np.ones((1, 4)), "diagonal")
