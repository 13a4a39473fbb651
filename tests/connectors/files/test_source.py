import contextlib
import gzip
import json
import random
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from connectors.contract.errors import USAGE, Failure
from connectors.events.decoding import EventFormat
from connectors.files.source import FileSource
from connectors.formats.open_file import decompressed

SOURCES = []
AS_THEY_ARE = {"a": "category"}
PACK = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}
ROWS = [
    ("1", "red"),
    ("", 'two\n"quoted"\nlines'),
    ("-2.5", ""),
    ("3", "a, b"),
    ("4", "ögon\r\nrött"),
    ("5", " x "),
]
CSV = 'a,c\n1,red\n,"two\n""quoted""\nlines"\n-2.5,\n3,"a, b"\n4,"ögon\r\nrött"\n5, x \n'
JSON = "".join(json.dumps({"a": a, "c": c}) + "\n" for a, c in ROWS)
TEXT = {"csv": CSV, "json": JSON}
EVENTS = {
    "csv": [{"a": float(a) if a else None, "c": c or None} for a, c in ROWS],
    "json": [{"a": a, "c": c} for a, c in ROWS],
}


def write(tmp_path, text, pack="plain"):
    path = tmp_path / "log"
    path.write_bytes(PACK[pack](text.encode() if isinstance(text, str) else text))
    return path


@pytest.fixture(autouse=True)
def sources():
    """Close what was opened."""
    SOURCES.clear()
    yield
    for source in SOURCES:
        source.close(True)


def made(path, form="json", follow=False):
    SOURCES.append(FileSource(path, form, follow))
    return SOURCES[-1]


def opened(path, form="json", follow=False):
    """Return a source and what it was assigned."""
    source = made(path, form, follow)
    polled = source.poll(0)
    assert (polled.batches, polled.revoked, polled.finished) == ({}, (), False)
    (assigned,) = polled.assigned
    assert (assigned.partition, assigned.committed) == (path.name, None)
    return source, assigned


def rest(source):
    """Return the records to the end; each batch says where the next begins."""
    records = []
    while not (polled := source.poll(0)).finished:
        assert polled.assigned == ()
        ((name, batch),) = polled.batches.items()
        assert name == source.name
        offsets = [record.offset for record in batch.records]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] < batch.next
        records += batch.records
    assert source.poll(0).finished
    return records


def read(path, form="json", position=None):
    """Return the fields of the events from a position on, from the beginning by default."""
    source, assigned = opened(path, form)
    source.begin(source.name, assigned.first if position is None else position)
    decode = source.decoder
    fields = [decode(record.value).fields for record in rest(source)]
    source.close(True)
    return fields


# ---- what is read

pack = pytest.mark.parametrize("pack", PACK)
form = pytest.mark.parametrize("form", TEXT)


@pack
@form
def test_events(tmp_path, pack, form):
    assert read(write(tmp_path, TEXT[form], pack), form) == EVENTS[form]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n").replace("\r\r", "\r"),
        lambda text: text[:-1],
        lambda text: text + "\n\n",
        lambda text: "\n\n" + text,
        lambda text: "\r\n" + text,
        lambda text: text.replace("\n-", "\n\n-").replace("\n{", "\n\n{"),
    ],
    ids=["byte order mark", "CRLF", "no newline at the end", "blank lines at the end", "blank lines first",
         "blank line of CRLF", "blank line"],
)  # fmt: skip
@form
def test_logs_as_others_write_them(tmp_path, form, change):
    text = change(TEXT[form])
    found = read(write(tmp_path, text), form)
    # a line that ends within quotes ends as it is written there
    assert json.dumps(found).replace("\\r", "") == json.dumps(EVENTS[form]).replace("\\r", "")


def test_tabs(tmp_path):
    path = write(tmp_path, 'a\tc\n1\tx,y\n\t"p\tq"\n')
    assert made(path, "csv").decoder.format.delimiter == "\t"
    assert read(path, "csv") == [{"a": 1.0, "c": "x,y"}, {"a": None, "c": "p\tq"}]
    assert made(write(tmp_path, "a\tb,c\n"), "csv").columns == ["a\tb", "c"]
    assert made(write(tmp_path, "a\n"), "csv").columns == ["a"]


