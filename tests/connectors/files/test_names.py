"""The files that names and patterns stand for, in order."""

import pytest

from connectors.files.log import ReplayLog, files_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("log-10.csv", "log-2.csv", "log-1.csv", "b.csv"):
        (tmp_path / name).write_text(f"a,y\n1,{name}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["log-10.csv", "log-2.csv"], ["log-10.csv", "log-2.csv"]),
        (["log-*.csv"], ["log-1.csv", "log-2.csv", "log-10.csv"]),
        (["log-2.csv", "*.csv", "b.csv"], ["log-2.csv", "b.csv", "log-1.csv", "log-10.csv"]),
    ],
)
def test_the_order_is_the_one_that_is_given(folder, given, found):
    assert files_of(given) == found
    assert [y for batch in ReplayLog(given, "y").batches() for y in batch.targets] == found


def test_numbers_anywhere_in_names(folder):
    for name in ("2026-9/x1", "2026-10/x1", "2026-9/x01", "y"):
        (folder / "days" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "days" / name).touch()
    assert files_of(["days/**"]) == [f"days/{n}" for n in ("2026-9/x01", "2026-9/x1", "2026-10/x1", "y")]
