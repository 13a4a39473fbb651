"""Builds the distributions, and installs each in new environments of all Python versions on this machine.

``make release`` prints the seconds of ``pip install`` and of a first prediction, which compiles. It fails if
both take a minute or more together, if a command fails, if models differ between versions of Python, or if a
distribution lacks a file or holds one that does not belong there. Nothing is uploaded; both are in ``dist/``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = "3.11", "3.12", "3.13", "3.14"
NEEDED = {
    ".whl": ("LICENSE", "METADATA", "entry_points.txt", "streamk/py.typed", "connectors/py.typed"),
    ".gz": ("LICENSE", "PKG-INFO", "pyproject.toml", "streamk/py.typed", "connectors/py.typed"),
}
FOREIGN = "__pycache__", ".nbi", ".nbc", ".pyc", ".numba", ".venv", ".hypothesis", ".streamk"
LARGEST_FILE = 1_000_000  # bytes
MOST_SECONDS = 60.0
FIRST = """
import hashlib, streamk
learner = streamk.KernelClassifier(features=768, seed=7)
for k in range(300):
    learner.learn_one({"x": k % 7, "colour": "red" if k % 3 else "blue"}, k % 7 > 3)
learner.predict_one({"x": 6, "colour": "red"})
print(hashlib.sha256(learner.to_bytes()).hexdigest())
"""
ESTIMATOR = """
import numpy as np
from streamk.sklearn import KernelClassifier
X = np.random.default_rng(0).normal(size=(200, 2))
y = X[:, 0] > 0
assert KernelClassifier(features=768, random_state=0).fit(X, y).score(X, y) > 0.9
"""


def run(*command: str | Path, directory: Path) -> str:
    """Return what a command prints, run outside the repository and with a cache of its own."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    done = subprocess.run(
        list(map(str, command)), cwd=directory, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(directory: Path) -> tuple[Path, Path]:
    """Return the wheel and the sdist, built in ``dist/``."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    tools = directory / "tools"
    venv.create(tools, with_pip=True)
    run(tools / "bin" / "pip", "install", "--quiet", "build", directory=directory)
    run(tools / "bin" / "python", "-m", "build", "--outdir", ROOT / "dist", ROOT, directory=directory)
    (wheel,), (sdist,) = (ROOT / "dist").glob("*.whl"), (ROOT / "dist").glob("*.tar.gz")
    return wheel, sdist


def faults_of(distribution: Path) -> list[str]:
    """Return what a distribution lacks, and what does not belong there."""
    sizes = files_of(distribution)
    needed = NEEDED[distribution.suffix]
    faults = [f"{end} is missing" for end in needed if not any(name.endswith(end) for name in sizes)]
    faults += [f"{name} does not belong there" for name in sizes if any(part in name for part in FOREIGN)]
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


def try_out(python: str, distribution: Path, directory: Path) -> tuple[float, float, str]:
    """Return the seconds of installation and of a first prediction, and the hash of the model."""
    directory.mkdir()
    run(python, "-m", "venv", "here", directory=directory)
    own = directory / "here" / "bin"
    began = time.perf_counter()
    run(own / "pip", "install", "--quiet", distribution, directory=directory)
    installed = time.perf_counter()
    digest = run(own / "python", "-c", FIRST, directory=directory).strip()
    predicted = time.perf_counter()
    version = run(own / "streamk", "--version", directory=directory).splitlines()[0].split()[1]
    if f"-{version}" not in distribution.name:
        raise RuntimeError(f"{distribution.name} has version {version}")
    rows = "".join(f"{k % 7},{k % 5},{'yes' if k % 7 > 3 else 'no'}\n" for k in range(2000))
    (directory / "log.csv").write_text(f"a,b,label\n{rows}")
    run(own / "streamk", "replay", "log.csv", "--target", "label", "--save", "m.streamk", directory=directory)
    run(own / "streamk", "predict", "m.streamk", "log.csv", "--output", "out.csv", directory=directory)
    run(own / "pip", "install", "--quiet", f"{distribution}[sklearn]", directory=directory)
    run(own / "python", "-c", ESTIMATOR, directory=directory)
    return installed - began, predicted - installed, digest


def main() -> int:
    """Build, install and try the distributions, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--python", nargs="+", choices=VERSIONS, default=VERSIONS, help="versions to try")
    arguments = parser.parse_args()
    failed, digests = False, set()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        wheel, sdist = build(directory)
        for distribution in (wheel, sdist):
            faults = faults_of(distribution)
            size = distribution.stat().st_size
            print(f"{distribution.name}: {size:,} bytes; {'; '.join(faults) or 'complete'}", flush=True)
            failed = failed or bool(faults)
        found = {version: path for version, path in interpreters().items() if version in arguments.python}
        for version in sorted({*arguments.python} - {*found}):
            print(f"Python {version}: not found on this machine")
        print("| Python | from | pip install | first prediction | model |\n|---|---|---|---|---|")
        cases = [(version, wheel) for version in found] + [(version, sdist) for version in list(found)[:1]]
        for k, (version, distribution) in enumerate(cases):
            kind = "wheel" if distribution == wheel else "sdist"
            try:
                install, first, digest = try_out(found[version], distribution, directory / str(k))
            except RuntimeError as error:
                print(f"| {version} | {kind} | failed |||\n{error}", flush=True)
                failed = True
                continue
            digests.add(digest)
            slow = install + first >= MOST_SECONDS
            failed = failed or slow
            mark = f" (more than {MOST_SECONDS:.0f} s)" if slow else ""
            print(
                f"| {version} | {kind} | {install:.0f} s | {first:.0f} s{mark} | {digest[:12]} |", flush=True
            )
    if len(digests) > 1:
        print("models differ between versions of Python")
    return int(failed or len(digests) > 1)


if __name__ == "__main__":
    sys.exit(main())
