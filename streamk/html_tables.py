"""HTML tables for notebooks: of the results of a replay, of learners, and of the columns of a log.

They set no colours, so they can be read in light and in dark notebooks.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Bar(NamedTuple):
    """A cell with a number and a bar: ``share`` of the longest one, from 0 to 1."""

    text: str
    share: float


Cell = str | Bar


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return an HTML table; the first cell of every row is its heading.

    >>> html_table("two", ["", "x"], [["a", "1 < 2"]])
    '<table><caption>two</caption>...>a</th><td>1 &lt; 2</td></tr></tbody></table>'
    """
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' if name else "<td></td>" for name in columns)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{html.escape(str(name))}</th>'
        f"{''.join(map(_cell, cells))}</tr>"
        for name, *cells in rows
    )
    return (
        f"<table><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{html.escape(cell)}</td>"
    bar = f'<div style="width:{8 * cell.share:.2f}em;height:.7em;background:currentColor;opacity:.5"></div>'
    return (
        f'<td><div style="display:flex;align-items:center;gap:.5em">{html.escape(cell.text)}{bar}</div></td>'
    )
