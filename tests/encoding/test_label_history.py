"""The memory of labels, against the obvious lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from streamk.encoding.label_history import COLUMNS, SHARED, empty_memory, recall, remember


@njit
def arrive(memory, arrived, aims, classes):
    for aim in aims:
        remember(memory, arrived, aim, classes)


@njit
def shown(memory, when, phi):
    recall(memory, when, np.float32(2.0), phi, 1, 3)


def of_classes(labels):
    expected = np.zeros(COLUMNS)
    if labels:
        expected[int(labels[-1]) % SHARED] = 1.0
    for age, label in enumerate(reversed(labels)):
        expected[SHARED + int(label) % SHARED] += 0.1 * 0.9**age
    return expected


def of_numbers(values):
    expected = np.zeros(COLUMNS)
    for age, value in enumerate(reversed(values)):
        if age < 2:
            expected[age] = value
        expected[2] += 0.3 * 0.7**age * value
        expected[3] += 0.03 * 0.97**age * value
    return expected


@pytest.mark.parametrize("classes", [True, False])
@given(labels=st.lists(st.integers(0, 40), max_size=30))
def test_memory_now_and_its_mean(classes, labels):
    memory, arrived = empty_memory(True)
    labels = [float(label) for label in labels]
    arrive(memory, arrived, np.array(labels), classes)
    reference = of_classes if classes else of_numbers
    np.testing.assert_allclose(memory[0], reference(labels), atol=1e-12)
    if labels:
        after = [reference(labels[: n + 1]) for n in range(len(labels))]
        np.testing.assert_allclose(memory[-1], np.mean(after, axis=0), atol=1e-12)
    assert arrived[0] == len(labels)
    assert len(memory) == 2


def test_it_stands_where_it_is_put():
    memory, arrived = empty_memory(True)
    arrive(memory, arrived, np.array([3.0, 1.0, 5.0]), True)
    phi = np.full((2, COLUMNS + 4), 7.0, dtype=np.float32)
    for when in (0, 1):
        shown(memory, when, phi)
        np.testing.assert_array_equal(phi[1, 3:-1], (2.0 * memory[when]).astype(np.float32))
    assert (phi[0] == 7.0).all()
    assert phi[1, [0, 1, 2, -1]].tolist() == [7.0] * 4
