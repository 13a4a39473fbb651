"""Two states of the sources, measured by one script: that of another commit, and the present one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check out a commit into a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:
        other = Path(directory) / "other"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "-q", "--detach", other, commit], check=True)
        try:
            yield other
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", other], check=True)


def measured(script: str, tree: Path, *arguments: object) -> Any:
    """Return the JSON value in the last line that a script prints, with the packages of ``tree``."""
    compiled = str(tree / ".numba")  # of this state alone: earlier ones do not notice an edit in another file
    environment = {
        **os.environ, "PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": compiled, "NUMBA_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, script, *map(str, arguments)]
    done = subprocess.run(command, env=environment, cwd=tree, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])
