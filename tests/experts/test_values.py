"""Effects of single values, event by event, against the same rule in plain Python and double precision."""

import numpy as np
import pytest
from numba import njit

import streamk
from streamk.encoding.codec import Unit
from streamk.experts.expert import ITERATE, Merge, Observation, evaluate, step
from streamk.experts.values import Values
from streamk.losses import CODES
from streamk.vector.cells import BITS

FIRST, WIDTH = 3, 64
COLUMNS = slice(FIRST, FIRST + WIDTH)
NUMBERS, CLASSES = CODES["number", "squared"], CODES["class", "logistic"]


@njit
def teach(expert, phi, aim, known, weight, outputs, again):
    evaluate(expert, 1, phi, 0, outputs)
    before = outputs.copy()
    residual = np.zeros(outputs.shape[2])
    step(expert, 1, Observation(phi, 0, outputs, aim, known, weight, residual, again))
    return before


def values(classes=0, repeated=False):
    made = Values(CLASSES if classes else NUMBERS, COLUMNS, 1, repeated)
    made.grow(max(classes, 1), 0, 0)
    return made


def row(cells):
    """The columns of an event with values in these cells."""
    phi = np.full((1, FIRST + WIDTH + 2), -1.0, dtype=np.float32)
    phi[0, FIRST : FIRST + len(cells)] = np.array(cells) << (BITS - 16)
    return phi


def based_on(base):
    """Outputs of an earlier expert, and room for those of this one."""
    outputs = np.zeros((2, 2, len(base)), dtype=np.float32)
    outputs[0] = base
    return outputs


class Reference:
    """Effects by cell; precisions; the mean squared residual."""

    def __init__(self, outputs):
        self.effects, self.precision, self.noise, self.events = {}, {}, 1.0, 0
        self.outputs = outputs

    def output(self, cells, base):
        return np.array(base) + sum(self.effects.get(c, np.zeros(self.outputs)) for c in cells)

    def step(self, cells, base, y, weight, classes, repeated):
        f = self.output(cells, base)
        met = {c: self.precision.get(c, 0.0) for c in cells}
        v = {c: 0.0 if repeated and not met[c] else 1.0 / (2.0 + met[c]) for c in cells}
        total = sum(v[c] for c in cells)
        if classes:
            p = np.exp(f - f.max()) / np.exp(f - f.max()).sum()
            r, trace = np.eye(len(f))[y] - p, max(1.0 - p @ p, 0.05)
            h = max((p @ p - 2.0 * (p**3).sum() + (p @ p) ** 2) / trace, 0.05)
            scale = weight / (1.0 + weight * h * total)
        else:
            r, h = y - f, 1.0 / self.noise
            pace = max(0.002, 1.0 / (2.0 + self.events))
            h = 1.0 / max(self.noise, 1e-3)
            square = r[0] ** 2 / (1.0 + h * total)
            self.noise += (1.0 - (1.0 - pace) ** weight) * (square - self.noise)
            scale = weight * h / (1.0 + weight * h * total)
        for c in cells:
            self.effects[c] = self.effects.get(c, np.zeros(self.outputs)) + v[c] * scale * r
            self.precision[c] = min(met[c] + weight * h, 1000.0)
        self.events += 1


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_steps_are_those_of_the_formula(classes, repeated):
    rng, made, reference = np.random.default_rng(4), values(classes, repeated), Reference(max(classes, 1))
    for event in range(400):
        cells = [int(c) for c in rng.choice(40, size=rng.integers(1, 5), replace=False)]
        base = rng.normal(size=max(classes, 1))
        y = int(rng.integers(classes)) if classes else float(rng.normal() + (cells[0] % 3))
        weight = 1.0 if event % 3 else 2.5
        outputs = teach(made.record, row(cells), y, max(classes, 1), weight, based_on(base), False)
        wanted = reference.output(cells, base)
        if classes == 2:  # the second effect is the negative of the first: residuals are
            assert outputs[1, ITERATE, 1] - base[1] == pytest.approx(
                base[0] - outputs[1, ITERATE, 0], abs=1e-5
            )
        np.testing.assert_allclose(outputs[1, ITERATE], wanted, rtol=1e-4, atol=1e-4)
        reference.step(cells, base, y, weight, classes, repeated)
    assert abs(made.coefficients[:, 1]).max() > 0.1
    assert len(np.unique(made.coefficients[made.coefficients[:, 0] > 0.0, 0])) > 3


