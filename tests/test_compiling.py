"""Other versions of Numba compile in their own way, to the same results."""

import io
import logging
import os
import subprocess
import sys
import threading

import numba
import pytest
from numba.extending import overload

from streamk import compiling
from streamk.compiling import KNOWN, both

SCRIPT = """
import hashlib, sys
import numba
numba.__version__ = sys.argv[1]
import streamk
from streamk import compiling
learner = streamk.KaczmarzPursuitRegressor(features=64, seed=3)
for k in range(60):
    x = {"a": k % 7 / 3, "b": k % 5, "c": "uv"[k % 2]}
    learner.learn_one(x, (k % 7) * (k % 5))
print("pipeline_class" in compiling.INNER, hashlib.sha256(learner.to_bytes()).hexdigest())
"""


def test_the_version_in_use_is_known():
    assert numba.__version__.startswith(KNOWN), "try make test with it, and name it in streamk/compiling.py"


@pytest.mark.long
def test_another_version_gives_the_same_model(tmp_path):
    known, other = (
        subprocess.run(
            [sys.executable, "-c", SCRIPT, version],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / version)},
            capture_output=True, text=True, check=True,
        ).stdout.split()
        for version in (numba.__version__, "0.999.0")
    )  # fmt: skip
    assert (known[0], other[0]) == ("True", "False")
    assert known[1] == other[1]


def test_a_function_of_both_sides_is_one():
    @both()
    def half(x):
        """Return half of it."""
        return 0.5 * x

    @numba.njit
    def quarter(x):
        return half(half(x))

    assert half(3.0) == 1.5
    assert half.__doc__ == "Return half of it."
    assert quarter(3.0) == 0.75
    with pytest.raises(numba.TypingError):
        half("three")


def test_an_entry_has_no_compiled_callers():
    @numba.njit(**{**compiling.ENTRY, "cache": False})
    def half(x):
        return 0.5 * x

    @numba.njit
    def quarter(x):
        return half(half(x))

    assert half(3.0) == 1.5
    with pytest.raises(Exception, match="compiled code calls the entry"):
        quarter(3.0)


def entry_that_takes(wait):
    """Compile an entry, with ``wait`` called meanwhile."""

    def nothing():
        raise NotImplementedError

    @overload(nothing)
    def _nothing():
        wait()
        return lambda: 0

    @numba.njit(**{**compiling.ENTRY, "cache": False})
    def entry():
        return nothing()

    assert entry() == 0


@pytest.fixture
def logged():
    """The messages that compilation logs, and an event set by the first."""
    messages, first = [], threading.Event()

    class Noted(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())
            first.set()

    logger, noted = logging.getLogger(compiling.__name__), Noted()
    logger.addHandler(noted)
    logger.setLevel(logging.INFO)
    yield messages, first
    logger.removeHandler(noted)
    logger.setLevel(logging.NOTSET)


def test_a_long_compilation_is_logged(monkeypatch, logged):
    messages, first = logged
    monkeypatch.setattr(compiling, "_LONG", 0.0)
    entry_that_takes(lambda: first.wait(60))
    assert messages == ["compiling for up to half a minute; later starts load the result"]


class Screen(io.StringIO):
    """Standard error of a terminal, or of another program."""

    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.fixture
def loggers(monkeypatch):
    """A logger of compilation without handlers, and that of the library without a level."""
    logger, library = logging.Logger("streamk.compiling"), logging.getLogger("streamk")
    monkeypatch.setattr(library, "level", logging.NOTSET)
    monkeypatch.setattr(compiling, "_LOG", logger)
    return logger, library


@pytest.mark.parametrize("is_terminal", [True, False])
def test_without_a_log_a_long_compilation_is_printed(monkeypatch, loggers, is_terminal):
    screen = Screen(is_terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    compiling._report()
    assert screen.getvalue() == "streamk: compiling for up to half a minute; later starts load the result\n"


@pytest.mark.parametrize(
    ("level", "logged", "printed"),
    [(logging.INFO, 1, 0), (logging.WARNING, 0, 0), (logging.NOTSET, 0, 1)],
    ids=["shown", "turned off", "of others"],
)
def test_a_log_of_the_library_decides(monkeypatch, loggers, level, logged, printed):
    """A root logger with handlers and its usual level shows no waits, and is not set up for them."""
    logger, library = loggers
    messages = []
    handler = logging.Handler()
    handler.emit = messages.append
    logger.addHandler(handler)
    logger.setLevel(level or logging.WARNING)
    monkeypatch.setattr(library, "level", level)
    screen = Screen(False)
    monkeypatch.setattr(sys, "stderr", screen)
    compiling._report()
    assert len(messages) == logged
    assert screen.getvalue().count("compiling") == printed


def test_a_short_compilation_is_not(monkeypatch, logged):
    monkeypatch.setattr(compiling, "_LONG", 60.0)
    entry_that_takes(lambda: None)
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)
    assert not logged[0]
