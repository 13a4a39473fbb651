"""Training that is killed over and over ends with the bytes of training left alone (``make long``)."""

import contextlib
import csv
import random
import signal
import subprocess
import time

import psutil
import pytest
from river import datasets

import streamk
from streamk.distributed import learn

from ..connectors.cli.terminal import COMMAND
from ..distributed.streams import shards_of

pytestmark = pytest.mark.long
KILLS = 30
LEARNER = streamk.KernelClassifier(features=768, seed=7)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Eighty thousand events in a CSV file."""
    path = tmp_path_factory.mktemp("logs") / "bananas.csv"
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, [*next(iter(datasets.Bananas()))[0], "y"])
        table.writeheader()
        for x, y in list(datasets.Bananas()) * 16:
            table.writerow({**x, "y": y})
    return path


def with_words(process, words):
    """Return the processes under one that are alive and have these words in their command."""
    found = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie is none either
            if words in " ".join(child.cmdline()):
                found.append(child)
    return found


def command(log, model, *more):
    given = "--target", "y", "--set", "seed=7", "--by", "hash", "--shards", "6", "--round", "100"
    return [*COMMAND, "train", str(log), *given, "--workers", "2", "--save", str(model), *more]


def test_thirty_kills_of_workers_and_drivers(log, tmp_path):
    chance, kills = random.Random(4), {"driver": 0, "worker": 0}
    undisturbed, model = tmp_path / "undisturbed", tmp_path / "model"
    subprocess.run(command(log, undisturbed), check=True, capture_output=True)
    while not model.exists():
        disturbed = command(log, model, "--checkpoint", str(tmp_path / "run"))
        with subprocess.Popen(disturbed, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as driver:
            process = psutil.Process(driver.pid)
            while driver.poll() is None and sum(kills.values()) < KILLS:
                time.sleep(chance.uniform(0.0, 4.0))
                workers = with_words(process, "spawn_main")
                if driver.poll() is not None or not workers:
                    continue
                who = chance.choice(["driver", "worker", "worker"])
                (process if who == "driver" else chance.choice(workers)).kill()
                kills[who] += 1
                if who == "driver":
                    _, alive = psutil.wait_procs(workers, timeout=20)
                    assert not alive
            assert driver.stderr is not None
            said = driver.stderr.read().decode()
            assert driver.wait() in (0, -signal.SIGKILL), said
    assert sum(kills.values()) == KILLS, kills
    assert min(kills.values()) > 3, kills
    assert model.read_bytes() == undisturbed.read_bytes()


def test_a_node_of_ray_leaves():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    shards = shards_of((6000,) * 6)
    undisturbed = learn(shards, LEARNER, round=500, engine="here", evaluate=False)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        node = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        told = []

        def watch(news):
            told.append(news)
            if len(told) == 10:  # others are at work just now
                cluster.remove_node(node, allow_graceful=False)

        trained = learn(shards, LEARNER, round=500, engine="ray", evaluate=False, watch=watch)
        deadline = time.monotonic() + 60.0
        while sum(node["Alive"] for node in ray.nodes()) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert trained.learner.to_bytes() == undisturbed.learner.to_bytes()


def test_a_worker_of_ray_is_killed():
    pytest.importorskip("ray")
    shards, killed = shards_of((3000,) * 4), []
    undisturbed = learn(shards, LEARNER, round=300, engine="here", evaluate=False)

    def watch(news):
        if len(killed) < 3 and not hasattr(news, "tally"):
            for worker in with_words(psutil.Process(), "ray::")[:1]:
                worker.kill()
                killed.append(worker)

    trained = learn(shards, LEARNER, round=300, engine="ray", workers=2, evaluate=False, watch=watch)
    assert len(killed) == 3
    assert trained.learner.to_bytes() == undisturbed.learner.to_bytes()
