"""A log that grows while it is read."""

import pytest

from connectors.events import Decoder
from connectors.stream import POSITION, Failure

from .test_source import (
    EVENTS,
    JSON,
    ROWS,
    TEXT,
    opened,
    sources,  # noqa: F401 (a fixture that closes what was opened)
    write,
)


def followed(path, form="json"):
    source, assigned = opened(path, form, follow=True)
    source.begin(source.name, assigned.first)
    return source


def came(source):
    """Return what a poll brings."""
    polled = source.poll(0)
    assert not polled.finished
    return [record.value for batch in polled.batches.values() for record in batch.records]


def add(path, data):
    with path.open("ab") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def test_following(tmp_path):
    path = write(tmp_path, '{"a": 1}\n{"a"')
    source = followed(path)
    assert came(source) == [b'{"a": 1}']
    assert came(source) == came(source) == []
    assert source.mark({"log": 9})["head"] == 9
    add(path, ": 2")
    assert came(source) == []
    add(path, '}\r\n\n{"a": 3}\n{')
    assert came(source) == [b'{"a": 2}', b'{"a": 3}']
    assert came(source) == []
    source.begin("log", 9)
    assert came(source) == [b'{"a": 2}', b'{"a": 3}']


def test_following_byte_by_byte(tmp_path):
    for form in TEXT:
        text = TEXT[form].encode()
        first = text.index(b"\n") + 1 if form == "csv" else 0
        path = write(tmp_path, text[:first])
        source = followed(path, form)
        found = []
        for i in range(first, len(text)):
            add(path, text[i : i + 1])
            found += came(source)
            assert b"\n".join(found) in text.replace(b"\r\n", b"\n") or b'"' in b"".join(found)
        decode = Decoder(form, columns=source.columns)
        assert [decode(value).fields for value in found] == EVENTS[form]
        source.close(True)


def test_following_waits(tmp_path):
    source = followed(write(tmp_path, ""))
    polled = source.poll(0.05)
    assert (polled.batches, polled.assigned, polled.finished) == ({}, (), False)


def test_a_followed_log_that_is_shortened(tmp_path):
    path = write(tmp_path, JSON)
    source = followed(path)
    assert len(came(source)) == len(ROWS)
    path.write_text(JSON[:30])
    with pytest.raises(Failure, match="log has become shorter than what was read of it") as raised:
        source.poll(0)
    assert raised.value.code == POSITION


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_followed_log_that_goes_away(tmp_path, how):
    path = write(tmp_path, JSON)
    source = followed(path)
    assert len(came(source)) == len(ROWS)
    path.unlink()
    if how == "replaced":
        write(tmp_path, JSON * 2)
    with pytest.raises(Failure) as raised:
        source.poll(0)
    assert raised.value.code == POSITION
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("row", ['5" pipe,x', '"5,x'])
def test_following_past_a_quote(tmp_path, row):
    path = write(tmp_path, f"a,c\n1,x\n{row}\n")
    source = followed(path, "csv")
    found = came(source)
    for _ in range(3):
        add(path, "".join(f"{i},{'y' * 90}\n" for i in range(1000)))
        found += came(source)
    assert len(found) > 1500
    assert found[0] == b"1,x"
