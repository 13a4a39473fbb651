"""The ``streamk`` command in processes that start in a few milliseconds.

They are forked from an interpreter that has imported what commands need and does nothing else. Their memory,
open files, signals, working directory, environment and exit code are their own. Tests of imports, of
``python -m`` and of hash seeds start interpreters instead.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from multiprocessing import reduction
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = [
    "connectors.cli.check",
    "connectors.cli.predict",
    "connectors.cli.replay",
    "connectors.cli.run",
    "connectors.cli.stopped",
    "connectors.cli.train",
    "connectors.cli.tune",
    "connectors.kafka.sink",
    "connectors.kafka.source",
    "river.compose",
    "river.drift",
    "river.preprocessing",
    "river.tree",
    "tests.warm",
]
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(MODULES)


def _become(arguments, files, directory, environment, session):
    """Be the command, with these standard files."""
    for number, file in enumerate(files):
        os.dup2(file.detach(), number)
    if session:
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["streamk", *arguments]
    code = 0
    try:
        from connectors.cli import main

        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.exit(code)


class Command:
    """``streamk`` with arguments in a process of its own, with the face of :class:`subprocess.Popen`.

    ``stdin``, ``stdout`` and ``stderr`` are files, ``subprocess.PIPE`` (the attribute of that name is then a
    text file) or None, which is the null device.
    """

    def __init__(
        self, *arguments, stdin=None, stdout=None, stderr=None, cwd=ROOT, env=None, start_new_session=False
    ):
        self.args = ["streamk", *map(str, arguments)]
        with contextlib.ExitStack() as theirs:
            self.stdin, into = self._end(theirs, stdin, "w")
            self.stdout, out = self._end(theirs, stdout, "r")
            self.stderr, err = self._end(theirs, stderr, "r")
            environment = dict(os.environ) if env is None else env
            work = _Work(self.args[1:], (into, out, err), str(cwd), environment, start_new_session)
            self._process = _CONTEXT.Process(target=work)
            self._process.start()
        self.pid = self._process.pid

    @staticmethod
    def _end(theirs, file, mode):
        """Return this side's end of a standard file, and the descriptor of the other side's."""
        if file == subprocess.PIPE:
            read, write = os.pipe()
            ours, other = (write, read) if mode == "w" else (read, write)
            theirs.callback(os.close, other)
            return os.fdopen(ours, mode, encoding="utf-8"), other
        if file is None:
            return None, theirs.enter_context(Path(os.devnull).open("r+b", buffering=0)).fileno()
        return None, file if isinstance(file, int) else file.fileno()

    def __enter__(self):
        return self

    def __exit__(self, *details):
        for file in (self.stdout, self.stderr, self.stdin):
            if file is not None:
                with contextlib.suppress(BrokenPipeError):
                    file.close()
        self.wait()

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._process.exitcode

    def send_signal(self, number):
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self):
        self._process.kill()


class _Work:
    """What the forked process does, picklable while it is started."""

    def __init__(self, arguments, files, *others):
        self._arguments, self._files, self._others = arguments, files, others

    def __reduce__(self):
        return _Work, (self._arguments, tuple(map(reduction.DupFd, self._files)), *self._others)

    def __call__(self):
        _become(self._arguments, self._files, *self._others)


def run(*arguments, input=None, stdin=None, timeout=900, check=False, **options):
    """Run the command to its end, and return what :func:`subprocess.run` returns of captured text."""
    with contextlib.ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(2))
        given = subprocess.PIPE if input is not None else stdin
        command = Command(*arguments, stdin=given, stdout=out, stderr=err, **options)
        if input is not None:
            with contextlib.suppress(BrokenPipeError), command.stdin as file:
                file.write(input)
        try:
            code = command.wait(timeout)
        except subprocess.TimeoutExpired:
            command.kill()
            command.wait()
            raise
        for file in (out, err):
            file.seek(0)
        done = subprocess.CompletedProcess(command.args, code, out.read(), err.read())
    if check:
        done.check_returncode()
    return done
