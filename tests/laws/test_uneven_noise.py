"""Prediction intervals where the size of errors depends on the inputs, and where it does not."""

import numpy as np
import pytest

import streamk

NAMES = ["a", "b", "c"]


def stream(n, loud, quiet, seed):
    """Noise is ``loud`` where the first input is positive, ``quiet`` elsewhere; the rest is in the second."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    noise = np.where(z[:, 0] > 0.0, loud, quiet) * rng.normal(size=n)
    return z, np.sin(2.0 * z[:, 1]) + noise


def regressor(**parameters):
    return streamk.KernelRegressor(features=768, seed=1, **parameters)


def taught(n=3000, loud=0.8, quiet=0.2, w=None, seed=1, **parameters):
    learner = regressor(**parameters)
    z, y = stream(n, loud, quiet, seed)
    learner.learn_many(z, y, w=w, names=NAMES)
    return learner


def ends_of(model, z):
    """Each alone: the rows of one call are events without a label, one after the other."""
    rows = [dict(zip(NAMES, row, strict=True)) for row in z.tolist()]
    return np.array([(i.lower, i.upper) for i in map(model.predict_interval_one, rows)])


def widths(learner, z):
    """Mean widths on the loud and on the quiet side."""
    width = np.diff(ends_of(learner, z), axis=1)[:, 0]
    return width[z[:, 0] > 0.0].mean(), width[z[:, 0] <= 0.0].mean()


def prequential(learner, z, y, piece=20):
    """Ends of the interval of every event, asked for at most ``piece`` events before it is learned."""
    found = []
    for start in range(0, len(y), piece):
        part = slice(start, start + piece)
        found.append(ends_of(learner, z[part]))
        learner.learn_many(z[part], y[part], names=NAMES)
    return np.concatenate(found)


Z, _ = stream(500, 1.0, 1.0, 99)


def test_as_many_lie_inside_where_noise_is_loud_as_where_it_is_quiet():
    loud, quiet = [], []
    for seed in range(3):
        z, y = stream(6000, 0.8, 0.2, seed)
        low, high = prequential(regressor(), z, y).T
        inside, side, late = (low <= y) & (y <= high), z[:, 0] > 0.0, np.arange(len(y)) >= 2000
        loud.append(inside[side & late].mean())
        quiet.append(inside[~side & late].mean())
    assert 0.86 < np.mean(loud) < 0.94
    assert 0.86 < np.mean(quiet) < 0.94


def test_even_noise_keeps_coverage_and_width():
    z, y = stream(6000, 0.5, 0.5, 5)
    low, high = prequential(regressor(), z, y).T
    late = np.arange(len(y)) >= 2000
    assert ((low <= y) & (y <= high))[late].mean() == pytest.approx(0.9, abs=0.02)
    assert (high - low)[late].mean() == pytest.approx(2 * 1.645 * 0.5, rel=0.05)
    side = z[:, 0] > 0.0
    one, other = ((high - low)[late & part].mean() for part in (side, ~side))
    assert one == pytest.approx(other, rel=0.03)


@pytest.mark.parametrize("made", ["learner", "frozen", "closed", "loaded", "merged", "merged apart"])
def test_every_model_of_a_learner_has_it(made, tmp_path):
    learner = taught()
    if made == "loaded":
        learner.save(tmp_path / "model")
        model = streamk.load(tmp_path / "model")
        assert (ends_of(model, Z) == ends_of(learner, Z)).all()
        model.learn_many(Z, Z[:, 0], names=NAMES)
        learner.learn_many(Z, Z[:, 0], names=NAMES)
        assert (ends_of(model, Z) == ends_of(learner, Z)).all()
        model = streamk.load(tmp_path / "model")
    elif made == "merged":
        model = streamk.merge([taught(900, seed=2), taught(900, seed=3)])
    elif made == "merged apart":  # blocks under relevance differ
        model = streamk.merge([taught(seed=2), taught(seed=3)])
    else:
        model = learner if made == "learner" else getattr(learner, made)()
    loud, quiet = widths(model, Z)
    assert loud > 1.8 * quiet


def test_events_in_any_batches_teach_the_same():
    z, y = stream(1300, 0.8, 0.2, 4)
    one, many, split = (regressor() for _ in range(3))
    many.learn_many(z, y, names=NAMES)
    for row, target in zip(z.tolist(), y.tolist(), strict=True):
        one.learn_one(dict(zip(NAMES, row, strict=True)), target)
    for part in np.array_split(np.arange(len(y)), [3, 700, 1001, 1100]):
        split.predict_learn_many(z[part], y[part], names=NAMES)
    assert one.to_bytes() == many.to_bytes() == split.to_bytes()
    found = ends_of(many, Z[:50])
    for row, pair in zip(Z[:50].tolist(), found.tolist(), strict=True):
        interval = one.predict_interval_one(dict(zip(NAMES, row, strict=True)))
        assert [interval.lower, interval.upper] == pair


def test_late_targets_teach_it_too():
    learner, (z, y) = regressor(), stream(4000, 0.8, 0.2, 1)
    for number, row in enumerate(z.tolist()):
        learner.ask_one(number, dict(zip(NAMES, row, strict=True)))
        if number >= 50:
            learner.tell_one(number - 50, y[number - 50])
    loud, quiet = widths(learner, Z)
    assert loud > 1.8 * quiet


def test_weight_0_teaches_nothing():
    plain = taught(1500)
    z, y = stream(1500, 0.8, 0.2, 1)
    other, noise = stream(1500, 0.2, 5.0, 8)
    both, targets = np.concatenate([z, other]), np.concatenate([y, noise])
    order = np.argsort(np.concatenate([np.arange(1500), np.arange(1500) + 0.5]), kind="stable")
    weighted = regressor()
    weights = np.repeat([1.0, 0.0], 1500)[order]
    weighted.learn_many(both[order], targets[order], w=weights, names=NAMES)
    assert weighted.to_bytes() == plain.to_bytes()


def test_heavier_events_teach_more():
    """Two streams of one input say opposite things of the noise; the heavier one is believed."""
    z, y = stream(4000, 0.8, 0.2, 6)
    _, opposite = stream(4000, 0.2, 0.8, 6)
    turn = np.arange(4000) % 2 == 0
    ratios = []
    for weight in (1.0, 8.0):
        learner = regressor()
        learner.learn_many(z, np.where(turn, y, opposite), w=np.where(turn, weight, 1.0), names=NAMES)
        loud, quiet = widths(learner, Z)
        ratios.append(loud / quiet)
    assert ratios[0] == pytest.approx(1.0, abs=0.15)
    assert ratios[1] > 1.2


def test_predictions_do_not_depend_on_it():
    """Least squares that are told nothing say that all errors are alike."""
    learner, deaf = regressor(), regressor()
    z, y = stream(1500, 0.8, 0.2, 1)
    expert = deaf._experts[-1]
    expert.response = np.zeros(1)  # where the combiner does not write
    first, second = (model.predict_learn_many(z, y, names=NAMES) for model in (learner, deaf))
    np.testing.assert_array_equal(first, second)
    assert not expert.coefficients.any()
    loud, quiet = widths(deaf, Z)
    assert loud == pytest.approx(quiet, rel=0.05)
    loud, quiet = widths(learner, Z)
    assert loud > 1.8 * quiet


def test_classes_have_none():
    assert not any(expert.rule == "error scale" for expert in streamk.KernelClassifier(seed=1)._experts)