def test_records_are_the_bytes_of_their_lines(tmp_path):
    source, assigned = opened(write(tmp_path, 'a,c\n1,x\r\n\n"2\n3",y\n4,\xff'.encode("latin-1")), "csv")
    assert (source.name, source.columns, assigned.first) == ("log", ["a", "c"], 4)
    assert assigned.end >= 21
    rows = [(4, b"1,x"), (10, b'"2\n3",y'), (18, "4,ÿ".encode())]
    assert [(r.offset, r.value) for r in rest(source)] == rows
    source, assigned = opened(write(tmp_path, b' {"a": 1} \r\n\n1\n[]'))
    assert [(r.offset, r.value) for r in rest(source)] == [(0, b' {"a": 1} '), (13, b"1"), (15, b"[]")]
    record = rest(opened(write(tmp_path, "{}\n"))[0])[0]
    assert (record.key, record.timestamp, record.headers) == (None, None, ())


def test_two_gzip_members_and_two_zstd_frames(tmp_path):
    for pack in ("gzip", "zstd"):
        path = tmp_path / pack
        path.write_bytes(PACK[pack](JSON.encode()) + PACK[pack](JSON.encode()))
        assert read(path) == EVENTS["json"] * 2


def test_a_log_of_many_polls(tmp_path):
    lines = [f'{{"a": {i}}}' for i in range(2500)]
    assert [row["a"] for row in read(write(tmp_path, "\n".join(lines)))] == list(range(2500))
    rows = [f'{i},"x\n{i}"' for i in range(2500)]
    assert [row["a"] for row in read(write(tmp_path, "\n".join(["a,b", *rows])), "csv")] == list(range(2500))


def test_an_empty_log(tmp_path):
    source, assigned = opened(write(tmp_path, ""))
    assert assigned.first == 0
    assert rest(source) == []
    assert read(write(tmp_path, "\n\r\n\n")) == []
    assert read(write(tmp_path, "a,c"), "csv") == []
    for text in ("", "\n\n"):
        with pytest.raises(
            Failure, match="log: it is empty; the first line of CSV names the columns"
        ) as raised:
            made(write(tmp_path, text), "csv")
        assert raised.value.code == USAGE


def test_files_that_cannot_be_read(tmp_path):
    for path, message in [(tmp_path / "no", "No such file or directory"), (tmp_path, "Is a directory")]:
        with pytest.raises(Failure, match=message) as raised:
            made(path)
        assert raised.value.code == USAGE
        assert str(path) in str(raised.value)
    with pytest.raises(Failure, match="the first line is not UTF-8") as raised:
        FileSource(write(tmp_path, b"a,\xff\n"), "csv", False, EventFormat(encoding="utf-8"))
    assert raised.value.code == USAGE
    for pack in ("gzip", "zstd"):
        with pytest.raises(
            Failure, match="is compressed or not UTF-8; only a plain log can be followed"
        ) as raised:
            made(write(tmp_path, JSON, pack), "json", follow=True)
        assert raised.value.code == USAGE


@pytest.mark.parametrize("header", ["x" * 200_000, '"' + "a,b\n" * 50_000, "\0"])
def test_headers_that_are_none(tmp_path, header):
    """Whatever is said of them, it is said by a failure."""
    with contextlib.suppress(Failure):
        made(write(tmp_path, header + "\n1\n"), "csv")


def test_an_over_long_header_is_named(tmp_path):
    with pytest.raises(Failure, match=r"the first line names no columns \(field larger than field limit"):
        made(write(tmp_path, "a," + "x" * 200_000 + "\n"), "csv")


def test_a_log_that_is_deleted_while_it_is_read(tmp_path):
    path = write(tmp_path, JSON)
    source, assigned = opened(path)
    source.begin(source.name, assigned.first)
    path.unlink()
    assert next(iter(source.poll(0, 2).batches.values())).next > 0
    assert source.ends() == {"log": len(JSON.encode())}
    mark = source.mark({"log": 10})
    assert mark["head"] == 10
    source.recognise(mark)
    while not source.poll(0).finished:
        pass


def test_a_mark_and_a_blank_line(tmp_path):
    assert read(write(tmp_path, "\ufeff\n" + CSV), "csv") == EVENTS["csv"]
    assert read(write(tmp_path, "\ufeff\n" + JSON), "json") == EVENTS["json"]


def test_two_columns_of_one_name(tmp_path):
    assert read(write(tmp_path, "a,b,a\n1,2,3\n"), "csv") == [{"a": 1.0, "b": 2.0, "a.1": 3.0}]


def test_rows_that_are_no_csv_are_left_to_the_decoder(tmp_path):
    source, _ = opened(write(tmp_path, 'a,c\n1,2,3\n5" pipe,x\n1\r2,x\n4,y\n'), "csv")
    records = rest(source)
    assert b"".join(record.value for record in records) == b'1,2,35" pipe,x1\r2,x4,y'
    assert records[-1].value == b"4,y"
    source, _ = opened(write(tmp_path, 'a,c\n1,x\n"2,y\n3,z\n'), "csv")
    assert [record.value for record in rest(source)] == [b"1,x", b'"2,y', b"3,z"]


