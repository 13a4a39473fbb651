"""What ends a run, what restarts it from its checkpoint, and the exit codes."""

from __future__ import annotations


class Failure(Exception):  # noqa: N818 (not all that ends a run is an error)
    """What ends a run: a sentence that says what to do, and the exit code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


INTERRUPTIONS = NO_BROKER, UNREADABLE, OTHER = "no_broker", "unreadable_records", "other"


class Interruption(Exception):  # noqa: N818
    """What makes a run begin again from its checkpoint: the group was lost, or records cannot be read.

    Attributes
    ----------
    cause
        One of ``INTERRUPTIONS``, for metrics.
    """

    cause = OTHER


class BrokerUnavailable(Interruption):
    """Retriable: no broker answers, or no registry of schemas."""

    cause = NO_BROKER


class UnreadableRecords(Interruption):
    """Retriable: records cannot be read, after others that could."""

    cause = UNREADABLE


USAGE, REFUSED_EVENTS, CHECKPOINT, AWAY, DENIED, POSITION, SINK, STUCK = 2, 3, 4, 5, 6, 7, 8, 9
EXIT_CODES = {
    0: "the log is at its end, or SIGTERM or SIGINT was obeyed: everything is checkpointed",
    USAGE: "the command line or the settings are wrong, or a topic or a file is missing",
    REFUSED_EVENTS: "too many events were refused, one was and there are no dead letters, or no event has "
    "the target or an input",
    CHECKPOINT: "a checkpoint cannot be written, or none is whole or of these settings; another model has "
    "the group; a snapshot is lost",
    AWAY: "no broker answered at the start, or they were unavailable longer than kafka.away_seconds; or the "
    "store of the checkpoints failed",
    DENIED: "the broker refused the credentials, the certificate or the permission",
    POSITION: "the position of the checkpoint is no longer in the source, was set from outside, or is lost",
    SINK: "predictions or dead letters cannot be written",
    STUCK: "sessions ended limits.restarts times in a row without progress",
}
