import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamk.combining.calibration import Calibration, calibrate, probabilities, project_simplex
from streamk.losses import MARGIN, SQUARED

OUTPUTS = arrays(np.float32, st.integers(1, 12), elements=st.floats(-50, 50, width=32))


def projected(f):
    out = np.empty(len(f))
    project_simplex(f, out)
    return out


def by_sorting(f):
    """The projection by the other algorithm (Held, Wolfe and Crowder 1974)."""
    f = f.astype(np.float64)
    u = np.sort(f)[::-1]
    thresholds = (np.cumsum(u) - 1.0) / np.arange(1, len(f) + 1)
    return np.maximum(f - thresholds[np.flatnonzero(u > thresholds)[-1]], 0.0)


@given(OUTPUTS)
def test_projection_is_the_closest_distribution(f):
    p = projected(f)
    np.testing.assert_allclose(p.sum(), 1.0, atol=1e-9)
    np.testing.assert_allclose(p, by_sorting(f), atol=1e-9)


def test_a_distribution_is_its_own_projection():
    p = np.array([0.5, 0.25, 0.25], dtype=np.float32)
    assert projected(p).tolist() == p.tolist()


@given(OUTPUTS, st.sampled_from([SQUARED, MARGIN]), st.lists(st.integers(0, 11), max_size=30))
def test_probabilities_are_a_distribution_in_the_order_of_the_outputs(f, loss, targets):
    state, p = Calibration(loss).state, np.empty(len(f))
    for n, target in enumerate(targets):
        probabilities(loss, f, state, p)
        calibrate(loss, f, p, target % len(f), float(n), state, 1.0)
    probabilities(loss, f, state, p)
    assert np.isfinite(state).all()
    assert (p >= 0.0).all()
    np.testing.assert_allclose(p.sum(), 1.0, atol=1e-9)
    assert p[f.argmax()] == p.max()


def stream(loss, make_outputs, n=20_000):
    """Return the mean log loss of the second half, before and after calibration."""
    rng = np.random.default_rng(0)
    state, p = Calibration(loss).state, np.empty(2)
    fixed = state.copy()
    losses = []
    for i in range(n):
        truth = rng.uniform(0.05, 0.95)
        target = int(rng.random() < truth)
        f = make_outputs(truth, rng)
        probabilities(loss, f, fixed, p)
        plain = -np.log(max(p[target], 1e-15))
        probabilities(loss, f, state, p)
        calibrated = -np.log(p[target])
        best = -np.log(truth if target else 1 - truth)
        calibrate(loss, f, p, target, float(i), state, 1.0)
        if i > n // 2:
            losses.append((plain, calibrated, best))
    return np.mean(losses, axis=0)


def test_margin_scores_are_calibrated_to_the_true_probabilities():
    def scores(truth, rng):
        logit = 0.2 * np.log(truth / (1 - truth))
        return np.array([-logit / 2, logit / 2], dtype=np.float32)

    plain, calibrated, best = stream(MARGIN, scores)
    assert calibrated < best + 0.005
    assert plain > best + 0.05


def test_overconfident_outputs_are_mixed_with_the_uniform():
    def outputs(truth, rng):
        noisy = truth + rng.normal(0, 0.4)
        return np.array([1 - noisy, noisy], dtype=np.float32)

    _, calibrated, _ = stream(SQUARED, outputs)
    p = np.empty(2)
    sure = Calibration(SQUARED).state
    sure[0] = 1e-6
    probabilities(SQUARED, np.array([-1.0, 2.0], dtype=np.float32), sure, p)
    assert p[0] < 1e-6
    assert calibrated < np.log(2)
