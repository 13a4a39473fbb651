"""When a run stops because of what it refuses, and what is refused because there is too much of it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.contract.errors import REFUSED_EVENTS, Failure
from connectors.contract.records import Raw, Tally
from connectors.operators.learning import RefusalLimit
from connectors.operators.outputs import Outcome
from connectors.settings import tables as settings

from .test_learning import made

GOOD, BAD = "good", None


def outcomes(kinds):
    return [Outcome(Raw(i, b""), kind, None, "" if kind else f"reason {i}") for i, kind in enumerate(kinds)]


def stops(kinds, sizes=(1,), **limits):
    """Return after how many records a run stops, and the sentence; None if it goes on."""
    found = RefusalLimit(settings.Limits(**limits))
    all_of_them, at = outcomes(kinds), 0
    while at < len(kinds):
        part = all_of_them[at : at + sizes[at % len(sizes)]]
        at += len(part)
        if said := found.exceeded(part, sum(o.event is None for o in part)):
            return at, said
    return None


def test_what_is_remembered_has_a_bound():
    found = RefusalLimit(settings.Limits(window=7))
    for _ in range(50):
        found.exceeded(outcomes([GOOD] * 3), 0)
        found.passed(2)
    assert len(found._seen) == 7


def test_so_many_in_a_row():
    limits = {"consecutive": 3, "ratio": 1.0}
    assert stops([BAD, BAD, GOOD] * 50, **limits) is None
    after, said = stops([GOOD, BAD, BAD, GOOD, BAD, BAD, BAD, GOOD], **limits)
    assert after == 7
    assert said == "3 events in a row were refused (limits.consecutive): reason 6"
    assert stops([BAD] * 2 + [GOOD] + [BAD] * 2, (3, 2), **limits) is None


def test_too_large_a_share():
    limits = {"consecutive": 1000, "ratio": 0.4, "window": 10}
    assert stops([BAD] * 9, **limits) is None  # the window is not full
    assert stops(([BAD] * 4 + [GOOD] * 6) * 30, **limits) is None  # four in ten are not more than 0.4
    after, said = stops(([BAD] * 4 + [GOOD] * 6) * 3 + [BAD] * 5, **limits)
    assert after == 35
    assert said == "5 of the last 10 events were refused (limits.ratio): reason 34"
    # what fell out of the window does not count
    assert stops([BAD] * 4 + [GOOD] * 10 + [BAD] * 4 + [GOOD] * 10, **limits) is None


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_however_records_are_cut(bad, sizes):
    """A batch stops where one of its records would have stopped the run alone."""
    kinds = [BAD if b else GOOD for b in bad]
    limits = {"consecutive": 4, "ratio": 1.0}
    one, many = stops(kinds, **limits), stops(kinds, sizes, **limits)
    assert (one is None) == (many is None)
    if one is not None:
        assert one[1] == many[1]
        assert one[0] <= many[0] < one[0] + max(sizes)


def test_a_label_that_is_no_label_is_refused_as_such():
    """And not as one of another type than those before."""
    _, operator = made("classes")
    outcomes = operator.outcomes(
        [Raw(i, b'{"a": 1, "y": %s}' % y) for i, y in enumerate([b"1", b"2", b"3.5"])]
    )
    assert "a class label must be" in outcomes[2].reason
    assert "another type" not in outcomes[2].reason


def test_a_run_that_stops_has_a_code():
    _, operator = made("classes", limits={"ratio": 0.2, "window": 5})
    good = [Raw(i, b'{"a": %d, "y": true}' % i) for i in range(5)]
    assert operator.process("p-0", good).failure is None
    done = operator.process("p-0", [Raw(5, b"{"), Raw(6, b"{")])
    assert done.failure.code == REFUSED_EVENTS
    assert "2 of the last 5 events were refused (limits.ratio)" in str(done.failure)
    assert (done.done, done.tally.refused, len(done.outputs)) == (2, 2, 2)


# ---- room for labels and names


def labelled(labels, name="a"):
    return [Raw(i, f'{{"{name}": 1, "y": "{label}"}}'.encode()) for i, label in enumerate(labels)]


@given(st.lists(st.integers(0, 9), max_size=60), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_labels_beyond_the_limit_are_refused_wherever_records_are_cut(labels, sizes):
    known, expected = set(), []
    for label in labels:
        if label in known or len(known) < 4:
            known.add(label)
            expected.append(True)
        else:
            expected.append(False)
    learner, operator = made("classes", limits={"labels": 4})
    records, found, at = labelled(labels), [], 0
    while at < len(records):
        size = sizes[at % len(sizes)]
        found += operator.outcomes(records[at : at + size])
        at += size
    assert [outcome.event is not None for outcome in found] == expected
    assert all("(limits.labels)" in outcome.reason for outcome in found if outcome.event is None)
    assert sorted(learner.labels) == sorted(map(str, known))
    assert learner.events == sum(expected)


EMPTY, INPUTS = b'{"y": %s}', b'{"%s": %s, "y": %s}'


@pytest.mark.parametrize("value", [b"1.5", b'"text"'], ids=["number", "text"])
@pytest.mark.parametrize(("task", "target"), [("classes", b"true"), ("numbers", b"2.5")])
@given(empty=st.lists(st.booleans(), max_size=20), sizes=st.lists(st.integers(1, 7), min_size=1, max_size=4))
@pytest.mark.parametrize("most", [1000, 0])
def test_labels_without_inputs_are_refused(task, target, value, most, empty, sizes):
    """Wherever records are cut; with a limit of 0, they are learned until inputs have come."""
    _, operator = made(task, limits={"without_inputs": most})
    bodies = [EMPTY % target if bare else INPUTS % (b"a", value, target) for bare in empty]
    found, at = [], 0
    while at < len(bodies):
        size = sizes[at % len(sizes)]
        part = [Raw(at + i, body) for i, body in enumerate(bodies[at : at + size])]
        if whole := operator.learn_batch(part):
            found += [True] * len(whole.records)
        else:
            found += [outcome.event is not None for outcome in operator.outcomes(part)]
        at += size
    first = empty.index(False) if False in empty else len(empty)
    assert found == [not bare or (i < first and not most) for i, bare in enumerate(empty)]


@pytest.mark.parametrize("task", ["classes", "numbers"])
@given(
    kinds=st.lists(st.integers(0, 3), max_size=40), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4)
)
def test_labels_in_records_of_their_own_end_the_run(task, kinds, sizes):
    """Wherever records are cut, and across restarts; events to be predicted do not count."""
    limits = {"without_inputs": 4, "without_target": 0}
    _, operator = made(task, limits=limits, events={"target": "y", "key": "id"})
    value = b"2.5" if task == "numbers" else b'"up"'
    whole, label, event = b'{"id": 1, "x": 1.5, "y": %s}', b'{"id": 1, "y": %s}', b'{"id": 2, "x": 2.5}'
    bodies = [[label % value, label % value, event, whole % value][kind] for kind in kinds]
    row, ends = 0, None
    for i, kind in enumerate(kinds):
        row = row + 1 if kind < 2 else 0 if kind == 3 else row
        ends = i if ends is None and row == 4 else ends
    at, done = 0, None
    while at < len(bodies) and (done is None or done.failure is None):
        size = sizes[at % len(sizes)]
        done = operator.process("p-0", [Raw(at + i, b) for i, b in enumerate(bodies[at : at + size])])
        at += size
        _, again = made(task, limits=limits, events={"target": "y", "key": "id"})
        again.restore(operator.snapshot())
        operator = again
    failure = done and done.failure
    assert (failure is not None) == (ends is not None)
    if failure is not None:
        assert ends < at <= ends + max(sizes)
        assert failure.code == REFUSED_EVENTS
        assert str(failure) == (
            "4 events in a row have a target and no input (limits.without_inputs): the fields are 'id', 'y'; "
            "labels in separate records need a topic or log that [labels] names"
        )


@pytest.mark.parametrize("features", [["amonut"], {"size": "amonut"}, ["amonut", "kind.of"]])
@pytest.mark.parametrize("lenient", [True, False])
def test_a_wrong_name_of_a_feature_ends_the_run(features, lenient):
    learner, operator = made("classes", lenient, events={"target": "y", "features": features})
    before = learner.to_bytes()
    records = [Raw(i, b'{"amount": %d, "y": "up", "kind": {"a": 1}}' % i) for i in range(1500)]
    done = operator.process("p-0", records)
    assert done.failure.code == REFUSED_EVENTS
    said = str(done.failure)
    assert "events.features names 'amonut' (did you mean 'amount'?)" in said
    assert "the fields are 'amount', 'y', 'kind.a'" in said
    assert ("1,000 events in a row have a target and no input (limits.without_inputs): " in said) == lenient
    assert learner.to_bytes() == before
    if lenient:
        assert done.causes == {"no_input": 1500}
        assert all(b"it has a target and no input: events.features" in each.body for each in done.outputs)


def test_events_of_labels_alone_have_their_target():
    """So the name of the target is not what is wrong."""
    _, operator = made("classes", limits={"without_target": 5})
    records = [Raw(i, b'{"id": 1, "y": "up"}' if i % 3 else b'{"id": 1, "x": 2}') for i in range(60)]
    assert operator.process("p-0", records[:30]).failure is None
    _, operator = made("classes", limits={"without_target": 5}, events={"target": "y", "key": "id"})
    assert operator.process("p-0", records).failure is None


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_target_that_no_event_has_ends_the_run(kinds, sizes):
    """Up to the first event that is learned, wherever records are cut."""
    _, operator = made("classes", limits={"without_target": 5})
    bodies = [b'{"a": 1, "label": 2, "y": true}' if kind == 3 else b'{"a": 1, "label": 2}' for kind in kinds]
    first = kinds.index(3) if 3 in kinds else len(kinds)
    at, ended = 0, None
    while at < len(bodies) and ended is None:
        size = sizes[at % len(sizes)]
        part = [Raw(at + i, body) for i, body in enumerate(bodies[at : at + size])]
        at += size
        try:
            operator.process("p-0", part)
        except Failure as failure:
            ended = failure
    if ended is not None:
        assert first >= 5
        assert ended.code == REFUSED_EVENTS
        assert "events has the field 'y'; the fields of the last one are 'a', 'label'" in str(ended)
    if first >= 5 + max(sizes):
        assert ended is not None


def test_any_number_of_events_may_lack_a_target_on_request():
    _, operator = made("classes", limits={"without_target": 0})
    done = operator.process("p-0", [Raw(i, b'{"a": 1}') for i in range(2000)])
    assert done.failure is None
    assert done.tally.predicted == 2000


def test_a_label_of_a_refused_event_does_not_count():
    learner, operator = made("classes", limits={"labels": 1})
    bad = Raw(0, b'{"a": 1e300, "y": "one"}')
    found = operator.outcomes([bad, *labelled(["two", "two", "one"])])
    assert [o.event is not None for o in found] == [False, True, True, False]
    assert learner.labels == ["two"]


def test_only_labels_that_would_be_learned_count():
    _, operator = made("classes", limits={"labels": 1})
    sent = [b'{"a": 1, "y": "one"}', b'{"a": 1, "y": "two", "w": 0}', b'{"a": 2}', b'{"a": 1, "y": "three"}']
    found = operator.outcomes([Raw(i, body) for i, body in enumerate(sent)])
    assert [o.event is not None for o in found] == [True, True, True, False]
    numbers, operator = made("numbers", limits={"labels": 1})
    operator.outcomes([Raw(i, b'{"a": 1, "y": %d}' % i) for i in range(5)])
    assert numbers.events == 5


def test_names_beyond_the_limit_are_refused():
    """What names a number is kept for ever; a text or a missing value is not."""
    learner, operator = made("numbers", limits={"names": 2})
    sent = [
        '"a": 1',
        '"b": 1',
        '"a": 2, "b": 2',
        '"c": 1',
        '"a": 1, "d": 2',
        '"e": "text"',
        '"f": true',
        '"g": null',
    ]
    records = [Raw(i, f'{{{fields}, "y": {i}}}'.encode()) for i, fields in enumerate(sent)]
    found = operator.outcomes(records)
    assert [o.event is not None for o in found] == [True, True, True, False, False, True, True, True]
    assert "1 names of numbers are new, and there would be more than 2 (limits.names)" in found[3].reason
    assert learner.number_names == ["a", "b"]


def test_names_that_are_no_strings_count_too():
    learner, operator = made(
        "numbers",
        limits={"names": 2},
        source={"kind": "topic", "topic": "t", "group": "g"},
        events={"target": "y", "format": "msgpack"},
    )
    sent = [{"a": 1}, {7: 1}, {7: 2, "a": 1}, {8: 1}, {7.5: 1}, {"7": 3}, {8: "text"}]
    records = [Raw(i, msgspec.msgpack.encode({**fields, "y": i})) for i, fields in enumerate(sent)]
    found = operator.outcomes(records)
    assert [o.event is not None for o in found] == [True, True, True, False, False, True, True]
    assert learner.number_names == ["a", "7"]


def test_a_learner_without_names_has_no_limit():
    learner, operator = made(
        "numbers",
        limits={"names": 2},
        learner={
            "name": "kaczmarz",
            "task": "regression",
            "parameters": {"features": 32, "scale_inputs": False},
        },
    )
    records = [Raw(i, b'{"n%d": 1, "y": 1}' % i) for i in range(9)]
    assert all(o.event is not None for o in operator.outcomes(records))
    assert learner.number_names is None


@pytest.mark.parametrize("lenient", [True, False])
def test_tombstones(lenient):
    sent = [
        Raw(0, b'{"a": 1, "y": 1}'),
        Raw(1, None, b"k"),
        Raw(2, b""),
        Raw(3, None),
        Raw(4, b'{"a": 1, "y": 2}'),
    ]
    _, skipping = made("numbers", lenient, events={"target": "y", "tombstones": "skip"})
    done = skipping.process("p-0", sent)
    if lenient:
        assert (done.tally, done.done) == (Tally(2, 0, 1, 2), 5)
        _, dead = made("numbers", True)
        assert dead.process("p-0", sent).tally == Tally(2, 0, 3, 0)
    else:
        # the record that ends the run is the empty one, and the tombstone before it is done
        assert (done.tally, done.done) == (Tally(1, 0, 0, 1), 2)
        assert "p-0, offset 2: " in str(done.failure)
