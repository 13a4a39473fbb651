import numpy as np
import pytest

from streamk.losses import CODES, residuals


def ask(kind, loss, outputs, target):
    out = np.full(len(outputs), np.nan)
    length = residuals(CODES[kind, loss], np.array(outputs, dtype=np.float32), target, out)
    return length, out.tolist()


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
