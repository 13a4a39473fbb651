"""Stacked experts, against the formulas written down with NumPy."""

import numpy as np
import pytest
from numba import njit

from streamk.combining.combiner import adapt, combine
from streamk.combining.stacking import Stacking
from streamk.encoding.codec import Coding
from streamk.encoding.label_history import empty_memory
from streamk.handles import make_handle


@njit
def combined(combiner, coding, outputs, scratch, out):
    combine(combiner, coding, outputs, scratch, out)


@njit
def learned(combiner, asked, coding, outputs, scratch, target, weight):
    given = np.empty(outputs.shape[2])
    combine(asked, coding, outputs, scratch, given)
    adapt(combiner, asked, coding, outputs, scratch, given, (target, weight))


def predict(made, coding, outputs, out):
    combined(make_handle(made.record), make_handle(coding), outputs, made.scratch(len(out)), out)


def learn(made, coding, outputs, target, asked=None, weight=1.0):
    """Learn what ``asked`` predicted, the combiner itself if it is None."""
    record = make_handle(made.record)
    earlier, scratch = record if asked is None else make_handle(asked), made.scratch(outputs.shape[2])
    for array in scratch.referred:
        array.fill(np.nan)  # what an earlier event left there does not matter
    learned(record, earlier, make_handle(coding), outputs, scratch, target, weight)


def forgetting_of(delay):
    return 1.0, 1 - 1 / (2000 + delay), 1 - 1 / (100 + delay)


class Memory:
    """The combiner of now and that of ``delay`` events ago; before the first event it was as at the first."""

    def __init__(self, made, delay):
        self.made, self.past = made, [made.weights.copy()] * (delay + 1)

    def learn(self, coding, outputs, target):
        asked = self.made.record._replace(weights=self.past[0])
        learn(self.made, coding, outputs, target, asked)
        self.past = [*self.past[1:], self.made.weights.copy()]


def coding(known, classes):
    empty = np.zeros((0, 4))
    counts = np.array([100.0, known, 0.0])
    return Coding(empty, None, counts, np.array([-0.5]), None, 1e15, classes, *empty_memory(False), clip=12.0)


def softmax(scores):
    e = np.exp(scores - scores.max())
    return e / e.sum()


def with_saturated(s, groups):
    """Return clipped outputs ``(E, K)``, and for each group of experts the mean of their saturated ones."""
    s = np.clip(s, -4.0, 4.0)
    return np.array([*s, *(np.mean([2 * softmax(4 * s[e]) - 1 for e in group], axis=0) for group in groups)])


def replay_classes(outputs, targets, delay, groups):
    """The formulas of the module, one set of weights after the other."""
    experts = outputs.shape[1] + len(groups)
    weights = [np.full(experts, 2.0 / experts)] * 3
    curvature, past = [10.0 * np.eye(experts)] * 3, [weights]
    shares, said = np.full(3, 1 / 3), []
    for own, y in zip(outputs, targets, strict=True):
        s = with_saturated(own, groups)
        given = [softmax(w @ s) for w in weights]
        said.append(sum(share * p for share, p in zip(shares, given, strict=True)))
        asked = [softmax(w @ s) for w in past[-1 - delay if delay < len(past) else 0]]
        weights, curvature = list(weights), list(curvature)
        for m, forgetting in enumerate(forgetting_of(delay)):
            p = given[m]
            mean = s @ p
            hessian = (s * p) @ s.T - np.outer(mean, mean)
            curvature[m] = forgetting * curvature[m] + (1 - forgetting) * 10 * np.eye(experts) + hessian
            weights[m] = weights[m] - np.linalg.solve(curvature[m], mean - s[:, y])
        past.append(weights)
        shares = shares * np.array([p[y] for p in asked]) ** (1 / np.sqrt(1 + delay))
        shares = 0.999 * shares / shares.sum() + 0.001 / 3
    return said, weights, shares


