"""Learning again without a range of events: the model is that of a daemon that never saw them."""

import json

import pytest

from connectors.contract.errors import USAGE
from tests.kafka.stand import events, newest
from tests.processes import run

from .test_run import directory, learner_of, settings, write


def poisoned(sent, first, last):
    return [{**x, "y": not x["y"]} if first <= k < last else x for k, x in enumerate(sent)]


def places(stand, first, last):
    """Return the bytes where these lines of the log begin."""
    lines = (stand.directory / "log.jsonl").read_bytes().splitlines(keepends=True)
    return tuple(sum(map(len, lines[:k])) for k in (first, last))


def predicted(stand):
    return (stand.directory / "out.jsonl").read_text().splitlines()


def test_a_range_of_a_log_is_excluded(stand):
    sent = poisoned(events(900), 300, 500)
    write(stand.directory / "log.jsonl", sent)
    path = settings(stand)
    done = run("run", path)
    assert done.returncode == 0
    assert "learned 900 events; reached the end of the log" in done.stderr
    before, (since, until) = predicted(stand), places(stand, 300, 500)
    dry = run("reset", path, "--exclude", f"{since}..{until}", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "nothing was changed" in dry.stdout
    assert newest(directory(stand)).learner().to_bytes() == learner_of(sent).to_bytes()
    done = run("reset", path, "--exclude", f"{since}..{until}")
    assert done.returncode == 0, done.stderr
    assert f"{since:,} to {until - 1:,}" in done.stdout
    more = events(100, 2)
    write(stand.directory / "log.jsonl", more)
    done = run("run", path)
    assert done.returncode == 0
    assert "reading from position" in done.stderr
    assert "learned 800 events" in done.stderr  # again, from the start
    checkpoint = newest(directory(stand))
    assert checkpoint.learner().to_bytes() == learner_of([*sent[:300], *sent[500:], *more]).to_bytes()
    (progress,) = checkpoint.partitions.values()
    assert (progress.learned, progress.skipped) == (800, 200)
    found = predicted(stand)
    assert found[:900] == before  # nothing is predicted again
    assert [json.loads(line)["target"] for line in found[900:]] == [x["y"] for x in more]


def test_ranges_add_up_and_a_checkpoint_from_before_is_used(stand):
    sent = events(900)
    path = settings(stand, checkpoints__keep=20)
    for part in (sent[:400], sent[400:]):
        write(stand.directory / "log.jsonl", part)
        assert run("run", path).returncode == 0
    first, second = places(stand, 500, 600), places(stand, 450, 480)
    done = run("reset", path, "--exclude", f"{first[0]}..{first[1]}")
    (start,) = places(stand, 400, 400)[:1]
    assert f"{start:,}" in done.stdout
    assert run("reset", path, "--exclude", f"{second[0]}..{second[1]}").returncode == 0
    assert run("run", path).returncode == 0
    wanted = learner_of([*sent[:450], *sent[480:500], *sent[600:]])
    assert newest(directory(stand)).learner().to_bytes() == wanted.to_bytes()
    third = places(stand, 0, 10)
    assert run("reset", path, "--exclude", f"{third[0]}..{third[1]}").returncode == 0
    assert run("run", path).returncode == 0
    wanted = learner_of([*sent[10:450], *sent[480:500], *sent[600:]])
    assert newest(directory(stand)).learner().to_bytes() == wanted.to_bytes()
    assert len(predicted(stand)) == 900


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--exclude", "5"], "--exclude 5: give FROM..TO"),
        (["--exclude", "a..b"], "--exclude a..b: give FROM..TO"),
        (["--exclude", "7..7"], "--exclude 7..7: no event is there"),
        (["--exclude", "2026-01-01T00:00..2026-02-01"], "the records of a log have no times"),
        (["--exclude", "0..9", "--to", "earliest"], "say where to continue: --to, or --exclude FROM..TO"),
        ([], "say where to continue: --to, or --exclude FROM..TO"),
    ],
)
def test_what_cannot_be_excluded(stand, arguments, words):
    write(stand.directory / "log.jsonl", events(50))
    path = settings(stand)
    assert run("run", path).returncode == 0
    done = run("reset", path, *arguments)
    assert done.returncode == USAGE
    assert words in done.stderr


def test_nothing_is_excluded_before_anything_is_learned(stand):
    write(stand.directory / "log.jsonl", events(50))
    done = run("reset", settings(stand), "--exclude", "0..9")
    assert done.returncode == USAGE
    assert "holds no checkpoint; nothing is learned yet" in done.stderr


def test_a_checkpoint_that_has_learned_what_was_excluded_before_is_not_used(stand):
    sent = events(900)
    path = settings(stand, checkpoints__keep=20)
    for part in (sent[:50], sent[50:400], sent[400:]):
        write(stand.directory / "log.jsonl", part)
        assert run("run", path).returncode == 0
    starts = []
    for first, last in ((100, 200), (500, 600), (60, 70)):  # the checkpoint up to 400 has learned 100 to 200
        since, until = places(stand, first, last)
        done = run("reset", path, "--exclude", f"{since}..{until}")
        assert done.returncode == 0, done.stderr
        kept = newest(directory(stand))
        starts += [progress.position for progress in kept.partitions.values()]
        damaged = directory(stand) / f"{kept.number:010d}.checkpoint"
        assert run("run", path).returncode == 0
        damaged.write_bytes(b"damaged")
    assert starts == [places(stand, 50, 50)[0]] * 3
    wanted = learner_of([*sent[:60], *sent[70:100], *sent[200:500], *sent[600:]])
    assert newest(directory(stand)).learner().to_bytes() == wanted.to_bytes()
