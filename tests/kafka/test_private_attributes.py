"""The private attributes of kafka-python that connectors/kafka uses.

They are why pyproject.toml bounds its version: a new one may be allowed once it has every attribute that is
listed here, with the same meaning.
"""

import ast
import inspect
import re
from pathlib import Path

import kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.base import BaseCoordinator
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.producer.future import FutureRecordMetadata
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import EndTxnHandler, TransactionManager
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from connectors.kafka.records import QuickRecords

ROOT = Path(__file__).resolve().parent.parent.parent
USED = {
    KafkaConsumer: ["_cluster", "_coordinator", "_fetcher", "_manager", "_net", "_subscription"],
    KafkaAdminClient: ["_find_coordinator_id", "_manager"],
    KafkaNetClient: ["_manager", "_net"],
    KafkaConnectionManager: ["_net"],
    KafkaConnection: ["_sasl_authenticate"],
    KafkaProducer: ["_accumulator", "_sender", "_transaction_manager", "_unregister_cleanup"],
    Sender: ["_client"],
    BaseCoordinator: ["_do_join_and_sync_async"],
    ClusterMetadata: ["_refresh_loop_future"],
    TransactionManager: ["_lookup_coordinator"],
    RecordAccumulator: ["_appends_in_progress", "_batches", "_tp_lock"],
    FutureRecordMetadata: ["_produce_future"],
    ProducerBatch: ["_record_futures"],
    MemoryRecordsBuilder: ["_builder", "_closed", "_next_offset"],
    DefaultRecordBatchBuilder: [
        "_batch_size", "_buffer", "_first_timestamp", "_last_offset", "_max_timestamp", "_num_records",
    ],
    DefaultRecordBatch: ["_buffer", "_maybe_uncompress", "_pos"],
    Fetcher.PartitionRecords: [
        "_consume_aborted_transactions_up_to", "_contains_abort_marker", "_is_batch_aborted",
        "_maybe_raise_next_inline_exception", "_maybe_skip_record", "_next_inline_exception",
        "_unpack_records",
    ],
}  # fmt: skip


def missing(used):
    """Return a sentence for each attribute that the installed version does not have."""
    return [
        f"kafka-python {kafka.__version__} has no {owner.__qualname__}.{name}, which connectors/kafka uses: "
        "change connectors/kafka, or keep the bound of kafka-python in pyproject.toml"
        for owner, names in used.items()
        for name in names
        if not hasattr(owner, name) and not sets(owner, name)
    ]


def sets(owner, name):
    """Return whether a class, or one that it inherits from, gives its instances an attribute."""
    sources = [inspect.getsource(base) for base in owner.__mro__ if base.__module__.startswith("kafka.")]
    return any(re.search(rf"\bself\.{name}\b[^=\n]*=(?!=)", source) for source in sources)


def accessed():
    """Return the private attributes of other objects that modules of connectors/kafka access."""
    found = set()
    for path in (ROOT / "connectors" / "kafka").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                found |= set() if own else {node.attr}
    return found


def inherited():
    """Return the private attributes that QuickRecords, the one subclass, has from the library's class."""
    source, base = inspect.getsource(QuickRecords), Fetcher.PartitionRecords
    begun = set(re.findall(r"self\.(_[a-z]\w*)(?:: [^=\n]+)? = ", inspect.getsource(QuickRecords.__init__)))
    own = begun | {name for name in vars(QuickRecords) if name not in vars(base)}
    return set(re.findall(r"self\.(_[a-z]\w*)", source)) - own


def test_the_installed_version_has_every_private_attribute():
    assert missing(USED) == []


def test_an_attribute_that_is_missing_is_named():
    (sentence,) = missing({KafkaConsumer: ["_cluster", "_gone"]})
    assert sentence.startswith(f"kafka-python {kafka.__version__} has no KafkaConsumer._gone, which")
    assert "pyproject.toml" in sentence


def test_the_list_has_what_is_used_and_nothing_else():
    assert {name for names in USED.values() for name in names} == accessed() | inherited()
    assert set(USED[Fetcher.PartitionRecords]) == inherited()


def test_a_lost_coordinator_needs_the_workaround():
    """What connectors/kafka/coordination.py relies on: results of waits, one look-up, and version 1."""
    sending = inspect.getsource(Sender._maybe_send_pending_request)
    assert "elif not self._client.await_ready(target_node, timeout_ms=" in sending
    assert "self._lookup_coordinator(" in inspect.getsource(TransactionManager.lookup_coordinator_for_request)
    assert "max_version=3" in inspect.getsource(EndTxnHandler)  # 5 is the first with an epoch for each


def test_joins_that_end_between_polls_need_the_workaround():
    """The client begins another one; the state tells whether the result of the last one was used."""
    joining = inspect.getsource(BaseCoordinator.join_group_async)
    assert "if self._join_task is None or self._join_task.is_done:" in joining
    assert "self.state = MemberState.STABLE" in joining
    joined = inspect.getsource(BaseCoordinator._do_join_and_sync_async)
    assert "self.state = MemberState.REBALANCING" in joined
