"""Compiled code belongs to one state of the sources, is in wheels, and is kept where files can be written."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from numba.core.codegen import get_host_cpu_features

from streamk.code_cache import FEATURES, PROCESSOR

ROOT = Path(__file__).resolve().parent.parent
CALLED = """
from numba import njit
from streamk.compiling import INNER

@njit(**INNER)
def height():
    return 1
"""
ENTRY = """
from typing import NamedTuple
from numba import njit
from streamk.called import height
from streamk.compiling import ENTRY

class Box(NamedTuple):
    width: int

def box(width):
    return Box(width)

@njit(**ENTRY)
def area(box):
    return box.width * height()
"""
CALL = """
from streamk import entry
print(entry.area(entry.box(3)), sum(entry.area.stats.cache_hits.values()))
"""
SHIPPED = {"NUMBA_CPU_NAME": PROCESSOR, "NUMBA_CPU_FEATURES": FEATURES}
UNWRITABLE = """
import os, tempfile
from numba.core import config
temporary_file = tempfile.TemporaryFile

def only_where_given(dir):
    # only the folder that NUMBA_CACHE_DIR names can be written, as on a read-only file system
    if not config.CACHE_DIR or config.CACHE_DIR not in str(dir):
        raise OSError("read-only")
    return temporary_file(dir=dir)

tempfile.TemporaryFile = only_where_given
import streamk
from streamk.schedules import averaging_weight
averaging_weight(3)
place = os.environ.get("NUMBA_CACHE_DIR", "")
print(place)
print(sum(name.endswith(".nbc") for _, _, names in os.walk(place) for name in names) if place else 0)
"""


def run(script, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | variables
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def copy(directory):
    """Copy the package, and add an entry that calls a function of another file."""
    copied = directory / "site" / "streamk"
    shutil.copytree(ROOT / "streamk", copied, ignore=shutil.ignore_patterns("__pycache__"))
    (copied / "called.py").write_text(CALLED)
    (copied / "entry.py").write_text(ENTRY)
    return copied


@pytest.fixture
def package(tmp_path):
    return copy(tmp_path)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Compiled code of the package, as a wheel has it."""
    if not set(get_host_cpu_features().split(",")).issuperset(FEATURES.split(",")):
        pytest.skip(f"wheels have code for {PROCESSOR}")
    folder = tmp_path_factory.mktemp("compiled")
    assert call(copy(folder), NUMBA_CACHE_DIR=str(folder / "made"), **SHIPPED) == (3, False)
    return folder / "made"


@pytest.fixture
def shipped(package, compiled):
    return Path(shutil.copytree(compiled, package / "compiled"))


def call(package, **variables):
    """Return the entry's result, and whether its code came from the cache."""
    (result, hits), _ = run(CALL, PYTHONPATH=str(package.parent), **variables)
    return int(result), hits == "1"


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def folders(root):
    return sorted(root.glob("streamk-*"))


@pytest.mark.parametrize("given", [False, True])
def test_code_of_changed_sources_is_compiled_again(package, tmp_path, given):
    root = tmp_path / "cache" if given else package / "__pycache__"
    variables = {"NUMBA_CACHE_DIR": str(root)} if given else {}
    assert call(package, **variables) == (3, False)
    assert call(package, **variables) == (3, True)
    edit(package / "called.py", "return 1", "return 5")
    assert call(package, **variables) == (15, False)
    edit(package / "called.py", "return 5", "return 1")
    assert call(package, **variables) == (3, True)
    assert len(folders(root)) == 2
    assert not list(package.rglob("__pycache__/*.nbi"))


def test_a_named_tuple_may_be_renamed(package):
    assert call(package) == (3, False)
    edit(package / "entry.py", "Box", "Plate")
    assert call(package) == (3, False)


def test_folders_of_earlier_sources_are_removed(package):
    root = package / "__pycache__"
    call(package)
    (used,) = folders(root)
    now = time.time()
    others = [root / f"streamk-{k:016x}" for k in range(6)]
    for k, other in enumerate(others):
        (other / "learners").mkdir(parents=True)
        os.utime(other, (now, now - (k + 1) * 3000))
    call(package)
    assert len(folders(root)) == 7  # a warm start looks at no other folder
    edit(package / "called.py", "return 1", "return 2")
    call(package)
    kept = folders(root)
    assert len(kept) == 5
    assert {used, *others[:3]} < set(kept)


def test_folders_in_use_are_not_removed(package):
    root = package / "__pycache__"
    others = [root / f"streamk-{k:016x}" for k in range(6)]
    for other in others:
        other.mkdir(parents=True)
    call(package)
    assert set(others) < set(folders(root))


def test_without_a_directory_code_is_cached_while_the_process_lives():
    (place, kept), warned = run(UNWRITABLE)
    assert int(kept) > 0
    assert warned.count("compiled code cannot be kept") == 1
    assert "set NUMBA_CACHE_DIR" in warned
    assert not Path(place).exists()


def test_with_a_directory_there_is_no_warning(tmp_path):
    (place, kept), warned = run(UNWRITABLE, NUMBA_CACHE_DIR=str(tmp_path))
    assert (place, warned) == (str(tmp_path), "")
    assert int(kept) > 0


def contents(folder):
    return {
        file: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.rglob("*") if file.is_file()
    }


def test_shipped_code_is_read_and_not_written(package, shipped):
    before = contents(shipped)
    for folder in (shipped, *filter(Path.is_dir, shipped.rglob("*"))):
        folder.chmod(0o555)
    assert call(package) == (3, True)
    assert contents(shipped) == before
    assert not list((package / "__pycache__").rglob("*.nbi"))


@pytest.mark.parametrize(
    "variables",
    [{"NUMBA_CPU_NAME": "x86-64"}, {"NUMBA_CPU_FEATURES": "+avx"}, {"NUMBA_ENABLE_AVX": "0"}],
)
def test_shipped_code_is_not_read_for_another_processor(package, shipped, variables):
    assert call(package, **variables) == (3, False)


def test_shipped_code_of_other_sources_is_not_read(package, shipped):
    edit(package / "called.py", "return 1", "return 5")
    assert call(package) == (15, False)


@pytest.mark.parametrize("package_name", ["numba", "llvmlite"])
def test_shipped_code_of_another_compiler_is_not_read(package, shipped, package_name):
    other = f"import {package_name}\n{package_name}.__version__ += '.1'\n"
    found, _ = run(other + CALL, PYTHONPATH=str(package.parent))
    assert found == ["3", "0"]


@pytest.mark.parametrize("end", ["nbi", "nbc"])
def test_damaged_shipped_code_is_compiled(package, shipped, end):
    (file,) = shipped.rglob(f"entry*.{end}")
    file.write_bytes(file.read_bytes()[:100])
    assert call(package) == (3, False)
