"""Events that come again are skipped, if they were taken, wherever batches end and after a restart."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.contract.records import DEAD_LETTERS, Output, Processed, Raw, Tally
from connectors.daemon.telemetry import Telemetry
from connectors.kafka.sections import LabelTopic
from connectors.operators.learning import PartitionedLearning, SingleLearning
from connectors.operators.repeats import RecentKeys
from connectors.settings.tables import Settings
from connectors.state import edits
from connectors.state.checkpoint import RECENT, Checkpoint
from streamk.learners.loading import MODEL


def learn(records, most=3, cuts=(), restarts=(), strict=False):
    """Return the offsets that were processed, and the counts; a record of value b"bad" is refused."""
    taken, total, outputs = [], Tally(), []

    def process(part):
        bad = [raw for raw in part if raw.value == b"bad"]
        if bad and strict:
            part = part[: part.index(bad[0])]
        good = [raw for raw in part if raw.value != b"bad"]
        taken.extend(raw.offset for raw in good)
        letters = [Output(DEAD_LETTERS, "p", raw, b"") for raw in part if raw.value == b"bad"]
        failure = ValueError() if bad and strict else None
        return Processed(letters, Tally(len(good), 0, len(letters)), len(part), failure)

    recent = RecentKeys(most, lambda raw: raw.key)
    at = 0
    for end in sorted({*cuts, *restarts, len(records)}):
        processed = recent.process("p", records[at:end], process)
        total = Tally(*map(sum, zip(total, processed.tally, strict=True)))
        outputs += processed.outputs
        if processed.failure is not None:
            return taken, total, at + processed.done, recent
        assert processed.done == end - at
        at = end
        if end in restarts:
            stored, recent = recent.to_bytes(), RecentKeys(most, lambda raw: raw.key)
            recent.restore(stored)
    return taken, total, at, recent


def plainly(records, most):
    """Return what is taken, record by record."""
    window, taken = [], []
    for raw in records:
        if raw.key is not None and raw.key in window:
            continue
        if raw.value != b"bad":
            taken.append(raw.offset)
            window += [] if raw.key is None else [raw.key]
            del window[:-most]
    return taken


keys = st.sampled_from([None, b"a", b"b", b"c", b"d", b""])
values = st.sampled_from([b"{}", b"{}", b"bad"])
streams = st.lists(st.tuples(keys, values), max_size=24).map(
    lambda pairs: [Raw(k, value, key) for k, (key, value) in enumerate(pairs)]
)
places = st.lists(st.integers(0, 24), max_size=4)


@given(streams, st.integers(1, 4), places, places)
def test_what_is_taken_does_not_depend_on_batches_or_restarts(records, most, cuts, restarts):
    cuts, restarts = ([k for k in each if k < len(records)] for each in (cuts, restarts))
    taken, total, _, _ = learn(records, most, cuts, restarts)
    assert taken == plainly(records, most)
    assert sum(total) == len(records)
    assert total.learned == len(taken)


@given(streams, places)
def test_a_run_that_ends_continues_where_it_ended(records, cuts):
    taken, _, at, recent = learn(records, 3, [k for k in cuts if k < len(records)], strict=True)
    stop = next((k for k, raw in enumerate(records) if raw.value == b"bad" and k >= at), None)
    assert taken == plainly(records[:at], 3)
    assert stop is None or at <= stop
    again = recent.process("p", [raw._replace(value=b"{}") for raw in records[at : at + 1]], accept)
    assert at == len(records) or again.done == 1


def accept(part):
    return Processed([], Tally(len(part)), len(part))


def test_partitions_have_separate_windows():
    recent = RecentKeys(2, lambda raw: raw.key)
    for name in ("a-0", "a-1"):
        assert recent.process(name, [Raw(0, b"{}", b"k")], accept).tally == Tally(1)
    assert recent.process("a-0", [Raw(1, b"{}", b"k")], accept).tally == Tally(repeated=1)


def settings(**events):
    return Settings.model_validate(
        {
            "source": {"kind": "topic", "topic": "t", "group": "g"},
            "events": {"target": "y", "repeats": 100, **events},
            "learner": {"name": "kaczmarz", "parameters": {"features": 16}},
            "predictions": {"kind": "topic", "topic": "out"},
            "dead_letters": {"kind": "topic", "topic": "dead"},
        }
    )


def records(ids, start=0):
    return [
        Raw(start + k, json.dumps({"id": i, "a": i % 7, "y": i % 2 == 0}).encode(), b"%d" % i)
        for k, i in enumerate(ids)
    ]


@pytest.mark.parametrize("events", [{}, {"key": "id"}])
@pytest.mark.parametrize("kind", [SingleLearning, PartitionedLearning])
def test_a_model_is_that_of_the_events_without_repeats(kind, events):
    def model_of(batches, repeats=True):
        own = settings(**events) if repeats else settings(**events, **{"repeats": 0})
        operator = kind(own, own.decoder(), Telemetry())
        partitioned = kind is PartitionedLearning
        if partitioned:
            operator.begin("t-0", None)
        count = 0
        outputs = []
        for ids in batches:
            outputs += operator.process("t-0", records(ids, count)).outputs
            count += len(ids)
            parts = operator.snapshot("t-0") if partitioned else operator.snapshot()
            operator = kind(own, own.decoder(), Telemetry())
            operator.begin("t-0", parts) if partitioned else operator.restore(parts)
        return parts, outputs

    twice = [*range(60), *range(40, 60)], [*range(50, 90), 20, 89]
    found, outputs = model_of(twice)
    wanted, _ = model_of([range(60), range(60, 90)], repeats=False)
    assert found["model"] == wanted["model"]
    assert RECENT in found
    assert RECENT not in wanted
    assert len(outputs) == 90


def test_labels_are_no_repeats_of_their_events_or_of_each_other():
    chosen = settings().model_copy(
        update={"labels": LabelTopic(kind="topic", topic="labels"), "predictions": None}
    )
    operator = SingleLearning(chosen, chosen.decoder(), Telemetry())
    events = [Raw(k, b'{"a": %d}' % k, b"e%d" % k, k) for k in (0, 1, 0)]
    assert operator.process("t-0", events).tally == Tally(0, 2, 0, 0, 1)
    label = Raw(0, b'{"y": true}', b"e0", 9)
    assert operator.process("labels-0", [label]).tally.learned == 1
    other = Raw(1, b'{"y": false}', b"e0", 10)
    assert sum(operator.process("labels-0", [other, other._replace(offset=2)]).fates.values()) == 2


def test_nothing_is_repeated_after_a_reset():
    checkpoint = Checkpoint("t")
    checkpoint.parts = {RECENT: b"", MODEL: b"m"}
    positions = SimpleNamespace(identity=lambda partition: ("topic", 1))
    edits._reset_progress(edits.ResetRow("t-0", 5, 5, 0), checkpoint, positions)
    assert checkpoint.parts == {MODEL: b"m"}
    assert checkpoint.partitions["t-0"].position == 0
