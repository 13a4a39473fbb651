"""The table of all pairs on the page."""

from connectors.replay.page import tables

PAIRS = [
    {"first": "a", "second": "b", "measure": "accuracy", "leader": "a", "diverged": "",
     "advantage": {"mean": 0.05, "low": 0.04, "high": 0.06, "level": 0.95}},
    {"first": "a", "second": "<c>", "measure": "accuracy", "leader": None, "diverged": "",
     "advantage": {"mean": 0.01, "low": -0.01, "high": 0.03, "level": 0.95}},
    {"first": "b", "second": "<c>", "measure": "accuracy", "leader": None, "diverged": "", "advantage": None},
]  # fmt: skip


def test_each_pair_is_there_from_both_sides():
    found = tables.pairs_table("pairs", PAIRS)
    assert "<b>5.000</b>" in found
    assert "−5.000<br>" in found
    assert found.count("± 1.000") == 2
    assert found.count("± 2.000") == 2
    assert "&lt;c&gt;" in found
    assert "<c>" not in found


def test_a_diverged_contender_is_named():
    found = tables.pairs_table("pairs", [{**PAIRS[0], "measure": "mae", "diverged": "b"}])
    assert "diverged" in found
    assert "in MAE" in found
