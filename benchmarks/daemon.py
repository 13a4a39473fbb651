"""Speed of the daemon compared with a loop that only polls and parses the same messages.

    python benchmarks/daemon.py [--events 200000] [--default] [--memory 5000000]

One partition, JSON, 20 features, 512 random features. In turns, in one process: kafka-python's poll with a
parser and nothing else, and the daemon's session (decode, predict, learn, count, checkpoint), without and
with predictions into a topic, written by either producer. A ratio compares figures of the same turn; the
median over the turns is followed by the smallest and the largest. With ``--default``, the daemon learns with
the default learner, and is compared with a loop that polls, parses, predicts and learns in batches. With
``--memory``, the daemon processes so many events, and the growth of the process after the first tenth is
printed. Starts its own Kafka unless ``STREAMK_TEST_KAFKA`` names one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import random
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psutil
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from connectors.daemon.run import open_source_and_sinks, start_session
from connectors.daemon.session import Session
from connectors.daemon.telemetry import Telemetry
from connectors.settings.tables import Settings
from connectors.state.disk import CheckpointStore
from streamk import KernelClassifier
from tests.kafka.broker import running_broker

TOPIC = f"bench-{secrets.token_hex(4)}"
OUT = f"{TOPIC}-predictions"


def fill(servers: str, count: int, quiet: bool) -> None:
    """Send so many events: two thousand distinct ones, repeated."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(TOPIC, 1, 1), NewTopic(OUT, 1, 1)])
    admin.close()
    rng = random.Random(1)
    bodies = []
    for _ in range(2000):
        x: dict[str, Any] = {f"f{j:02d}": round(rng.gauss(0, 1), 6) for j in range(20)}
        bodies.append(json.dumps({**x, "y": x["f00"] * x["f01"] > 0}).encode())
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=20, batch_size=1 << 17)
    for i in track(range(count), "sending", disable=quiet):
        producer.send(TOPIC, bodies[i % 2000])
    producer.flush()
    producer.close(timeout=5)


def parsing(parse: Callable[[bytes], Any]) -> Callable[[list[bytes]], object]:
    """Return what parses messages and does nothing else."""
    return lambda values: [parse(value) for value in values]


def learning() -> Callable[[list[bytes]], object]:
    """Return what parses messages, predicts and learns them by the default learner."""
    learner = KernelClassifier(seed=0)

    def learn(values: list[bytes]) -> None:
        events = [msgspec.json.decode(value) for value in values]
        targets = [event.pop("y") for event in events]
        learner.predict_learn_array(events, targets)

    return learn


def bare(servers: str, count: int, process: Callable[[list[bytes]], object]) -> float:
    """Poll and process the values of messages in batches; return events a second."""
    consumer = KafkaConsumer(
        bootstrap_servers=servers, enable_auto_commit=False, auto_offset_reset="earliest",
        isolation_level="read_committed", max_poll_records=2000, metrics_enabled=False,
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0)])
    seen = first = 0
    while seen < count:
        for records in consumer.poll(1000).values():
            process([record.value for record in records])
            seen += len(records)
            if not first:
                first, began = seen, time.perf_counter()
    seconds = time.perf_counter() - began
    consumer.close()
    return (count - first) / seconds


@contextlib.contextmanager
def session(servers: str, producer: str | None = None, default: bool = False) -> Iterator[Session]:
    """Yield a daemon's session at the start of the topic."""
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings.model_validate({
            "kafka": {"servers": [servers], "producer": producer or "kafka-python"},
            "source": {"kind": "topic", "topic": TOPIC, "group": secrets.token_hex(4)},
            "events": {"target": "y"},
            "learner": {} if default else {"name": "kaczmarz", "parameters": {"features": 512}},
            "predictions": {"kind": "topic", "topic": OUT, "shared": True} if producer else None,
            "checkpoints": {"directory": directory},
        })  # fmt: skip
        store = CheckpointStore(settings.checkpoints.directory)
        with store.locked(), open_source_and_sinks(settings, store) as (source, sinks):
            running = start_session(settings, store, source, sinks, Telemetry())
            while not running.processed:
                running.step()
            gc.freeze()  # as the daemon does
            yield running


def daemon(servers: str, count: int, producer: str | None = None, default: bool = False) -> float:
    """Run the daemon's session; return events per second."""
    with session(servers, producer, default) as running:
        first, began = running.processed, time.perf_counter()
        while running.processed < count:
            running.step()
        running.finish()
        return (count - first) / (time.perf_counter() - began)


def grown(servers: str, count: int, console: Console) -> int:
    """Return the growth of the process, in bytes, between a tenth of the events and all of them."""
    process, sizes, shown = psutil.Process(), [], 0
    with session(servers) as running, console.status("learning") as status:
        while (events := running.processed) < count:
            running.step()
            if events >= shown:
                shown += count // 50
                sizes.append((events, process.memory_info().rss))
                status.update(f"learned {events:,}, {sizes[-1][1] / 1e6:.1f} MB")
    late = [size for events, size in sizes if events >= count // 10]
    return max(late) - late[0]


def ratio(speeds: list[float], of: list[float]) -> str:
    found = sorted(speed / base for speed, base in zip(speeds, of, strict=True))
    return f"{statistics.median(found):.2f} ({found[0]:.2f}–{found[-1]:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--default", action="store_true", help="with the default learner")
    parser.add_argument("--memory", type=int, default=0, help="events of the memory run; none by default")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json)
    with running_broker() as servers:
        fill(servers, max(arguments.events, arguments.memory), arguments.json)
        if arguments.memory:
            result: dict[str, Any] = {
                "events": arguments.memory,
                "grown_bytes": grown(servers, arguments.memory, console),
            }
            console.print(
                f"{arguments.memory:,} events: the process grew by {result['grown_bytes'] / 1e6:.1f} MB"
            )
        else:
            run = partial(daemon, servers, arguments.events, default=arguments.default)
            poll = partial(bare, servers, arguments.events)
            bases = {
                "poll + json": lambda: poll(parsing(json.loads)),
                "poll + msgspec": lambda: poll(parsing(msgspec.json.decode)),
            }
            if arguments.default:
                bases = {"loop": lambda: poll(learning())}
            subjects = {
                **bases,
                "daemon": run,
                "… predictions by kafka-python": lambda: run("kafka-python"),
                "… by confluent-kafka": lambda: run("confluent-kafka"),
            }
            subjects["daemon"]()  # compiles
            speeds: dict[str, list[float]] = {name: [] for name in subjects}
            for _ in range(arguments.turns):
                for name, measure in subjects.items():
                    speeds[name].append(measure())
            result = {name: statistics.median(found) for name, found in speeds.items()}
            table = Table("", "events/s", *(f"of {base}" for base in bases))
            for name, found in speeds.items():
                table.add_row(
                    name,
                    f"{result[name]:,.0f}",
                    *(ratio(found, speeds[base]) for base in bases),
                )
            console.print(table)
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
