"""Checkpoints of earlier versions continue as docs/limits.md says: with the parameters that they name.

``earlier/`` holds those of version 0.5, and of the last ones with model formats 9 and 11, after 60 events
(``record_earlier.py``).
"""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from connectors.contract.errors import Failure
from connectors.events.learners import LEARNERS
from connectors.settings.tables import Settings
from connectors.state.checkpoint import Checkpoint
from connectors.state.training import changes, digest_of, policy_of, require_same_digest, training_of
from streamk.learners.learner import Learner
from streamk.learners.loading import loads

from .record_earlier import EVENTS, MORE, run

FOLDER = Path(__file__).parent / "earlier"
EARLIER = sorted(FOLDER.rglob("*.checkpoint"))


def learned(path):
    learner = Checkpoint.read(path).learner()
    return learner.events + getattr(learner, "pending", 0)


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_checkpoint_of_an_earlier_version_continues(tmp_path, path):
    name, _, task = path.stem.rpartition("-")
    kept = tmp_path / "kept"
    kept.mkdir()
    first = shutil.copy(path, kept / "0000000001.checkpoint")
    assert learned(first) == EVENTS
    done = run(tmp_path, name, task, MORE)
    if name == "kernel" and (path.parent.name, task) != ("format-11", "classification"):
        assert done.exit_code == 4
        retired, small = path.parent.name == "format-9", path.parent.name != "format-11"
        assert ("with budget='small', and the settings ask for 'default'" in done.stderr) == small
        assert ("with retired=True, and the settings ask for False" in done.stderr) == retired
        without = task == "regression"
        assert ("with logarithm=False, and the settings ask for True" in done.stderr) == without
        asked = ', budget = "small"' * small + ", retired = true" * retired + ", logarithm = false" * without
        done = run(tmp_path, name, task, MORE, asked)
    assert done.exit_code == 0, done.output
    newest = sorted(kept.glob("*.checkpoint"))[-1]
    assert learned(newest) == MORE
    learner = Checkpoint.read(newest).learner()
    assert isinstance(learner, Learner)
    assert loads(learner.to_bytes()).to_bytes() == learner.to_bytes()


def test_there_is_a_checkpoint_of_every_learner():
    stored = {path.stem for path in (FOLDER / "0.5").glob("*.checkpoint")}
    assert stored == {f"{name}-{task}" for name, classes in LEARNERS.items() for task in classes}


def test_parameters_that_one_of_two_versions_does_not_have_are_no_change():
    before = {"events.target": "y", "learner.parameters.features": 768}
    now = {**before, "learner.parameters.retired": True}
    assert changes(before, now) == []
    assert [change.key for change in changes(before, {**now, "events.weight": "w"})] == ["events.weight"]
    assert changes(now, before) == []
    now["learner.parameters.features"] = 64
    assert [change.key for change in changes(before, now)] == ["learner.parameters.features"]


def settings(**tables):
    return Settings.model_validate({"source": SOURCE, "events": {"target": "y"}, **tables})


SOURCE = {"kind": "topic", "topic": "in", "group": "g"}


def test_a_setting_that_the_older_version_does_not_have_changes_the_digest_only_where_it_is_used():
    training = training_of(settings())
    for key, default in training.items():
        if key.startswith("learner.parameters.") or default in (None, [], {}):
            assert digest_of({k: v for k, v in training.items() if k != key}) == digest_of(training), key
    used = [
        {"learner": {"parameters": {"budget": "small"}}},
        {"learner": {"parameters": {"seed": 1}}},
        {"learner": {"task": "regression"}},
        {"learner": {"name": "kaczmarz"}},
        {"events": {"target": "z"}},
        {"events": {"target": "y", "ignore": ["id"]}},
        {"events": {"target": "y", "weight": "w"}},
        {"schema": {"decimal": ","}},
    ]
    digests = {digest_of(training_of(settings(**tables))) for tables in ({}, *used)}
    assert len(digests) == 1 + len(used)


@pytest.mark.parametrize("name", sorted(LEARNERS.keys() - {"kernel"}))  # whose parameters have changed
def test_a_group_of_the_version_before_continues(name):
    """Version 0.5 put all parameters into the digest."""
    stored = Checkpoint.unpack((FOLDER / "0.5" / f"{name}-regression.checkpoint").read_bytes(), "x").training
    before = hashlib.sha256(json.dumps(stored, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    events = {key.removeprefix("events."): v for key, v in stored.items() if key.startswith("events.")}
    learner = {"name": name, "task": "regression", "parameters": parameters_of(stored)}
    columns = {"format": "json"} | {key: value for key, value in events.items() if value is not None}
    policy = policy_of(settings(events=columns, learner=learner))
    require_same_digest("in-0", before[:12], policy)
    with pytest.raises(Failure, match="other settings"):
        require_same_digest("in-0", "0123456789ab", policy)


def parameters_of(training):
    prefix = "learner.parameters."
    return {key.removeprefix(prefix): value for key, value in training.items() if key.startswith(prefix)}
