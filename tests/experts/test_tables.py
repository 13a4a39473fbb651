"""Projections onto cells, event by event, against the same rule in plain NumPy and double precision."""

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.encoding.codec import Unit
from streamk.encoding.scaling import COUNT, MEAN, SQUARES
from streamk.experts.expert import Merge, Observation, evaluate, step
from streamk.experts.logarithm import SMALL, relative_logarithm
from streamk.experts.tables import Share, Tables
from streamk.features.plans import GridPlan
from streamk.losses import CODES
from streamk.vector.cells import BITS

FIRST, GRIDS = 5, 16
COLUMNS = slice(FIRST, FIRST + GRIDS)
TOGETHER, BY_SIZE = GridPlan((1, 2), GRIDS, (7,), by_size=False), GridPlan((1, 2), GRIDS, (5, 6))
PARTS = {TOGETHER: [(0, 16, 0, 7)], BY_SIZE: [(0, 8, 0, 5), (8, 16, 32, 6)]}


@njit
def teach(expert, phi, i, aim, known, weight, outputs):
    evaluate(expert, 1, phi, i, outputs)
    before = outputs.copy()
    step(expert, 1, Observation(phi, i, outputs, aim, known, weight, np.zeros(outputs.shape[2]), False))
    return before


def statistics(mean, deviation):
    """Statistics of a target after 100 events."""
    made = np.zeros((1, 10))
    made[0, [COUNT, MEAN, SQUARES]] = 100.0, mean, 100.0 * deviation**2
    return made


def table(plan, classes, target=None):
    loss = CODES["class", "margin"] if classes else CODES["number", "squared"]
    made = Tables(loss, COLUMNS, plan, None if classes else statistics(*target or (0.0, 1.0)))
    made.grow(max(classes, 1), 0, 0)
    return made


def columns(plan, rng):
    """A row of hashes, and the cells that they mean; two grids of a part share a cell."""
    hashes = rng.integers(0, 1 << BITS, GRIDS)
    hashes[1] = hashes[0]
    phi = np.full((2, FIRST + GRIDS + 3), -1.0, dtype=np.float32)
    phi[1, COLUMNS] = hashes
    cells = [first + (hashes[a:b] >> BITS - bits) for a, b, first, bits in PARTS[plan]]
    return phi, np.concatenate(cells)


class Reference:
    """One expert on some grids: coefficients ``(outputs, cells)``, and its step."""

    def __init__(self, grids, outputs, cells, power):
        self.grids, self.A, self.power = grids, np.zeros((outputs, cells)), power

    def output(self, cells):
        return self.A[:, cells[self.grids]].sum(axis=1)

    def step(self, cells, y, classes, counts, weight):
        cells, f = cells[self.grids], self.output(cells)
        if classes:
            rival = max((k for k in range(classes) if k != y), key=lambda k: f[k])
            way = np.eye(classes)[y] - np.eye(classes)[rival]
            residual, length = max(0.0, 1.0 - way @ f) * way, 2.0
        else:
            residual, length = y - f, 1.0
        rates = (1.0 + 0.1 * counts[cells]) ** -self.power
        whole = length * rates.sum() + 0.05 * len(cells) / weight
        for cell, rate in zip(cells, rates, strict=True):
            self.A[:, cell] += residual / whole * rate


def trained(plan, classes, events=300, seed=3, target=None):
    """A learner of random cells, and what the formula gives: experts, and counts."""
    rng, made, cells = np.random.default_rng(seed), table(plan, classes, target), plan.cells
    parts = [slice(a, b) for a, b, *_ in PARTS[plan]] if plan.by_size else []
    shape = max(classes, 1), cells, 1.0 if plan.by_size else 0.5
    experts = [Reference(part, *shape) for part in [slice(GRIDS), *parts, *[slice(GRIDS)] * (not classes)]]
    mean, counts = (target[0] / target[1] if target else 0.0), np.zeros(cells)
    for _ in range(events):
        phi, places = columns(plan, rng)
        weight, y = rng.choice([0.5, 1.0, 3.0]), rng.integers(0, classes) if classes else rng.normal()
        outputs = np.zeros((2 + len(experts), 2, max(classes, 1)), dtype=np.float32)
        seen = teach(made.record, phi, 1, float(y), max(classes, 1), weight, outputs)
        expected = np.array([expert.output(places) for expert in experts])
        np.testing.assert_allclose(seen[1:-1, 0], expected, rtol=1e-4, atol=4e-4)
        assert not seen[[0, -1]].any()  # outputs of other experts
        for expert in experts:
            wanted = relative_logarithm(y, mean, SMALL) if not classes and expert is experts[-1] else y
            expert.step(places, wanted, classes, counts, weight)
        np.add.at(counts, places, weight)
    return made, experts, counts


