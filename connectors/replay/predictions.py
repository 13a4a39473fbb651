"""The file with all predictions of a replay, from which its figures can be computed again."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streamk.arrays import Array, Json
from streamk.evaluation.adapters import Table
from streamk.evaluation.contest import Scored
from streamk.evaluation.metric import decide
from streamk.evaluation.results import plain_label


class PredictionWriter:
    """A file of predictions: JSON lines, or CSV if its name ends so.

    A JSON line has ``event``, ``line``, ``target`` and ``predictions``: for each contender a number, or
    probabilities by label. ``intervals`` are the lower and the upper end of contenders that give any, ``by``
    is the value of the field of slices, and ``last`` the label that had come last when the event was
    predicted, if labels come late. CSV has the predicted label or number of each contender; for labels the
    probability of the true one, for numbers the ends of the interval.

    Parameters
    ----------
    path
        The file.
    names
        The contenders, and the frozen copy last if there will be one.
    classes
        Whether targets are labels.
    bounded
        The contenders that give intervals.
    by
        The field of slices, None without one.
    length
        Bytes that were written before an interruption, after which writing continues; 0 starts again.

    Raises
    ------
    ValueError
        If the file is shorter than that.
    """

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        classes: bool,
        bounded: Sequence[str] = (),
        by: str | None = None,
        length: int = 0,
    ) -> None:
        self._names, self._classes, self._table = list(names), classes, path.suffix == ".csv"
        self._bounded, self._by = set(bounded), by
        self._lines: Sequence[object] = ()
        path.touch()
        if path.stat().st_size < length:
            raise ValueError(f"{path} is shorter than when the replay was interrupted; remove the checkpoint")
        self._file = path.open("r+b")
        self._file.truncate(length)
        self._file.seek(length)
        if self._table and not length:
            shown = [column for name in names for column in self._columns(name)]
            self._write([["event", "line", *([] if by is None else [f"by: {by}"]), "target", *shown]])

    def _columns(self, name: str) -> list[str]:
        """Return the columns of a contender in CSV."""
        if self._classes:
            return [name, f"{name}: p"]
        return [name, f"{name}: lower", f"{name}: upper"] if name in self._bounded else [name]

    def at(self, lines: Sequence[object]) -> None:
        """Set the lines of the next events."""
        self._lines = lines

    def add(self, first: int, scored: Scored) -> None:
        """Write the predictions of consecutive events, the first of which is number ``first``, from 1."""
        count = len(scored.targets)
        lines, self._lines = self._lines[:count], self._lines[count:]
        columns = {name: _rows(answers, count) for name, answers in scored.answers.items()}
        ends = {name: _pairs(*both) for name, both in scored.intervals.items()}
        rows: list[object] = []
        for k, (target, line) in enumerate(zip(scored.targets, lines, strict=True)):
            predicted = {name: columns[name][k] for name in self._names if name in columns}
            within = {name: pairs[k] for name, pairs in ends.items()}
            row: Json = {"event": first + k, "line": line}
            if scored.slices is not None:
                row["by"] = _value(scored.slices[k])
            row["target"] = plain_label(target)
            if self._table:
                rows.append([*row.values(), *self._cells(predicted, within, target)])
                continue
            if scored.last is not None and self._classes:
                row["last"] = None if scored.last[k] is None else plain_label(scored.last[k])
            row["predictions"] = {
                name: _plain(value) for name, value in predicted.items() if value is not None
            }
            if self._bounded:
                row["intervals"] = {name: pair for name, pair in within.items() if pair is not None}
            rows.append(row)
        self._write(rows)

    def _cells(self, predicted: Json, within: Json, target: object) -> list[object]:
        cells: list[object] = []
        for name in self._names:
            value = predicted.get(name)
            if not self._classes:
                cells.append(value)
                if name in self._bounded:
                    cells += within.get(name) or [None, None]
            elif value is None:
                cells += [None, None]
            else:
                cells += [plain_label(decide(value)) if value else None, value.get(target, 0.0)]
        return cells

    def _write(self, rows: list[Any]) -> None:
        if self._table:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(rows)
            self._file.write(text.getvalue().encode())
        else:
            self._file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())

    def length(self) -> int:
        """Hand everything to the file, and return how many bytes it has."""
        self._file.flush()
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _rows(answers: Table | Array, count: int) -> list[object]:
    """Return predictions as dicts of probabilities or as numbers; None for events before the first one."""
    if isinstance(answers, Table):
        rows = [
            {label: p for label, p in zip(answers.labels, row, strict=True) if p}
            for row in answers.rows.tolist()
        ]
    else:
        rows = list(answers.tolist())
    return [*[None] * (count - len(rows)), *rows]


def _pairs(lower: Array, upper: Array) -> list[list[float] | None]:
    """Return both ends of the interval of each event, None where one is not finite."""
    pairs = zip(lower.tolist(), upper.tolist(), strict=True)
    return [[low, high] if math.isfinite(low) and math.isfinite(high) else None for low, high in pairs]


def _value(value: object) -> object:
    """Return a value of the field of slices as JSON has it, None where it is missing."""
    return None if value is None or value != value else plain_label(value)


def _plain(value: object) -> object:
    return {str(plain_label(label)): p for label, p in value.items()} if isinstance(value, dict) else value
