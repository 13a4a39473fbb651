"""The pages of commands and settings are those of the code."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = "import reference; print(reference.PAGES[{!r}](), end='')"


@pytest.mark.parametrize("page", ["commands.md", "settings.md"])
def test_the_page_is_that_of_the_code(page):
    command = [sys.executable, "-c", CODE.format(page)]
    written = subprocess.run(command, cwd=ROOT / "docs", capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs" / page).read_text() == written, "run python docs/reference.py"


@pytest.mark.parametrize("page", ["commands.md", "settings.md"])
def test_everything_is_described(page):
    rows = [line for line in (ROOT / "docs" / page).read_text().splitlines() if line.startswith("| `")]
    assert len(rows) > 50
    assert [row for row in rows if row.endswith("|  |")] == []
