"""What a command shows a person at a terminal."""

import os
import pty
import sys

from tests.processes import Command

COMMAND = [sys.executable, "-m", "connectors.cli"]


def shown(*arguments, columns):
    """Return all that a command writes to a terminal of so many columns, and its exit code."""
    main, sub = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "40"}
    process = Command(*arguments, stdout=sub, stderr=sub, env=environment)
    os.close(sub)
    written = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(main)
    return written.decode(), process.wait()