def test_events_that_are_learned_again_change_nothing():
    made, phi = values(), row([1, 2])
    teach(made.record, phi, 3.0, 1, 1.0, based_on([0.0]), False)
    before = made.coefficients.copy(), made.clock.copy(), made.noise.copy()
    teach(made.record, phi, 5.0, 1, 1.0, based_on([0.0]), True)
    for kept, now in zip(before, (made.coefficients, made.clock, made.noise), strict=True):
        np.testing.assert_array_equal(kept, now)


def test_an_effect_is_the_shrunk_mean_of_its_residuals():
    """With a constant noise, the effect of a single value is ``Σ r/(n + τσ²)``."""
    made, rng = values(), np.random.default_rng(0)
    targets = 0.5 + 0.1 * rng.normal(size=200)
    for y in targets:
        made.noise[:] = 1.0
        teach(made.record, row([7]), y, 1, 1.0, based_on([0.0]), False)
    assert made.coefficients[7, 1] == pytest.approx(targets.sum() / 202.0, rel=1e-5)


def test_merged_effects_are_means_by_precision():
    parts = [values(), values()]
    for part, cells, y, events in zip(parts, ([3, 4], [4, 5]), (1.0, -1.0), (30, 10), strict=True):
        for _ in range(events):
            teach(part.record, row(cells), y, 1, 1.0, based_on([0.0]), False)
    merged = values()
    merged.merge_from(parts, Merge([0.75, 0.25], [([0], Unit(1.0, 0.0))] * 2))
    one, two = (part.coefficients for part in parts)
    both = (one[4, 0] * one[4, 1] + two[4, 0] * two[4, 1]) / (one[4, 0] + two[4, 0])
    np.testing.assert_allclose(merged.coefficients[[3, 4, 5], 1], [one[3, 1], both, two[5, 1]], rtol=1e-5)
    assert merged.coefficients[4, 0] == one[4, 0] + two[4, 0]
    assert merged.noise[0] == pytest.approx(0.75 * parts[0].noise[0] + 0.25 * parts[1].noise[0])


def final_r2(events, targets, **parameters):
    learner = streamk.KernelRegressor(seed=1, **parameters)
    said, half = np.array(learner.predict_learn_many(events, targets)), len(targets) // 2
    y = np.array(targets)[half:]
    return 1.0 - np.mean((said[half:] - y) ** 2) / np.var(y)


@pytest.mark.parametrize("name", [str, int])
def test_a_value_of_many_has_its_own_effect(name):
    """A category of 300 values, as strings or whole numbers, 20 events each: the noise leaves R² .96."""
    rng = np.random.default_rng(2)
    codes, x = rng.permutation(np.repeat(np.arange(300), 20)), rng.normal(size=6000)
    targets = (rng.normal(size=300)[codes] + 0.3 * x + 0.2 * rng.normal(size=6000)).tolist()
    events = [{"code": name(c), "x": v} for c, v in zip(codes.tolist(), x.tolist(), strict=True)]
    assert final_r2(events, targets) > 0.85
    if name is int:
        assert final_r2(events, targets, budget="small") < 0.5


def test_a_number_that_is_missing_has_an_effect():
    rng = np.random.default_rng(3)
    gone, x = rng.random(4000) < 0.2, rng.normal(size=4000)
    targets = (np.where(gone, 2.0, 0.3 * x) + 0.3 * rng.normal(size=4000)).tolist()
    events = [{"x": None if g else v} for g, v in zip(gone.tolist(), x.tolist(), strict=True)]
    assert final_r2(events, targets) > 0.85
