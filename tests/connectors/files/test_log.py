import gzip
import io
import json
import sys

import pytest
import zstandard

from connectors.files.log import ReplayLog

CSV = "a,b,y\n1,red,0\n,blue,1\n-2.5,,0\n"
EVENTS = [({"a": 1.0, "b": "red"}, "0"), ({"a": None, "b": "blue"}, "1"), ({"a": -2.5, "b": None}, "0")]
PACK = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


def write(tmp_path, text, pack="plain", name="log.csv"):
    path = tmp_path / name
    path.write_bytes(PACK[pack](text.encode() if isinstance(text, str) else text))
    return path


def read(path, target="y", **more):
    return [(r.fields, r.target) for r in ReplayLog(path, target, **more)]


@pytest.mark.parametrize("pack", PACK)
def test_csv(tmp_path, pack):
    assert read(write(tmp_path, CSV, pack, name="any name at all")) == EVENTS


@pytest.mark.parametrize("pack", PACK)
def test_json_lines(tmp_path, pack):
    rows = [{"a": 1, "b": None, "y": True}, {"y": False, "nested": {"x": 1}}]
    text = "\n".join(json.dumps(r) for r in rows) + "\n\n"
    assert read(write(tmp_path, text, pack)) == [({"a": 1, "b": None}, True), ({"nested.x": 1}, False)]


@pytest.mark.parametrize(
    "text",
    ["\ufeff" + CSV, CSV.replace("\n", "\r\n"), CSV.replace(",", "\t"), CSV + "\n", "\n" + CSV],
    ids=["byte order mark", "carriage returns", "tabs", "blank line at the end", "blank line first"],
)
def test_csv_as_others_write_it(tmp_path, text):
    assert read(write(tmp_path, text)) == EVENTS


def test_quoted_fields_and_lines(tmp_path):
    path = write(tmp_path, 'a,y\n"x, ""z""\nq",1\nlast,2\n')
    records = list(ReplayLog(path, "y"))
    assert records[0].fields == {"a": 'x, "z"\nq'}
    assert [r.line for r in records] == [3, 4]


def test_two_gzip_members_and_two_zstd_frames(tmp_path):
    for pack in ("gzip", "zstd"):
        path = tmp_path / pack
        path.write_bytes(PACK[pack](b"a,y\n1,2\n") + PACK[pack](b"3,4\n"))
        assert read(path) == [({"a": 1.0}, "2"), ({"a": 3.0}, "4")]


def test_standard_input(monkeypatch):
    class Pipe:
        buffer = io.BufferedReader(io.BytesIO(gzip.compress(CSV.encode())))

    monkeypatch.setattr(sys, "stdin", Pipe)
    assert read("-") == EVENTS


def test_position_reaches_the_end(tmp_path):
    log = ReplayLog(write(tmp_path, CSV * 1, "gzip"), "y")
    assert log.done == 0
    list(log)
    assert log.done == log.size > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n1,2\n", "there is no column 'y'; use a or b"),
        ("a,y\n1,2\n1,2,3\n", "line 3: cannot be decoded: 3 values for 2 columns"),
        ("a,y\n1,2\n1\n", "line 3: cannot be decoded: 1 values for 2 columns"),
        ('a,y\n3,4\n"1,2\n', "line 3: a quote opens and never closes"),
        ('{"a": 1, "y": 1}\n{"y": \n', "line 2: cannot be decoded: "),
        ('[{"y": 1}]\n', "it has a target and no input"),
        ('{"a": 1, "y": 1}\n{"y": ' + "[" * 100_000, "line 2: cannot be decoded: "),
        ('{"a": 1, "y": 1}\n[1]\n', "line 2: an event must be an object of fields, not list"),
        (b"a,y\n" + b"1,2\n" * 1500 + b"\xff\xfe,3\n", "line 1502: cannot be decoded: 'utf-8'"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=message) as raised:
        read(path, strict=True)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_compressed_data_cut_short(tmp_path, pack):
    whole = PACK[pack]("".join(["a,y\n", *(f"{i * 7919 % 10007},{i}\n" for i in range(5000))]).encode())
    path = tmp_path / "log"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="the data is cut short or damaged"):
        read(path, strict=True)


def test_a_number_is_one_label_however_it_is_written(tmp_path):
    path = write(tmp_path, "a,y\n1,1\n2,1.0\n3, 1\n4,up\n5,01\n")
    assert [target for _, target in read(path)] == ["1", "1", "1", "up", "01"]
