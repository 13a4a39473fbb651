"""``streamk predict``: score the records of a log with a saved model, which learns nothing."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress

from connectors.cli.arguments import check_place
from connectors.cli.exits import exits, usage
from connectors.cli.reading import (
    Account,
    AllowSkipped,
    FormatOptions,
    Strict,
    Target,
    names_in,
    print_line,
    print_lines,
    with_format_options,
)
from connectors.events.batches import EXAMPLES, RecordBatch
from connectors.events.decoding import EventFormat, Record
from connectors.events.model_files import LearnedFields, load, with_stored
from connectors.events.targets import interpret
from connectors.events.values import Fields
from connectors.files.log import ReplayLog
from connectors.replay.page import words
from connectors.replay.progress import refuse_pipe
from streamk.arrays import Json
from streamk.evaluation.classes import ClassSums
from streamk.evaluation.metric import TASKS, decide
from streamk.evaluation.numbers import NumberSums
from streamk.evaluation.results import finite, plain_label


@with_format_options
def predict_command(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    files: Annotated[list[str], typer.Argument(help="A log, as of streamk replay; it needs no target.")],
    target: Target = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File of predictions: .csv, else JSON lines; printed by default."
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,…", help="Fields of the log to copy to the predictions, as an id."),
    ] = None,
    reading: FormatOptions = FormatOptions(),  # noqa: B008
    strict: Strict = False,
    allow_skipped: AllowSkipped = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the metrics as JSON; predictions then need --output.")
    ] = False,
) -> None:
    """Predict every record of a log with a saved model, and score those that have a target.

    Fields are read by the types with which the model was trained. The model is frozen: it predicts as
    where no new labels come, and a warning is printed if that is much worse than with labels.
    """
    console = Console(stderr=True)
    with exits(), usage():
        check_place("--output", output)
        if as_json and output is None:
            raise ValueError("--json: name a file for the predictions with --output")
        loaded = load(model)
        format = with_stored(reading.format(target), loaded.stored)
        log = ReplayLog(files, format.unlabelled(), strict=strict)
        log.learned = LearnedFields.of([loaded], format.target)
        scorer, noted, warning = LogScorer(loaded.learner, log), 0, loaded.learner.summary().warning()
        kept = KeptFields(files, log.format, [] if keep is None else names_in(keep), scorer.header)
        scorer.header = [*kept.names, *scorer.header]
        print_lines(console, [warning])
        predictions = scorer.rows()
        first = next(predictions, [])  # a log that cannot be predicted leaves the output as it is
        with _writing(output, scorer) as write, Progress(console=console, transient=True) as bar:
            job = bar.add_task(log.name, total=log.size or None)
            for rows in chain([first], predictions):
                for sentence in log.notes[noted:]:
                    print_line(console, sentence)
                noted = len(log.notes)
                write([kept.of(row) | row for row in rows])
                bar.update(job, completed=log.done)
        metrics = scorer.metrics()
        example = [*log.examples, *scorer.examples, ""][0]
        skipped, types = log.broken.count + scorer.refused, log.format.types
        account = Account(scorer.predicted, skipped, 0, example, log.misfits, types, log.broken.cut)
        if as_json:
            counts = {"predicted": scorer.predicted, "scored": scorer.scored, "metrics": metrics}
            typer.echo(json.dumps({**counts, "warning": warning, **account.fields()}))
        else:
            console.print(f"predicted {scorer.predicted:,} records", highlight=False)
            if metrics:
                known = {name: value for name, value in metrics.items() if value is not None}
                shown = ", ".join(f"{name} {words.decimal(value)}" for name, value in known.items())
                console.print(
                    f"scored {scorer.scored:,} with a target: {shown}", soft_wrap=True, highlight=False
                )
            for sentence in filter(None, [log.left_out(), *scorer.refusals(), *account.lines()]):
                print_line(console, sentence)
        account.check(console, allow_skipped)


@contextlib.contextmanager
def _writing(path: Path | None, scorer: LogScorer) -> Iterator[Callable[[list[Fields]], None]]:
    """Yield what writes rows as they come."""
    if path is None:
        yield lambda rows: _json_lines(sys.stdout, rows)
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        if path.suffix != ".csv":
            yield lambda rows: _json_lines(file, rows)
            return
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(scorer.header)

        def write(rows: list[Fields]) -> None:
            for row in rows:
                writer.writerow([row.get(name) for name in scorer.header])

        yield write


class KeptFields:
    """Fields of the records of a log, as they are written, for its predictions; the log is read twice.

    Parameters
    ----------
    files, format
        The log, and how it is read.
    names
        Of the fields; without any, nothing is read.
    taken
        Names of the values of predictions.

    Raises
    ------
    ValueError
        If the log is a pipe, or predictions have a value of the same name.
    """

    def __init__(
        self, files: Sequence[str], format: EventFormat, names: Sequence[str], taken: Sequence[str]
    ) -> None:
        self.names = names
        for name in set(names) & set(taken):
            raise ValueError(f"--keep {name}: predictions have a column of this name")
        for path in files if names else ():
            refuse_pipe("--keep", path)
        as_written = replace(
            format,
            target=None,
            features=names,
            verbatim=names,
            types={},
            ignore=(),
            missing=(),
            labelled=False,
        )
        batches = ReplayLog(list(files), as_written).batches() if names else iter(())
        self._records = (
            (batch.name, line, fields)
            for batch in batches
            for line, fields in zip(batch.lines, batch.events, strict=True)
        )

    def of(self, prediction: Fields) -> Fields:
        """Return the fields of the record of a prediction; call it in the order of the log."""
        if not self.names:
            return {}
        for name, line, fields in self._records:
            if (name, line) == (prediction["file"], prediction["line"]):
                return {each: fields.get(each) for each in self.names}
        raise ValueError("--keep: the log has changed while it was read")


def _json_lines(file: TextIO, rows: list[Fields]) -> None:
    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


class LogScorer:
    """Predicts every record of a log, and scores those that have a target.

    Parameters
    ----------
    learner
        Of streamk; its frozen copy predicts.
    log
        Whose records need no target.

    Attributes
    ----------
    predicted, scored, refused
        The number of predicted records, of those with a target, and of rejected records.
    examples
        The errors of the first few rejected records.
    header
        Names of the values of a row.
    """

    def __init__(self, learner: Any, log: ReplayLog) -> None:
        self._model, self._log = learner.frozen(), log
        self._classes = hasattr(learner, "labels")
        self._labels = list(getattr(learner, "labels", []))
        self._sums: Any = ClassSums(len(self._labels)) if self._classes else NumberSums(0.9)
        self._codes = {label: code for code, label in enumerate(self._labels)}
        self.predicted = self.scored = self.refused = 0
        self.examples: list[str] = []
        names = [f"p({plain_label(label)})" for label in self._labels]
        self.header = ["file", "line", "prediction", *names, "target"]

    def rows(self) -> Iterator[list[Json]]:
        """Yield predictions in batches: file, line, prediction, probabilities, target."""
        for batch in self._log.batches():
            yield self._of(batch)

    def _of(self, batch: RecordBatch) -> list[Json]:
        kept = list(range(len(batch)))
        while kept:
            events = [batch.events[row] for row in kept]
            try:
                predictions = self._predict(events)
                break
            except ValueError as error:  # of one of them
                kept = self._without_refused(batch, kept, error)
        else:
            return []
        targets = [self._target(batch, row) for row in kept]
        rows = []
        for row, prediction, target in zip(kept, predictions, targets, strict=True):
            shown = {"file": batch.name, "line": batch.lines[row], "prediction": prediction}
            if self._classes:
                shown["prediction"] = plain_label(decide(prediction))
                shown |= {f"p({plain_label(label)})": p for label, p in prediction.items()}
            rows.append({**shown, **({} if target is None else {"target": plain_label(target)})})
        self.predicted += len(rows)
        self._score([(p, y) for p, y in zip(predictions, targets, strict=True) if y is not None])
        return rows

    def _predict(self, events: list[Json]) -> Sequence[Any]:
        predictions: Sequence[Any] = (
            self._model.predict_proba_many(events) if self._classes else self._model.predict_many(events)
        )
        return predictions if self._classes else [float(value) for value in predictions]

    def _without_refused(self, batch: RecordBatch, rows: list[int], error: ValueError) -> list[int]:
        """Return the rows that the model takes one by one, and count the others."""
        left = []
        for row in rows:
            try:
                self._predict([batch.events[row]])
            except ValueError as reason:
                self._refuse(f"{self._log.place(batch.lines[row], batch.name)}: {reason}")
            else:
                left.append(row)
        if len(left) == len(rows):
            raise error
        return left

    def _target(self, batch: RecordBatch, row: int) -> object:
        target = batch.targets[row]
        if target is None or self._classes:
            return target
        try:
            record = Record(batch.lines[row], {}, target)
            return interpret(record, self._log, TASKS[1])[1]
        except ValueError as error:
            self._refuse(str(error))
            return None

    def _refuse(self, sentence: str) -> None:
        self.refused += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(sentence)

    def _score(self, pairs: list[tuple[Any, Any]]) -> None:
        if not pairs:
            return
        self.scored += len(pairs)
        if not self._classes:
            answers, targets = (np.array(each, dtype=np.float64) for each in zip(*pairs, strict=True))
            self._sums.add(targets, answers, None, None)
            return
        codes = np.array([self._codes.setdefault(y, len(self._codes)) for _, y in pairs], dtype=np.int64)
        table = np.zeros((len(pairs), len(self._codes)))
        for row, (prediction, _) in enumerate(pairs):
            for label, p in prediction.items():
                table[row, self._codes[label]] = p
        self._sums.add(codes, table, np.full(len(pairs), -1))

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics of the records that had a target; none if there were none."""
        if not self.scored:
            return {}
        metrics = {name: finite(value) for name, value in self._sums.values().items()}
        metrics.pop("kappa_temporal", None)  # the order of a log to score means nothing
        return metrics

    def refusals(self) -> list[str]:
        """Return a sentence about rejected records, if there are any."""
        return (
            [f"skipped {self.refused:,} records that the model refuses: {self.examples[0]}"]
            if self.refused
            else []
        )
