"""Recursive least squares with forgetting, against the normal equations."""

import numpy as np
import pytest
from numba import njit

from streamk.encoding.codec import Unit
from streamk.experts import change
from streamk.experts.change import BLOCK, KNOWN, RISES, empty_watch
from streamk.experts.expert import Merge, Observation, evaluate, step
from streamk.experts.least_squares import LeastSquares
from streamk.losses import CODES

NUMBER, CLASS = CODES["number", "squared"], CODES["class", "squared"]
LOGISTIC = CODES["class", "logistic"]
PENALTY, COLUMNS = 3.0, 96


@njit
def answer(expert, phi):
    outputs = np.zeros((1, 2, expert.coefficients.shape[1]), dtype=np.float32)
    evaluate(expert, 0, phi, 0, outputs)
    return outputs[0, 1]


@njit
def teach(expert, phi, aim, known, weight):
    outputs = np.zeros((1, 2, expert.coefficients.shape[1]), dtype=np.float32)
    evaluate(expert, 0, phi, 0, outputs)
    step(
        expert,
        0,
        Observation(phi, 0, outputs, aim, known, weight, np.zeros(expert.coefficients.shape[1]), False),
    )


def expert(forgetting=1.0, loss=NUMBER, outputs=1, columns=slice(32, 32 + COLUMNS), width=192, watch=False):
    made = LeastSquares(loss, PENALTY, forgetting, columns, 1.0, watch)
    made.grow(outputs, width, width)
    return made


def stream(n, seed, live=12, width=192, first=32):
    """Rows whose columns come up one after the other, targets, and weights."""
    rng = np.random.default_rng(seed)
    phi = np.zeros((n, width), dtype=np.float32)
    for c in range(live):
        phi[5 * c :, first + 7 * c] = rng.normal(size=max(0, n - 5 * c))
    truth = rng.normal(size=width)
    return phi, phi @ truth + 0.1 * rng.normal(size=n), rng.choice([0.5, 1.0, 2.0], n)


def learned(made, phi, y, w):
    for row, target, weight in zip(phi, y, w, strict=True):
        teach(made.record, row[None], target, made.coefficients.shape[1], weight)
    return made


def ridge(phi, y, w):
    x = phi[:, 32 : 32 + COLUMNS].astype(np.float64)
    return np.linalg.solve(x.T @ (x * w[:, None]) + PENALTY * np.eye(COLUMNS), x.T @ (w * y))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("known", [1, 3])
def test_many_columns_are_ridge_regression_in_any_order(together, known):
    rng = np.random.default_rng(known)
    n, live = 300, 45
    order = 32 + (np.arange(live) if together else rng.permutation(COLUMNS)[:live])
    phi = np.zeros((n, 192), dtype=np.float32)
    for c, column in enumerate(order):
        phi[0 if together else c :, column] = rng.normal(size=n if together else n - c)
    loss = NUMBER if known == 1 else CLASS
    y = rng.integers(0, known, n).astype(np.float64) if known > 1 else phi @ rng.normal(size=192)
    made = learned(expert(loss=loss, outputs=known), phi, y, np.ones(n))
    assert made.joined.tolist() == (order - 32).tolist()
    found = made.coefficients[0]
    np.testing.assert_array_equal(found[:, made.joined], made.weights[:, :live].astype(np.float32))
    for k in range(known):
        aims = y if known == 1 else (y == k).astype(np.float64)
        np.testing.assert_allclose(found[k], ridge(phi, aims, np.ones(n)), atol=2e-4)


def test_it_is_ridge_regression():
    phi, y, w = stream(200, 0)
    made = learned(expert(), phi, y, w)
    expected = ridge(phi, y, w)
    np.testing.assert_allclose(made.coefficients[0, 0], expected, atol=1e-5)
    assert made.joined.tolist() == [7 * c for c in range(12)]
    row = phi[-1:]
    np.testing.assert_allclose(answer(made.record, row), row[0, 32:128] @ expected, rtol=1e-4)


def test_classes_are_regressions_side_by_side():
    phi, y, w = stream(150, 1)
    made = learned(expert(loss=CLASS, outputs=3), phi, (y > 0).astype(float) + (y > 1), w)
    for k in range(3):
        asked = ((y > 0).astype(int) + (y > 1) == k).astype(float)
        np.testing.assert_allclose(made.coefficients[0, k], ridge(phi, asked, w), atol=1e-5)


def test_forgetting_weighs_the_past_down():
    """After many more events than it remembers, the penalty hardly matters."""
    phi, y, _ = stream(2000, 2, live=3)
    made = learned(expert(0.99), phi, y, np.ones(2000))
    x = phi[:, [32, 39, 46]].astype(np.float64)
    fade = 0.99 ** np.arange(1999, -1, -1)
    expected = np.linalg.solve(x.T @ (x * fade[:, None]), x.T @ (fade * y))
    np.testing.assert_allclose(made.weights[0, :3], expected, atol=2e-3)


