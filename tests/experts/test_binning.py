"""Projections onto cells, event by event, against the same rule in plain NumPy and double precision."""

import numpy as np
import pytest
from numba import njit

from streamk.encoding.codec import Unit
from streamk.encoding.scaling import COUNT, MEAN, SQUARES
from streamk.experts.binning import Binning
from streamk.experts.expert import Merge, Observation, evaluate, step
from streamk.losses import CODES
from streamk.vector.cells import CELLS

FIRST, GRIDS, CLASSES = 5, 8, 3
COLUMNS = slice(FIRST, FIRST + GRIDS)


@njit
def teach(expert, phi, i, aim, known, weight):
    outputs = np.zeros((1, 2, expert.coefficients.shape[1]), dtype=np.float32)
    evaluate(expert, 0, phi, i, outputs)
    step(expert, 0, Observation(phi, i, outputs, aim, known, weight, np.zeros(expert.coefficients.shape[1])))
    return outputs


def trained(loss="margin", events=300, seed=3):
    """A learner of random cells, and what the formula gives."""
    rng = np.random.default_rng(seed)
    made = Binning(CODES["class" if loss == "margin" else "number", loss], COLUMNS, None)
    outputs = CLASSES if loss == "margin" else 1
    made.grow(outputs, 0, 0)
    A, counts = np.zeros((outputs, CELLS)), np.zeros(CELLS)
    for _ in range(events):
        cells = rng.integers(0, 40, GRIDS)
        cells[1] = cells[0]  # two cells of one index share a coefficient
        phi = np.full((2, FIRST + GRIDS + 3), -1.0, dtype=np.float32)
        phi[1, COLUMNS] = cells
        weight = rng.choice([0.5, 1.0, 3.0])
        f = A[:, cells].sum(axis=1)
        if loss == "margin":
            y = rng.integers(0, CLASSES)
            rival = max((k for k in range(CLASSES) if k != y), key=lambda k: f[k])
            way = np.eye(CLASSES)[y] - np.eye(CLASSES)[rival]
            residual, length = max(0.0, 1.0 - way @ f) * way, 2.0
        else:
            y = rng.normal()
            residual, length = y - f, 1.0
        rates = 1.0 / np.sqrt(1.0 + 0.1 * counts[cells])
        whole = length * rates.sum() + 0.05 * GRIDS / weight
        for cell, rate in zip(cells, rates, strict=True):
            A[:, cell] += residual / whole * rate
            counts[cell] += weight
        found = teach(made.record, phi, 1, float(y), outputs, weight)
        np.testing.assert_allclose(found[0], [f, f], atol=2e-4)
    return made, A, counts


@pytest.mark.parametrize("loss", ["margin", "squared"])
def test_steps_are_those_of_the_formula(loss):
    made, A, counts = trained(loss)
    np.testing.assert_allclose(made.coefficients[0], A, atol=2e-4)
    np.testing.assert_allclose(made.counts, counts)
    assert made.clock.tolist() == [300, 300]


def test_merged_coefficients_are_means_by_the_events_of_each_cell():
    (one, _, few), (other, _, many) = trained("squared", 60, 1), trained("squared", 200, 2)
    merged = Binning(one.loss, COLUMNS, None)
    merged.grow(1, 0, 0)
    merged.merge_from([one, other], Merge([0.5, 0.5], [([0], Unit(1.0, 0.0)), ([0], Unit(2.0, 0.0))]))
    met = few + many > 0.0
    expected = (few * one.coefficients[0, 0] + 2.0 * many * other.coefficients[0, 0])[met] / (few + many)[met]
    np.testing.assert_allclose(merged.coefficients[0, 0, met], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(merged.counts, few + many)
    assert not merged.coefficients[0, 0, ~met].any()


def test_the_base_of_merged_experts_counts_once():
    base, _, before = trained("squared", 60, 1)
    one, two = (trained("squared", events, 1)[0] for events in (90, 120))
    merged = Binning(base.loss, COLUMNS, None)
    merged.grow(1, 0, 0)
    units = [([0], Unit(1.0, 0.0))] * 3
    merged.merge_from([one, two, base], Merge([1 / 3, 2 / 3, 0.0], units, [1.0, 1.0, -1.0]))
    np.testing.assert_allclose(merged.counts, one.counts + two.counts - before)
    since = one.counts - before, two.counts - before
    total = np.maximum(since[0] + since[1], 1e-9)
    expected = (since[0] * one.coefficients[0, 0] + since[1] * two.coefficients[0, 0]) / total
    met = since[0] + since[1] > 0.0
    np.testing.assert_allclose(merged.coefficients[0, 0, met], expected[met], rtol=1e-5, atol=1e-7)
    mean = (one.coefficients[0, 0] + 2.0 * two.coefficients[0, 0]) / 3.0
    np.testing.assert_allclose(merged.coefficients[0, 0, ~met], mean[~met], rtol=1e-5, atol=1e-7)


def test_state_is_restored_and_checked():
    made, _, _ = trained()
    state = made.state_dict()
    assert len(state["counts"]) == len(state["met"]) < 50
    again = Binning(made.loss, COLUMNS, None)
    again.grow(CLASSES, 0, 0)
    again.load_state_dict(state)
    assert (again.counts == made.counts).all()
    assert (again.coefficients == made.coefficients).all()
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="its counts of cells are impossible"):
            again.load_state_dict({**state, "counts": np.full_like(state["counts"], wrong)})
    made.close()
    assert "counts" not in made.state_dict()


