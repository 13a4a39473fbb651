"""Processes that begin where an interpreter has imported what the daemon needs, in a tenth of the time.

They are processes like any other, forked from one that does nothing else; what they learn, hold and leave
behind is their own, and they are killed for real.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import traceback
from pathlib import Path

_MODULES = [
    "connectors.cli",
    "connectors.kafka.sink",
    "connectors.kafka.source",
    "river.drift",
    "tests.kafka.warm",
]
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(_MODULES)


def _become(arguments, log, directory, environment):
    """Be the command, writing into a log."""
    with Path(log).open("ab", buffering=0) as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = ["streamk", *arguments]
    code = 1
    try:
        from connectors.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


class Born:
    """A process of the nursery, with the face of :class:`subprocess.Popen`."""

    def __init__(self, arguments, log, directory, environment):
        self._process = _CONTEXT.Process(target=_become, args=(arguments, log, directory, environment))
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("streamk", timeout)
        return self._process.exitcode

    def send_signal(self, number):
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self):
        self._process.kill()