def test_a_quote_that_never_closes_does_not_eat_the_log(tmp_path):
    lines = [f"{i},{'x' * 90}" for i in range(5000)]
    lines[10] = '"' + lines[10]
    source, _ = opened(write(tmp_path, "\n".join(["a,c", *lines])), "csv")
    records = rest(source)
    assert records[9].value == lines[9].encode()
    assert records[-1].value == lines[-1].encode()
    assert len(records) > 3500


# ---- positions


@pack
@form
def test_reading_on_from_any_position(tmp_path, pack, form):
    path = write(tmp_path, TEXT[form], pack)
    source, assigned = opened(path, form)
    source.begin(source.name, assigned.first)
    records = rest(source)
    end = len(TEXT[form].encode())
    for i, position in enumerate([*(record.offset for record in records), end]):
        again, assigned = opened(path, form)
        again.begin(again.name, position)
        assert rest(again) == records[i:]
        again.begin(again.name, position)  # and again with the same one
        assert rest(again) == records[i:]


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_positions_of_a_compressed_log_are_in_what_is_assigned(tmp_path, pack):
    source, assigned = opened(write(tmp_path, JSON * 100, pack))
    assert assigned.end >= len(JSON.encode()) * 100
    assert source.ends() == {}


fields = st.dictionaries(st.sampled_from("abc"), st.text(max_size=5) | st.integers(), max_size=3)
breaks = st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"])


@given(st.lists(st.tuples(fields, breaks), max_size=12), st.randoms(use_true_random=False))
def test_batches_may_end_anywhere(tmp_path_factory, lines, chance):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_text("".join(json.dumps(row) + end for row, end in lines), newline="")
    source, _ = opened(path)
    records = rest(source)
    assert [json.loads(record.value) for record in records] == [row for row, _ in lines]
    cut = chance.randrange(len(records) + 1)
    source.begin("any", records[cut].offset if cut < len(records) else path.stat().st_size)
    assert rest(source) == records[cut:]
    source.close(True)


def quoted(cell, delimiter):
    return '"' + cell.replace('"', '""') + '"' if set(cell) & {"\n", "\r", '"', delimiter} else cell


cells = st.text(' ,\t"\n\rxé\u2028', max_size=6)


@given(
    st.lists(st.tuples(cells, cells), max_size=10),
    st.sampled_from([",", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_csv(tmp_path_factory, rows, delimiter, end):
    path = tmp_path_factory.getbasetemp() / "any"
    lines = [delimiter.join(quoted(cell, delimiter) for cell in row) for row in [("a", "b"), *rows]]
    path.write_bytes((end.join(lines) + end).encode())
    SOURCES.append(FileSource(path, "csv", False, EventFormat("b", missing=[""], types=AS_THEY_ARE)))
    source = SOURCES[-1]
    source.poll(0)
    decode = source.decoder
    assert (source.columns, decode.format.delimiter) == (["a", "b"], delimiter)
    records = rest(source)
    events = [decode(record.value) for record in records]
    assert [(event.fields["a"], event.target) for event in events] == [
        tuple(cell if cell.strip() else None for cell in row) for row in rows
    ]
    for i in (0, len(records) // 2, len(records)):
        source.begin("any", records[i].offset if i < len(records) else path.stat().st_size)
        assert rest(source) == records[i:]
    source.close(True)


def test_ends(tmp_path):
    path = write(tmp_path, JSON)
    source, _ = opened(path)
    assert source.ends() == {"log": len(JSON.encode())}
    path.write_text(JSON * 2)
    assert source.ends() == {"log": 2 * len(JSON.encode())}


def test_a_log_has_one_reader(tmp_path):
    source, _ = opened(write(tmp_path, JSON))
    assert source.committed(["log"]) == {}
    assert source.commit({}) is True


# ---- following


def test_closing(tmp_path):
    for pack in PACK:
        source, _ = opened(write(tmp_path, JSON, pack))
        source.close(False)
        source.close(True)
    assert Path(tmp_path / "log").exists()


def test_zstd_frames_are_read_again_after_a_seek_to_the_start(tmp_path):
    parts = [random.Random(k).randbytes(30_000) for k in range(2)]
    path = tmp_path / "log.zst"
    path.write_bytes(b"".join(zstandard.ZstdCompressor().compress(part) for part in parts))
    with path.open("rb") as file:
        plain = decompressed(file)
        assert plain.read(20_000) == parts[0][:20_000]  # the second frame is read ahead
        plain.seek(0)
        assert plain.read() == b"".join(parts)
