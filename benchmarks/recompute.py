"""Recompute the figures of a replay from its predictions, with pandas, SciPy and scikit-learn alone.

``streamk replay LOG --target y --predictions p.jsonl --report page`` writes both; then

    python benchmarks/recompute.py p.jsonl page/results.json

prints every figure that differs, and exits with 1 if one does. It recomputes, to 1e-9,

- the metrics of all events, of every window (``curve.parquet`` or ``curve.csv`` next to the results) and of
  every slice (``--by``), also those of a frozen copy;
- confusion matrix, precision, recall and F1 of every class, and the bins of the calibration;
- coverage, width and pinball loss of intervals;
- the advantage of one contender over another, its interval and p, and the event since which it holds.

AUC is that of scores rounded to the cells of ``streamk/evaluation/classes.py``. The ends of bootstrap
intervals of single contenders and drift alarms are not recomputed.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn import metrics

EXACT = 1e-9  # relative differences
BINS = 15  # of the top probability
CELLS = 8192  # of a score, for AUC
MOST_RANKED = 20  # classes that have an AUC
SLICES, LOOK, VALUES = 50, 1000, 20  # slices of their own; events that decide the cuts; numbers left uncut
UNITS, FEWEST, MOST_CARRIED = 256, 16, 0.95  # of the paired test
JACKKNIFED = 64  # units of a metric that is no mean over events
LOSSES = ("log_loss", "brier", "calibration_error", "mae", "rmse", "pinball")  # others: more is better
BOUNDS = (0.001, 0.01, 0.05)  # of p
_CERTAIN = 1e-15
Figure = tuple[str, float | None, float | None]  # its name, as reported, as computed


class Labels:
    """Targets of a contender as codes, and its probabilities as a matrix with a column a code.

    A label that has not occurred as a target is unknown: if it is the most probable one, there is no
    prediction, and the event is wrong.
    """

    def __init__(self, rows: pd.DataFrame, name: str, labels: list[str]) -> None:
        mine = rows[[name in each for each in rows["predictions"]]]
        self.start = int(mine.index[0]) if len(mine) else 0
        codes = {label: code for code, label in enumerate(labels)}
        every = [codes[str(target)] for target in rows["target"]]
        first = {code: k for k, code in reversed(list(enumerate(every)))}
        self.truth = np.array(every[self.start : self.start + len(mine)])
        answers = list(mine["predictions"].map(lambda each: each[name]))
        table = np.array([[row.get(label, 0.0) for label in labels] for row in answers])
        table = table.reshape(len(mine), len(labels))
        places = self.start + np.arange(len(mine))
        later = np.array([first[code] for code in range(len(labels))])[None, :] > places[:, None]
        unknown = [max((p for label, p in row.items() if label not in codes), default=0.0) for row in answers]
        beyond = np.maximum(unknown, np.where(later, table, 0.0).max(axis=1, initial=0.0))
        finite = np.array([all(map(math.isfinite, row.values())) for row in answers], dtype=bool)
        self.table = np.where(later, 0.0, table)
        top = self.table.max(axis=1, initial=0.0)
        self.made = finite & (top > 0.0) & (beyond <= top)
        self.table[~self.made] = 0.0
        self.said = np.where(self.made, self.table.argmax(axis=1), -1)
        if "last" in mine:  # late labels
            self.last = np.array([-1 if label is None else codes[str(label)] for label in mine["last"]])
        else:
            self.last = np.array([-1, *every])[self.start : self.start + len(mine)]
        used = len(labels) - np.argmax(self.table[:, ::-1] > 0.0, axis=1)
        self._known = np.maximum.accumulate(np.maximum(self.truth + 1, np.where(self.made, used, 0)))

    def __len__(self) -> int:
        return len(self.truth)

    def losses(self) -> dict[str, Any]:
        """Return the losses of every event, of metrics that are means."""
        own = np.clip(self.table[np.arange(len(self)), self.truth], _CERTAIN, 1.0)
        wrong = (self.said != self.truth).astype(float)
        return {"accuracy": wrong, "log_loss": np.where(self.made, -np.log(own), 0.0)}

    def classes(self, stop: int | None = None) -> int:
        """Return how many classes are known after the first events, all by default."""
        return int(self._known[: len(self) if stop is None else stop][-1])

    def figures(self, rows: Any, classes: int) -> dict[str, float]:
        """Return the metrics of some events."""
        truth, said, made = self.truth[rows], self.said[rows], self.made[rows]
        table = self.table[rows][:, :classes]
        right, unchanged = int((said == truth).sum()), int((truth == self.last[rows]).sum())
        present = np.unique(truth)
        shown = np.union1d(present, said[made])
        own = np.clip(table[np.arange(len(truth)), truth][made], _CERTAIN, 1.0 - _CERTAIN)
        squares = ((table - np.eye(classes)[truth]) ** 2).sum(axis=1)[made]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns of single classes
            kappa = float(metrics.cohen_kappa_score(truth, said))
            recall = metrics.recall_score(truth, said, labels=present, average="macro", zero_division=0)
            f1 = metrics.f1_score(truth, said, labels=shown, average="macro", zero_division=0)
        return {
            "accuracy": float(metrics.accuracy_score(truth, said)),
            "balanced_accuracy": float(recall),
            "kappa": 0.0 if math.isnan(kappa) else kappa,
            "kappa_temporal": (right - unchanged) / max(len(truth) - unchanged, 1),
            "macro_f1": float(f1),
            "log_loss": float(-np.log(own).mean()) if made.any() else 0.0,
            "brier": (float(squares.mean()) if made.any() else 0.0) / (2.0 if classes <= 2 else 1.0),
            "calibration_error": self._calibration_error(rows),
            "auc": _auc(truth[made], table[made], classes),
        }

    def _calibration_error(self, rows: Any) -> float:
        bins = self.calibration(rows)
        apart = (bins["accuracy"] - bins["confidence"]).abs()
        return float((bins["events"] * apart).sum()) / max(float(bins["events"].sum()), 1.0)

    def calibration(self, rows: Any) -> pd.DataFrame:
        """Return events, confidence and accuracy for each bin of the top probability."""
        made = self.made[rows]
        top = np.minimum(self.table[rows].max(axis=1)[made], 1.0)
        edges = np.linspace(0.0, 1.0, BINS + 1)
        places = pd.cut(pd.Series(top), edges, labels=False, include_lowest=True)
        right = pd.Series((self.said[rows] == self.truth[rows])[made].astype(float))
        frame = pd.DataFrame({"place": places, "confidence": top, "accuracy": right})
        found = frame.groupby("place").mean().reindex(range(BINS), fill_value=0.0)
        found["events"] = places.value_counts().reindex(range(BINS), fill_value=0)
        return found

    def each_class(self, classes: int) -> dict[str, Any]:
        """Return targets, predictions, precision, recall and F1 of every class, and the confusion matrix."""
        labels = list(range(classes))
        precision, recall, f1, targets = metrics.precision_recall_fscore_support(
            self.truth, self.said, labels=labels, zero_division=0
        )
        said = [int((self.said == code).sum()) for code in labels]
        confusion = metrics.confusion_matrix(self.truth, self.said, labels=[-1, *labels])[1:, 1:]
        return {
            "targets": targets, "said": said, "precision": precision, "recall": recall, "f1": f1,
            "confusion": confusion,
        }  # fmt: skip


def _auc(truth: Any, table: Any, classes: int) -> float:
    """Return the AUC of the second of two classes, or the mean of each class against the rest."""
    if classes > MOST_RANKED:
        return math.nan
    chosen = [1] if classes == 2 else range(classes)
    both = [code for code in chosen if 0 < (truth == code).sum() < len(truth)]
    areas = [metrics.roc_auc_score(truth == code, _cells(table[:, code])) for code in both]
    return float(np.mean(areas)) if areas else math.nan


def _cells(scores: Any) -> Any:
    """Return the cell of every score: even in the fourth root of the distance from the nearer end."""
    near = np.clip(np.minimum(scores, 1.0 - scores), 0.0, 0.5)
    cells = np.minimum(np.sqrt(np.sqrt(near)) * (CELLS / 2 / 0.5**0.25), CELLS / 2 - 1.0).astype(int)
    return np.where(scores > 0.5, CELLS - 1 - cells, cells)


class Numbers:
    """Targets and predictions of a contender that are numbers, with the ends of its intervals."""

    def __init__(self, rows: pd.DataFrame, name: str, level: float | None) -> None:
        mine = rows[[name in each for each in rows["predictions"]]]
        self.start, self._level = (int(mine.index[0]) if len(mine) else 0), level
        self.truth = mine["target"].to_numpy(dtype=float)
        self.said = np.array([each[name] for each in mine["predictions"]], dtype=float)
        nothing = [math.nan, math.nan]
        given = mine["intervals"] if "intervals" in mine else [{}] * len(mine)
        self.ends = np.array([each.get(name, nothing) for each in given], dtype=float).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.truth)

    def losses(self) -> dict[str, Any]:
        """Return the losses of every event, of metrics that are means."""
        return {"mae": np.abs(self.truth - self.said)}

    def classes(self, stop: int | None = None) -> int:
        """Return 0, since numbers have no classes."""
        return 0

    def figures(self, rows: Any, classes: int) -> dict[str, float]:
        """Return the metrics of some events."""
        truth, said = self.truth[rows], self.said[rows]
        if not np.isfinite(said).all():
            found = dict.fromkeys(("mae", "rmse", "r2"), math.nan)
        else:
            found = {
                "mae": float(metrics.mean_absolute_error(truth, said)),
                "rmse": float(metrics.root_mean_squared_error(truth, said)),
                "r2": float(metrics.r2_score(truth, said)) if np.ptp(truth) > 0.0 else 0.0,
            }
        lower, upper = self.ends[rows].T
        bounded = np.isfinite(lower)
        if bounded.any():
            truth, lower, upper = truth[bounded], lower[bounded], upper[bounded]
            tail = (1.0 - float(self._level or 0.0)) / 2.0
            losses = [
                metrics.mean_pinball_loss(truth, end, alpha=alpha)
                for end, alpha in ((lower, tail), (upper, 1.0 - tail))
            ]
            found["coverage"] = float(((lower <= truth) & (truth <= upper)).mean())
            found["width"] = float((upper - lower).mean())
            found["pinball"] = float(np.mean(losses))
        return found


def slices_of(values: list[Any]) -> pd.Series[str]:
    """Return the name of the slice of every event, from the values of the field of ``--by``.

    Numbers of more than 20 values are cut at the quantiles of the first 1,000 events. Of other values the
    first 50 are slices of their own.
    """
    plain = [None if value is None or value == "" else value for value in values]
    known = [value for value in plain[:LOOK] if value is not None]
    if not all(map(_is_number, known)) or len(set(known)) <= VALUES:
        names = pd.Series([_name(value) for value in plain], dtype=object)
        own = names[names != "(missing)"].drop_duplicates().head(SLICES)
        return names.where(names.isin(["(missing)", "(other)", *own]), "(other)")
    exact = np.unique(np.quantile(np.array(known, dtype=float), (0.2, 0.4, 0.6, 0.8), method="lower"))
    digits = next(d for d in range(4, 18) if len({f"{edge:.{d - 1}e}" for edge in exact}) == len(exact))
    edges = [float(f"{edge:.{digits - 1}e}") for edge in exact]
    told = [_name(edge) for edge in edges]
    names_of = [f"≤ {told[0]}", *(f"{low} to {high}" for low, high in pairwise(told)), f"> {told[-1]}"]
    numbers = pd.Series([float(value) if _is_number(value) else math.nan for value in plain])
    groups = pd.cut(numbers, [-math.inf, *edges, math.inf], labels=names_of).astype(object)
    missing = pd.Series([value is None for value in plain])
    return groups.where(numbers.notna(), "(other)").mask(missing, "(missing)")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(value: Any) -> str:
    if value is None:
        return "(missing)"
    if isinstance(value, bool):
        return str(value).lower()
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else str(value)


def _metrics(name: str, reported: dict[str, Any], computed: dict[str, float]) -> Iterator[Figure]:
    """Yield the metrics that are reported or computed."""
    for metric in dict.fromkeys([*reported, *computed]):
        yield f"{name}, {metric}", reported.get(metric), computed.get(metric)


def _windows(name: str, curve: pd.DataFrame, scored: Any, interval: int, headline: str) -> Iterator[Figure]:
    """Yield the metrics of every window, and the headline metric up to its end."""
    mine = curve[curve["contender"] == name].drop(columns="contender")
    full = (scored.start + len(scored)) // interval
    if full == scored.start // interval:
        full = 0
    yield f"{name}, windows", float(len(mine)), float(full)
    for row in mine.to_dict("records"):
        stop = int(row.pop("events")) - scored.start
        if stop <= 0:  # before the copy was frozen
            continue
        where = f"{name}, window to event {stop + scored.start:,}"
        found = scored.figures(np.arange(max(stop - interval, 0), stop), scored.classes(stop))
        found[f"cumulative_{headline}"] = scored.figures(np.arange(stop), scored.classes(stop)).get(headline)
        yield from _metrics(where, row, found)


def _slices(name: str, by: str, slices: list[dict[str, Any]], names: Any, scored: Any) -> Iterator[Figure]:
    """Yield events and metrics of every slice."""
    yield f"{name}, slices by {by}", float(len(slices)), float(names.nunique())
    for each in slices:
        rows = np.flatnonzero(names == each["value"])
        where = f"{name}, {by} {each['value']}"
        yield f"{where}, events", each["events"], float(len(rows))
        if len(rows):
            yield from _metrics(where, each["metrics"], scored.figures(rows, scored.classes()))


def _classes(name: str, contender: dict[str, Any], scored: Labels) -> Iterator[Figure]:
    """Yield the figures of every class and of every bin of the calibration."""
    labels = contender["classes"]["labels"]
    for part, values in scored.each_class(scored.classes()).items():
        for label, reported, computed in zip(labels, contender["classes"][part], values, strict=True):
            if part != "confusion":
                yield f"{name}, {part} of {label}", reported, float(computed)
                continue
            for other, events, count in zip(labels, reported, computed, strict=True):
                yield f"{name}, confusion of {label} with {other}", events, float(count)
    bins = scored.calibration(np.arange(len(scored)))
    for part, values in contender["calibration"].items():
        for k, (reported, computed) in enumerate(zip(values, bins[part], strict=True)):
            yield f"{name}, calibration bin {k + 1}, {part}", reported, float(computed)


def figures(rows: pd.DataFrame, found: dict[str, Any], curve: pd.DataFrame) -> Iterator[Figure]:
    """Yield every figure that can be recomputed: its name, as reported, as computed."""
    yield "events", found["events"], float(len(rows))
    classes = found["task"] == "classification"

    def scored_of(name: str) -> Any:
        if classes:
            return Labels(rows, name, list(map(str, found["labels"])))
        return Numbers(rows, name, found["level"])

    names = slices_of(list(rows["by"])) if found["by"] else None
    losses = {}
    for contender in found["contenders"]:
        if contender["failed"]:
            continue
        name, scored = contender["name"], scored_of(contender["name"])
        yield f"{name}, events", contender["events"], float(len(scored))
        whole = scored.figures(np.arange(len(scored)), scored.classes())
        yield from _metrics(name, contender["metrics"], whole)
        if contender["interval"]:
            yield f"{name}, mean of the interval", contender["interval"]["mean"], whole[found["headline"]]
        if classes:
            yield from _classes(name, contender, scored)
        if names is not None:
            yield from _slices(name, found["by"], contender["slices"], names, scored)
        yield from _windows(name, curve, scored, found["interval"], found["headline"])
        losses[name] = _units(scored, found["headline"])
    for pair in found["comparisons"]:
        if pair["advantage"]:
            name = f"{pair['first']} versus {pair['second']}"
            reported = {**pair["advantage"], **pair}
            length, theirs, mean = losses[pair["second"]]
            _, ours, own = losses[pair["first"]]
            computed = _comparison(theirs - ours, mean - own, length, reported["level"])
            yield from ((f"{name}, {key}", reported[key], value) for key, value in computed.items())
    if frozen := found["frozen"]:
        name = f"{frozen['contender']} (frozen)"
        scored = scored_of(name)
        yield f"{name}, since", frozen["since"], float(scored.start)
        yield f"{name}, events", frozen["events"], float(len(scored))
        rest = np.arange(len(scored))
        yield from _metrics(name, frozen["metrics"], scored.figures(rest, scored.classes()))
        yield from _windows(name, curve, scored, found["interval"], found["headline"])


def _units(scored: Any, headline: str) -> tuple[int, Any, float]:
    """Return the events of a unit, the loss of every unit, and that of all events.

    Of a metric that is no mean over events, the loss of a unit is its pseudo-value of the jackknife.
    """
    losses, length = scored.losses().get(headline), 1
    while len(scored) >= (JACKKNIFED if losses is None else UNITS) * length:
        length *= 2
    rows = np.arange(len(scored))
    units = rows[: len(rows) // length * length].reshape(-1, length)
    if losses is not None:
        return length, losses[units].mean(axis=1), float(losses.mean())

    def loss(chosen: Any) -> float:
        value = scored.figures(chosen, scored.classes())[headline]
        return float(value if headline in LOSSES else 1.0 - value)

    count, others = len(units), [loss(np.delete(units, k, axis=0).reshape(-1)) for k in range(len(units))]
    return length, count * loss(units.reshape(-1)) - (count - 1) * np.array(others), loss(rows)


def _comparison(means: Any, mean: float, length: int, level: float) -> dict[str, float | None]:
    """Return the paired test of the advantages of units and of all events, by Student's t."""
    error, freedom = _standard_error(means)
    found: dict[str, float | None] = {"mean": mean, "low": mean, "high": mean, "p": float(mean == 0.0)}
    if error:
        width = float(stats.t.ppf((1.0 + level) / 2.0, freedom)) * error
        found |= {"low": mean - width, "high": mean + width, "p": _chance(mean, error, freedom)}
    bound = next((bound for bound in BOUNDS if (found["p"] or 0.0) < bound), None)
    if bound is None:
        return {**found, "sure_since": None, "ahead_since": None}
    sure = len(means)
    while sure > FEWEST and _decided(means[: sure - 1], means.mean(), bound):
        sure -= 1
    return {**found, "sure_since": sure * length, "ahead_since": _ahead_since(means, sure) * length}


