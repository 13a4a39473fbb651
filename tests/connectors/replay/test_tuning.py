"""Halving: the best is found, the hopeless are dropped, and nobody is dropped for luck."""

import json
import random

import pytest

from connectors.cli.tune import GRIDS, Halving, grid_of
from connectors.files.log import ReplayLog
from connectors.replay.run import replay_log


def log(tmp_path, n=5000):
    rng = random.Random(3)
    rows = [{"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)} for _ in range(n)]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps({**x, "y": x["a"] ** 2 + x["b"] ** 2 > 1.5}) for x in rows))
    return ReplayLog(path, "y")


def test_the_best_is_left(tmp_path):
    names = grid_of("kaczmarz", ["features=16|256", "bandwidth=0.01|1"])
    halving = Halving(lambda run: None)
    run = replay_log(log(tmp_path), names, baseline=False, watch=halving)
    assert run.results().ranking()[0] == "kaczmarz:features=256,bandwidth=1"
    assert len(halving.dropped) >= 2
    for name, dropped in halving.dropped.items():
        assert run.results().error(name) == dropped.why
        assert dropped.events == run.contest.standings[name].events
        assert dropped.value == run.results().metrics_of(name, "accuracy")
        again = replay_log(log(tmp_path), [dropped.best], baseline=False, limit=dropped.events)
        assert dropped.best_value == again.results().metrics_of(dropped.best, "accuracy") >= dropped.value
    assert min(run.contest.standings[name].events for name in halving.dropped) >= 2048
    assert run.contest.standings["kaczmarz:features=256,bandwidth=1"].events == 5000


def test_equals_are_not_called_worse(tmp_path):
    """Of two that are the same, neither is worse, nor in the worse half."""
    halving = Halving(lambda run: None)
    names = ["kaczmarz:features=64,seed=1", "kaczmarz:seed=1,features=64"]
    replay_log(log(tmp_path), names, baseline=False, watch=halving)
    assert not halving.dropped


def test_fixed_parameters_are_in_every_setting():
    fixed = {"memory": 100, "scales": [2, 1], "features": 32}
    assert grid_of("kaczmarz", ["features=16|64"], fixed) == [
        "kaczmarz:memory=100,scales=2,1,features=16", "kaczmarz:memory=100,scales=2,1,features=64",
    ]  # fmt: skip


def test_grids():
    assert len(grid_of("kaczmarz", [])) == 12
    for name in GRIDS:
        assert all(each.startswith(f"{name}:") for each in grid_of(name, []))
    for wrong in (["features"], ["=3"], ["features=64||128"]):
        with pytest.raises(ValueError, match=r"write KEY=VALUE\|VALUE"):
            grid_of("kaczmarz", wrong)
    with pytest.raises(ValueError, match="eigenpro has no grid of its own"):
        grid_of("eigenpro", [])