@pytest.mark.parametrize("plan", [TOGETHER, BY_SIZE])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_steps_are_those_of_the_formula(plan, classes):
    made, experts, counts = trained(plan, classes)
    for output in range(max(classes, 1)):
        coefficients = made.coefficients_of(output)
        np.testing.assert_allclose(coefficients[:, 0], experts[0].A[output], atol=4e-4)
        if plan.by_size:
            sizes = sum(expert.A[output] for expert in experts[1:3])
            np.testing.assert_allclose(coefficients[:, 1], sizes, atol=4e-4)
        if not classes:
            np.testing.assert_allclose(coefficients[:, -1], experts[-1].A[0], atol=4e-4)
    np.testing.assert_allclose(made.coefficients[:, 0], counts)
    assert made.clock.tolist() == [300, 300]
    assert len(made.names) == len(experts) - 1


def test_the_second_of_two_classes_needs_no_coefficients_until_there_is_a_third():
    (made, experts, _), (whole, *_) = trained(BY_SIZE, 2), trained(BY_SIZE, 3)
    assert made.coefficients.shape[1] == 4 < whole.coefficients.shape[1]
    before = [made.coefficients_of(k).copy() for k in range(2)]
    made.grow(3, 0, 0)
    assert (before[1] == -before[0]).all()
    for k in range(2):
        assert (made.coefficients_of(k) == before[k]).all()
        np.testing.assert_allclose(before[k][:, 0], experts[0].A[k], atol=4e-4)
    assert not made.coefficients_of(2).any()


def test_a_third_class_leaves_copies_for_stale_experts_as_they_were():
    learner, rng = streamk.KernelClassifier(features=768, seed=1), np.random.default_rng(2)
    rows = [{"a": a} for a in rng.normal(size=200).tolist()]
    learner.learn_many(rows, [int(row["a"] > 0.0) for row in rows])
    k = next(k for k, expert in enumerate(learner._experts) if isinstance(expert, Tables))
    before = learner._stale.arrays[k][:, 1:3].copy()
    learner.learn_one({"a": 9.0}, 2)
    copied = learner._stale.arrays[k]
    assert before.any()
    assert (copied[:, 1:3] == before).all()
    assert (copied[:, 3:5] == -before).all()


def merged_of(experts, merge, classes=0):
    made = table(experts[0].plan, classes)
    made.merge_from(experts, merge)
    return made


@pytest.mark.parametrize("plan", [TOGETHER, BY_SIZE])
def test_merged_coefficients_are_means_by_the_events_of_each_cell(plan):
    (one, _, few), (other, _, many) = trained(plan, 0, 4, 1), trained(plan, 0, 12, 2)
    units = [([0], Unit(1.0, 0.0)), ([0], Unit(2.0, 0.0))]
    merged = merged_of([one, other], Merge([0.5, 0.5], units))
    met = few + many > 0.0
    assert 0 < met.sum() < len(met)
    for kind, scale in enumerate([2.0] * (1 + plan.by_size) + [1.0]):  # logarithms have no unit
        a, b = (expert.coefficients[:, 1 + kind] for expert in (one, other))
        expected = (few * a + scale * many * b)[met] / (few + many)[met]
        np.testing.assert_allclose(merged.coefficients[met, 1 + kind], expected, rtol=1e-5, atol=1e-7)
        assert not merged.coefficients[~met, 1 + kind].any()
    np.testing.assert_allclose(merged.coefficients[:, 0], few + many)


def test_merged_classes_follow_their_labels():
    one, other = trained(BY_SIZE, 2, 5, 1)[0], trained(BY_SIZE, 2, 5, 1)[0]
    units = [([0, 1], Unit(1.0, 0.0)), ([1, 0], Unit(1.0, 0.0))]
    assert not merged_of([one, other], Merge([0.5, 0.5], units), 2).coefficients[:, 1:3].any()
    units[1] = [2, 0], Unit(1.0, 0.0)
    merged = merged_of([one, other], Merge([0.5, 0.5], units), 3)
    half = one.coefficients_of(0) / 2.0
    np.testing.assert_allclose(merged.coefficients_of(1), -half)
    np.testing.assert_allclose(merged.coefficients_of(2), half)
    assert not merged.coefficients_of(0).any()