@pytest.mark.parametrize("groups", [[], [[1], [2, 4]]])
@pytest.mark.parametrize("delay", [0, 7])
def test_classes(delay, groups):
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(400, 5, 3)) * 2
    targets = rng.integers(0, 3, 400)
    outputs[np.arange(400), 1, targets] += 2.0
    outputs[:200, 3] *= -1
    expected, weights, shares = replay_classes(outputs, targets, delay, groups)
    made = Stacking(5, True, [False, False, False, False, True], saturated=groups)
    made.set_delay(delay)
    memory = Memory(made, delay)
    for s, y, p in zip(outputs, targets, expected, strict=True):
        both = np.stack([rng.normal(size=s.shape), s], axis=1).astype(np.float32)
        out = np.full(4, 9.0)
        wide = np.concatenate([both, np.full((5, 2, 1), 50, dtype=np.float32)], axis=2)
        predict(made, coding(3, True), wide, out)
        np.testing.assert_allclose(out[:3], p, atol=1e-5)
        assert out[3] == 0.0
        memory.learn(coding(3, True), wide, float(y))
    np.testing.assert_allclose(made.weights, weights, atol=1e-4)
    np.testing.assert_allclose(made.shares, shares, atol=1e-5)
    asked = np.eye(3)[targets][:, None]
    said = np.array([with_saturated(s, groups) for s in outputs])
    said[:, 4] = [softmax(s) for s in said[:, 4]]
    said[:, 5:] = (said[:, 5:] + 1) / 2  # probabilities
    losses = ((said - asked) ** 2).sum(axis=2).mean(axis=0)
    np.testing.assert_allclose(made.losses, losses, rtol=1e-4)


def _mean_by_shares(shares, numbers):
    weights = shares**2 / (shares + shares.max() / 200.0)
    return weights @ numbers / weights.sum()


def replay_numbers(outputs, targets, delay):
    experts = outputs.shape[1]
    weights = [np.full(experts, 1.0 / experts)] * 3
    curvature, past = [10.0 * np.eye(experts)] * 3, [weights]
    initial = np.array([*[0.8 / (3 + experts)] * (3 + experts), 0.2])
    shares, mean, said = initial, 0.0, []
    for n, (s, z) in enumerate(zip(np.clip(outputs, -12.0, 12.0), targets, strict=True), 1):
        all_of_them = np.array([*(np.clip(w @ s, -12, 12) for w in weights), *s, 0.0])
        said.append(_mean_by_shares(shares, all_of_them))
        before = past[-1 - delay if delay < len(past) else 0]
        all_of_them = np.array([*(np.clip(w @ s, -12, 12) for w in before), *s, 0.0])
        combined, pace = _mean_by_shares(shares, all_of_them), 0.5 / np.sqrt(1 + delay)
        mean += max(1 / n, 1e-3) * ((combined - z) ** 2 - mean)
        worse = (((combined + all_of_them) / 2 - z) ** 2 - (combined - z) ** 2) / mean
        shares = shares * np.exp(-pace * np.clip(worse, -1.0, 25.0))
        shares = 0.999 * shares / shares.sum() + 0.001 * initial
        weights, curvature = list(weights), list(curvature)
        for m, forgetting in enumerate(forgetting_of(delay)):
            curvature[m] = (
                forgetting * curvature[m] + (1 - forgetting) * 10 * np.eye(experts) + np.outer(s, s)
            )
            weights[m] = weights[m] - np.linalg.solve(curvature[m], s * (weights[m] @ s - z))
        past.append(weights)
    return said, weights, shares


