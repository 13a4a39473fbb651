"""The statistic and its thresholds, against kernel matrices and streams without a drift."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.drift import KernelTwoSample
from streamk.drift import reference as calibration
from streamk.drift.reference import thresholds
from streamk.drift.windows import BLOCK, distances, empty_windows, levels_of, wander


def squared_mmd(K, m):
    """The biased estimate of rows 0 … m − 1 against the others, from a kernel matrix."""
    return K[:m, :m].mean() - 2.0 * K[:m, m:].mean() + K[m:, m:].mean()


@given(blocks=st.integers(1, 40), levels=st.integers(1, 4), seed=st.integers(0, 99))
def test_distances_are_those_of_kernel_matrices(blocks, levels, seed):
    rng, m = np.random.default_rng(seed), 20
    known, phi = (rng.normal(size=(n, 64)).astype(np.float32) for n in (m, blocks * BLOCK))
    reference = np.zeros((2, 64), dtype=np.float32)
    reference[0] = known.mean(axis=0)
    windows, found = empty_windows(levels, 64), np.full(levels, np.nan, dtype=np.float32)
    for t in range(blocks):
        windows[-1] = phi[t * BLOCK : (t + 1) * BLOCK].sum(axis=0)
        distances(windows, t, reference, m, found)
    for k in range(levels):
        w = BLOCK << k
        both = np.concatenate([known, phi[-w:]]).astype(np.float64)
        wanted = w * m / (w + m) * squared_mmd(both @ both.T / 64, m) if w <= len(phi) else 0.0
        assert found[k] == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_the_detector_approximates_the_exact_kernel(monkeypatch):
    monkeypatch.setattr(calibration, "STREAMS", 1)
    monkeypatch.setattr(calibration, "_LONGEST", 64)
    rng, m, w = np.random.default_rng(3), 128, 64
    X = rng.normal(size=(m + w, 4)) * (1.0, 20.0, 0.1, 3.0) + 50.0
    X[m:, 1] += 15.0
    detector = KernelTwoSample(1e-9, reference=m, window=w, features=6144, seed=1)
    for i, row in enumerate(X.tolist()):
        detector.update(dict(zip("abcd", row, strict=True)))
        if i == m - 1:
            detector._thresholds[:] = np.inf
    low, middle, high = np.quantile(X[:m], [0.25, 0.5, 0.75], axis=0, method="nearest")
    Z = np.clip((X - middle) / ((high - low) / 1.349), -4.0, 4.0)
    squares = ((Z[:, None] - Z) ** 2).sum(axis=2)
    steps = [np.sqrt(squares[np.arange(m), (np.arange(m) + m // k) % m]) for k in (2, 3, 5, 7)]
    bandwidth = np.median(steps)
    K = np.mean([np.exp(-squares / (2.0 * (s * bandwidth) ** 2)) for s in (0.5, 1.0, 2.0)], axis=0)
    assert detector._reference.map.bandwidth == pytest.approx(bandwidth, rel=1e-5)
    assert detector._distances[-1] == pytest.approx(w * m / (w + m) * squared_mmd(K, m), rel=0.05)


@pytest.mark.parametrize("longest", [calibration._LONGEST, 400])  # the shorter one extrapolates
def test_thresholds_have_the_requested_mean_time(longest, monkeypatch):
    monkeypatch.setattr(calibration, "_LONGEST", longest)
    rng, window, size, blocks = np.random.default_rng(5), 64, 128, 400.0
    pool = (rng.normal(size=(size, 64)) * rng.random(64)).astype(np.float32)
    levels, found, lives = levels_of(window), [], np.empty((6000, 4), dtype=np.float32)
    for seed in range(6):
        limits = thresholds(pool, size, window, blocks, seed)
        for k in range(50):
            reference, key = np.empty((2, 64), dtype=np.float32), np.uint64((seed * 50 + k + 1) << 40)
            wander(pool, size, key, empty_windows(levels, 64), reference, lives)
            above = (lives > limits).any(axis=1)
            found.append(int(above.argmax()) + 1 if above.any() else len(lives))
    assert np.mean(found) == pytest.approx(blocks, rel=0.2)


def test_every_window_has_its_share_of_the_alarms():
    pool = np.random.default_rng(5).normal(size=(129, 64)).astype(np.float32)
    lives, above = np.empty((60_000, 4), dtype=np.float32), []
    wander(pool, 128, np.uint64(9), empty_windows(4, 64), np.empty((2, 64), dtype=np.float32), lives)
    limits = thresholds(pool, 128, 64, 300.0, 1)
    for k in range(4):
        over = lives[:, k] > limits[k]
        above.append((over[1:] & ~over[:-1]).sum())
    assert min(above) > 0.1 * max(above)
