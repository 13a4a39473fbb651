"""The daemon and replay read the same events from the same bytes."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.events import Decoder
from connectors.files.log import Log
from connectors.files.source import FileSource
from connectors.settings import Events
from connectors.stream import Failure

NAMES = ("y", "a", "b c", "é", "")
TEXTS = st.text(alphabet='ab1-.,"\n\r\t {}[]:é\0', max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def lines_of_json(draw):
    import json

    rows = draw(st.lists(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4), max_size=6))
    texts = [json.dumps(row, ensure_ascii=draw(st.booleans())) for row in rows]
    return [*texts, *draw(st.lists(TEXTS, max_size=2))]


def lines_of_csv(draw):
    rows = draw(st.lists(st.lists(TEXTS, min_size=2, max_size=4), max_size=6))
    quoted = draw(st.booleans())
    cells = [[f'"{v.replace(chr(34), chr(34) * 2)}"' if quoted else v for v in row] for row in rows]
    return ["a,y,b", *(",".join(row) for row in cells)]


@st.composite
def files(draw):
    form = draw(st.sampled_from(["json", "csv"]))
    lines = lines_of_json(draw) if form == "json" else lines_of_csv(draw)
    end = draw(st.sampled_from(["\n", "\r\n"]))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    data = (mark + end.join(lines) + draw(st.sampled_from(["", end]))).encode("utf-8", "replace")
    return form, gzip.compress(data) if draw(st.booleans()) else data


def of_daemon(path, events):
    """Return the events that a daemon decodes, those without a target left out; None if it cannot begin."""
    try:
        source = FileSource(path, events.format)
    except Failure:
        return None
    try:
        decode = events.decoder("classification", source.columns, source.delimiter)
    except Failure:
        return None
    finally:
        source.close(True)
    source = FileSource(path, events.format)
    source.poll(0)
    source.begin(source.name, source.begins)
    found = []
    while not (polled := source.poll(0)).finished:
        for batch in polled.batches.values():
            for record in batch.records:
                try:
                    event = decode(record.value)
                except ValueError:
                    continue
                if event.target is not None:
                    found.append((event.fields, event.target))
    source.close(True)
    return found


@given(files())
def test_the_same_bytes_are_the_same_events(tmp_path_factory, file):
    form, data = file
    path = tmp_path_factory.getbasetemp() / "one.log"
    path.write_bytes(data)
    events = Events(target="y", format=form, ignore=["é"])
    log = Log(
        path, "y", lambda f, columns, delimiter: events.decoder("classification", columns, delimiter), form
    )
    try:
        replayed = [(record.fields, record.target) for record in log]
    except (ValueError, Failure):
        replayed = None
    assert repr(replayed) == repr(of_daemon(path, events))  # repr: NaN is not equal to itself


@pytest.mark.parametrize("form", ["json", "csv"])
def test_replay_heeds_ignored_fields_and_features(tmp_path, form):
    path = tmp_path / "log"
    path.write_text('{"a": 1, "b": 2, "c": 3, "y": "u"}\n' if form == "json" else "a,b,c,y\n1,2,3,u\n")
    for changes, expected in (({"ignore": ["b"]}, {"a", "c"}), ({"features": {"z": "c"}}, {"z"})):
        events = Events(target="y", format=form, **changes)
        log = Log(
            path, "y", lambda f, columns, delimiter, e=events: e.decoder("regression", columns, delimiter)
        )
        (record,) = log
        assert set(record.fields) == expected


def test_replay_tells_the_form_and_the_daemon_is_told(tmp_path):
    path = tmp_path / "log"
    path.write_text('\n{"a": 1, "y": true}\n')
    assert [record.fields for record in Log(path, "y")] == [{"a": 1}]
    assert Decoder("json", "y")(b'{"a": 1, "y": true}').fields == {"a": 1}