@pytest.mark.parametrize("delay", [0, 7])
def test_numbers(delay):
    rng = np.random.default_rng(1)
    outputs, targets = rng.normal(size=(300, 4)) * 6, rng.normal(size=300)
    outputs[:, 2] = targets + 0.1 * rng.normal(size=300)
    outputs[150:] = outputs[150:, [2, 1, 0, 3]]
    expected, weights, shares = replay_numbers(outputs, targets, delay)
    made = Stacking(4, False)
    made.set_delay(delay)
    memory = Memory(made, delay)
    for s, z, f in zip(outputs, targets, expected, strict=True):
        both = np.repeat(s[:, None, None], 2, axis=1).astype(np.float32)
        out = np.zeros(1)
        predict(made, coding(1, False), both, out)
        np.testing.assert_allclose(out[0], f, atol=1e-4)
        memory.learn(coding(1, False), both, z)
    np.testing.assert_allclose(made.weights, weights, atol=1e-3)
    np.testing.assert_allclose(made.shares, shares, atol=1e-4)
    np.testing.assert_allclose(made.mean_weights, shares[:3] @ weights + shares[3:-1], atol=1e-3)
    losses = ((np.clip(outputs, -12, 12) - targets[:, None]) ** 2).mean(axis=0)
    np.testing.assert_allclose(made.losses, losses, rtol=1e-3)


@pytest.mark.parametrize("classes", [True, False])
def test_what_it_was_before_has_the_weights_and_intervals_of_then(classes):
    made = Stacking(2, classes)
    made.set_delay(3)
    then = [array + 1.0 for _, array in made.live]
    before = made.before(then)
    assert before.weights is then[0]
    assert before.shares is made.shares
    if not classes:
        assert before.intervals.offsets is then[1]
        assert before.intervals.errors is then[2]
        assert before.intervals.slope is then[3]
        assert before.intervals.bursts is then[4]
        assert before.intervals.step == made.intervals.step == 1 / 23


@pytest.mark.parametrize("classes", [True, False])
def test_it_ends_near_the_best_expert_and_follows_when_another_is(classes):
    rng = np.random.default_rng(2)
    made, errors = Stacking(3, classes), []
    for n in range(4000):
        target = float(rng.integers(0, 2)) if classes else rng.normal()
        good = np.array([1 - target, target]) * 4 - 2 if classes else np.array([target])
        best = 0 if n < 2000 else 2
        s = rng.normal(size=(3, len(good)))
        s[best] = good + 0.3 * rng.normal(size=len(good))
        both = np.repeat(s[:, None], 2, axis=1).astype(np.float32)
        out = np.zeros(len(good))
        predict(made, coding(len(good), classes), both, out)
        errors.append(-np.log(out[int(target)]) if classes else (out[0] - target) ** 2)
        learn(made, coding(len(good), classes), both, target)
    limit = 0.02 if classes else 0.12
    assert np.mean(errors[1000:2000]) < limit
    assert np.mean(errors[2500:]) < limit


def test_a_saturated_output_says_that_nothing_is_more_certain_far_away():
    """One label in ten is wrong wherever the event is; an expert knows the boundary, and how far it is."""
    excess = []
    for groups in ([], [[0]]):
        rng, made, found = np.random.default_rng(3), Stacking(2, True, saturated=groups), []
        for _ in range(3000):
            distance, wrong = rng.normal(), rng.random() < 0.1
            target = float((distance > 0.0) ^ wrong)
            s = np.array([[-distance, distance], rng.normal(size=2)])
            both, out = np.repeat(s[:, None], 2, axis=1).astype(np.float32), np.zeros(2)
            predict(made, coding(2, True), both, out)
            found.append(np.log(0.1 if wrong else 0.9) - np.log(out[int(target)]))
            learn(made, coding(2, True), both, target)
        excess.append(np.mean(found[500:]))
    assert excess[0] > 0.07
    assert excess[1] < 0.03


@pytest.mark.parametrize("classes", [True, False])
def test_extreme_outputs_leave_it_finite(classes):
    made, k = Stacking(2, classes, saturated=[[0, 1]] if classes else []), 2 if classes else 1
    for n in range(500):
        both = np.full((2, 2, k), 1e30 * (-1) ** n, dtype=np.float32)
        learn(made, coding(k, classes), both, float(n % 2))
    out = np.zeros(k)
    predict(made, coding(k, classes), both, out)
    for array in (out, *made.state_dict().values()):
        assert np.isfinite(array).all()