def _decided(means: Any, leads: float, bound: float) -> bool:
    """Return whether these units alone have the same leader and a p below the bound."""
    error, freedom = _standard_error(means)
    p = _chance(float(means.mean()), error, freedom) if error else float(means.mean() == 0.0)
    return bool((means.mean() > 0.0) == (leads > 0.0)) and p < bound


def _chance(mean: float, error: float, freedom: int) -> float:
    return float(2.0 * stats.t.sf(abs(mean) / error, freedom))


def _standard_error(means: Any) -> tuple[float, int]:
    """Return the standard error of a mean of units that resemble their neighbours, and degrees of freedom.

    Each unit is prewhitened by the one before (``rho`` by Kendall's correction), and sums of blocks of the
    rest, wrapped around the end, give the variance.
    """
    count, apart = len(means), means - means.mean()
    squares = float(apart @ apart)
    rho = float(apart[1:] @ apart[:-1]) / squares if squares else 0.0
    rho = min(max(rho + (1.0 + 3.0 * rho) / count, 0.0), MOST_CARRIED) if squares else 0.0
    new = np.append(apart[0] * math.sqrt(1.0 - rho * rho), apart[1:] - rho * apart[:-1])
    new -= new.mean()
    size = max(1, round(count ** (1 / 3)))
    blocks = np.lib.stride_tricks.sliding_window_view(np.append(new, new[: size - 1]), size).sum(axis=1)
    variance = float((blocks**2).mean()) / size / (count - size)
    return math.sqrt(variance) / (1.0 - rho), count // size - 1


