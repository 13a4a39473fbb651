"""Every loss against a definition of its own: residuals by hand, gradients by differences."""

import math

import numpy as np
import pytest

from streamk.losses import CLASSIFICATION, CODES, REGRESSION, curvature, curvature_along, descents, residuals

QUANTILES = (0.1, 0.5, 0.9)


def ask(kind, loss, outputs, target):
    out = np.full(len(outputs), np.nan)
    length = residuals(CODES[kind, loss], np.array(outputs, dtype=np.float32), target, out)
    return length, out.tolist()


def descent(kind, loss, outputs, target, quantile=0.5):
    out = np.full(len(outputs), np.nan)
    descents(CODES[kind, loss], outputs, target, quantile, out)
    return out


def test_squared_classes():
    assert ask("class", "squared", [0.25, 0.5], 1) == (1.0, [-0.25, 0.5])


@pytest.mark.parametrize(
    ("outputs", "target", "expected"),
    [
        ([2.0, 0.5, 0.0], 0, [0.0, 0.0, 0.0]),
        ([0.5, 0.25, 0.0], 0, [0.75, -0.75, 0.0]),
        ([0.0, 0.25, 0.5], 0, [1.5, 0.0, -1.5]),
        ([0.5], 0, [0.0]),
    ],
)
def test_margin(outputs, target, expected):
    assert ask("class", "margin", outputs, target) == (2.0, expected)


@pytest.mark.parametrize("outputs", [[0.0], [0.5, -0.5], [90.0, -90.0, 89.0], [1e30, 0.0]])
def test_logistic(outputs):
    for target in range(len(outputs)):
        length, found = ask("class", "logistic", outputs, target)
        with np.errstate(over="ignore"):
            p = [1.0 / sum(math.e ** np.float64(g - f) for g in outputs) for f in outputs]
        assert length == 1.0
        np.testing.assert_allclose(found, np.eye(len(p))[target] - p, atol=1e-12)


@pytest.mark.parametrize("classes", [1, 2, 3, 6])
def test_curvature_along_expected_steps(classes):
    """A step goes along ``e_y − p`` where ``y`` is drawn from ``p``; two classes have but one direction."""
    rng = np.random.default_rng(classes)
    for f in rng.normal(0, 1.5, (50, classes)):
        p = np.exp(f) / np.exp(f).sum()
        ways = np.eye(classes) - p
        bends = [way @ (np.diag(p) - np.outer(p, p)) @ way for way in ways]
        expected = (p @ bends) / max(p @ (ways**2).sum(axis=1), 0.05)
        for y in range(classes):
            found = curvature_along(CODES["class", "logistic"], ways[y].copy(), float(y))
            np.testing.assert_allclose(found, max(expected, 0.05))
    assert curvature_along(CODES["class", "squared"], np.array([0.3, -0.2]), 0.0) == 1.0


@pytest.mark.parametrize(
    ("loss", "target", "expected"),
    [
        ("squared", 3.0, 2.5),
        ("huber", 1.5, 1.0),
        ("huber", 3.0, 1.345),
        ("huber", -3.0, -1.345),
        ("epsilon_insensitive", 0.55, 0.0),
        ("epsilon_insensitive", 1.5, 0.9),
        ("epsilon_insensitive", -0.5, -0.9),
    ],
)
def test_regression(loss, target, expected):
    length, out = ask("number", loss, [0.5], target)
    assert length == 1.0
    np.testing.assert_allclose(out, [expected], atol=1e-12)


def margin(f, y):
    """Crammer and Singer's: over the best of the wrong classes."""
    return f[y] - max((v for k, v in enumerate(f) if k != y), default=-math.inf)


def smoothed_hinge(m):
    if m >= 1.0:
        return 0.0
    return (1.0 - m) ** 2 / 2 if m >= 0.0 else 0.5 - m


def huber(r):
    return r * r / 2 if abs(r) <= 1.345 else 1.345 * (abs(r) - 1.345 / 2)