def test_what_no_event_speaks_of_stays_as_uncertain_as_it_began():
    made = expert(0.9)
    phi = np.zeros((1, 192), dtype=np.float32)
    phi[0, [32, 33]] = 1.0
    for _ in range(500):
        teach(made.record, phi, 1.0, 1, 1.0)
        assert (made.diagonal <= 1.0 / PENALTY).all()
        assert np.isfinite(made.coefficients).all()
    assert np.linalg.cond(made.information()) < 1e6


def test_disjoint_halves_merge_exactly():
    phi, y, w = stream(300, 3)
    parts = [learned(expert(), phi[h], y[h], w[h]) for h in (slice(0, 120), slice(120, 300))]
    merged = expert()
    units = [([0], Unit(1.0, 0.0))] * 2
    merged.merge_from(parts, Merge([0.4, 0.6], units))
    np.testing.assert_allclose(merged.coefficients[0, 0], ridge(phi, y, w), atol=1e-5)
    # and it goes on as one that saw them all
    more, targets, weights = stream(100, 4)
    learned(merged, more, targets, weights)
    whole = learned(expert(), np.vstack([phi, more]), np.r_[y, targets], np.r_[w, weights])
    np.testing.assert_allclose(merged.coefficients, whole.coefficients, atol=1e-5)


def test_a_merge_of_restarted_experts_lies_between_them():
    """Each knows a thousandth of what it knew, in some directions less than the penalty says."""
    phi, y, w = stream(300, 3)
    parts = [learned(expert(), phi[h], y[h], w[h]) for h in (slice(0, 120), slice(120, 300))]
    for part in parts:
        part._set(part.joined, 0.001 * part.information(), part.weights[:, : len(part.joined)].copy())
        part.watch[0, change.RISES] = 1.0
    merged = expert()
    merged.merge_from(parts, Merge([0.4, 0.6], [([0], Unit(1.0, 0.0))] * 2))
    assert np.linalg.eigvalsh(merged.information())[0] > 0.9 * PENALTY
    assert merged.restarts == 2
    found, ends = merged.coefficients[0, 0], np.array([part.coefficients[0, 0] for part in parts])
    gap = np.abs(ends[0] - ends[1]).max()
    assert np.abs(found - ends.mean(0)).max() < gap


def test_a_merge_of_what_forgets_lies_between():
    phi, y, _ = stream(400, 5)
    parts = [learned(expert(0.99), phi[h], y[h], np.ones(200)) for h in (slice(0, 200), slice(200, 400))]
    merged = expert(0.99)
    merged.merge_from(parts, Merge([0.5, 0.5], [([0], Unit(1.0, 0.0))] * 2))
    assert np.linalg.eigvalsh(merged.information())[0] > 0.0
    truth = ridge(phi, y, np.ones(400))
    assert np.abs(merged.coefficients[0, 0] - truth).max() < 0.2


def test_columns_move_with_all_that_is_known():
    phi, y, w = stream(100, 6)
    made = learned(expert(), phi, y, w)
    places = np.arange(192)
    places[[32, 39]] = [39, 32]
    made.rearrange(places)
    swapped = phi.copy()
    swapped[:, [32, 39]] = phi[:, [39, 32]]
    expected = learned(expert(), swapped, y, w)
    more = swapped[50:]
    for one in (made, expected):
        learned(one, more, y[50:], w[50:])
    np.testing.assert_allclose(made.coefficients, expected.coefficients, atol=1e-5)


def test_a_column_without_a_place_is_forgotten():
    phi, y, w = stream(100, 7)
    made = learned(expert(), phi, y, w)
    before = made.information()
    places = np.arange(192)
    places[32] = -1
    made.rearrange(places)
    assert made.joined.tolist() == [7 * c for c in range(1, 12)]
    kept = np.linalg.inv(np.linalg.inv(before)[1:, 1:])
    np.testing.assert_allclose(made.information(), kept, rtol=1e-6, atol=1e-8)


def test_closed_it_says_the_same_and_learns_on():
    phi, y, w = stream(200, 8)
    made = learned(expert(), phi, y, w)
    arrays = {name: array.copy() for name, array in made.state_dict().items()}
    again = expert()
    again.load_state_dict(arrays)
    again.close()
    assert set(again.state_dict()) == {"coefficients", "used", "clock"}
    np.testing.assert_array_equal(again.coefficients, made.coefficients)
    before = answer(again.record, phi[-1:])
    np.testing.assert_array_equal(before, answer(made.record, phi[-1:]))
    learned(again, phi[:1], y[:1], w[:1])
    assert np.abs(again.coefficients - made.coefficients).max() < 1.0