def test_the_base_of_merged_experts_counts_once():
    base, _, before = trained(BY_SIZE, 0, 6, 1)
    one, two = (trained(BY_SIZE, 0, events, 1)[0] for events in (9, 12))
    units = [([0], Unit(1.0, 0.0))] * 3
    merged = merged_of([one, two, base], Merge([1 / 3, 2 / 3, 0.0], units, [1.0, 1.0, -1.0]))
    counts = one.coefficients[:, 0], two.coefficients[:, 0]
    np.testing.assert_allclose(merged.coefficients[:, 0], counts[0] + counts[1] - before)
    since = counts[0] - before, counts[1] - before
    total, a, b = since[0] + since[1], one.coefficients[:, 1], two.coefficients[:, 1]
    met = total > 0.0
    expected = np.where(met, (since[0] * a + since[1] * b) / np.maximum(total, 1e-9), (a + 2.0 * b) / 3.0)
    np.testing.assert_allclose(merged.coefficients[:, 1], expected, rtol=1e-5, atol=1e-7)
    assert merged.clock.tolist() == [15.0, 15.0]


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_state_is_restored_and_checked(classes):
    made = trained(BY_SIZE, classes, 4)[0]
    state = made.state_dict()
    assert state["coefficients"].shape == (made.used, len(state["used"]))
    assert 0 < len(state["used"]) < made.plan.cells
    again = table(BY_SIZE, classes)
    again.load_state_dict(state)
    assert (again.coefficients == made.coefficients).all()
    assert (again.clock == made.clock).all()
    for row, wrong in ((0, -1.0), (0, np.nan), (1, np.inf)):
        rows = state["coefficients"].copy()
        rows[row, 1] = wrong
        with pytest.raises(ValueError, match="its coefficients are impossible"):
            again.load_state_dict({**state, "coefficients": rows})
    made.close()
    assert len(made.state_dict()["coefficients"]) == made.used - 1  # without counts
    again.load_state_dict(made.state_dict())
    assert not again.coefficients[:, 0].any()
    assert (made.coefficients == again.coefficients).all()


def test_relevance_does_not_concern_cells():
    made = trained(BY_SIZE, 3, 20)[0]
    before = made.coefficients.copy()
    made.forget(slice(0, 10_000))
    made.rearrange(np.full(100, -1))
    assert (made.coefficients == before).all()


def test_shares_leave_outputs_to_the_table():
    share, outputs = Share(CODES["number", "squared"]), np.ones((3, 2, 1), dtype=np.float32)
    share.grow(1, 100, 100)
    assert (teach(share.record, np.zeros((1, 9), np.float32), 0, 1.0, 1, 1.0, outputs) == 1.0).all()


@pytest.mark.parametrize("target", [(80.0, 40.0), (8e9, 4e9), (0.0, 1.0)])
def test_outputs_of_logarithms_follow_targets_in_any_unit(target):
    made, experts, _ = trained(BY_SIZE, 0, 60, target=target)
    phi, places = columns(BY_SIZE, np.random.default_rng(9))
    outputs = np.zeros((6, 2, 1), dtype=np.float32)
    seen = teach(made.record, phi, 1, 0.0, 1, 1.0, outputs)
    mean = target[0] / target[1]
    whole = experts[-1].output(places)[0] + np.sign(mean) * np.log1p(abs(mean) / 0.05)
    assert seen[4, 1, 0] == pytest.approx(
        np.sign(whole) * 0.05 * np.expm1(abs(whole)) - mean, rel=2e-3, abs=2e-3
    )


def test_extreme_targets_stay_finite():
    made, rng = table(BY_SIZE, 0, (80.0, 40.0)), np.random.default_rng(1)
    phi, _ = columns(BY_SIZE, rng)
    for aim in (1e30, -1e30, 0.0):
        outputs = np.zeros((6, 2, 1), dtype=np.float32)
        assert np.isfinite(teach(made.record, phi, 1, aim, 1, 1e9, outputs)).all()
    assert np.isfinite(made.coefficients).all()


def test_logarithms_do_not_depend_on_the_unit_of_the_target():
    made, rng = table(BY_SIZE, 0, (80.0, 40.0)), np.random.default_rng(1)
    phi, _ = columns(BY_SIZE, rng)
    outputs = np.zeros((6, 2, 1), dtype=np.float32)
    for _ in range(30):
        seen = teach(made.record, phi, 1, 9.0, 1, 1.0, outputs)
    assert seen[4, 1, 0] == pytest.approx(9.0, rel=1e-3)
    made.target[0, [MEAN, SQUARES]] *= 1000.0, 1e6
    assert teach(made.record, phi, 1, 9.0, 1, 1.0, outputs)[4, 1, 0] == pytest.approx(9.0, rel=1e-3)
    made.coefficients[:] = 1e12
    assert np.isfinite(teach(made.record, phi, 1, 0.0, 1, 1.0, outputs)).all()
