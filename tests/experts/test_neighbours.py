"""The nearest of recent events, against a plain search."""

import numpy as np
import pytest
from numba import njit

from streamk.encoding.codec import Unit
from streamk.experts.expert import Merge, Observation, evaluate, step
from streamk.experts.neighbours import COLUMNS, WINDOW, Neighbours
from streamk.losses import CODES

WIDTH, CLASSES = 700, 3


@njit
def teach(expert, phi, i, aim, known, weight, outputs):
    evaluate(expert, 0, phi, i, outputs)
    if weight > 0.0:
        step(expert, 0, Observation(phi, i, outputs, aim, known, weight, np.zeros(outputs.shape[2]), False))


def new(classes):
    made = Neighbours(CODES["class" if classes else "number", "squared"], classes)
    made.grow(CLASSES if classes else 1, 0, 0)
    return made


def answer(made, row, aim=0.0, weight=0.0):
    """The outputs for a row, which is learned then if it has a weight."""
    outputs = np.zeros((1, 2, made.outputs), dtype=np.float32)
    teach(made.record, np.stack([-row, row]), 1, float(aim), made.outputs, weight, outputs)
    assert (outputs[0, 0] == outputs[0, 1]).all()
    return outputs[0, 0]


def expected(x, events, classes):
    """The mean label of the five nearest of the last 512 events, each a row, a label and a weight."""
    recent = events[-WINDOW:]
    if not recent:
        return np.zeros(CLASSES if classes else 1)
    rows, labels, weights = (np.array(part, dtype=np.float64) for part in zip(*recent, strict=True))
    distances = ((rows[:, 1:COLUMNS] - x[1:COLUMNS].astype(float)) ** 2).sum(axis=1)
    nearest = np.argsort(distances, kind="stable")[:5]
    bandwidth = 1e-3 * distances[nearest[-1]]
    gains = weights[nearest] / ((distances[nearest] + bandwidth) if bandwidth else 1.0)
    if not classes:
        return [gains @ labels[nearest] / gains.sum()]
    shares = [gains[labels[nearest] == k].sum() / gains.sum() for k in range(CLASSES)]
    return 2.0 * np.array(shares) - 1.0


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("inputs", [1, 6, 200])
def test_outputs_are_those_of_a_plain_search(classes, inputs):
    rng, made, events = np.random.default_rng(inputs), new(classes), []
    for _ in range(WINDOW + 90):
        row = np.zeros(WIDTH, dtype=np.float32)
        row[0] = 3.0
        row[1 : 1 + inputs] = rng.normal(size=inputs)
        row[COLUMNS:] += rng.normal(size=WIDTH - COLUMNS).astype(np.float32)  # features do not count
        y = rng.integers(0, CLASSES) if classes else rng.normal()
        weight = rng.choice([0.5, 1.0, 3.0])
        found = answer(made, row, y, weight)
        np.testing.assert_allclose(found, expected(row, events, classes), atol=2e-4)
        events.append((row, y, weight))
    assert made.used[0] == 2 + min(inputs, COLUMNS - 1)


def test_events_at_the_same_place_are_averaged():
    made, row = new(False), np.zeros(WIDTH, dtype=np.float32)
    assert answer(made, row) == [0.0]
    for y, weight in ((1.0, 1.0), (4.0, 2.0)):
        answer(made, row, y, weight)
    assert answer(made, row) == pytest.approx([3.0])


def test_an_input_that_is_absent_for_a_while_still_counts():
    made, row = new(False), np.zeros(WIDTH, dtype=np.float32)
    row[5] = 4.0
    answer(made, row, 1.0, 1.0)
    for _ in range(6):
        answer(made, np.zeros(WIDTH, dtype=np.float32), 2.0, 1.0)
    assert answer(made, row)[0] < 1.1
    assert made.used[0] == 7


def test_an_input_that_has_left_the_window_counts_in_copies_of_it():
    made, row, empty = new(False), at(0.0), at(0.0)
    row[5] = 4.0
    for x, y in [(row, 1.0)] + [(empty, 2.0)] * (WINDOW - 1):
        answer(made, x, y, 1.0)
    copied = made.window.copy()
    answer(made, empty, 2.0, 1.0)
    again = new(False)
    again.load_state_dict(made.state_dict())
    for expert in (made, again):
        expert.window[:] = copied
        assert expert.used[0] == 7
        assert answer(expert, row)[0] < 1.1