@pytest.mark.parametrize("name", ["variables", "diagonal", "factor", "weights", "used"])
def test_an_impossible_file_is_refused(name):
    phi, y, w = stream(100, 9)
    arrays = {k: v.copy() for k, v in learned(expert(), phi, y, w).state_dict().items()}
    arrays[name].flat[0] = -1 if name in ("variables", "diagonal", "used") else np.nan
    with pytest.raises(ValueError, match="impossible"):
        expert().load_state_dict(arrays)


def softmax(f):
    e = np.exp(f - f.max())
    return e / e.sum()


def iterated(phi, labels, w, classes):
    """Iteratively reweighted least squares of an event at a time, with Hessians made and inverted whole."""
    coefficients, information = np.zeros((classes, COLUMNS)), PENALTY * np.eye(COLUMNS)
    for row, y, weight in zip(phi[:, 32 : 32 + COLUMNS].astype(float), labels, w, strict=True):
        p = softmax(coefficients @ row)
        hessian = np.diag(p) - np.outer(p, p)
        bend = max(np.trace(hessian @ hessian) / np.trace(hessian), 0.05)
        information += weight * bend * np.outer(row, row)
        gradient = np.eye(classes)[y] - p
        coefficients += weight * np.outer(gradient, np.linalg.solve(information, row))
    return coefficients


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_the_logistic_loss_is_reweighted_least_squares(classes):
    rng = np.random.default_rng(9)
    phi, _, w = stream(250, 10)
    labels = (phi[:, 32 : 32 + 7 * classes : 7] + rng.normal(size=(250, classes))).argmax(axis=1)
    made = learned(expert(loss=LOGISTIC, outputs=classes), phi, labels.astype(float), w)
    np.testing.assert_allclose(made.coefficients[0], iterated(phi, labels, w, classes), atol=1e-4)


def test_the_logistic_loss_finds_the_odds():
    """Two classes drawn from known odds: it comes as close to them as the exact maximum of likelihood."""
    rng = np.random.default_rng(11)
    phi = np.zeros((4000, 192), dtype=np.float32)
    phi[:, 32:36] = rng.normal(size=(4000, 4))
    true = np.array([2.0, -1.0, 0.5, 0.0])
    labels = (rng.random(4000) < 1.0 / (1.0 + np.exp(-phi[:, 32:36] @ true))).astype(int)
    made = learned(expert(loss=LOGISTIC, outputs=2), phi, labels.astype(float), np.ones(4000))
    exact = np.zeros(4)
    for _ in range(30):  # Newton's method on all events
        x = phi[:, 32:36].astype(float)
        p = 1.0 / (1.0 + np.exp(-x @ exact))
        exact += np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x, x.T @ (labels - p))
    found = made.coefficients[0, 1, :4] - made.coefficients[0, 0, :4]
    np.testing.assert_allclose(found, exact, atol=0.05)
    np.testing.assert_allclose(found, true, atol=0.2)