def test_a_class_that_is_not_known_teaches_nothing():
    made = Stacking(2, True)
    before = {name: array.copy() for name, array in made.state_dict().items()}
    both = np.ones((2, 2, 3), dtype=np.float32)
    learn(made, coding(2, True), both, 2.0)
    learn(made, coding(1, True), both, 0.0)
    for name, array in made.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_merging_adds_what_is_known():
    parts = [Stacking(2, False) for _ in range(2)]
    rng = np.random.default_rng(3)
    rows, targets = rng.normal(size=(60, 2)), rng.normal(size=60)
    for k, (s, z) in enumerate(zip(rows, targets, strict=True)):
        both = np.repeat(s[:, None, None], 2, axis=1).astype(np.float32)
        learn(parts[k % 2], coding(1, False), both, z)
    merged = Stacking(2, False)
    merged.merge_from(parts, [0.5, 0.5])
    expected = np.linalg.solve(rows.T @ rows + 10 * np.eye(2), rows.T @ targets + 10 * np.full(2, 0.5))
    np.testing.assert_allclose(merged.weights[0], expected, atol=1e-5)
    np.testing.assert_allclose(merged.shares.sum(), 1.0)


def test_a_file_keeps_all_there_is():
    made, rng = Stacking(3, True, saturated=[[1]]), np.random.default_rng(4)
    for _ in range(40):
        both = np.repeat(rng.normal(size=(3, 1, 2)), 2, axis=1).astype(np.float32)
        learn(made, coding(2, True), both, float(rng.integers(2)))
    again = Stacking(3, True, saturated=[[1]])
    again.load_state_dict(made.state_dict())
    for name in ("weights", "curvature", "shares", "error", "losses"):
        np.testing.assert_array_equal(getattr(again, name), getattr(made, name), strict=True)


@pytest.mark.parametrize("name", ["weights", "curvature", "shares", "error", "losses"])
def test_an_impossible_file_is_refused(name):
    made = Stacking(2, True)
    arrays = {k: v.copy() for k, v in made.state_dict().items()}
    arrays[f"stacking.{name}"].flat[0] = np.nan
    with pytest.raises(ValueError, match="impossible"):
        made.load_state_dict(arrays)


def test_an_expert_that_starts_again_is_skipped():
    """Weights are those of ridge regression without it, as if it had never been there, in the first set."""
    rng, made = np.random.default_rng(8), Stacking(4, False)
    S, z = rng.normal(size=(500, 4)), rng.normal(size=500)
    z += S @ [1.0, -0.5, 2.0, 0.3]
    for s, y in zip(S, z, strict=True):
        outputs = np.repeat(s[:, None, None], 2, axis=1).astype(np.float32)
        learn(made, coding(1, False), outputs, y)
    before = made.weights[0].copy()
    made.skip([2])
    kept, start = [0, 1, 3], np.full(3, 0.25)
    gram = S[:, kept].T @ S[:, kept] + 10.0 * np.eye(3)
    wanted = np.linalg.solve(gram, S[:, kept].T @ z + 10.0 * start)
    np.testing.assert_allclose(made.weights[0][kept], wanted, rtol=1e-5)
    assert abs(before[2]) > 1.0
    assert (made.weights[:, 2] == 0.0).all()
    assert made.shares[len(made.weights) + 2] == 0.0
    assert made.shares.sum() == pytest.approx(1.0)
    for lower in made.curvature:
        assert lower[2, 2] == made.penalty
        assert not lower[2, :2].any()
        assert not lower[3, 2]


def test_outputs_of_an_expert_that_starts_again_are_skipped_with_it():
    made = Stacking(3, True, saturated=[[0, 2], [1]])
    made.skip([0])
    assert (made.weights[:, [0, 3]] == 0.0).all()
    assert (made.weights[:, [1, 2, 4]] != 0.0).all()


