"""Tables of model files before format 11, in which coefficients and counts of cells were separate arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamk.arrays import Arrays, Floats, unpacked
from streamk.encoding.targets import MOST_WEIGHT
from streamk.experts.expert import Expert
from streamk.experts.tables import Tables
from streamk.learners.stale import copied_fields
from streamk.vector.linear_algebra import LARGEST_COEFFICIENT

_COUNTS, _COEFFICIENTS = "counts of cells", "coefficients"


def with_rows(arrays: Arrays, experts: Sequence[Expert]) -> Arrays:
    """Return the arrays of a model file as this format has them; ``experts`` are untrained."""
    for k, table in enumerate(experts):
        if isinstance(table, Tables) and arrays[f"expert{k}.coefficients"].ndim > 2:
            arrays = _with_rows_of(arrays, experts, k, table)
    return arrays


def _with_rows_of(arrays: Arrays, experts: Sequence[Expert], k: int, table: Tables) -> Arrays:
    places = [k, k + 1] if table.kinds[1] else [k]
    table.grow(arrays[f"expert{k}.coefficients"].shape[1], 0, 0)
    counts = np.zeros(table.plan.cells, dtype=np.float32)
    if f"expert{k}.counts" in arrays:
        counts = unpacked(arrays, f"expert{k}.counts", f"expert{k}.met", counts, _COUNTS)
    _check(_COUNTS, counts, 0.0, MOST_WEIGHT)
    table.coefficients[:, 0] = counts
    _fill(table, arrays, [(f"expert{j}.coefficients", f"expert{j}.used") for j in places])
    gone = {
        f"expert{j}.{name}" for j in places for name in ("coefficients", "used", "counts", "met", "clock")
    }
    kept = {name: array for name, array in arrays.items() if name not in gone}
    state = table.state_dict() | {"clock": arrays[f"expert{k}.clock"]}
    kept |= {f"expert{k}.{name}": array for name, array in state.items()}
    if f"stale.values{k}" in arrays:
        now = table.coefficients.copy()
        _fill(table, arrays, [(f"stale.values{j}", f"stale.used{j}") for j in places])
        live = [pair for expert in experts for pair in expert.live]
        for j in places:
            kept.pop(f"stale.used{j}", None)
            kept |= copied_fields(live)[j].stored(live[j][1], now if j == k else None)
    return kept


def _fill(table: Tables, arrays: Arrays, names: Sequence[tuple[str, str]]) -> None:
    """Fill a table with the coefficients of its experts ``(1, outputs, cells)``."""
    like: Floats = np.zeros((1, table.outputs, table.plan.cells), dtype=np.float32)
    for kind, (name, used) in enumerate(names):
        whole = unpacked(arrays, name, used, like, _COEFFICIENTS) if used in arrays else arrays[name]
        _check(_COEFFICIENTS, whole, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
        for output in range(1 if table.kinds[2] else table.outputs):
            table.coefficients[:, 1 + len(names) * output + kind] = whole[0, output]


def _check(what: str, numbers: Floats, least: float, most: float) -> None:
    if not ((numbers >= least) & (numbers <= most)).all():
        raise ValueError(f"its {what} are impossible")
