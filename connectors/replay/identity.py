"""The identity of a replay, stored in its checkpoint: options, and fingerprints of files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from connectors.contract.records import Log
from connectors.formats.open_file import HEAD, is_pipe
from streamk.arrays import Json


def identity_of(files: Sequence[str], log: Log, labels: str | None, **options: object) -> Json:
    """Return values that must be unchanged for a replay to resume from its checkpoint.

    Each file, including labels and settings, is identified by its size and a hash of its first 64 KiB.

    Parameters
    ----------
    files, log
        The arguments of the command, and the log that they name.
    labels
        The label log, if there is one.
    options
        All other options that the results depend on.

    Raises
    ------
    ValueError
        If a log is a pipe, which cannot be read again.
    """
    identity = {"log": list(files), "bytes": log.size, "target": log.target, "labels": labels, **options}
    for path in dict.fromkeys([*files, *log.paths, *([labels] if labels else [])]):
        if path == "-" or Path(path).exists():  # else it is a topic, or a pattern
            if is_pipe(path):
                raise ValueError(
                    f"--checkpoint: {path} is a pipe, which cannot be read again; write it to a file first"
                )
            identity[path] = _begins(path)
    return identity


def _begins(path: str) -> str:
    with Path(path).open("rb") as file:
        digest = hashlib.sha256(file.read(HEAD)).hexdigest()
    return f"a file of {Path(path).stat().st_size:,} bytes that begins with the SHA-256 {digest[:16]}"