@pytest.mark.parametrize("explained", [True, False])
def test_outputs_go_far_only_while_that_makes_errors_smaller(explained):
    """One event in ten is 30 deviations off; experts say so of it, or of others at random."""
    made, n = Stacking(2, False), 2000
    rng, statistics = np.random.default_rng(0), np.array([[100.0, 0.0, 100.0, 40.0, 0, 0, 0, 0, 0, 0]])
    targets = np.where(rng.random(n) < 0.1, 30.0, 0.0) + 0.1 * rng.normal(size=n)
    said = targets if explained else np.roll(targets, 1) * rng.choice([-1.0, 1.0], n)
    code, out = coding(1, False)._replace(target=statistics), np.zeros(1)
    memory = Memory(made, 0)
    for z, f in zip(targets, said, strict=True):
        outputs = np.full((2, 2, 1), f, dtype=np.float32)
        predict(made, code, outputs, out)
        memory.learn(code, outputs, z)
    assert (made.evidence[0] > 0.0) == explained
    predict(made, code, np.full((2, 2, 1), 30.0, dtype=np.float32), out)
    assert (out[0] > 28.0) == explained
    fresh = Stacking(2, False)
    fresh.evidence[:] = made.evidence
    predict(fresh, code, np.full((2, 2, 1), 30.0, dtype=np.float32), out)
    farthest = np.where(np.arange(len(fresh.shares)) < 5, 30.0 if explained else 12.0, 0.0)
    assert out[0] == pytest.approx(_mean_by_shares(fresh.shares, farthest))


def test_one_far_mistake_does_not_decide_how_far_outputs_go():
    """Experts once say 5,000 deviations, and then rightly 30."""
    made, statistics = Stacking(2, False), np.array([[100.0, 0.0, 100.0, 5000.0, 0, 0, 0, 0, 0, 0]])
    code, out, memory = coding(1, False)._replace(target=statistics), np.zeros(1), Memory(made, 0)
    for z, f in [(0.0, 5000.0), *[(30.0, 30.0), (0.0, 0.0)] * 10]:
        outputs = np.full((2, 2, 1), f, dtype=np.float32)
        predict(made, code, outputs, out)
        memory.learn(code, outputs, z)
    assert made.evidence[0] > 0.0


@pytest.mark.parametrize("classes", [True, False])
def test_an_event_learned_before_teaches_weights_and_no_intervals(classes):
    rng, (first, again) = np.random.default_rng(4), (Stacking(3, classes) for _ in range(2))
    code = coding(2.0, classes)
    if not classes:
        code = code._replace(target=np.array([[100.0, 0.0, 100.0, 3.0]]))
    for _ in range(40):
        outputs = rng.normal(size=(3, 2, 2 if classes else 1)).astype(np.float32)
        target = float(rng.integers(2)) if classes else float(rng.normal())
        learn(first, code, outputs, target)
        learn(again, code, outputs, target, weight=-1.0)
    assert first.weights.tobytes() == again.weights.tobytes()
    assert first.shares.tobytes() == again.shares.tobytes()
    if not classes:
        fresh = Stacking(3, classes).intervals
        assert again.intervals.offsets.tobytes() == fresh.offsets.tobytes()
        assert again.intervals.errors.tobytes() == fresh.errors.tobytes()
        assert first.intervals.offsets.tobytes() != fresh.offsets.tobytes()


def patient(late=True):
    made = Stacking(3, False, may_be_patient=True)
    made.pace, made.patient = 0.1, late
    made.restart()
    return made


def numbers(seed, events):
    """Return outputs ``(n, 3)`` of experts, the first of which is right but for noise, and targets."""
    rng = np.random.default_rng(seed)
    outputs = rng.normal(size=(events, 3))
    return outputs, outputs[:, 0] + rng.standard_t(2, size=events)