CLASS_LOSSES = {
    "squared": lambda f, y: sum((v - (k == y)) ** 2 for k, v in enumerate(f)) / 2,
    "logistic": lambda f, y: math.log(sum(math.exp(v) for v in f)) - f[y],
    "hinge": lambda f, y: max(0.0, 1.0 - margin(f, y)),
    "smoothed_hinge": lambda f, y: smoothed_hinge(margin(f, y)),
}
NUMBER_LOSSES = {
    "squared": lambda f, y: (y - f[0]) ** 2 / 2,
    "huber": lambda f, y: huber(y - f[0]),
    "epsilon_insensitive": lambda f, y: max(0.0, abs(y - f[0]) - 0.1),
    **{f"quantile {q}": lambda f, y, q=q: max(q * (y - f[0]), (q - 1.0) * (y - f[0])) for q in QUANTILES},
}


def slopes(loss, f, y):
    """Derivatives from the left and from the right."""
    step, here = 1e-6, loss(f.tolist(), y)
    moves = step * np.eye(len(f))
    left = [(here - loss((f - move).tolist(), y)) / step for move in moves]
    right = [(loss((f + move).tolist(), y) - here) / step for move in moves]
    return np.array(left), np.array(right)


def check_gradients(loss, points, found_at):
    kinks = 0
    for f, y in points:
        left, right = slopes(loss, f, y)
        if np.abs(left - right).max() > 1e-4:  # no derivative there
            kinks += 1
            continue
        np.testing.assert_allclose(found_at(f, y), -(left + right) / 2, atol=2e-5)
    assert kinks < len(points) // 50


@pytest.mark.parametrize("classes", [1, 2, 3, 7])
@pytest.mark.parametrize("name", CLASS_LOSSES)
def test_a_step_of_classes_goes_along_the_gradient(name, classes):
    rng = np.random.default_rng(classes)
    points = [(rng.normal(0, 1.5, classes), int(rng.integers(classes))) for _ in range(500)]
    check_gradients(CLASS_LOSSES[name], points, lambda f, y: descent("class", name, f, y))


@pytest.mark.parametrize("name", NUMBER_LOSSES)
def test_a_step_of_numbers_goes_along_the_gradient(name):
    rng = np.random.default_rng(1)
    points = [(rng.normal(0, 1.5, 1), float(rng.normal(0, 1.5))) for _ in range(1000)]
    loss, _, quantile = name.partition(" ")
    found_at = lambda f, y: descent("number", loss, f, y, float(quantile or 0.5))  # noqa: E731
    check_gradients(NUMBER_LOSSES[name], points, found_at)


def test_every_loss_has_a_gradient_here():
    assert {*CLASS_LOSSES, "margin"} == set(CLASSIFICATION)  # the margin is for projections alone
    assert {name.partition(" ")[0] for name in NUMBER_LOSSES} == set(REGRESSION)


SMOOTH = [
    ("class", "squared"), ("class", "logistic"), ("class", "smoothed_hinge"), ("number", "squared"),
    ("number", "huber"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), SMOOTH)
def test_curvature_bounds_the_change_of_the_gradient(kind, name):
    rng = np.random.default_rng(3)
    most, bound = 0.0, curvature(CODES[kind, name])
    for _ in range(4000):
        classes = int(rng.integers(2, 4)) if kind == "class" else 1
        y = int(rng.integers(classes)) if kind == "class" else float(rng.normal())
        f, away = rng.normal(0, 0.7, classes), rng.normal(0, 0.3, classes)
        if kind == "class" and rng.random() < 0.5:  # the steepest way: a class against its rival
            away = rng.normal() * 0.1 * np.where(np.arange(classes) == y, 1.0, 0.0)
            away[np.where(np.arange(classes) == y, -np.inf, f).argmax()] = -away[y]
        if name == "smoothed_hinge" and not same_rival(f, f + away, y):
            continue  # hinges of several classes have a kink where rivals change
        change = descent(kind, name, f, y) - descent(kind, name, f + away, y)
        most = max(most, np.linalg.norm(change) / np.linalg.norm(away))
    assert 0.9 * bound < most < bound * (1.0 + 1e-6)


def same_rival(f, g, y):
    one, other = np.delete(f, y), np.delete(g, y)
    return one.argmax() == other.argmax()
