"""The subspace expert, against its formulas written down with NumPy, and against exact ridge regression."""

import numpy as np
import pytest
from numba import njit

from streamk.experts.expert import Merge, Observation, evaluate, step
from streamk.experts.subspace import Subspace
from streamk.losses import CODES

NUMBER, CLASS, MARGIN = CODES["number", "squared"], CODES["class", "squared"], CODES["class", "margin"]
WIDTH, RANK = 96, 16
M = 2**64 - 1


@njit
def teach(expert, phi, aim, known, weight, residual):
    outputs = np.zeros((1, 2, expert.coefficients.shape[1]), dtype=np.float32)
    evaluate(expert, 0, phi, 0, outputs)
    step(expert, 0, Observation(phi, 0, outputs, aim, known, weight, residual, False))


def expert(loss=NUMBER, outputs=1, rho=0.02, penalty=1.0, columns=None, width=WIDTH):
    made = Subspace(loss, RANK, penalty, rho, columns)
    made.grow(outputs, width, width)
    return made


def stream(n, seed, rank=WIDTH, width=WIDTH):
    """Rows of some rank whose leading directions matter most, targets and weights."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(width, rank)))[0]
    phi = (rng.normal(size=(n, rank)) * np.sqrt(width) * 0.9 ** np.arange(rank)) @ basis.T
    phi = phi.astype(np.float32)
    return phi, phi @ rng.normal(size=width) / 8 + rng.normal(size=n), rng.choice([0.5, 1.0, 2.0], n)


def learned(made, phi, y, w):
    outputs = made.coefficients.shape[1]
    for row, target, weight in zip(phi, y, w, strict=True):
        teach(made.record, row[None], float(target), outputs, weight, np.zeros(outputs))
    return made


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M
    return x ^ (x >> 31)


class Plain:
    """The formulas of the module in double precision, with a covariance where the expert has its factor."""

    def __init__(self, outputs, rho=0.02, penalty=1.0):
        self.a, self.n, self.due, self.P = np.zeros((outputs, WIDTH)), 0, 200, None
        self.rho, self.penalty = rho, penalty
        signs = [1.0 if mix(i + 1) >> 63 else -1.0 for i in range(RANK * WIDTH)]
        self.V, self.S, self.seen = np.reshape(signs, (RANK, WIDTH)), np.zeros((RANK, WIDTH)), 0

    def learn(self, x, residual, w, length=1.0):
        x = x.astype(np.float64)
        r = residual(self.a @ x)
        u = self.V @ x
        rest, left, gain = x @ x, 1.0, np.zeros(RANK)
        if self.n >= self.due - 1000:
            self.S += np.outer(u, x)
            self.seen += 1
        share = 1.0
        if self.P is not None:
            gain = self.P @ u
            left = 1 / w + length * (u @ gain)
            share = 1 / w / left
            self.P = self.P - np.outer(gain, gain) / (1 / w + u @ gain)
            rest = rest - u @ u
        pull = r * share / (length * rest + self.rho * np.sqrt(self.n) * WIDTH / w)
        if self.P is not None:
            self.a += np.outer(pull, x - self.V.T @ u) + np.outer(r / left, self.V.T @ gain)
        else:
            self.a += np.outer(pull, x)
        self.n += 1
        if self.n == self.due:
            self.refresh()

    def refresh(self):
        q, triangle = np.linalg.qr(self.S.T)
        basis = (q * np.sign(np.diag(triangle))).T
        lengths = abs(np.diag(triangle)) / self.seen
        if self.P is None:
            known = np.zeros(RANK)
        else:
            known = lengths * self.n * np.minimum(((basis @ self.V.T) ** 2).sum(axis=1), 1.0)
        self.P = np.diag(1 / (self.penalty * WIDTH + known))
        self.V, self.S, self.seen = basis, np.zeros_like(self.S), 0
        self.due = 500 if self.n < 500 else int(self.n * 1.5)


def test_it_is_the_formulas():
    phi, y, w = stream(2300, 1)
    made, plain = expert(), Plain(1)
    for n, (x, target, weight) in enumerate(zip(phi, y, w, strict=True)):
        learned(made, x[None], [target], [weight])
        plain.learn(x, lambda said, target=target: target - said, weight)
        if n in (150, 199, 200, 499, 501, 760, 2299):
            scale = abs(plain.a).max()
            np.testing.assert_allclose(made.coefficients[0], plain.a, atol=2e-3 * scale, err_msg=str(n))
    assert made.schedule[1] == plain.due == 2530
    np.testing.assert_allclose(abs(made.basis @ plain.V.T), np.eye(RANK), atol=5e-3)
    lower = made.diagonal.sum() / np.trace(plain.P)
    assert 0.0 < lower < 1.5


def test_classes_move_side_by_side():
    phi, _, w = stream(700, 2)
    y = np.random.default_rng(2).integers(3, size=700)
    made, plain = expert(CLASS, 3), Plain(3)
    learned(made, phi, y, w)
    for x, label, weight in zip(phi, y, w, strict=True):
        plain.learn(x, lambda said, label=label: (np.arange(3) == label) - said, weight)
    np.testing.assert_allclose(made.coefficients[0], plain.a, atol=2e-3 * abs(plain.a).max())


def test_a_margin_moves_two_outputs():
    phi, _, w = stream(700, 3)
    y = np.random.default_rng(3).integers(3, size=700)
    made, plain = expert(MARGIN, 3), Plain(3)
    learned(made, phi, y, w)

    def residual(said, label):
        rival = max((c for c in range(3) if c != label), key=lambda c: said[c])
        lack = max(0.0, 1.0 - said[label] + said[rival])
        return lack * ((np.arange(3) == label).astype(float) - (np.arange(3) == rival))

    for x, label, weight in zip(phi, y, w, strict=True):
        plain.learn(x, lambda said, label=label: residual(said, label), weight, 2.0)
    np.testing.assert_allclose(made.coefficients[0], plain.a, atol=5e-3 * abs(plain.a).max())


def test_where_the_subspace_is_everything_it_is_exact_ridge():
    """Rows of rank 16: from the first refresh to the second it is ridge regression from where it stood."""
    phi, y, w = stream(499, 4, rank=RANK)
    made = learned(expert(), phi[:200], y[:200], w[:200])
    begun = made.coefficients[0, 0].astype(np.float64)
    learned(made, phi[200:], y[200:], w[200:])
    x, t, v = phi[200:].astype(np.float64), y[200:], w[200:]
    exact = np.linalg.solve(x.T @ (x * v[:, None]) + WIDTH * np.eye(WIDTH), x.T @ (v * (t - x @ begun)))
    np.testing.assert_allclose(made.coefficients[0, 0], begun + exact, atol=1e-3 * abs(begun + exact).max())


def test_it_comes_nearer_to_exact_ridge_than_projections_do():
    phi = stream(3000, 5)[0]
    truth = np.random.default_rng(6).normal(size=WIDTH) / 8
    y = phi @ truth + 0.3 * np.random.default_rng(7).normal(size=3000)
    off = [
        np.linalg.norm((learned(made, phi, y, np.ones(3000)).coefficients[0, 0] - truth) @ phi.T)
        for made in (expert(rho=0.1), Subspace(NUMBER, RANK, 1e12, 0.1))
        if made.grow(1, WIDTH, WIDTH) is None
    ]
    assert off[0] < 0.7 * off[1]


@pytest.mark.parametrize("events", [0, 100, 200, 350, 600])
def test_a_file_keeps_all_there_is(events):
    phi, y, w = stream(700, 8)
    made = learned(expert(), phi[:events], y[:events], w[:events])
    again = expert()
    again.load_state_dict({k: v.copy() for k, v in made.state_dict().items()})
    for one in (made, again):
        learned(one, phi[events:], y[events:], w[events:])
    assert {k: v.tobytes() for k, v in again.state_dict().items()} == {
        k: v.tobytes() for k, v in made.state_dict().items()
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schedule", 0.5), ("schedule", np.nan), ("basis", np.nan), ("diagonal", 0.0), ("factor", np.inf),
        ("sums", np.nan),
    ],
)  # fmt: skip
def test_an_impossible_file_is_refused(name, value):
    phi, y, w = stream(300, 9)
    arrays = {k: v.copy() for k, v in learned(expert(), phi, y, w).state_dict().items()}
    arrays[name].flat[0] = value
    with pytest.raises(ValueError, match="impossible"):
        expert().load_state_dict(arrays)


def test_closed_it_says_the_same_and_finds_a_subspace_again():
    phi, y, w = stream(1300, 10)
    made = learned(expert(), phi[:600], y[:600], w[:600])
    before = made.coefficients.copy()
    made.close()
    assert set(made.state_dict()) == {"coefficients", "clock", "schedule"}
    np.testing.assert_array_equal(made.coefficients, before)
    learned(made, phi[600:800], y[600:800], w[600:800])
    assert made.schedule.tolist() == [1.0, 1200.0, 0.0]


def test_merged_it_is_the_mean_and_looks_for_a_subspace():
    parts = [learned(expert(), *stream(600, seed)) for seed in (11, 12)]
    merged = expert()
    everything = [([0], type("Unit", (), {"scale": 1.0, "offset": 0.0}))] * 2
    merged.merge_from(parts, Merge([0.25, 0.75], everything))
    mean = 0.25 * parts[0].coefficients + 0.75 * parts[1].coefficients
    np.testing.assert_allclose(merged.coefficients, mean, rtol=1e-5, atol=1e-7)
    assert merged.schedule.tolist() == [0.0, 1400.0, 0.0]


def test_what_never_varies_does_no_harm():
    made = expert()
    phi = np.zeros((700, WIDTH), dtype=np.float32)
    learned(made, phi, np.ones(700), np.ones(700))
    assert not made.coefficients.any()
    phi[:, 3] = 10.0
    learned(made, phi, np.ones(700), np.ones(700))
    assert made.coefficients[0, 0, 3] == pytest.approx(0.1, rel=1e-2)


def test_it_uses_some_columns_alone():
    phi, y, w = stream(600, 13)
    wide = np.zeros((600, 192), dtype=np.float32)
    wide[:, 64:160], wide[:, :64] = phi, 7.0
    made = learned(expert(columns=slice(64, 160), width=192), wide, y, w)
    np.testing.assert_array_equal(made.coefficients, learned(expert(), phi, y, w).coefficients)


def test_heavy_events_in_the_subspace_leave_coefficients_bounded():
    """The rest of such an event is rounding, which steps must not multiply."""
    made, residual = expert(), np.zeros(1)
    phi, y, _ = stream(3000, seed=4, rank=1)
    for row, target, weight in zip(phi, y, np.where(np.arange(len(y)) % 2, 1.0, 1e9), strict=True):
        teach(made.record, row[None], target, 1, weight, residual)
    assert abs(made.coefficients).max() < 100.0
