"""The header of CSV where it comes again, as in files that were appended to each other."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

AGAIN = "the header again"  # why such a row is left out


class Header:
    """The names of the columns as a row.

    Parameters
    ----------
    names, delimiter
        The names, none of what has no header, and what is between them.
    target
        One of the names, by which most rows are told from it at little cost.
    """

    def __init__(self, names: Sequence[str], delimiter: str, target: str) -> None:
        self._names, self._delimiter = list(names), delimiter
        self._target, self._line = target.encode(), delimiter.join(names).encode()

    def rows(self, data: bytes, begins: NDArray[np.int64], end: int) -> Iterator[int]:
        """Yield rows in which it stands without quotes, and perhaps some of which it is only a part."""
        at = int(begins[0])
        while self._line and (at := data.find(self._line, at, end)) >= 0:
            yield int(np.searchsorted(begins, at, "right")) - 1
            at += len(self._line)

    def is_line(self, line: bytes) -> bool:
        """Return whether a line is this row, however it is quoted."""
        if not self._names or self._target not in line.replace(b'""', b'"'):
            return False
        text = line.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
        try:
            return list(csv.reader([text], delimiter=self._delimiter)) == [self._names]
        except csv.Error:
            return False
