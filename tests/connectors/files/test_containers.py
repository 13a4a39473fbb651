"""Tables in other files: compressed, in archives, Excel, JSON arrays, ARFF; and files without a table."""

import bz2
import contextlib
import datetime
import gzip
import io
import json
import lzma
import os
import pickle
import random
import sqlite3
import tarfile
import threading
import zipfile

import openpyxl
import pandas as pd
import pytest

from connectors.contract.errors import Failure
from connectors.files.source import FileSource
from connectors.formats.open_file import OpenFile
from tests.connectors.reading import log_of

ROWS = [
    {
        "day": f"2024-01-{k % 28 + 1:02}",
        "shop": ("Köln", "Bad, Ems", 'the "B"')[k % 3],
        "n": k,
        "y": "ab"[k % 2],
    }
    for k in range(60)
]
CSV = pd.DataFrame(ROWS).to_csv(index=False).encode()


def written(tmp_path, data, name="log"):
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def events(path, **options):
    log = log_of(path, **options)
    rows = [(line, fields, y) for line, fields, y in log]
    return log, rows


def zipped(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def workbook(frame, sheet="Sheet1", **options):
    stream = io.BytesIO()
    with pd.ExcelWriter(stream, engine=options.pop("engine", "openpyxl")) as book:
        frame.to_excel(book, sheet_name=sheet, index=False, **options)
    return stream.getvalue()


COMPRESSED = {
    "bzip2": bz2.compress(CSV),
    "bzip2, two streams": bz2.compress(CSV[:500]) + bz2.compress(CSV[500:]),
    "xz": lzma.compress(CSV),
    "xz, two streams with padding": lzma.compress(CSV[:500]) + b"\0" * 8 + lzma.compress(CSV[500:]),
    "zip": zipped({"a/": b"", "a/log.csv": CSV, "__MACOSX/a/._log.csv": b"\0\1", "a/.DS_Store": b"\0"}),
    "zip of gzip": zipped({"log.csv.gz": gzip.compress(CSV)}),
    "gzip of zip": gzip.compress(zipped({"log.csv": CSV})),
}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_files_are_read_as_plain_ones(tmp_path, kind):
    plain = events(written(tmp_path, CSV, "log.csv"))[1]
    path = written(tmp_path, COMPRESSED[kind])
    log, rows = events(path)
    assert rows == plain
    assert log.done == log.size == len(COMPRESSED[kind])
    assert log.fingerprint()["files"][0]["bytes"] == len(COMPRESSED[kind])
    source = FileSource(path, "csv")
    source.poll(0)
    source.begin(source.name, source.begins)
    raws = source.poll(0, 1000).batches[source.name].records
    assert len(raws) == len(ROWS)
    source.begin(source.name, raws[40].offset)
    assert [raw.value for raw in source.poll(0, 1000).batches[source.name].records] == [
        raw.value for raw in raws[40:]
    ]
    source.close(True)
    with pytest.raises(Failure, match="only a plain log can be followed"):
        FileSource(path, "csv", follow=True)


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress])
def test_a_cut_file_is_named_with_what_was_read(tmp_path, compress):
    random.seed(1)
    text = "a,y\n" + "".join(f"{random.random()},{random.randint(0, 1)}\n" for _ in range(100_000))
    log, rows = events(written(tmp_path, compress(text.encode())[:-20_000]))
    assert rows
    assert log.cut
    assert "cut short or damaged" in log.examples[-1]


BOOK = workbook(pd.DataFrame(ROWS))
TABLE = pd.DataFrame(
    {
        "when": [datetime.datetime(2024, 5, 1, 12, 30), datetime.datetime(2024, 5, 2)],
        "day": [datetime.date(2024, 5, 1), datetime.date(2024, 5, 2)],
        "n": [3, 4],
        "p": [2.5, None],
        "ok": [True, False],
        "note": ["two\nlines", "a,b"],
        "plz": ["01067", "80331"],
        "y": ["u", "v"],
    }
)


