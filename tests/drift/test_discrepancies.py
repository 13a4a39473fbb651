"""How far every input has moved, against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamk.drift.discrepancies import discrepancies


@given(st.lists(st.integers(-3, 3), min_size=1), st.lists(st.floats(-3, 3), min_size=1))
def test_discrepancies_of_numbers_are_those_of_kolmogorov_and_smirnov(before, after):
    found = discrepancies([{"a": v} for v in before], [{"a": v} for v in after])
    one, other = np.array(before), np.array(after)
    wanted = max(abs((one <= t).mean() - (other <= t).mean()) for t in [*before, *after])
    assert found["a"] == pytest.approx(wanted)


@given(*[st.lists(st.sampled_from(["x", "y", None, True, "absent"]), min_size=1)] * 2)
def test_discrepancies_of_other_values_are_total_variation(before, after):
    found = discrepancies(
        *([{"b": 1} if v == "absent" else {"b": 1, "a": v} for v in part] for part in (before, after))
    )
    wanted = (
        sum(abs(before.count(v) / len(before) - after.count(v) / len(after)) for v in {*before, *after}) / 2
    )
    assert found.get("a", 0.0) == pytest.approx(wanted)
    assert found["b"] == 0.0