def changing(n, seed, classes=0, outputs=1):
    """Targets, or classes, that turn into their opposites halfway."""
    rng = np.random.default_rng(seed)
    phi = np.zeros((n, 192), dtype=np.float32)
    phi[:, 32:36] = rng.normal(size=(n, 4))
    truth = np.where(np.arange(n) < n // 2, 1.0, -1.0) * (phi[:, 32:36] @ rng.normal(size=4))
    if classes:
        return phi, (truth + 0.1 * rng.normal(size=n) > 0.0).astype(float)
    return phi, truth / 4.0 + 0.02 * rng.normal(size=n)


def taught(made, phi, y):
    return learned(made, phi, y, np.ones(len(y)))


@pytest.mark.parametrize("loss", [NUMBER, CLASS, LOGISTIC])
def test_it_restarts_after_a_change_and_not_before(loss):
    phi, y = changing(4000, 12, loss != NUMBER)
    outputs = 1 if loss == NUMBER else 2
    made, plain = (expert(loss=loss, outputs=outputs, watch=watch) for watch in (True, False))
    for some in (made, plain):
        taught(some, phi[:2000], y[:2000])
    assert made.restarts == 0
    assert made.watch[0, KNOWN] == 2000
    np.testing.assert_array_equal(made.coefficients, plain.coefficients)
    for some in (made, plain):
        taught(some, phi[2000:2600], y[2000:2600])
    assert 1 <= made.restarts <= 3
    assert plain.restarts == 0
    assert not plain.watch.any()
    assert made.watch[0, KNOWN] < 700
    found = made.coefficients, plain.coefficients
    rows, sides = phi[2600:, 32:36].T, np.sign(y - (loss != NUMBER) / 2)[2600:]
    right = [(np.sign((w[0, -1, :4] - w[0, 0, :4] * (len(w[0]) > 1)) @ rows) == sides).mean() for w in found]
    assert right[0] > 0.9
    assert right[1] < 0.5


def test_after_a_restart_it_is_ridge_around_the_coefficients_of_then():
    """What was known counts as one block, and events since are learned on top."""
    phi, y = changing(3000, 13)
    made = expert(watch=True)
    n = 0
    while not made.restarts:
        old, information = made.weights[0, :4].copy(), made.information() if n else None
        taught(made, phi[n : n + 1], y[n : n + 1])
        n += 1
    # the event that raised the alarm was learned, and then all faded
    row = phi[n - 1, 32:36].astype(float)
    information = (information + np.outer(row, row)) * BLOCK / n
    np.testing.assert_allclose(made.information(), information, rtol=1e-6)
    assert made.clock.tolist() == [n, n]
    kept = made.weights[0, :4].copy()
    assert np.abs(kept - old).max() < 0.1
    more = slice(n, n + 20)
    taught(made, phi[more], y[more])
    x = phi[more, 32:36].astype(float)
    moved = np.linalg.solve(information + x.T @ x, x.T @ (y[more] - x @ kept))
    np.testing.assert_allclose(made.weights[0, :4], kept + moved, rtol=1e-6)


def test_a_restart_leaves_no_more_uncertainty_than_the_start():
    phi, y = changing(3000, 14)
    phi[:2800, 35] = 0.0  # hardly known when errors rise
    made = taught(expert(watch=True), phi, y)
    assert made.restarts
    assert (made.diagonal <= 1.0 / PENALTY).all()


def test_the_weight_of_an_event_is_nothing_to_the_watch():
    phi, y = changing(1500, 15)
    light, heavy = (learned(expert(watch=True), phi[:700], y[:700], np.full(700, w)) for w in (0.5, 2.0))
    assert light.watch[0, KNOWN] == heavy.watch[0, KNOWN] == 700


@pytest.mark.parametrize("loss", [NUMBER, CLASS])
def test_a_watch_goes_where_its_expert_goes(loss):
    phi, y = changing(3000, 16, loss != NUMBER)
    outputs = 1 if loss == NUMBER else 2
    made = taught(expert(loss=loss, outputs=outputs, watch=True), phi[:2500], y[:2500])
    watch = made.watch.copy()
    assert made.restarts
    arrays = {name: array.copy() for name, array in made.state_dict().items()}
    again = expert(loss=loss, outputs=outputs, watch=True)
    again.load_state_dict(arrays)
    for some in (made, again):
        taught(some, phi[2500:], y[2500:])
    assert made.watch.tobytes() == again.watch.tobytes() != watch.tobytes()
    assert made.coefficients.tobytes() == again.coefficients.tobytes()
    np.testing.assert_array_equal(arrays["watch"], watch)
    places = np.arange(192)
    places[[32, 39]] = [39, 32]
    made.rearrange(places)
    np.testing.assert_array_equal(made.watch, again.watch)
    made.grow(outputs + 1, 192, 192)
    np.testing.assert_array_equal(made.watch, again.watch)
    made.forget(slice(64, 192))
    assert made.restarts
    made.forget(slice(32, 192))
    np.testing.assert_array_equal(made.watch, empty_watch())
    again.close()
    np.testing.assert_array_equal(again.watch, empty_watch())
    assert "watch" not in again.state_dict()


def test_experts_that_watch_merge():
    phi, y = changing(3000, 17)
    first = taught(expert(watch=True), phi[:2500], y[:2500])
    second = taught(expert(watch=True), phi[2000:2500], y[2000:2500])
    merged = expert(watch=True)
    merged.merge_from([first, second], Merge([0.5, 0.5], [([0], Unit(1.0, 0.0))] * 2))
    assert merged.restarts == first.restarts > 0
    # each by half of 3,000 events, whatever part of them it still knows
    known = 1500 / 2500 * first.watch[0, KNOWN] + 1500 / 500 * second.watch[0, KNOWN]
    assert merged.watch[0, KNOWN] == known
    assert not merged.watch[1:].any()


def test_an_impossible_watch_is_refused():
    phi, y, w = stream(100, 18)
    arrays = {k: v.copy() for k, v in learned(expert(watch=True), phi, y, w).state_dict().items()}
    arrays["watch"][0, RISES] = 0.5
    with pytest.raises(ValueError, match="impossible"):
        expert(watch=True).load_state_dict(arrays)