def _ahead_since(means: Any, sure: int) -> int:
    """Return the unit with which the lead most likely started, by its likelihood; 0 if the gain is noise."""
    count = len(means)
    rests = [means[start:].sum() for start in range(min(count - FEWEST, sure) + 1)]
    weights = [
        abs(rest) / math.sqrt(count - start) if np.sign(rest) == np.sign(rests[0]) else 0.0
        for start, rest in enumerate(rests)
    ]
    best = int(np.argmax(weights))
    if not best:
        return 0
    level = np.append(means[:best] - means[:best].mean(), means[best:] - means[best:].mean())
    noise = _standard_error(level)[0] ** 2 * count
    return best if (weights[best] ** 2 - weights[0] ** 2) / 2.0 > noise * math.log(count) else 0


def differences(predictions: Path, results: Path) -> list[str]:
    """Return a sentence for each figure that differs when it is recomputed."""
    with predictions.open(encoding="utf-8") as file:
        lines = list(map(json.loads, file))
    rows = pd.DataFrame(lines)
    for column in rows.columns.intersection(
        ["by", "last"]
    ):  # pandas makes None NaN, and whole numbers floats
        rows[column] = pd.Series([row.get(column) for row in lines], dtype=object)
    found = json.loads(results.read_text(encoding="utf-8"))
    table = results.with_name("curve.parquet")
    curve = pd.read_parquet(table) if table.exists() else pd.read_csv(table.with_suffix(".csv"))
    odd = []
    for name, reported, computed in figures(rows, found, curve):
        first, second = (math.nan if value is None else float(value) for value in (reported, computed))
        known = math.isfinite(first), math.isfinite(second)
        if known[0] != known[1] or (all(known) and abs(first - second) > EXACT * max(1.0, abs(second))):
            odd.append(f"{name}: {reported} reported, {computed} computed")
    return odd


def main() -> None:
    """Compare, print and exit."""
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/recompute.py PREDICTIONS.jsonl RESULTS.json")
    odd = differences(Path(sys.argv[1]), Path(sys.argv[2]))
    print("\n".join(odd) or "every figure is the same")
    sys.exit(bool(odd))


if __name__ == "__main__":
    main()
