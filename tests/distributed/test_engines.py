"""Workers that are killed while they send, that nobody wants any more, and whose driver is killed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import active_children
from pathlib import Path

import psutil
import pytest

import streamk
from streamk.distributed import learn
from streamk.distributed.engines import Processes
from streamk.distributed.tasks import Task

from .streams import CLASSIFIER, News, reference, shards_of

LARGE = streamk.KaczmarzClassifier(features=16384, max_features=16384, growth="fixed", seed=7)  # 0.2 MB


def test_they_are_killed_at_any_moment():
    """Answers are larger than what a pipe holds, so workers die in the middle of one."""
    shards, chance, killers = shards_of((40,) * 6), random.Random(3), []

    def kill():
        if workers := active_children():
            os.kill(chance.choice(workers).pid, signal.SIGKILL)

    def watch(news):
        if len(killers) < 6 and chance.random() < 0.3:
            killers.append(threading.Timer(chance.uniform(0.0, 0.03), kill))
            killers[-1].start()

    trained = learn(shards, LARGE, round=4, workers=2, evaluate=False, watch=watch)
    for killer in killers:
        killer.join()
    assert len(killers) == 6
    assert trained.learner.to_bytes() == reference(shards, LARGE, 4)


def test_an_interruption_does_not_wait_for_answers_in_transit():
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        learn(shards_of((50,) * 8), LARGE, round=5, workers=2, watch=News(until=2))
    assert time.monotonic() - began < 60
    assert not active_children()


def test_who_stops_asking_gets_no_old_answers():
    shards, model = shards_of((20, 20, 20)), CLASSIFIER.to_bytes()
    engine = Processes(2)
    try:
        first = engine.each(model, {k: Task(shard, None, 20, False) for k, shard in enumerate(shards)})
        next(first)
        first.close()
        found = dict(engine.each(model, {7: Task(shards[2], 15, 20, False)}))
    finally:
        engine.close()
    assert list(found) == [7]
    assert found[7].events == 5
    assert not active_children()


SCRIPT = """
import sys, time
from dataclasses import dataclass
from streamk.distributed import learn
from tests.distributed.streams import CLASSIFIER, shards_of

@dataclass(frozen=True)
class Slow:
    name: str = "slow"

    def read(self, position, count):
        print("reading", flush=True)
        time.sleep(600)

if __name__ == "__main__":
    learn([Slow(), *shards_of((10,))], CLASSIFIER, workers=2)
"""


def test_they_die_with_their_driver(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in (str(Path.cwd()), *sys.path) if p)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "reading\n"
        workers = psutil.Process(driver.pid).children()
        driver.kill()
        driver.wait()
        _, alive = psutil.wait_procs(workers, timeout=20)
    assert len(workers) >= 2
    assert not alive


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="signals are read from /proc")
def test_the_first_worker_starts_with_interrupts_held():
    """In a process of its own, since the first worker of a process also starts Python's resource tracker."""
    code = (
        "from pathlib import Path\n"
        "from streamk.distributed import engines\n"
        "if __name__ == '__main__':\n"
        "    with engines._interrupts_held():\n"
        "        worker = engines._Worker()\n"
        "    status = Path(f'/proc/{worker._process.pid}/status').read_text()\n"
        "    worker.kill()\n"
        "    print(status.partition('SigBlk:')[2].split()[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout, 16) & 1 << (signal.SIGINT - 1)