@pytest.mark.parametrize("engine", ["openpyxl", "odf"])
def test_excel_is_read(tmp_path, engine):
    path = written(tmp_path, workbook(TABLE, "Umsätze", engine=engine))
    log, rows = events(path, types={"when": "category", "day": "category", "plz": "category"})
    assert f"{path} is an Excel file; its sheet 'Umsätze' is read" in log.notes
    assert not any("read as CSV" in note for note in log.notes)
    (first, fields, y), (second, others, _) = rows
    assert (first, second, y) == (2, 3, "u")
    assert fields["when"] == "2024-05-01T12:30:00"
    assert fields["day"].startswith("2024-05-01")
    assert (fields["n"], fields["p"], fields["ok"], fields["plz"]) == (3, 2.5, True, "01067")
    assert fields["note"].split() == ["two", "lines"]
    assert (others["p"], others["note"]) == (None, "a,b")


def test_the_first_sheet_with_values_and_lines_above_its_header(tmp_path):
    stream = io.BytesIO()
    with pd.ExcelWriter(stream) as book:
        pd.DataFrame().to_excel(book, sheet_name="Cover")
        pd.DataFrame(ROWS).to_excel(book, sheet_name="Data", startrow=3, startcol=1, index=False)
        pd.DataFrame(ROWS).head(2).to_excel(book, sheet_name="More")
        book.book["Data"]["A1"] = "Report of sales"
    path = written(tmp_path, stream.getvalue())
    log, rows = events(path)
    assert [line for line, _, _ in rows] == [5 + k for k in range(60)]
    assert rows[1][1] == {"day": rows[1][1]["day"], "shop": "Bad, Ems", "n": 1}
    assert f"{path} is an Excel file; its sheet 'Data' is read, and not 'Cover', 'More'" in log.notes[0]
    assert f"{path}: line 4 names the columns, and the 3 above are skipped" in log.notes


def test_a_cover_is_no_table_and_strings_have_their_own_decimal_mark(tmp_path):
    stream, when = io.BytesIO(), [f"2024-05-{day:02} 08:00" for day in range(1, 31)]
    frame = pd.DataFrame(
        {"day": pd.to_datetime(when), "bar": [1.5, 2.25, 3] * 10, "kg": ["1.789", "12.050"] * 15}
    )
    frame["y"] = [f"{2.1 + 0.3 * k:.1f} %".replace(".", ",") for k in range(30)]
    with pd.ExcelWriter(stream) as book:
        pd.DataFrame({"Report": ["Line"], "2024": [4]}).to_excel(book, sheet_name="Cover", index=False)
        frame.to_excel(book, sheet_name="Data", index=False)
    path = written(tmp_path, stream.getvalue())
    log, rows = events(path)
    assert f"{path} is an Excel file; its sheet 'Data' is read, and not 'Cover'" in log.notes[0]
    assert [fields["bar"] for _, fields, _ in rows[:3]] == [1.5, 2.25, 3]
    assert [fields["kg"] for _, fields, _ in rows[:2]] == [1789, 12050]
    assert [y for _, _, y in rows[:2]] == ["2.1", "2.4"]


def test_the_first_of_two_sheets_is_read_and_points_stay_points(tmp_path):
    stream, frame = io.BytesIO(), pd.DataFrame({"kg": ["1,234", "2.5"] * 15, "y": ["u", "v"] * 15})
    with pd.ExcelWriter(stream) as book:
        frame.head(20).to_excel(book, sheet_name="2024", index=False)
        frame.to_excel(book, sheet_name="2025", index=False)
    log, rows = events(written(tmp_path, stream.getvalue()))
    assert "its sheet '2024' is read, and not '2025'" in log.notes[0]
    assert [fields["kg"] for _, fields, _ in rows[:2]] == [1234, 2.5]


