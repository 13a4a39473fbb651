"""What targets have to do with products of inputs, against sums over the events."""

import numpy as np
import pytest

import streamk
from streamk.encoding.codec import Unit
from streamk.features.cross_moments import MOST, CrossMoments


def moments_of(z, targets):
    """Return the moments of events ``z`` ``(n, d)`` with targets ``(n, K)``, event by event."""
    made = CrossMoments()
    made.grow(targets.shape[1])
    for row, aims in zip(z, targets, strict=True):
        one = np.zeros(MOST)
        one[: 1 + len(row)] = [1.0, *row]
        for k, factor in enumerate([1.0, *aims]):
            made.sums[k] += factor * np.tril(np.outer(one, one))
        made.squares += aims**2
    return made


def expected(z, targets):
    """The formula of the module, on deviations from the mean."""
    n, d = z.shape
    spread = z.std(axis=0)
    unit = (z - z.mean(axis=0)) * np.divide(1.0, spread, out=np.zeros(d), where=spread > 1e-3)
    total = np.zeros((d, d))
    for k in range(targets.shape[1]):
        t = targets[:, k] - targets[:, k].mean()
        error = t.std() / np.sqrt(n)
        g, h = unit.T @ t / n, np.einsum("n,ni,nj->ij", t, unit, unit) / n
        for i in range(d):
            g[i] = np.sign(g[i]) * max(abs(g[i]) - error, 0.0)
            for j in range(d):
                by = error * (np.sqrt(2.0) if i == j else 1.0)
                h[i, j] = np.sign(h[i, j]) * max(abs(h[i, j]) - by, 0.0)
        total += g[:, None] * g[None, :] + h.dot(h)
    return total


@pytest.mark.parametrize("targets", [1, 3])
def test_it_is_the_formula(targets):
    rng = np.random.default_rng(targets)
    z = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5)) + [0.0, 3.0, 0.0, -1.0, 0.0]
    z[:, 4] = 2.0 + 1e-5 * z[:, 0]  # a column that is all but constant says nothing
    t = np.column_stack([z[:, 0] * z[:, 1] - z[:, 2] + k * z[:, 3] ** 2 for k in range(targets)])
    found = moments_of(z, t).outer(slice(1, 6))
    np.testing.assert_allclose(found, expected(z, t), atol=1e-9 * abs(found).max())
    assert not found[4].any()


def test_fading_counts_fewer_events():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 3))
    t = (z[:, 0] * z[:, 1])[:, None]
    whole, faded = moments_of(z, t), moments_of(np.repeat(z, 2, axis=0), np.repeat(t, 2, axis=0))
    faded.fade(0.5)
    np.testing.assert_allclose(faded.outer(slice(1, 4)), whole.outer(slice(1, 4)), atol=1e-12)


def test_a_product_of_inputs_is_found_among_noise():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(1000, 20))
    found = moments_of(z, (z[:, 3] * z[:, 7])[:, None]).outer(slice(1, 21)).diagonal()
    assert set(np.argsort(found)[-2:]) == {3, 7}
    assert np.sort(found)[-2] > 10 * np.sort(found)[-3]


def test_targets_without_inputs_say_nothing():
    assert not CrossMoments().outer(slice(1, 5)).any()
    assert CrossMoments().state_dict() == {}


def test_parts_with_other_columns_targets_and_units_are_the_whole():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(400, 3))
    t = rng.normal(size=(400, 2)) + z[:, :2]
    theirs = (t[200:, ::-1] - 0.5) / 2.0  # in its own units, and the other way round
    merged = CrossMoments()
    merged.merge_from(moments_of(z[:200], t[:200]), ([1, 2, 3], [1, 2, 3]), [0, 1], Unit(1.0, 0.0))
    merged.merge_from(moments_of(z[200:, [2, 0, 1]], theirs), ([1, 2, 3], [2, 3, 1]), [1, 0], Unit(2.0, 0.5))
    whole = moments_of(z, t)
    np.testing.assert_allclose(merged.sums, whole.sums, atol=1e-9)
    np.testing.assert_allclose(merged.squares, whole.squares, atol=1e-9)


def test_only_32_targets_are_followed():
    made = CrossMoments()
    made.grow(100)
    assert len(made.sums) == 1 + len(made.squares) == 33
    part = CrossMoments()
    part.grow(32)
    part.squares[:], part.sums[:, 0, 0] = 1.0, 5.0
    made.merge_from(part, ([], []), list(range(20, 52)), Unit(1.0, 0.0))
    assert made.squares.tolist() == [0.0] * 20 + [1.0] * 12


def learned(xs, ys, classes):
    learner = (streamk.KernelClassifier if classes else streamk.KernelRegressor)(features=768, seed=3)
    learner.learn_many(xs, ys)
    return learner._map.sections


def events(n, d, seed=0):
    z = np.random.default_rng(seed).normal(size=(n, d))
    return z, [dict(zip("abcdef", row, strict=False)) for row in z.tolist()]


