"""Builds the distributions, and installs each in new environments of all Python versions on this machine.

``make release`` makes an sdist, a wheel without compiled code and, for each version of Python, one with the
code of ``benchmarks/first_calls.py``. Its table has the seconds of ``pip install`` and of the first event and
prediction of ``KernelClassifier``, by the clock and of the processor. It fails if a start takes longer than
2.5 s with compiled code or 25 s without (the smaller figure counts, since others may use the machine), if a
start with compiled code compiles, if models differ between versions of Python or between shipped code and
that of this processor, if a command fails, if a distribution lacks a file or holds a foreign one, or if an
index could not show its description. Nothing is uploaded; all are in ``dist/``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

from streamk.code_cache import FEATURES, PROCESSOR

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = "3.11", "3.12", "3.13", "3.14"
NEEDED = {
    ".whl": ("LICENSE", "METADATA", "entry_points.txt", "streamk/py.typed", "connectors/py.typed"),
    ".gz": ("LICENSE", "PKG-INFO", "pyproject.toml", "streamk/py.typed", "connectors/py.typed"),
}
FOREIGN = "__pycache__", ".nbi", ".nbc", ".pyc", ".numba", ".venv", ".hypothesis", ".streamk"
LARGEST_FILE = 2_000_000  # bytes
MOST_SECONDS = 60.0  # of pip install and a start
MOST_OF_START = {"compiled": 2.5, "wheel": 25.0, "sdist": 25.0}
CALLS = ROOT / "benchmarks" / "first_calls.py"
PLATFORM = "manylinux2014_x86_64"
ESTIMATOR = """
import numpy as np
from streamk.sklearn import KernelClassifier
X = np.random.default_rng(0).normal(size=(200, 2))
y = X[:, 0] > 0
assert KernelClassifier(features=768, random_state=0).fit(X, y).score(X, y) > 0.9
"""


def run(*command: str | Path, directory: Path, **variables: str) -> str:
    """Return what a command prints, run outside the repository and with a cache of its own."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    done = subprocess.run(
        list(map(str, command)), cwd=directory, env=environment | variables, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(directory: Path) -> tuple[Path, Path]:
    """Return the wheel without compiled code and the sdist, built in ``dist/``."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    tools = directory / "tools"
    venv.create(tools, with_pip=True)
    run(tools / "bin" / "pip", "install", "--quiet", "build", "twine", "wheel", directory=directory)
    run(tools / "bin" / "python", "-m", "build", "--outdir", ROOT / "dist", ROOT, directory=directory)
    (wheel,), (sdist,) = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
    run(tools / "bin" / "twine", "check", "--strict", wheel, sdist, directory=directory)
    return wheel, sdist


def with_compiled(wheel: Path, version: str, own: Path, directory: Path) -> Path:
    """Return a wheel with the code that an environment, in which ``wheel`` is installed, compiles."""
    folder, tool = directory / "compiled", directory.parent / "tools" / "bin" / "wheel"
    processor = {"NUMBA_CPU_NAME": PROCESSOR, "NUMBA_CPU_FEATURES": FEATURES, "NUMBA_CACHE_DIR": str(folder)}
    run(own / "python", CALLS, directory=directory, **processor)
    run(tool, "unpack", wheel, "--dest", directory / "unpacked", directory=directory)
    (unpacked,) = (directory / "unpacked").iterdir()
    shutil.copytree(folder, unpacked / "streamk" / "compiled")
    run(tool, "pack", unpacked, "--dest-dir", directory, directory=directory)
    tag = f"cp{version.replace('.', '')}"
    tags = "--python-tag", tag, "--abi-tag", tag, "--platform-tag", PLATFORM
    name = run(tool, "tags", *tags, directory / wheel.name, directory=directory).strip()
    return Path(shutil.copy(directory / name, ROOT / "dist"))


def faults_of(distribution: Path) -> list[str]:
    """Return what a distribution lacks, and what does not belong there."""
    sizes = files_of(distribution)
    needed = NEEDED[distribution.suffix]
    faults = [f"{end} is missing" for end in needed if not any(name.endswith(end) for name in sizes)]
    foreign = FOREIGN[:1] + FOREIGN[3:] if PLATFORM in distribution.name else FOREIGN
    faults += [f"{name} does not belong there" for name in sizes if any(part in name for part in foreign)]
    return faults + [f"{name} has {size:,} bytes" for name, size in sizes.items() if size > LARGEST_FILE]


def files_of(distribution: Path) -> dict[str, int]:
    """Return the sizes of the files of a distribution."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as wheel:
            return {file.filename: file.file_size for file in wheel.infolist()}
    with tarfile.open(distribution) as sdist:
        return {file.name: file.size for file in sdist.getmembers() if file.isfile()}