def test_excel_without_the_library_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    with pytest.raises(ValueError, match=r"is an Excel file; pip install 'streamk\[excel\]' to read it"):
        events(written(tmp_path, BOOK))


def test_a_workbook_without_values_is_a_sentence(tmp_path):
    stream = io.BytesIO()
    openpyxl.Workbook().save(stream)
    with pytest.raises(ValueError, match="is an Excel file without values"):
        events(written(tmp_path, stream.getvalue()))


# ---- JSON

PLAIN = [
    (fields, y) for fields, y in (({k: v for k, v in row.items() if k != "y"}, row["y"]) for row in ROWS)
]
NESTED = [{**row, "tags": ["x]", '{"', "\\"], "o": {"p": [{"q": 1}, {"q": 2}]}} for row in ROWS]


def of_json(rows, **options):
    return json.dumps(rows, **options)


ARRAYS = {
    "an array": (of_json(ROWS), None),
    "an array, indented": (of_json(ROWS, indent=2), 4),
    "an array of lines": ("[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n", 1),
    "an array after a mark": ("\ufeff" + of_json(ROWS, indent=1), None),
    "nested": (of_json(NESTED), None),
    "nested, indented": (of_json(NESTED, indent=4), None),
    "an object": (of_json({"n": 3, "of": [{"a": 1}], "data": ROWS, "next": None}), None),
    "an object, indented": (of_json({"n": 3, "meta": {"x": [1, 2]}, "data": ROWS}, indent=1), None),
    "an object, deeper": (of_json({"result": {"records": NESTED}}, indent=1), None),
    "objects of several lines": ("\n".join(json.dumps(row, indent=2) for row in NESTED), None),
    "objects of several lines, joined": ("".join(json.dumps(row, indent=2) for row in ROWS), None),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("piece", [1 << 16, 7])
def test_json_arrays_are_read_as_lines_of_json(tmp_path, monkeypatch, kind, piece):
    text, _ = ARRAYS[kind]
    rows = NESTED if "q" in text else ROWS
    plain = written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "plain")
    monkeypatch.setattr("connectors.formats.open_file._PART", piece)
    log, seen = events(written(tmp_path, text))
    expected = [(fields, y) for _, fields, y in events(plain)[1]]
    assert [(fields, y) for _, fields, y in seen] == expected
    assert log.columns == log_columns(plain)
    assert any("records" in note for note in log.notes)


def log_columns(path):
    log = log_of(path)
    log.look()
    return log.columns


def test_records_of_an_array_keep_their_lines(tmp_path):
    seen = events(written(tmp_path, of_json(ROWS, indent=2)))[1]
    assert [line for line, _, _ in seen] == [2 + 6 * k for k in range(60)]
    seen = events(written(tmp_path, ARRAYS["an array of lines"][0]))[1]
    assert [line for line, _, _ in seen] == [2 + k for k in range(60)]


@pytest.mark.parametrize(
    ("text", "count", "reason"),
    [
        (of_json(ROWS)[:-40], 59, "JSON"),
        ('[{"a": 1, "y": 1}, null, {"a": 2, "y": 1}, 7]', 2, "an object"),
        ('[{"a": 1, "y": 1}] [{"a": 2, "y": 1}]', 1, "an object"),
        ('[{"a": 1, "y": 1}, {"a": 2 "y": 1}, {"a": 3, "y": 1}]', 2, "cannot be decoded"),
        ('[{"a": 1, "y": 1}, {"a": 2, "y": 1}', 2, "cut short"),
    ],
)
def test_what_is_no_record_of_an_array_is_counted(tmp_path, text, count, reason):
    log, seen = events(written(tmp_path, text))
    assert len(seen) == count
    assert log.unreadable or log.cut
    assert any(reason in example for example in log.examples)


