"""Prediction intervals, against the formulas written down in plain Python, and against what they promise."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

import streamk
from streamk.combining.intervals import HIGHEST, TAILS, Intervals, follow, spread_at


@njit
def learn(record, said, aims):
    for i in range(len(said)):
        follow(record, record, said[i], 0.0, aims[i], 1.0)


@njit
def learn_late(record, asked, said, aim):
    follow(record, asked, said, 0.0, aim, 1.0)


def learned(said, aims):
    made = Intervals()
    learn(made.record, np.asarray(said, dtype=float), np.asarray(aims, dtype=float))
    return made


class Plain:
    """The formulas of the module, with dicts and lists."""

    def __init__(self):
        self.q = {(side, p): NormalDist().inv_cdf(1 - p) * (np.pi / 2) ** 0.5 for side in "-+" for p in TAILS}
        self.near = {round(-3 + 0.75 * k, 2): [0.0, 0.0] for k in range(9)}
        self.all = [1.0, 1.0]
        self.k, self.known, self.m = 0.0, 10.0, 1.0

    def hats(self, f):
        return {c: max(0.0, 1 - abs(min(max(f, -3), 3) - c) / 0.75) for c in self.near}

    def sigma(self, f):
        mean = self.all[1] / self.all[0]
        return sum(
            h * (self.near[c][1] + 10 * mean) / (self.near[c][0] + 10) for c, h in self.hats(f).items() if h
        )

    def learn(self, f, y):
        sigma = self.sigma(f)
        a = min(abs(y - f) / sigma, 10)
        e = min(max((y - f) / sigma / self.m**self.k, -10), 10)
        u = np.log(self.m)
        self.known = 10 + 0.999 * (self.known - 10) + u * u
        self.k = min(max(self.k + u * (min(abs(e), 4) - 1) / self.known, 0.0), 1.25)
        self.m = max(self.m + 0.1 * (a - self.m), 0.01)
        for side, p in self.q:
            beyond = (e if side == "+" else -e) > self.q[side, p]
            self.q[side, p] += 0.05 * (beyond - p)
        for c, h in self.hats(f).items():
            events, errors = self.near[c]
            self.near[c] = [events + h * (1 - events / 200), errors + h * (a * sigma - errors / 200)]
        self.all = [
            self.all[0] + 1 - self.all[0] / 200,
            self.all[1] + a * sigma - self.all[1] / 200,
        ]


def stream(n, seed):
    rng = np.random.default_rng(seed)
    said = rng.normal(size=n) * 1.5
    return said, said + rng.standard_t(3, size=n) * np.exp(said / 2)


def test_it_is_the_formulas():
    said, aims = stream(2000, 1)
    made, plain = learned(said, aims), Plain()
    for f, y in zip(said, aims, strict=True):
        plain.learn(f, y)
    np.testing.assert_allclose(made.offsets, [[plain.q[side, p] for p in TAILS] for side in "-+"], rtol=1e-9)
    kept = np.array([*plain.near.values(), plain.all]).T
    np.testing.assert_allclose(made.errors, kept, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(made.bursts, [plain.k, plain.known, plain.m], rtol=1e-9)
    for f in (-9.0, -3.0, -0.4, 0.0, 1.1, 3.0, 7.0):
        assert spread_at(made.record, f) == pytest.approx(plain.sigma(f))
        for p in TAILS[3:]:
            below, above = made.around(f, 1 - 2 * p)
            assert below == pytest.approx(plain.sigma(f) * plain.m**plain.k * plain.q["-", p])
            assert above == pytest.approx(plain.sigma(f) * plain.m**plain.k * plain.q["+", p])


def covered(made, said, aims, level):
    """Return which aims lie in their intervals; learn each after its interval."""
    inside = []
    for f, y in zip(said, aims, strict=True):
        below, above = made.around(f, level)
        inside.append(f - below <= y <= f + above)
        learn(made.record, np.array([f]), np.array([y]))
    return np.array(inside)


def coverage(said, aims, level):
    return covered(Intervals(), said, aims, level).mean()


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.93])
@pytest.mark.parametrize("what", ["steady", "skewed", "wider", "shifted", "shrinking"])
def test_as_many_lie_inside_as_were_promised(level, what):
    n, rng = 8000, np.random.default_rng(2)
    said, error = rng.normal(size=n), rng.standard_t(3, size=n) / 3
    late = np.arange(n) > n // 2
    error = {
        "steady": error, "skewed": rng.exponential(size=n) - 0.3, "wider": error * np.where(late, 5, 1),
        "shifted": error + 2 * late, "shrinking": error * np.exp(-np.arange(n) / 1000),
    }[what]  # fmt: skip
    assert coverage(said, said + error, level) == pytest.approx(level, abs=0.02)


def test_bursts_of_noise_are_seen_within_a_few_events():
    """Ten times the noise in 500 events of 2,500: without ``v``, a third of the first 100 lie inside."""
    n, rng = 12_500, np.random.default_rng(9)
    place = np.arange(n) % 2500
    burst = place >= 2000
    aims = rng.normal(size=n) * np.where(burst, 1.0, 0.1)
    made = Intervals()
    inside, later = covered(made, np.zeros(n), aims, 0.9), np.arange(n) >= 2500
    assert made.bursts[0] > 0.7
    assert 0.85 <= inside[later & burst].mean() <= 0.95
    assert 0.85 <= inside[later & ~burst].mean() <= 0.95
    assert inside[later & burst & (place < 2100)].mean() > 0.75
    steady = learned(np.zeros(n), rng.normal(size=n))
    assert steady.bursts[0] < 0.15  # where errors do not say how large the next one is


def test_recent_errors_say_nothing_of_what_is_far_away():
    learner = streamk.KernelRegressor(seed=1)
    assert learner._stale.combiner.intervals.record.pace == 0.0 < learner._combiner.intervals.record.pace
    made, rng = Intervals(steady=True), np.random.default_rng(10)
    learn(made.record, np.zeros(500), rng.normal(size=500) * np.repeat([1.0, 0.1, 1.0, 0.1, 1.0], 100))
    assert made.bursts.tolist() == Intervals().bursts.tolist()
    other = learned(np.zeros(500), rng.normal(size=500) * np.repeat([1.0, 0.1, 1.0, 0.1, 1.0], 100))
    made.become(other)
    assert made.offsets.tobytes() == other.offsets.tobytes()
    assert made.bursts.tolist() == Intervals().bursts.tolist() != other.bursts.tolist()


def test_they_are_wide_where_errors_are_large():
    rng = np.random.default_rng(3)
    said = rng.uniform(-2, 2, size=5000)
    made = learned(said, said + rng.normal(size=5000) * np.where(said > 0, 1.0, 0.1))
    narrow, wide = (sum(made.around(f, 0.9)) for f in (-1.5, 1.5))
    assert wide > 5 * narrow


@njit
def learn_sizes(record, outputs, aims, weights, responses):
    for i in range(len(outputs)):
        follow(record, record, 0.0, outputs[i], aims[i], weights[i])
        responses[i] = record.response[0]


def sizes(n, trusted, seed):
    """Outputs of an expert for the size of errors, and errors that follow them so far."""
    rng = np.random.default_rng(seed)
    outputs = 0.7 * rng.normal(size=n)
    return outputs, np.exp(trusted * outputs) * rng.normal(size=n)


def test_the_slope_and_the_response_are_the_formulas():
    outputs, aims = sizes(1000, 1.0, 11)
    weights = np.random.default_rng(12).uniform(0.5, 2.0, size=1000)
    made, again, responses = Intervals(), Intervals(), np.empty(1000)
    learn_sizes(made.record, outputs, aims, weights, responses)
    slope, known = 0.0, 10.0
    for u, y, w, response in zip(outputs, aims, weights, responses, strict=True):
        spread = spread_at(again.record, 0.0) * again.bursts[2] ** again.bursts[0]
        a = abs(y) / spread / np.exp(slope * u)
        known = 10 + 0.999**w * (known - 10) + w * u * u
        slope = min(max(slope + w * u * (min(a, 4) - 1) / known, 0.0), 1.25)
        assert response == pytest.approx(u + min(abs(y) / spread / np.exp(u), 4) - 1)
        learn_sizes(again.record, np.array([u]), np.array([y]), np.array([w]), np.empty(1))
    np.testing.assert_allclose(made.slope, [slope, known])
    np.testing.assert_array_equal(made.slope, again.slope)


@pytest.mark.parametrize("trusted", [0.0, 0.5, 1.0])
def test_the_slope_is_how_far_outputs_can_be_trusted(trusted):
    made = Intervals()
    outputs, aims = sizes(5000, trusted, 13)
    learn_sizes(made.record, outputs, aims, np.ones(5000), np.empty(5000))
    assert made.slope[0] == pytest.approx(trusted, abs=0.15)


def test_a_higher_level_is_never_narrower():
    made = learned(*stream(500, 4))
    made.offsets[:, 8:] *= 0.5  # the tails are followed one by one, and may cross for a while
    levels = np.linspace(0.01, HIGHEST, 60)
    below, above = np.array([made.around(0.3, level) for level in levels]).T
    assert (np.diff(below + above) >= 0).all()
    assert (below + above >= 0).all()


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(-6, 6), st.floats(-6, 6)), max_size=60), st.floats(0.01, HIGHEST))
def test_whatever_comes_they_are_finite_and_can_be_kept(pairs, level):
    made = learned([f for f, _ in pairs], [y for _, y in pairs])
    below, above = made.around(0.5, level)
    assert np.isfinite([below, above]).all()
    assert below >= -above
    again = Intervals()
    again.load_state_dict(made.state_dict())
    assert again.around(0.5, level) == (below, above)


def test_a_late_target_is_compared_with_the_interval_of_prediction_time():
    made, before = Intervals(), Intervals()
    made.set_delay(9)
    before.offsets *= 0.2
    before.errors[1] *= 4.0  # σ
    learn_late(made.record, before.record, 0.0, 2.0)
    for side, error in enumerate((-0.5, 0.5)):
        moved = ((error > before.offsets[side]) - np.array(TAILS)) / 29
        np.testing.assert_allclose(made.offsets[side], Intervals().offsets[side] + moved)
    assert made.errors[1, -1] == pytest.approx(1.0 + 2.0 - 1.0 / 200)


@pytest.mark.parametrize("delay", [30, 300, 1000])
def test_late_targets_do_not_make_them_swing(delay):
    """With the steps of targets that come at once, offsets go tens of units to either side."""
    aims = 4.0 * np.random.default_rng(8).normal(size=8 * delay + 2000)
    made = Intervals()
    made.set_delay(delay)
    past, inside = [(made.offsets.copy(), made.errors.copy())] * (delay + 1), []
    for n, aim in enumerate(aims):
        offsets, errors = past[n]
        record = made.record
        asked = record._replace(offsets=offsets, errors=errors, bursts=np.array([0.0, 10.0, 1.0]))
        spread = spread_at(asked, 0.0)
        inside.append(abs(aim) <= spread * offsets[:, 2].mean())  # 0.3 lie beyond each side
        learn_late(record, asked, 0.0, aim)
        past.append((made.offsets.copy(), made.errors.copy()))
    assert np.mean(inside[len(aims) // 2 :]) == pytest.approx(1 - 2 * TAILS[2], abs=0.05)
    for side, offsets in zip((-1.0, 1.0), made.offsets, strict=True):
        beyond = [(side * aims / spread > q).mean() for q in offsets]
        np.testing.assert_allclose(beyond, TAILS, atol=0.1)


def test_merging_is_between():
    parts = [learned(*stream(300, seed)) for seed in (5, 6)]
    merged = Intervals()
    merged.average(parts, [0.25, 0.75])
    np.testing.assert_allclose(merged.offsets, 0.25 * parts[0].offsets + 0.75 * parts[1].offsets)
    np.testing.assert_allclose(merged.errors, 0.25 * parts[0].errors + 0.75 * parts[1].errors)
    np.testing.assert_allclose(merged.slope, 0.25 * parts[0].slope + 0.75 * parts[1].slope)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offsets", np.nan), ("errors", -1.0), ("errors", np.inf), ("errors", 0.0), ("slope", -0.1),
        ("slope", 1.3), ("slope", np.nan), ("bursts", 1.3), ("bursts", np.nan),
    ],
)  # fmt: skip
def test_an_impossible_file_is_refused(name, value):
    arrays = {k: v.copy() for k, v in learned(*stream(50, 7)).state_dict().items()}
    arrays[f"intervals.{name}"].flat[Intervals().errors.shape[1] - 1 if name == "errors" else 0] = value
    with pytest.raises(ValueError, match="impossible"):
        Intervals().load_state_dict(arrays)


def test_the_information_about_the_slope_is_at_least_its_prior():
    arrays = {k: v.copy() for k, v in Intervals().state_dict().items()}
    arrays["intervals.slope"][1] = 9.9
    with pytest.raises(ValueError, match="its intervals are impossible"):
        Intervals().load_state_dict(arrays)