def interpreters() -> dict[str, str]:
    """Return the Python interpreters by version, of the path and of pyenv."""
    found = {}
    for version in VERSIONS:
        installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        named = shutil.which(f"python{version}", path=os.environ.get("PATH", "").replace("shims", "none"))
        if installed or named:
            found[version] = str(installed[-1] if installed else named)
    return found


class Tried(NamedTuple):
    """Seconds of installation, by the clock and of the processor, and what the first calls printed."""

    install: float
    installing: float
    seconds: float
    processor: float
    compiled: int
    model: str


def processor_seconds() -> float:
    """Return the seconds of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def try_out(python: str, distribution: Path, directory: Path) -> Tried:
    """Install a distribution in a new environment, and measure its start."""
    directory.mkdir()
    run(python, "-m", "venv", "here", directory=directory)
    own = directory / "here" / "bin"
    began, used = time.perf_counter(), processor_seconds()
    run(own / "pip", "install", "--quiet", distribution, directory=directory)
    installed = time.perf_counter() - began, processor_seconds() - used
    version = run(own / "streamk", "--version", directory=directory).splitlines()[0].split()[1]
    if f"-{version}" not in distribution.name:
        raise RuntimeError(f"{distribution.name} has version {version}")
    return Tried(*installed, **json.loads(run(own / "python", CALLS, "--time", directory=directory)))


def use(distribution: Path, directory: Path) -> None:
    """Run the commands and an estimator of scikit-learn in the environment of a distribution."""
    own = directory / "here" / "bin"
    rows = "".join(f"{k % 7},{k % 5},{'yes' if k % 7 > 3 else 'no'}\n" for k in range(2000))
    (directory / "log.csv").write_text(f"a,b,label\n{rows}")
    run(own / "streamk", "replay", "log.csv", "--target", "label", "--save", "m.streamk", directory=directory)
    run(own / "streamk", "predict", "m.streamk", "log.csv", "--output", "out.csv", directory=directory)
    run(own / "pip", "install", "--quiet", f"{distribution}[sklearn]", directory=directory)
    run(own / "python", "-c", ESTIMATOR, directory=directory)


def faults_of_start(kind: str, tried: Tried) -> list[str]:
    """Return what is wrong with the start of a distribution."""
    faults = [f"compiles {tried.compiled} functions"] if kind == "compiled" and tried.compiled else []
    most = MOST_OF_START[kind]
    if min(tried.seconds, tried.processor) > most:
        faults.append(f"start takes more than {most} s")
    if min(tried.install + tried.seconds, tried.installing + tried.processor) >= MOST_SECONDS:
        faults.append(f"takes more than {MOST_SECONDS:.0f} s")
    return faults


def is_complete(distribution: Path) -> bool:
    """Print the size and the faults of a distribution."""
    faults = faults_of(distribution)
    size = distribution.stat().st_size
    print(f"{distribution.name}: {size:,} bytes; {'; '.join(faults) or 'complete'}", flush=True)
    return not faults


def is_tried(
    version: str, kind: str, python: str, distribution: Path, directory: Path, models: set[str]
) -> bool:
    """Print the row of a distribution, and return whether nothing is wrong."""
    try:
        tried = try_out(python, distribution, directory)
        if kind != "wheel":  # whose files are also those of the other two
            use(distribution, directory)
    except RuntimeError as error:
        print(f"| {version} | {kind} | failed |||||\n{error}", flush=True)
        return False
    models.add(tried.model)
    faults = faults_of_start(kind, tried)
    figures = f"{tried.install:.0f} s | {tried.seconds:.1f} s | {tried.processor:.1f} s | {tried.compiled}"
    print(f"| {version} | {kind} | {figures} | {tried.model[:12]} | {'; '.join(faults)} |", flush=True)
    return not faults


def main() -> int:
    """Build, install and try the distributions, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--python", nargs="+", choices=VERSIONS, default=VERSIONS, help="versions to try")
    arguments = parser.parse_args()
    models: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        wheel, sdist = build(directory)
        good = [is_complete(wheel), is_complete(sdist)]
        found = {version: path for version, path in interpreters().items() if version in arguments.python}
        for version in sorted({*arguments.python} - {*found}):
            print(f"Python {version}: not found on this machine")
        print("| Python | from | pip install | first prediction | processor | compiled | model | faults |")
        print("|---|---|---|---|---|---|---|---|")
        for version, python in found.items():
            pure, own = directory / version, directory / f"{version}-compiled"
            good.append(is_tried(version, "wheel", python, wheel, pure, models))
            compiled = with_compiled(wheel, version, pure / "here" / "bin", pure)
            good.append(is_complete(compiled))
            good.append(is_tried(version, "compiled", python, compiled, own, models))
        for version, python in list(found.items())[:1]:
            good.append(is_tried(version, "sdist", python, sdist, directory / "sdist", models))
    if len(models) > 1:
        print("models differ between versions of Python or kinds of compiled code")
    return int(not all(good) or len(models) > 1)


if __name__ == "__main__":
    sys.exit(main())