@pytest.mark.parametrize("options", [{}, {"orient": "split"}, {"orient": "index"}])
def test_a_table_by_columns_is_a_sentence(tmp_path, options):
    text = pd.DataFrame(ROWS).to_json(**options)
    with pytest.raises(ValueError, match="is a table by columns; write an object of fields for each record"):
        events(written(tmp_path, text))


def test_lines_of_json_with_arrays_stay_lines(tmp_path):
    lines = "".join(
        json.dumps({"a": k, "items": [{"b": 1}, {"b": k}], "y": "ab"[k % 2]}) + "\n" for k in range(9)
    )
    log, seen = events(written(tmp_path, lines))
    assert len(seen) == 9
    assert not any("records" in note for note in log.notes)


# ---- ARFF

ARFF = """% made by hand
@RELATION 'the shops'

@ATTRIBUTE day DATE 'yyyy-MM-dd'
@attribute 'the shop' {Köln, 'Bad Ems', "B,x"}
@attribute\tn  NUMERIC
@attribute y {1,2}

@DATA
2024-01-01,Köln, 3,1
% a comment
2024-01-02, 'Bad Ems',?,2
2024-01-03,"B,x",4.5,1
2024-01-04,?,4,?
2024-01-05,'it\\'s',4,1
"""


def test_arff_is_read(tmp_path):
    path = written(tmp_path, ARFF, "log.arff")
    log, rows = events(path)
    assert f"{path} is ARFF, whose header gives names and types" in log.notes
    assert [(line, fields["the shop"], fields["n"], y) for line, fields, y in rows] == [
        (10, "Köln", 3, "1"),
        (12, "Bad Ems", None, "2"),
        (13, "B,x", 4.5, "1"),
        (15, "it's", 4, "1"),
    ]
    assert log.unlabelled == 1
    assert log.format.types["the shop"] == "category"
    assert log.format.types["n"] == "number"


def test_sparse_arff_is_read(tmp_path):
    text = "@relation r\n@attribute a real\n@attribute b integer\n@attribute y {no,yes}\n@data\n"
    rows = events(written(tmp_path, text + "{0 1.5, 2 yes}\n{}\n{1 7}\n"))[1]
    assert [(fields, y) for _, fields, y in rows] == [
        ({"a": 1.5, "b": 0}, "yes"),
        ({"a": 0, "b": 0}, "no"),
        ({"a": 0, "b": 7}, "no"),
    ]


def test_arff_without_data_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"is ARFF without @attribute or @data"):
        events(written(tmp_path, "@relation r\n@attribute a real\n"))


# ---- files without a table


def database():
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.execute("create table t (a)")
        return base.serialize()


def archive():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        info = tarfile.TarInfo("log.csv")
        info.size = len(CSV)
        tar.addfile(info, io.BytesIO(CSV))
    return stream.getvalue()


NO_TABLES = {
    "a pickle": (pickle.dumps(ROWS), "is a pickle; save its table as CSV or Parquet"),
    "an old pickle": (pickle.dumps(ROWS, 2), "is a pickle; save its table as CSV or Parquet"),
    "a program": (b"\x7fELF\x02\x01\x01" + bytes(100), "is a program; it holds no table"),
    "a program for Windows": (b"MZ\x90\x00\x03" + bytes(100), "is a program; it holds no table"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(50), "is a picture; it holds no table"),
    "a photograph": (b"\xff\xd8\xff\xe0\x00\x10JFIF", "is a picture; it holds no table"),
    "a PDF": (b"%PDF-1.7\n1 0 obj\n", "is a PDF document; save its table as CSV"),
    "a page": ("<!DOCTYPE html>\n<table><tr><td>1</td></tr></table>", "is an HTML page"),
    "a page as .xls": ("\ufeff<html><body>", "is an HTML page"),
    "XML": ('<?xml version="1.0"?><a/>', "is an XML file"),
    "a database": (database(), "is an SQLite database; export a table of it as CSV"),
    "tar": (archive(), "is a tar archive; unpack it and name the files in it"),
    "tar and gzip": (gzip.compress(archive()), "is a tar archive"),
    "an array": (b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}", "is an array of NumPy"),
    "arrays": (zipped({"a.npy": b"\x93NUMPY", "b.npy": b"\x93NUMPY"}), "is an archive of arrays of NumPy"),
    "two files": (zipped({"a.csv": CSV, "b.csv": CSV}), r"zip archive of 2 files: a.csv, b.csv; unpack it"),
    "no files": (zipped({}), "is a zip archive|is no text"),
    "a document": (zipped({"[Content_Types].xml": b"", "word/document.xml": b""}), "is a document"),
    "7z": (b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(30), "is a 7z or rar archive; unpack it first"),
    "an old Word document": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "has no sheet to read"),
    "random bytes": (b"q" + random.Random(3).randbytes(3000), "is no text"),
    "zeros": (bytes(2000), "is no text"),
    "numbers of eight bytes": (b"@" + b"\0\0\0\0\0\0\xf0?" * 400, "is no text"),
}


