"""Record what a real Apache Kafka answers to fetches, for test_records.py.

    python -m tests.kafka.record_golden

Starts a broker of its own, with compaction, fills topics, and fetches them as a consumer does: the bytes of
the records and the aborted transactions of every answer go into ``golden/fetches.msgpack.zst``. Only needed
again for another version of Kafka or another case.
"""

import random
import tempfile
import time
from pathlib import Path

import msgspec
import zstandard
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.consumer.fetcher import Fetcher
from kafka.record import MemoryRecords

from .broker import VERSION, Broker

PLACE = Path(__file__).parent / "golden" / "fetches.msgpack.zst"
HEADERS = [
    [],
    [("trace", b"00-1")],
    [("a", b""), ("a", b"again"), ("grüße", b"\x00\xff")],
    [("", b"nameless")],
    [("content-type", b"application/json"), ("retries", b"3")],
]


class Name(str):
    """A header's name that is no UTF-8."""

    def encode(self, *_):
        return b"caf\xe9"


class Recorder:
    def __init__(self, servers):
        self.servers, self.fetches, self.admin = servers, [], KafkaAdminClient(bootstrap_servers=servers)
        self.rng = random.Random(15)

    def topic(self, name, **configs):
        configs = {
            key.replace("_", "."): str(value) for key, value in {"retention_ms": -1, **configs}.items()
        }
        self.admin.create_topics([NewTopic(name, 1, 1, topic_configs=configs)])
        return name

    def producer(self, **options):
        return KafkaProducer(
            bootstrap_servers=self.servers, linger_ms=50, max_request_size=1 << 24, **options
        )

    def send(self, producer, topic, count, keys=("k0", "k1", None), values=None, batch=10, now=False):
        for i in range(count):
            key, value = keys[i % len(keys)], b'{"i": %d, "x": %.6f}' % (i, self.rng.gauss(0, 1))
            value = (value, b"", None)[0 if i % 7 else i // 7 % 3] if values is None else values[i]
            if key is None and value is None:
                value = b""  # this library sends no record without both
            moment = None if now else 1_700_000_000_000 + self.rng.randrange(-5000, 5000)
            producer.send(
                topic, value, None if key is None else key.encode(), HEADERS[i % len(HEADERS)], 0, moment
            )
            if i % batch == batch - 1:
                producer.flush()
        producer.flush()

    def fetch(self, topic, first=0, **options):
        """Read a topic from an offset to its end, keeping every answer."""
        place, fetches = TopicPartition(topic, 0), self.fetches
        for committed in (True, False):

            class Recording(Fetcher.PartitionRecords):
                def __init__(self, offset, tp, records, *arguments, aborted_transactions=None, **others):
                    if records.size_in_bytes():
                        fetches.append({
                            "topic": topic, "offset": offset, "committed": committed,  # noqa: B023
                            "records": bytes(records._buffer),
                            "aborted": [(t.producer_id, t.first_offset) for t in aborted_transactions or ()],
                        })  # fmt: skip
                    super().__init__(
                        offset, tp, records, *arguments, aborted_transactions=aborted_transactions, **others
                    )

            consumer = KafkaConsumer(
                bootstrap_servers=self.servers, enable_auto_commit=False, auto_offset_reset="none",
                isolation_level="read_committed" if committed else "read_uncommitted", **options,
            )  # fmt: skip
            consumer._fetcher.PartitionRecords = Recording
            consumer.assign([place])
            consumer.seek(place, first)
            end = consumer.end_offsets([place])[place]
            while consumer.position(place) < end:
                try:
                    consumer.poll(500)
                except Exception as error:
                    print(f"{topic}: {error}")
                    break
            consumer.close()

    def codecs(self):
        for codec in (None, "gzip", "snappy", "lz4", "zstd"):
            for kind in ("client", "broker"):  # who compresses: this library, or Java's
                name = self.topic(
                    f"{codec}-{kind}", compression_type=codec if kind == "broker" and codec else "producer"
                )
                with_codec = self.producer(compression_type=codec if kind == "client" else None)
                self.send(with_codec, name, 40)
                with_codec.close()
                self.fetch(name)
                self.fetch(name, 17)  # in the middle of a batch
        self.fetch("None-client", max_partition_fetch_bytes=900)  # ends in the middle of a batch

    def times(self):
        for codec in ("producer", "lz4"):
            name = self.topic(
                f"append-time-{codec}", message_timestamp_type="LogAppendTime", compression_type=codec
            )
            producer = self.producer()
            self.send(producer, name, 20)
            producer.close()
            self.fetch(name)

    def transactions(self):
        name = self.topic("transactions")
        producers = [
            self.producer(transactional_id=f"t{i}", compression_type=(None, "lz4")[i]) for i in (0, 1)
        ]
        plain = self.producer()
        for producer in producers:
            producer.init_transactions()
        for turn, (first, second) in enumerate([(True, False), (False, True), (False, False), (True, True)]):
            for producer in producers:
                producer.begin_transaction()
            for _ in range(2):
                for producer in (*producers, plain):
                    self.send(producer, name, 3 + turn)
            for producer, good in zip(producers, (first, second), strict=True):
                (producer.commit_transaction if good else producer.abort_transaction)()
        self.fetch(name)
        self.fetch(name, 5)
        self.fetch(name, 30)
        self.fetch(name, max_partition_fetch_bytes=1500)
        for producer in (*producers, plain):
            producer.close()

    def compaction(self):
        configs = {
            "cleanup_policy": "compact", "segment_ms": 100, "min_cleanable_dirty_ratio": 0.01,
            "delete_retention_ms": 86_400_000, "min_compaction_lag_ms": 0, "max_compaction_lag_ms": 100,
        }  # fmt: skip
        for kind in ("plain", "transactional"):
            name = self.topic(f"compacted-{kind}", **configs)
            producer = self.producer(
                compression_type="gzip", transactional_id=None if kind == "plain" else "c"
            )
            if kind == "transactional":
                producer.init_transactions()
            for turn in range(6):
                if kind == "transactional":
                    producer.begin_transaction()
                self.send(producer, name, 12, ("k0", "k1", f"k2-{turn}", "k3"), batch=6, now=True)
                if kind == "transactional":
                    (producer.abort_transaction if turn % 3 == 1 else producer.commit_transaction)()
                time.sleep(0.3)
            producer.close()
            roll, deadline, counts = self.producer(), time.monotonic() + 60, []
            # takes the place of all in the last batch of the other, which stays without records
            self.send(roll, name, 4, ("k0", "k1", "k2-5", "k3"), [b"1", None, b"", None], now=True)
            while time.monotonic() < deadline and 0 not in counts:
                # each record begins a segment, so that the one before it is closed and can be compacted
                self.send(roll, name, 1, ("roll",), [b"1"], now=True)
                time.sleep(1)
                kept = len(self.fetches)
                self.fetch(name)
                bodies, self.fetches[kept:] = [fetch["records"] for fetch in self.fetches[kept:]], []
                counts = [batch.records_count for body in bodies for batch in batches(body)]
            print(f"{name}: batches of {counts}")
            roll.close()
            self.fetch(name)
            self.fetch(name, 20)

    def librdkafka(self):
        """Let another producer write, which has headers without a value."""
        from confluent_kafka import Producer

        for codec in ("none", "snappy", "zstd"):
            name = self.topic(f"librdkafka-{codec}")
            producer = Producer({
                "bootstrap.servers": self.servers, "compression.type": codec, "linger.ms": 20,
            })  # fmt: skip
            for i in range(30):
                headers = [*HEADERS[i % len(HEADERS)], ("none", None)]
                producer.produce(
                    name, b"%d" % i if i % 5 else None, f"k{i}" if i % 3 else None, 0, headers=headers
                )
                if i == 15:
                    producer.flush()
            producer.flush()
            self.fetch(name)

    def others(self):
        name = self.topic("deleted")
        producer = self.producer()
        self.send(producer, name, 30)
        self.admin.delete_records({TopicPartition(name, 0): 14})
        self.fetch(name, 14)
        name = self.topic("large", max_message_bytes=1 << 22)
        self.send(producer, name, 4, values=[b"x" * 300_000, b"y", b"z" * 1_500_000, b""], batch=1)
        self.fetch(name)
        name = self.topic("names")
        self.send(producer, name, 3)
        producer.send(name, b"{}", headers=[("good", b"1"), (Name("cafe"), b"2")], partition=0)
        self.send(producer, name, 3)
        self.fetch(name)
        producer.close()


def batches(body):
    records = MemoryRecords(body)
    while records.has_next():
        yield records.next_batch()


def main():
    with tempfile.TemporaryDirectory() as directory:
        broker = Broker(Path(directory))
        properties = Path(directory) / "server.properties"
        text = properties.read_text().replace("log.cleaner.enable=false", "log.cleaner.enable=true")
        properties.write_text(f"{text}log.cleaner.backoff.ms=200\nlog.initial.task.delay.ms=100\n")
        broker.start()
        try:
            recorder = Recorder(broker.servers)
            recorder.codecs()
            recorder.times()
            recorder.transactions()
            recorder.librdkafka()
            recorder.others()
            recorder.compaction()
        finally:
            broker.kill()
    packed = zstandard.ZstdCompressor(19).compress(
        msgspec.msgpack.encode({"kafka": VERSION, "fetches": recorder.fetches})
    )
    PLACE.write_bytes(packed)
    print(f"{len(recorder.fetches)} fetches, {len(packed)} bytes")


if __name__ == "__main__":
    main()
