"""Figures of matplotlib that notebooks show, whether or not ``matplotlib.pyplot`` is imported.

matplotlib is optional (``pip install 'streamk[plots]'``); functions import this module when they plot.
"""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure with a picture for notebooks; IPython shows others only after ``%matplotlib inline``.

    Examples
    --------
    >>> figure = NotebookFigure(figsize=(4, 3))
    >>> figure._repr_png_()[1:4]
    b'PNG'
    """

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()


def panels(count: int, width: float, height: float) -> tuple[NotebookFigure, list[Axes]]:
    """Return a figure of ``width`` by ``height`` inches with panels side by side.

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    """
    figure = NotebookFigure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for panel in axes:
        panel.grid(alpha=0.3)
    return figure, axes
