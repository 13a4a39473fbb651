"""Logs: bounded sequences of events, which replays, tuning and training read from beginning to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from connectors.decoding import EventFormat, Record, skipped
from connectors.files.batches import ROWS, Batch


class Log:
    """A bounded log.

    A subclass defines ``__iter__``, or :meth:`batches` if it reads many records at once.

    Attributes
    ----------
    name, target
        How messages name it, and the field to predict.
    format
        Which field is what, with the types that were inferred once reading has begun.
    size, done
        How much there is to read, and how much was read, in one unit; ``size`` is 0 where it is not known.
    notes
        Sentences about how it is read.
    examples
        The first few records that were skipped, each with its place and the reason.
    unreadable, unlabelled
        Skipped records: those that cannot be decoded, and those without a target.
    cut
        Whether a part of it could not be read to its end.
    paths
        Names of its files, or its own name.
    """

    name: str
    target: str
    format: EventFormat
    size: int = 0
    notes: Sequence[str] = ()

    @property
    def done(self) -> int:
        """How much was read, of ``size``."""
        return 0

    @property
    def unreadable(self) -> int:
        """Records that cannot be decoded."""
        return 0

    @property
    def unlabelled(self) -> int:
        """Records without a target."""
        return 0

    @property
    def cut(self) -> bool:
        """Whether a part of it could not be read to its end."""
        return False

    @property
    def examples(self) -> Sequence[str]:
        """The first few records that were skipped."""
        return ()

    @property
    def paths(self) -> Sequence[str]:
        """Names of its files, or its own name."""
        return [self.name]

    def place(self, line: int) -> str:
        """Return how messages name a line that was read recently."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Record]:
        for batch in self.batches():
            yield from batch.records()

    def batches(self) -> Iterator[Batch]:
        """Yield the records in batches; those before an interruption or an error are yielded first.

        Raises
        ------
        ValueError
            If it cannot be read, or read further; the sentence says why.
        """
        records = iter(self)
        error: BaseException | None = None
        while error is None:
            found: list[Record] = []
            try:
                while len(found) < ROWS and (record := next(records, None)) is not None:
                    found.append(record)
            except (KeyboardInterrupt, ValueError) as stopped:
                error = stopped
            if found:
                lines, events, targets = zip(*found, strict=True)
                yield Batch(lines, targets, list(events))
            elif error is None:
                return
        if isinstance(error, ValueError):
            raise error

    def stop(self) -> bool:
        """End a wait for the next record, from a signal handler; return whether more events follow.

        Raises
        ------
        KeyboardInterrupt
            If only that ends the wait.
        """
        raise KeyboardInterrupt

    def left_out(self) -> str:
        """Return how many records were skipped, as a sentence; empty if none were."""
        return skipped(self.unreadable, self.unlabelled, f"`{self.target}`")

    def fingerprint(self) -> dict[str, Any]:
        """Return the names of its files and, where they have them, sizes and SHA-256."""
        return {"files": [{"name": path} for path in self.paths]}
