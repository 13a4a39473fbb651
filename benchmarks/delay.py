"""Time from producing an event to its committed prediction, as a reader of committed records sees it.

    python benchmarks/delay.py [--rate 1000] [--seconds 30] [--learner kaczmarz]

One partition, JSON, 20 features. A daemon in a process of its own; producer and reader share another. The
first ten seconds do not count. Starts its own Kafka unless ``STREAMK_TEST_KAFKA`` names one. Use an idle
machine.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.kafka.broker import running_broker

TOPIC = f"delay-{secrets.token_hex(4)}"
OUT = f"{TOPIC}-predictions"
WARM = 10.0  # seconds


def measure(servers: str, rate: int, seconds: float, settings: Path) -> np.ndarray:
    """Return delays in seconds, of the events after the warm-up."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(TOPIC, 1, 1), NewTopic(OUT, 1, 1)])
    admin.close()
    rng, count = random.Random(1), int(rate * (WARM + seconds))
    sent, seen = np.zeros(count), np.zeros(count)
    done = threading.Event()

    def read() -> None:
        consumer = KafkaConsumer(
            OUT, bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest",
            fetch_max_wait_ms=5,
        )  # fmt: skip
        last = 0
        while last < count and not done.is_set():
            for records in consumer.poll(20).values():
                now = time.perf_counter()
                for record in records:
                    seen[int(record.key)] = now
                    last += 1
        consumer.close()

    reader = threading.Thread(target=read)
    reader.start()
    daemon = subprocess.Popen([sys.executable, "-m", "connectors.cli", "run", str(settings)])
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=0, acks=1)
    try:
        began = time.perf_counter()
        for k in track(range(count), f"sending {rate:,} events a second"):
            x = {f"f{j:02d}": round(rng.gauss(0, 1), 6) for j in range(20)}
            body = json.dumps({**x, "y": x["f00"] * x["f01"] > 0}).encode()
            time.sleep(max(0.0, began + k / rate - time.perf_counter()))
            sent[k] = time.perf_counter()
            producer.send(TOPIC, body, key=str(k).encode())
        producer.flush()
        reader.join(timeout=60.0)
    finally:
        done.set()
        producer.close(timeout=5)
        daemon.terminate()
        daemon.wait()
    if not seen.all():
        raise SystemExit(f"{(seen == 0).sum():,} of {count:,} predictions did not come")
    return (seen - sent)[int(rate * WARM) :]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=1000, help="events a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--learner", default="kaczmarz")
    options = parser.parse_args()
    with running_broker() as servers, tempfile.TemporaryDirectory() as directory:
        settings = Path(directory, "streamk.toml")
        settings.write_text(
            f'[kafka]\nservers = ["{servers}"]\n[source]\nkind = "topic"\ntopic = "{TOPIC}"\n'
            f'group = "{TOPIC}"\n[events]\ntarget = "y"\n[learner]\nname = "{options.learner}"\n'
            f'[predictions]\nkind = "topic"\ntopic = "{OUT}"\n'
            f'[checkpoints]\ndirectory = "{directory}/state"\n'
        )
        delays = measure(servers, options.rate, options.seconds, settings) * 1000
    half, most, worst = np.quantile(delays, [0.5, 0.99, 1.0])
    print(
        f"{len(delays):,} events, {options.rate:,} a second, {options.learner}: from produce to committed "
        f"prediction, half within {half:.0f} ms, 99 % within {most:.0f} ms, all within {worst:.0f} ms"
    )


if __name__ == "__main__":
    main()