def test_a_learner_counts_events_once_scales_have_settled():
    z, xs = events(900, 3)
    ys = ["uvw"[k] for k in np.random.default_rng(1).integers(0, 3, 900)]
    sections = learned(xs, ys, True)
    cross, code = sections.cross, {label: k for k, label in enumerate(dict.fromkeys(ys))}
    assert cross.sums[0, 0, 0] == 800
    for label, k in code.items():
        assert cross.sums[1 + k, 0, 0] == cross.squares[k] == ys[100:].count(label)
    deviations = np.array([(z[i] - z[:i].mean(axis=0)) / z[:i].std(axis=0) for i in range(100, 900)])
    deviations = np.clip(deviations, -3, 3)
    mine = np.sort(np.diagonal(cross.sums[0])[1:4])
    # the value farthest out is held back from the scales, which the reference does not do
    np.testing.assert_allclose(mine, np.sort(((1 + deviations) ** 2).sum(axis=0)), rtol=0.03)
    np.testing.assert_allclose(np.diagonal(cross.sums[0])[4:], 0.0)


def test_deviations_are_held_to_three():
    far = np.random.default_rng(3).random(900) < 0.04
    values = np.where(far, 7.0, 0.0)
    sums = learned([{"a": value} for value in values.tolist()], far.tolist(), True).cross.sums
    deviations = np.array([(values[i] - values[:i].mean()) / values[:i].std() for i in range(100, 900)])
    assert deviations.max() > 4.0
    np.testing.assert_allclose(sums[0, 1, 1], ((1 + np.clip(deviations, -3, 3)) ** 2).sum(), rtol=0.02)


def test_merged_learners_match_their_classes():
    _, xs = events(600, 3)
    parts = [["uvw"[k % 3] for k in range(300)], ["wxu"[min(k % 4, 2)] for k in range(300)]]
    models = []
    for ys, rows in zip(parts, (xs[:300], xs[300:]), strict=True):
        models.append(streamk.KernelClassifier(features=768, seed=3))
        models[-1].learn_many(rows, ys)
    merged = streamk.merge(models)
    cross = merged._map.sections.cross
    for k, label in enumerate(merged.labels):
        count = sum(ys[100:].count(label) for ys in parts)
        assert cross.squares[k] == cross.sums[1 + k, 0, 0] == count


def test_extreme_values_and_outlier_targets_weigh_little():
    _, xs = events(900, 2)
    ys = np.random.default_rng(2).normal(size=900)
    tame = learned(xs, ys, False).cross
    xs[500] = {"a": 1e9, "b": -1e9}
    ys[600] = 1e12
    wild = learned(xs, ys, False).cross
    assert wild.sums[0, 0, 0] == tame.sums[0, 0, 0] - 1.0  # the stray target's
    assert abs(wild.sums - tame.sums).max() < 100.0  # 4 · 4 · 6
    assert wild.sums[0].max() < 1.1 * tame.sums[0].max()


def test_a_model_file_keeps_them_and_a_closed_learner_does_not():
    z, xs = events(400, 3)
    learner = streamk.KernelRegressor(features=768, seed=3)
    learner.learn_many(xs, z[:, 0] * z[:, 1])
    ours = learner._map.sections.cross
    again = streamk.loads(learner.to_bytes())._map.sections.cross
    np.testing.assert_array_equal(again.sums, ours.sums)
    np.testing.assert_array_equal(again.squares, ours.squares)
    closed = learner.closed()
    assert not closed._map.sections.cross.sums.any()
    closed.learn_many(xs, z[:, 0] * z[:, 1])
    assert closed._map.sections.cross.sums[0, 0, 0] == 400


@pytest.mark.parametrize(
    ("name", "value"), [("map.products", np.nan), ("map.squares", -1.0), ("map.squares", np.inf)]
)
def test_an_impossible_file_is_refused(name, value):
    made, again = CrossMoments(), CrossMoments()
    made.used = again.used = 4
    made.grow(1)
    made.sums[0, 0, 0] = 5.0
    arrays = {k: v.copy() for k, v in made.state_dict().items()}
    again.load_state_dict(arrays)
    assert again.sums[0, 0, 0] == 5.0
    arrays[name].flat[0] = value
    with pytest.raises(ValueError, match="impossible"):
        again.load_state_dict(arrays)


def test_a_product_is_learned_among_noise():
    """Without cross moments half of the classes are guessed: gradients of what knows nothing tell nothing."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(6000, 22))
    y = (z[:, 3] * z[:, 11] > 0.0).tolist()
    learner = streamk.KernelClassifier(seed=3)
    given = learner.predict_proba_learn_many(z, y, names=[f"x{j}" for j in range(22)])
    right = (np.asarray(given).argmax(axis=1) == [learner.labels.index(label) for label in y])[3000:]
    assert right.mean() > 0.9, right.mean()


def test_a_file_with_moments_of_more_targets_than_there_are_is_refused():
    z, xs = events(200, 3)
    learner = streamk.KernelRegressor(features=768, seed=3)
    learner.learn_many(xs, z[:, 0])
    header, arrays = learner._to_parts()
    more = {
        **arrays,
        "map.squares": np.ones(2),
        "map.products": np.concatenate([arrays["map.products"]] * 2)[:3],
    }
    with pytest.raises(ValueError, match="moments of more than 1 outputs"):
        type(learner)._from_parts(header, more)
