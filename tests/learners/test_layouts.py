"""Rows of any memory layout give the same, and nothing is compiled for another one."""

import numpy as np
import pytest

import streamk
from streamk.encoding.rows import EncodedRows
from streamk.learners.kernel_loop import process_rows

EVENTS = [{"a": i % 7 / 7, "b": i % 11 / 11, "c": i % 5 / 5} for i in range(40)]
LAYOUTS = {
    "columns": np.asfortranarray,
    "every second": lambda values: np.repeat(values, 2, axis=0)[::2],
    "reversed": lambda values: np.ascontiguousarray(values[::-1])[::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_any_layout_are_predicted_alike(layout):
    learner = streamk.KernelRegressor(features=768, seed=7)
    for x in EVENTS:
        learner.predict_one(x)
        learner.learn_one(x, x["a"] - x["b"])
    rows = learner._codec.inputs.encode_alike(EVENTS)
    expected = np.zeros((len(EVENTS), 1))
    found = LAYOUTS[layout](np.zeros_like(expected))
    learner._predict_rows(rows, expected)
    before = len(process_rows.overloads)
    learner._predict_rows(EncodedRows(rows.slots, rows.keys, LAYOUTS[layout](rows.values)), found)
    assert found.tolist() == expected.tolist()
    assert len(process_rows.overloads) == before
    assert expected.any()