@pytest.mark.parametrize("kind", NO_TABLES)
def test_files_without_a_table_are_named(tmp_path, kind):
    data, sentence = NO_TABLES[kind]
    path = written(tmp_path, data)
    with pytest.raises(ValueError, match=sentence) as raised:
        events(path)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)
    for form in ("csv", "json"):
        with pytest.raises(Failure, match=sentence):
            FileSource(path, form)


def test_an_encrypted_zip_archive_is_a_sentence(tmp_path):
    data = bytearray(zipped({"log.csv": CSV}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ValueError, match=r"is a zip archive that cannot be read .*encrypted"):
        events(written(tmp_path, bytes(data)))


def test_text_may_begin_like_a_program(tmp_path):
    for name in ("MZ", "BM", "ORC", "RIFF", "PK"):
        assert len(events(written(tmp_path, f"{name},y\n1,a\n2,b\n"))[1]) == 2


def test_text_in_utf_32_is_read(tmp_path):
    path = written(tmp_path, "a,y\n1,ä\n".encode("utf-32"))
    assert events(path)[1] == [(2, {"a": 1}, "ä")]
    file = OpenFile(str(path))
    file.look()
    assert file.encoding == "utf-32-le"
    file.close()


@pytest.mark.parametrize("kind", ["excel", "arff", "array", "blanks"])
def test_a_daemon_resumes_in_the_middle_of_a_rewritten_file(tmp_path, kind):
    data, form, count = {
        "excel": (BOOK, "csv", 60),
        "arff": (ARFF.encode(), "csv", 5),
        "array": (of_json(ROWS, indent=2).encode(), "json", 60),
        "blanks": ("a b y\n" + "".join(f"{k}  {k % 7}   {k % 2}\n" for k in range(60)), "csv", 60),
    }[kind]
    path = written(tmp_path, data)
    source = FileSource(path, form)
    source.poll(0)
    source.begin(source.name, source.begins)
    raws = source.poll(0, 1000).batches[source.name].records
    assert len(raws) == count
    mark = source.mark({source.name: raws[3].offset})
    again = FileSource(path, form)
    again.poll(0)
    again.recognise(mark)
    again.begin(again.name, raws[3].offset)
    left = again.poll(0, 1000).batches[again.name].records
    assert [raw.value for raw in left] == [raw.value for raw in raws[3:]]
    decoded = [source.decoder(raw.value).fields for raw in raws[3:]]
    assert [again.decoder(raw.value).fields for raw in left] == decoded
    source.close(True)
    again.close(True)


@pytest.mark.parametrize("kind", ["excel", "arff", "array"])
def test_a_rewritten_file_comes_through_a_pipe(tmp_path, monkeypatch, kind):
    data = {"excel": BOOK, "arff": ARFF.encode(), "array": of_json(ROWS).encode()}[kind]
    plain = events(written(tmp_path, data))[1]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert events(pipe)[1] == plain
    writer.join()
