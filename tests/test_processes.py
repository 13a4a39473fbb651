"""The processes that tests start: commands forked from a warm interpreter, and compilations they share."""

import importlib.util
import os
import signal
import subprocess
import sys

import pytest

from .processes import MODULES, ROOT, Command, run

COMPILE = """
import sys
from numba import njit
from tests import compilation

compilation.share()

@njit(cache=True)
def sum_of_squares(x):
    total = 0.0
    for value in x:
        total += value * value
    return total

print("ready", flush=True)
sys.stdin.readline()
sum_of_squares((1.0, 2.0))
print(sum(sum_of_squares.stats.cache_misses.values()))
"""


def test_what_is_imported_beforehand_is_there():
    """An interpreter that others are forked from ignores a module that it cannot find."""
    assert all(map(importlib.util.find_spec, MODULES))


def test_exit_code_and_output_are_the_command_s():
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("streamk ")
    done = run("no-such-command")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no-such-command" in done.stderr


def test_directory_and_input_are_the_command_s(tmp_path):
    (tmp_path / "log.csv").write_text("a,y\n" + "1,2\n" * 30)
    options = "--target", "y", "--learner", "kaczmarz", "--no-baseline"
    done = run("replay", "log.csv", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    given = run("replay", "-", *options, cwd=tmp_path, input=(tmp_path / "log.csv").read_text())
    assert given.returncode == 0, given.stderr
    assert "30 events" in given.stdout


def test_environment_is_the_command_s(tmp_path):
    path = tmp_path / "streamk.toml"
    path.write_text('[source]\nkind = "file"\npath = "/no/such"\n[events]\ntarget = "y"\n')
    done = run("check", path, env={"STREAMK_SOURCE__PATH": "/not/there/either"})
    assert "/not/there/either" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_ends_a_command_that_waits_for_input(number):
    with Command("replay", "-", "--target", "y", stdin=subprocess.PIPE, start_new_session=True) as command:
        assert os.getpgid(command.pid) in (command.pid, os.getpgrp())  # before or after it has a session
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(0.5)
        os.killpg(command.pid, number)
        assert command.wait(20) == -number


def test_two_processes_compile_a_function_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(COMPILE)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    both = [subprocess.Popen([sys.executable, script], **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert sorted(map(int, outputs)) == [0, 1]