def teach(made, outputs, targets, weight=1.0):
    """Return what is predicted before each event is learned."""
    said, out = [], np.zeros(1)
    for s, z in zip(outputs, targets, strict=True):
        both = np.repeat(s[:, None, None], 2, axis=1).astype(np.float32)
        predict(made, coding(1, False), both, out)
        said.append(out[0])
        learn(made, coding(1, False), both, z, weight=weight)
    return np.array(said)


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_a_patient_set_is_as_large_a_part_as_was_best_so_far(weight):
    outputs, targets = numbers(3, 200)
    made, out, far, A = patient(), np.zeros(1), 0, 10.0 * np.eye(3)
    for s, z in zip(outputs.astype(np.float32).astype(float), targets, strict=True):
        sets, sums, shares = made.weights @ s, made.compared.copy(), made.shares.copy()
        said = np.array([*sets, *s, 0.0])
        f, g, part, before = _mean_by_shares(shares, said), sets[1], 0.0, made.weights[1].copy()
        if sums[2]:
            m = sums[1] / sums[2]
            part = min(max((sums[0] + 30.0 * m) / (sums[1] + 100.0 * m), 0.0), 1.0)
        both = np.repeat(s[:, None, None], 2, axis=1).astype(np.float32)
        predict(made, coding(1, False), both, out)
        both_parts = (1.0 - part) * shares + part * (np.arange(len(shares)) == 1)
        assert out[0] == pytest.approx(_mean_by_shares(both_parts, said), abs=1e-9)
        learn(made, coding(1, False), both, z, weight=weight)
        z = np.clip(z, out[0] - 12.0, out[0] + 12.0)
        more = np.array([(g - f) * np.clip(z - f, -3.0, 3.0), (g - f) ** 2, 1.0])
        np.testing.assert_allclose(made.compared, sums + weight * more, atol=1e-7)
        A += weight * np.outer(s, s)
        after = before - np.linalg.solve(A, weight * s * np.clip(g - z, -3.0, 3.0))
        np.testing.assert_allclose(made.weights[1], after, atol=1e-6)
        far += abs(z - f) > 3.0
    assert far > 10
    assert made.shares[1] == 0.0
    assert made.shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("late", "weight"), [(False, 1.0), (True, -1.0)])
def test_a_patient_set_learns_late_labels_of_events_that_no_expert_learned(late, weight):
    made = patient(late)
    teach(made, *numbers(4, 50), weight)
    assert not made.compared.any()
    if late:
        np.testing.assert_array_equal(made.weights[1], 1 / 3)
    else:  # as without a patient set
        usual = Stacking(3, False)
        usual.pace = made.pace
        teach(usual, *numbers(4, 50), weight)
        assert made.weights.tobytes() == usual.weights.tobytes()
        assert made.shares.tobytes() == usual.shares.tobytes()
    assert made.weights[0, 0] > 0.5


def test_a_patient_set_keeps_the_weight_of_an_expert_that_starts_again():
    made = patient()
    teach(made, *numbers(5, 100))
    before = made.weights.copy()
    made.skip([0])
    assert made.weights[:, 0].tolist() == [0.0, before[1, 0], 0.0]
    np.testing.assert_array_equal(made.weights[1], before[1])


def test_a_combiner_final_state_predicts_as_with_the_patient_set():
    made, final, again, out = patient(), Stacking(3, False), patient(), np.zeros((3, 1))
    outputs, targets = numbers(6, 120)
    teach(made, outputs, targets)
    final.load_state_dict(made.final_state())
    again.load_state_dict(made.state_dict())
    np.testing.assert_array_equal(again.compared, made.compared, strict=True)
    for s in outputs:
        both = np.repeat(s[:, None, None], 2, axis=1).astype(np.float32)
        for combiner, row in zip((made, final, again), out, strict=True):
            predict(combiner, coding(1, False), both, row)
        assert out[0, 0] == out[2, 0] == pytest.approx(out[1, 0], abs=1e-12)
    assert made.compared[0] > 0.0
    for combiner in (Stacking(3, False), patient()):  # of which nothing was learned
        assert combiner.final_state()["stacking.shares"].tobytes() == combiner.shares.tobytes()