def filled(count, label, place, classes=False):
    made = new(classes)
    for k in range(count):
        row = np.zeros(WIDTH, dtype=np.float32)
        row[1] = place + 0.001 * k
        answer(made, row, label, 1.0)
    return made


def at(place):
    row = np.zeros(WIDTH, dtype=np.float32)
    row[1] = place
    return row


def test_merged_windows_hold_the_last_events_of_all():
    one, other, merged = filled(700, 1.0, 0.0), filled(30, 2.0, 50.0), new(False)
    merged.merge_from([one, other], Merge([0.5, 0.5], [([0], Unit(1.0, 0.0)), ([0], Unit(3.0, 1.0))]))
    assert answer(merged, at(0.7)) == pytest.approx([1.0])
    assert answer(merged, at(50.0)) == pytest.approx([7.0])
    assert (merged.window[1] > 0.0).all()
    assert (merged.window[0] == 7.0).sum() == 30
    assert merged.window[2].min() == pytest.approx(0.001 * (700 - 482), abs=1e-3)
    for _ in range(482):  # the oldest are replaced first
        answer(merged, at(-9.0), 5.0, 1.0)
    assert (merged.window[0] == 7.0).sum() > 0


def test_the_events_of_a_base_are_there_once():
    base = filled(100, 1.0, 0.0, True)
    parts = [filled(100, 1.0, 0.0, True) for _ in range(2)]
    for k, part in enumerate(parts):
        answer(part, at(30.0 + k), k, 1.0)
    merged = new(True)
    units = [(list(range(CLASSES)), Unit(1.0, 0.0))] * 3
    merged.merge_from([*parts, base], Merge([0.5, 0.5, 0.0], units, [1.0, 1.0, -1.0]))
    assert (merged.window[1] > 0.0).sum() == 102
    assert merged.clock.tolist() == [102, 102]


def test_labels_of_merged_classes_are_matched():
    one, other, merged = filled(5, 0, 0.0, True), filled(5, 0, 9.0, True), new(True)
    same = Unit(1.0, 0.0)
    merged.merge_from([one, other], Merge([0.5, 0.5], [([0, 1, 2], same), ([2, 0, 1], same)]))
    assert answer(merged, at(0.0)).argmax() == 0
    assert answer(merged, at(9.0)).argmax() == 2


def test_inputs_move_with_their_columns():
    made = filled(5, 1.0, 7.0)
    places = np.arange(WIDTH)
    places[1], places[2] = 2, 1
    made.rearrange(places)
    assert made.window[3].max() == pytest.approx(7.004)
    assert not made.window[2].any()
    places[:] = -1
    made.rearrange(places)
    assert made.used[0] == 2


def test_state_is_restored_and_checked():
    made = filled(40, 2, 1.0, True)
    state = made.state_dict()
    assert state["window"].shape == (3, 40)
    again = new(True)
    again.load_state_dict(state)
    assert (again.window == made.window).all()
    assert again.used[0] == made.used[0] == 3
    assert again.clock.tolist() == [40, 40]
    assert (answer(again, at(1.0)) == answer(made, at(1.0))).all()
    for row, value in ((0, 3.0), (0, -1.0), (0, 0.5), (1, -1.0), (2, np.nan)):
        wrong = state["window"].copy()
        wrong[row, 7] = value
        with pytest.raises(ValueError, match="its recent events are impossible"):
            new(True).load_state_dict({**state, "window": wrong})
    with pytest.raises(ValueError, match="its columns of recent events are impossible"):
        new(True).load_state_dict({**state, "there": state["there"][::-1].copy()})
    with pytest.raises(ValueError, match="its counters are impossible"):
        new(True).load_state_dict({**state, "clock": -state["clock"]})
    with pytest.raises(ValueError, match="window"):
        new(True).load_state_dict({**state, "window": np.zeros((200, 40), dtype=np.float32)})


def test_an_empty_window_is_restored():
    again = new(False)
    again.load_state_dict(new(False).state_dict())
    assert not again.used[0]
    assert answer(again, at(1.0)).tolist() == [0.0]