def test_relevance_does_not_concern_cells():
    made, _, _ = trained()
    before = made.coefficients.copy()
    made.forget(slice(0, 10_000))
    made.rearrange(np.full(100, -1))
    assert (made.coefficients == before).all()


def statistics(mean, deviation):
    """Statistics of a target after 100 events."""
    found = np.zeros((1, 10))
    found[0, [COUNT, MEAN, SQUARES]] = 100.0, mean, 100.0 * deviation**2
    return found


def twins(mean, deviation):
    """An expert of numbers, and one of their logarithms."""
    target, loss = statistics(mean, deviation), CODES["number", "squared"]
    made = [Binning(loss, COLUMNS, target, logarithms) for logarithms in (False, True)]
    for expert in made:
        expert.grow(1, 0, 0)
    return made


def test_logarithms_are_those_of_the_formula():
    plain, made = twins(80.0, 40.0)
    logarithm = lambda y: np.sign(y) * np.log1p(abs(y) / 0.05)  # noqa: E731
    rng = np.random.default_rng(1)
    for z in (0.3, -1.9, 7.0, -2.5, 11.0):
        phi = np.zeros((2, FIRST + GRIDS), dtype=np.float32)
        phi[1, COLUMNS] = rng.integers(0, 20, GRIDS)
        teach(plain.record, phi, 1, logarithm(z + 2.0) - logarithm(2.0), 1, 1.0)
        found = teach(made.record, phi, 1, z, 1, 1.0)[0]
        sums = teach(plain.record, phi, 1, 0.0, 1, 1e-9)[0, 0, 0]  # all but unchanged
        assert (made.counts == plain.counts).all()
        np.testing.assert_allclose(made.coefficients, plain.coefficients, atol=1e-5)
        whole = sums + logarithm(2.0)
        after = teach(made.record, phi, 1, z, 1, 1e-9)[0]
        assert after[1, 0] == pytest.approx(np.sign(whole) * 0.05 * np.expm1(abs(whole)) - 2.0, rel=1e-4)
        assert found[0, 0] != after[0, 0]


def at_cells():
    phi = np.zeros((2, FIRST + GRIDS), dtype=np.float32)
    phi[1, COLUMNS] = np.arange(GRIDS)
    return phi


def test_outputs_of_logarithms_follow_targets_in_any_unit():
    _, made = twins(80.0, 40.0)
    phi = at_cells()
    for _ in range(3):
        teach(made.record, phi, 1, 9.0, 1, 1.0)
    assert teach(made.record, phi, 1, 9.0, 1, 1.0)[0, 1, 0] == pytest.approx(9.0, rel=1e-3)
    made.target[0, [MEAN, SQUARES]] *= 1000.0, 1e6
    assert teach(made.record, phi, 1, 9.0, 1, 1.0)[0, 1, 0] == pytest.approx(9.0, rel=1e-3)
    made.coefficients[:] = 1e12
    assert np.isfinite(teach(made.record, phi, 1, 0.0, 1, 1.0)).all()


def test_merged_logarithms_do_not_depend_on_units():
    (_, one), (_, other), (_, merged) = twins(80.0, 40.0), twins(0.8, 0.4), twins(80.0, 40.0)
    phi = at_cells()
    for _ in range(9):
        teach(one.record, phi, 1, 3.0, 1, 1.0)
        teach(other.record, phi, 1, 3.0, 1, 1.0)
    merged.merge_from([one, other], Merge([0.5, 0.5], [([0], Unit(1.0, 0.0)), ([0], Unit(0.01, -2.0))]))
    assert teach(merged.record, phi, 1, 3.0, 1, 1.0)[0, 1, 0] == pytest.approx(3.0, rel=1e-2)
