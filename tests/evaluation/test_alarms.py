"""Alarms come where losses rise, and chunks do not show."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from river.drift import ADWIN

from streamk.evaluation.contender_metrics import Alarms


def stream(seed=1, low=0.1, high=0.4, n=6000):
    rng = np.random.default_rng(seed)
    return (rng.random(n) < np.where(np.arange(n) < n // 2, low, high)).astype(float)


@settings(deadline=None)
@given(st.lists(st.integers(0, 6000), max_size=8))
@example(list(range(7, 6000, 7)))
def test_chunks_do_not_show(cuts):
    losses, whole, parts = stream(), Alarms(True), Alarms(True)
    whole.add(losses)
    for part in np.split(losses, sorted(cuts)):
        parts.add(part)
    assert parts.events == whole.events


def test_a_rise_is_found_and_a_fall_is_none():
    rise, fall = Alarms(True), Alarms(True)
    rise.add(stream())
    fall.add(stream(low=0.4, high=0.1))
    assert rise.events
    assert 3000 < rise.events[0] < 3600
    assert not fall.events


def test_it_is_adwin_of_means_of_ten():
    losses, detector, found = stream(7), ADWIN(), []
    for k in range(0, len(losses), 10):
        before = detector.estimation
        detector.update(losses[k : k + 10].mean())
        if detector.drift_detected and detector.estimation > before:
            found.append(k + 10)
    alarms = Alarms(True)
    alarms.add(losses)
    assert alarms.events == found


def test_numbers_of_any_unit():
    rng = np.random.default_rng(3)
    errors = np.abs(rng.normal(size=6000)) * np.where(np.arange(6000) < 3000, 1.0, 8.0)
    for unit in (1e-9, 1.0, 1e12):
        alarms = Alarms(False)
        alarms.add(np.concatenate([np.zeros(20), errors * unit]))
        assert any(3020 < at < 3600 for at in alarms.events)
    odd = Alarms(False)
    odd.add(np.array([np.inf, np.nan, 0.0, 1e308] * 100))
    assert odd.events == []
