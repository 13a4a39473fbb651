"""Every prediction of a replay in a file, from which its figures can be computed again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streamk.prequential.results import plain_label
from streamk.prequential.subjects import Table
from streamk.scores import decide


class PredictionFile:
    """A file of predictions: JSON lines, or CSV if its name ends so.

    A JSON line has ``event``, ``line``, ``target`` and ``predictions``: for each contender a number, or
    probabilities by label. CSV has the predicted label or number of each contender, and for labels the
    probability of the true one.

    Parameters
    ----------
    path
        The file.
    names
        The contenders, and the frozen copy last if there will be one.
    classes
        Whether targets are labels.
    length
        Bytes that were written before an interruption, after which writing continues; 0 begins anew.

    Raises
    ------
    ValueError
        If the file is shorter than that.
    """

    def __init__(self, path: Path, names: Sequence[str], classes: bool, length: int = 0) -> None:
        self._names, self._classes, self._table = list(names), classes, path.suffix == ".csv"
        self._lines: Sequence[Any] = ()
        path.touch()
        if path.stat().st_size < length:
            raise ValueError(f"{path} is shorter than when the replay was interrupted; remove the checkpoint")
        self._file = path.open("r+b")
        self._file.truncate(length)
        self._file.seek(length)
        if self._table and not length:
            shown = [each for name in names for each in ([name, f"{name}: p"] if classes else [name])]
            self._write([["event", "line", "target", *shown]])

    def at(self, lines: Sequence[Any]) -> None:
        """Take the lines of the next events."""
        self._lines = lines

    def add(self, first: int, targets: Sequence[Any], found: dict[str, Any]) -> None:
        """Write the predictions of consecutive events, the first of which is number ``first``, from 1."""
        lines, self._lines = self._lines[: len(targets)], self._lines[len(targets) :]
        columns = {name: _rows(answers, len(targets)) for name, answers in found.items()}
        rows: list[Any] = []
        for k, (target, line) in enumerate(zip(targets, lines, strict=True)):
            given = {name: columns[name][k] for name in self._names if name in columns}
            if self._table:
                rows.append([first + k, line, plain_label(target), *self._cells(given, target)])
            else:
                shown = {name: _plain(value) for name, value in given.items() if value is not None}
                rows.append(
                    {"event": first + k, "line": line, "target": plain_label(target), "predictions": shown}
                )
        self._write(rows)

    def _cells(self, given: dict[str, Any], target: Any) -> list[Any]:
        cells: list[Any] = []
        for name in self._names:
            value = given.get(name)
            if not self._classes:
                cells.append(value)
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


def _rows(answers: Any, count: int) -> list[Any]:
    """Return the answers as dicts of probabilities or as numbers; None for events before they began."""
    if isinstance(answers, Table):
        rows = [
            {label: p for label, p in zip(answers.labels, row, strict=True) if p}
            for row in answers.rows.tolist()
        ]
    else:
        rows = list(answers.tolist())
    return [*[None] * (count - len(rows)), *rows]


def _plain(value: Any) -> Any:
    return {str(plain_label(label)): p for label, p in value.items()} if isinstance(value, dict) else value
