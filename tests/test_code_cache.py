"""Compiled code has a place where nothing can be written but temporary files."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, subprocess, sys
from numba.core import caching
if sys.argv[1] == "none":
    # only the place that NUMBA_CACHE_DIR names is left, as on a read-only file system
    caching.CacheImpl._locator_classes = [caching.UserProvidedCacheLocator]
import streamk
from streamk.schedules import averaging_weight
averaging_weight(3)
place = os.environ.get("NUMBA_CACHE_DIR", "")
print(place)
print(sum(name.endswith(".nbc") for _, _, names in os.walk(place) for name in names) if place else 0)
"""


def run(places, directory=None):
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    if directory is not None:
        env["NUMBA_CACHE_DIR"] = str(directory)
    done = subprocess.run([sys.executable, "-c", SCRIPT, places], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place, kept = done.stdout.splitlines()
    return place, int(kept), done.stderr


def test_without_a_directory_code_is_cached_while_the_process_lives():
    place, kept, warned = run("none")
    assert kept > 0
    assert warned.count("compiled code cannot be kept") == 1
    assert "set NUMBA_CACHE_DIR" in warned
    assert not Path(place).exists()


def test_with_a_directory_there_is_no_warning(tmp_path):
    place, kept, warned = run("none", tmp_path)
    assert (place, warned) == (str(tmp_path), "")
    assert kept > 0
