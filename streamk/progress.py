"""Progress bars of calls that take seconds."""

from __future__ import annotations

import io
import time
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)  # fmt: skip

_AFTER, _EVERY = 2.0, 0.2  # seconds


def progress_bar(progress: bool | None) -> Progress:
    """Return a bar that is shown if ``progress``, by default in notebooks."""
    if Console().is_jupyter and progress is not False:
        return _NotebookProgress()
    return Progress(*_columns(), disable=not progress)


def _columns() -> list[ProgressColumn]:
    return [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]


def _silent() -> Console:
    return Console(file=io.StringIO(), force_jupyter=False, force_terminal=False, width=80)


class _Output(Protocol):
    def update(self, shown: dict[str, str], raw: bool) -> None: ...


class _NotebookProgress(Progress):
    """A bar as text in the output of a cell, after two seconds; that of Rich needs widgets there."""

    def __init__(self) -> None:
        super().__init__(*_columns(), console=_silent(), auto_refresh=False)
        self._output: _Output | None = None
        self._next = time.monotonic() + _AFTER

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Advance a task, and show that."""
        super().advance(task_id, advance)
        if time.monotonic() >= self._next:
            self._show()
            self._next = time.monotonic() + _EVERY

    def stop(self) -> None:
        """Show the end, if anything was shown."""
        super().stop()
        if self._output is not None:
            self._show()

    def _show(self) -> None:
        from IPython.display import display

        page = _silent()
        page.print(self.get_renderable())
        assert isinstance(page.file, io.StringIO)
        shown = {"text/plain": page.file.getvalue().rstrip()}
        if self._output is None:
            self._output = display(shown, raw=True, display_id=True)
        else:
            self._output.update(shown, raw=True)
