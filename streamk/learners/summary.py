"""Summaries of learners: as values of JSON, as tables and as plots."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from streamk.arrays import Json
from streamk.html_tables import Bar, Cell, html_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WORSE = 1.5  # times as large is an error with a warning
_CALENDAR = re.compile(r"@(elapsed|(time_of_day|weekday|day_of_year)\.(sin|cos))$")
_MOST = 20  # inputs that are shown
_BAR = 30  # characters of the longest bar


class Summary(Json):
    """A dict of JSON values that prints as a table.

    Examples
    --------
    >>> import numpy as np
    >>> import streamk
    >>> learner = streamk.KernelRegressor(features=768, seed=1)
    >>> X = np.random.default_rng(1).normal(size=(1500, 2))
    >>> learner.learn_many(X, np.sin(3 * X[:, 0]), names=["wave", "noise"])
    >>> summary = learner.summary()
    >>> summary["events"], summary.relevance()["wave"] > 10 * summary.relevance()["noise"]
    (1500, True)
    """

    def relevance(self) -> dict[str, float]:
        """Return the learned relevance of inputs, highest first: the mean of blocks that have learned it.

        Until a block does, all inputs have relevance 1 in it.
        """
        relevance = self.get("relevance", {})
        learned = [block for block in zip(*relevance.values(), strict=True) if set(block) != {1.0}]
        if not learned:
            return {}
        means = map(fmean, zip(*learned, strict=True))
        return dict(sorted(zip(relevance, means, strict=True), key=lambda pair: -pair[1]))

    def by_field(self) -> dict[str, float]:
        """Return the relevance of fields (``fields``), or of inputs where fields have no tests."""
        return self.get("fields") or self.relevance()

    def weights(self) -> dict[str, float]:
        """Return the weights of experts, that with the largest absolute value first."""
        experts = self.get("experts", [])
        return {row["expert"]: row["weight"] for row in sorted(experts, key=lambda row: -abs(row["weight"]))}

    def warning(self) -> str:
        """Return a sentence if errors without new labels exceed 1.5 times those with labels, else "".

        Examples
        --------
        >>> errors = {"measure": "RMSE", "with_labels": 0.1, "without_labels": 0.27}
        >>> print(Summary(errors=errors, time_like=["battery", "ts@elapsed", "ts@weekday.sin"]).warning())
        without new labels, expect 2.7 times the error (RMSE 0.27, with labels 0.1): the model follows recent
        events, and values of battery, ts never repeat; let it learn labels as they come, or compare a model
        without battery, ts
        """
        errors = self.get("errors")
        if not errors or errors["without_labels"] <= _WORSE * errors["with_labels"]:
            return ""
        worse, better = errors["without_labels"], errors["with_labels"]
        times = f"{worse / better:.2g} times the error" if better > 0.0 else "errors"
        names = ", ".join(sorted(set(map(calendar_field, self["time_like"]))))
        return (
            f"without new labels, expect {times} ({errors['measure']} {worse:.3g}, with labels {better:.3g})"
            f": the model follows recent events{f', and values of {names} never repeat' if names else ''}; "
            f"let it learn labels as they come{f', or compare a model without {names}' if names else ''}"
        )

    def plot(self) -> Figure:
        """Return a matplotlib Figure: bars of relevance and of weights (``pip install 'streamk[plots]'``).

        Raises
        ------
        ValueError
            If the learner has neither, as before its first events.
        """
        from streamk.figures import panels

        tables = [(title, _first(values)) for title, values in self._tables() if values]
        if not tables:
            raise ValueError("the learner has no relevance and no weights to plot; learn events first")
        longest = max(len(values) for _, values in tables)
        figure, axes = panels(len(tables), 5 * len(tables), 1 + 0.22 * longest)
        for panel, (title, values) in zip(axes, tables, strict=True):
            panel.barh(list(values), list(values.values()))
            panel.invert_yaxis()
            panel.set_title(title, fontsize="medium")
        return figure

    def to_html(self, caption: str) -> str:
        """Return HTML tables for a notebook under one caption."""
        tables: list[str] = []
        for title, values in self._tables():
            columns = ["", title]
            rows: list[list[Cell]] = [
                [name, Bar(f"{value:.3f}", share)] for name, value, share in _with_shares(values)
            ]
            if rows:
                tables.append(html_table("" if tables else caption, columns, rows))
        return "".join(tables) or html_table(caption, [], [])

    def __repr__(self) -> str:
        """Return the numbers of events, features and bytes, then relevance and weights with bars."""
        lines = [self._facts()]
        for title, values in self._tables():
            rows = _with_shares(values)
            wide = max((len(name) for name, _, _ in rows), default=0)
            if rows:
                lines.append(title)
            lines += [f"  {n:<{wide}} {v:>8.3f} {'█' * round(_BAR * share)}".rstrip() for n, v, share in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.to_html(self._facts())

    def _facts(self) -> str:
        return f"{self['events']:,} events, {self['features']:,} features, {self['bytes']:,} bytes"

    def _tables(self) -> list[tuple[str, dict[str, float]]]:
        return [("relevance of inputs", self.by_field()), ("weights of experts", self.weights())]


def shares_of(
    values: Mapping[str, float],
    field_of: Callable[[str], str],
    joined: Callable[[Sequence[float]], float] = sum,
) -> dict[str, float]:
    """Return the share of each field in the sum of all, highest first; none if all are 0.

    The value of a field is that of its inputs ``joined``: their sum, or where one input says what the others
    say, their maximum.

    Examples
    --------
    >>> shares_of({"when@weekday.sin": 1.0, "when@weekday.cos": 3.0, "a": 1.0}, calendar_field, max)
    {'when': 0.75, 'a': 0.25}
    """
    fields: dict[str, list[float]] = {}
    for name, value in values.items():
        fields.setdefault(field_of(name), []).append(value)
    shares = {name: float(joined(each)) for name, each in fields.items()}
    total, order = sum(shares.values()), sorted(shares, key=lambda name: -shares[name])
    return {name: round(shares[name] / total, 4) for name in order} if total > 0.0 else {}


def calendar_field(name: str) -> str:
    """Return the field of an input: of a date's calendar inputs, the date."""
    return _CALENDAR.sub("", name)


def plot_weights(summaries: Sequence[Summary]) -> Figure:
    """Return a matplotlib Figure of the weights of experts over events, from summaries made in between.

    Examples
    --------
    >>> import streamk
    >>> from streamk.learners.summary import plot_weights
    >>> learner, summaries = streamk.KernelClassifier(features=768, seed=1), []
    >>> for i in range(300):
    ...     learner.learn_one({"x": i % 5}, i % 5 > 2)
    ...     if i % 100 == 99:
    ...         summaries.append(learner.summary())
    >>> plot_weights(summaries).axes[0].get_xlabel()
    'events'
    """
    from streamk.figures import panels

    figure, [panel] = panels(1, 10, 4)
    events = [summary["events"] for summary in summaries]
    every = [summary.weights() for summary in summaries]
    for name in every[-1]:
        panel.plot(events, [weights[name] for weights in every], label=name)
    panel.set_xlabel("events")
    panel.set_ylabel("weight")
    figure.legend(frameon=False, fontsize="small", loc="outside right upper")
    return figure


def _first(values: dict[str, float]) -> dict[str, float]:
    return dict(list(values.items())[:_MOST])


def _with_shares(values: dict[str, float]) -> list[tuple[str, float, float]]:
    """Return the first names and values, each with its share of the largest absolute value."""
    longest = max(map(abs, values.values()), default=0.0) or 1.0
    return [(name, value, abs(value) / longest) for name, value in _first(values).items()]
