"""Files with faults: quotes, bytes, names and lines that do not belong lose no more than their own row."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from connectors.events.decoding import EventFormat
from connectors.files.source import FileSource
from connectors.formats.lines import Lines
from connectors.formats.open_file import OpenFile, encoding_of
from connectors.replay.run import replay_log
from tests.connectors.reading import decoder_of, log_of
from tests.connectors.test_equal_events import of_daemon, of_replay, of_train, require_equal


def written(tmp_path, data, name="log.csv"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def read(path, target="y", **options):
    log = log_of(path, target, **options)
    return log, [(line, fields, y) for line, fields, y in log]


# ---- quotes


def with_quotes(rows, *places, delimiter="\t"):
    """Rows of which some cells begin with a quote that is a letter."""
    cells = [[str(k), "red", "ab"[k % 2]] for k in range(rows)]
    for k in places:
        cells[k][1] = '"red'
    return "\n".join(map(delimiter.join, [["id", "c", "y"], *cells])) + "\n"


@pytest.mark.parametrize("places", [(10, 2400), (0, 1), (10, 11, 12), (999, 1001, 2999), (5, 6, 7, 8, 2990)])
def test_quotes_that_are_letters_lose_only_their_own_rows(tmp_path, places):
    path = written(tmp_path, with_quotes(3000, *places))
    log, found = read(path)
    assert [line for line, _, _ in found] == [k + 2 for k in range(3000) if k not in places]
    assert log.unreadable == len(places)
    assert [each.line for each in log.examples] == [k + 2 for k in places]
    assert of_daemon(path, "csv")[1] == of_train(path, "csv", step=100)[1] == len(places)


def test_many_quotes_that_are_letters_are_read_at_once(tmp_path):
    places = range(0, 4_000, 2)
    log, found = read(written(tmp_path, with_quotes(4_000, *places)))
    assert (len(found), log.unreadable) == (2_000, 2_000)


def test_values_of_several_lines_next_to_such_quotes(tmp_path):
    rows = [[str(k), f'two\n"lines" {k}', "ab"[k % 2]] for k in range(50)]
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "c", "y"], *rows])
    text = path.read_text()
    path.write_text(text.replace('\n20,"two', '\n20,"two" and\n20,"two', 1))
    log, found = read(path, types={"c": "category"})
    assert [fields["c"] for _, fields, _ in found] == [row[1] for row in rows]
    assert log.unreadable == 1
    require_equal(path, "csv")


def test_a_value_of_very_many_lines_is_noted(tmp_path):
    lines = ["size,y", *["1 mm,a", "2 mm,b"] * 50, '"3 mm,a', *["1 mm,b"] * 999, '3 mm",a', *["2 mm,b"] * 50]
    log, found = read(written(tmp_path, "\n".join(lines)))
    assert len(found) == 151
    assert [note for note in log.notes if "a value of 1,001 lines begins in line 102" in note]
    assert not log.unreadable


# ---- bytes

CITIES = "".join(f"{k},{('München', 'Köln')[k % 2]},{'ab'[k % 2]}\n" for k in range(100))


@pytest.mark.parametrize("row", [0, 10, 99])
@pytest.mark.parametrize("form", ["csv", "json"])
def test_one_byte_that_is_not_utf8_breaks_its_row_alone(tmp_path, form, row):
    if form == "csv":
        lines = ["größe,stadt,y", *CITIES.splitlines()]
    else:
        cells = [line.split(",") for line in CITIES.splitlines()]
        names = ("größe", "stadt", "y")
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in cells]
    data = [line.encode() for line in lines]
    at = row + (form == "csv")
    data[at] = data[at].replace("ü".encode(), b"\xfc").replace("ö".encode() + b"ln", b"\xf6ln")
    path = written(tmp_path, b"\n".join(data), f"log.{form}")
    log, found = read(path, "größe")
    assert log.unreadable == 1
    assert log.examples[0].line == at + 1
    assert {fields["stadt"] for _, fields, _ in found} == {"München", "Köln"}
    assert of_daemon(path, form, "größe")[1] == 1


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("«donné» coûté\n".encode("cp1252"), "windows-1252"),
        ("«DONNÉ»\n".encode("cp1252"), "windows-1252"),
        ("Müller\n".encode("cp1252"), "windows-1252"),
        ("größe\n".encode() + b"\xfc\n", "utf-8"),
        ('{"a": "😀'.encode()[:-1] + b'"}\n', "utf-8"),
        ('{"a": "😀'.encode()[:-2] + b'"}\n', "utf-8"),
        ("größe".encode()[:-1] + b"\n", "utf-8"),
    ],
)
def test_the_encoding_is_that_of_most_letters(data, encoding):
    assert encoding_of(data) == encoding


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_log_that_grows_is_read_as_one_that_does_not(tmp_path, encoding):
    text = "größe,stadt,y\n" + CITIES
    path = written(tmp_path, text.encode(encoding))
    found = []
    for follow in (False, True):
        source = FileSource(path, "csv", follow, EventFormat("y"))
        source.poll(0)
        source.begin(source.name, source.begins)
        raws = [raw for batch in source.poll(0, 1000).batches.values() for raw in batch.records]
        found.append([(event.fields, event.target) for event in map(source.decoder, [r.value for r in raws])])
        if follow:  # positions are bytes of the file
            ends = path.read_bytes().splitlines(keepends=True)
            assert [raw.offset for raw in raws[:2]] == [len(ends[0]), len(ends[0]) + len(ends[1])]
            assert source.mark({source.name: 0})["format"]["encoding"] == source._file.encoding
        source.close(True)
    assert found[0] == found[1]
    assert found[0][0][0] == {"größe": 0, "stadt": "München"}


# ---- names


def test_columns_of_one_name_are_numbered(tmp_path):
    log, found = read(written(tmp_path, "v,v,v.1,y\n1,2,3,a\n4,5,6,b\nv,v,v.1,y\n"))
    assert [fields for _, fields, _ in found] == [{"v": 1, "v.2": 2, "v.1": 3}, {"v": 4, "v.2": 5, "v.1": 6}]
    assert "2 columns are named 'v'; they are read as v and v.2" in log.notes
    assert log.examples[0].reason == "the header again"
    _, found = read(written(tmp_path, "v,v,w,y\n1,2,3,a\n"), ignore=("v",))
    assert found[0][1] == {"w": 3}
    require_equal(written(tmp_path, "v,v,y\n" + "1,2,a\nv,v,y\n" * 20), "csv")


def test_columns_of_one_name_are_numbered_in_parquet(tmp_path):
    columns = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4]), pa.array([0, 1])], ["a", "a", "y"])
    parquet.write_table(columns, tmp_path / "log.parquet")
    log, found = read(tmp_path / "log.parquet")
    assert [(fields, y) for _, fields, y in found] == [({"a": 1, "a.1": 3}, 0), ({"a": 2, "a.1": 4}, 1)]
    assert log.notes == ["2 columns are named 'a'; they are read as a and a.1"]
    assert [column.name for column in log.columns] == ["a", "a.1", "y"]
    events = [(fields, y) for _, fields, y in read(tmp_path / "log.parquet", types={"a": "category"})[1]]
    assert events[0] == ({"a": "1", "a.1": 3}, 0)


def test_columns_without_name_and_values_are_ignored(tmp_path):
    log, found = read(written(tmp_path, "v,w,y,,\n1,2,a,,\n2,3,b,,\n"))
    assert [fields for _, fields, _ in found] == [{"v": 1, "w": 2}, {"v": 2, "w": 3}]
    assert "ignored, since they have neither a name nor values: 2 columns" in log.notes
    _, found = read(written(tmp_path, ",y,\n1,a,7\n"))
    assert found[0][1] == {"": 1, ".1": 7}


# ---- lines that are no records

PREAMBLES = {
    "title": "Report of sales,,\nAs of: 03.12.2025,,\n,,\n",
    "title without delimiters": "Report of sales\nAs of 03.12.2025\n\n",
    "comments": "# made by hand, 2024\n# do not edit\n",
    "comment": "# units: mm, kg; see a;b;c;d\n",
    "keys": "station,7\nunit,mm\n",
}


@pytest.mark.parametrize("preamble", PREAMBLES)
@pytest.mark.parametrize("target", ["y", None])
def test_lines_above_the_header_are_skipped_and_noted(tmp_path, preamble, target):
    if target is None and preamble == "keys":
        return  # only the name of the target shows that they are none
    above = PREAMBLES[preamble]
    path = written(
        tmp_path, above + "day,n,y\n" + "".join(f"2024-01-{k:02},{k},{k % 3}.5\n" for k in range(1, 29))
    )
    log = log_of(path, target, labelled=target is not None)
    found = [(line, fields) for line, fields, _ in log]
    lines = above.count("\n")
    assert [line for line, _ in found] == [lines + 2 + k for k in range(28)]
    assert found[0][1]["n"] == 1
    assert not log.unreadable
    assert f"{path}: line {lines + 1} names the columns, and the {lines} above are skipped" in log.notes
    if target is not None:
        require_equal(path, "csv")


@pytest.mark.parametrize("header", ["#id,n,y", "day,n,y", " ,n,y", '"# day",n,y'])
def test_a_first_line_that_names_the_columns_stays(tmp_path, header):
    log, found = read(written(tmp_path, f"{header}\n1,2,a\n2,3,b\n"))
    assert (len(found), log.unreadable) == (2, 0)
    assert not any("above are skipped" in note for note in log.notes)


@pytest.mark.parametrize(
    "word", ["Total", "Summe", "GRAND TOTAL", "total:", "Gesamt", "Итого", "合計", "Ogółem"]
)
@pytest.mark.parametrize("rest", [",,,900", ",,450,900", ",7,450,900"])
def test_a_row_of_totals_is_skipped_and_counted(tmp_path, word, rest):
    """Its first value is a word for totals, and the others are empty, or the word is none of its column."""
    rows = "".join(f"2024-01-{k % 28 + 1:02},{k % 5},{k},{k}\n" for k in range(40))
    path = written(tmp_path, f"day,shop,n,y\n{rows}{word}{rest}\n{rows}{word}{rest}\n")
    log, found = read(path)
    assert (len(found), log.unreadable) == (80, 2)
    assert log.examples[0].reason == f"a row of totals ({word!r})"
    require_equal(path, "csv")


@pytest.mark.parametrize("word", ["Total", "Gesamtsumme:", "average"])
@pytest.mark.parametrize("rest", [",,,900", ",,7,900", ",,7,"])
def test_a_row_of_totals_below_a_column_of_words(tmp_path, word, rest):
    """At least half of the other inputs are empty; whether there is a target does not matter."""
    rows = "".join(f"{'abc'[k % 3]},{k % 5},{k},{k}\n" for k in range(40))
    path = written(tmp_path, f"shop,m,n,y\n{rows}{word}{rest}\n{rows}{word},1,7,900\n")
    log, found = read(path)
    assert (len(found), log.unreadable, log.unlabelled) == (81, 1, 0)
    assert log.examples[0] == f"{path}, line 42: a row of totals ({word!r})"
    require_equal(path, "csv")


def test_many_rows_of_subtotals_leave_dates_dates(tmp_path):
    days = ["".join(f"2024-01-{day + 1:02},{k},{k % 3}.5\n" for k in range(5)) for day in range(12)]
    path = written(tmp_path, "day,n,y\n" + "".join(f"{rows}Zwischensumme,10,7.5\n" for rows in days))
    log, found = read(path)
    assert (len(found), log.unreadable, log.misfits) == (60, 12, {})
    assert log.format.types["day"] == "datetime:iso"
    require_equal(path, "csv")


def of_shops(last, rows=40):
    lines = [f"{'abc'[k % 3]},{k % 5},{k}.25,{k % 3}.5\n" for k in range(rows)]
    return "shop,n,m,y\n" + "".join(lines) + last


@pytest.mark.parametrize(
    "last",
    [
        "Total,80,790,59", "Kaikki,80,790.0,59.00", ",80,790,59", ",,790,59", ",80,,",
        "Total (40),80,790.04,",
    ],
)  # fmt: skip
def test_a_last_row_with_the_sums_of_the_others_is_named(tmp_path, last):
    log, found = read(written(tmp_path, of_shops(last)))
    named = [note for note in log.notes if "the last of the 41 records has the sums of " in note]
    assert len(found) == 41 - log.unlabelled
    assert len(named) == 1
    assert named[0].endswith("; if it is a row of totals, delete it, since it is learned")


@pytest.mark.parametrize("last", ["a,80,790,58", "a,,791,", "a,4,39.25,0.5", "Total,,,59"])
def test_a_last_row_with_other_sums_or_that_is_skipped_is_not_named(tmp_path, last):
    log, _ = read(written(tmp_path, of_shops(last)))
    assert not any("sums of" in note for note in log.notes)
    text = of_shops("").replace("shop", "day").replace("\na", "\n2024-01-01")
    log, _ = read(written(tmp_path, text.replace("\nb", "\n2024-01-02").replace("\nc", "\n2024-01-03")
        + "Total,80,790,59\n"))  # fmt: skip
    assert log.unreadable == 1
    assert not any("sums of" in note for note in log.notes)


@pytest.mark.parametrize(
    "dates",
    [
        ("1. März 2026", "12. Januar 2026"), ("12 janv. 2026", "3 févr. 2026"), ("15-mag-2026", "1-ago-2026"),
        ("3 de mayo de 2026", "4 de junio de 2026"), ("lundi 12 janvier 2026", "mardi 13 janvier 2026"),
        ("1. mars 2026 12:30", "3. apríl 2026 09:00"), ("5 мая 2026", "17 июня 2026"),
        ("15-mag-26", "1-ago-26"),
    ],
)  # fmt: skip
def test_dates_with_months_in_another_language_are_named(tmp_path, dates):
    text = "date,n,y\n" + "".join(f"{dates[k % 2]},{k},{'ab'[k % 3 > 0]}\n" for k in range(60))
    assert (
        f"date seems to hold dates with names of months that are not English, as {dates[0]!r}"
        in (notes_of(tmp_path, text)[1])
    )


@pytest.mark.parametrize(
    "values",
    [
        ("12 March 2026", "3 May 2026"),
        ("2 eggs", "3 eggs"),
        ("12 ab 7", "x"),
        ("3 Zimmer 75 qm", "2 Zimmer 40 qm"),
    ],
)
def test_other_values_are_no_dates_with_months_in_another_language(tmp_path, values):
    text = "date,n,y\n" + "".join(f"{values[k % 2]},{k},{'ab'[k % 3 > 0]}\n" for k in range(60))
    assert "names of months" not in notes_of(tmp_path, text)[1]


@pytest.mark.parametrize("value", ["1\u2009234,5", "1\u202f234,5\u00a0€", "€\u00a01.234,5", "1\u00a0234,5"])
def test_narrow_and_protected_blanks_belong_to_numbers(tmp_path, value):
    rows = "".join(f"{value};{k % 7};{'ab'[k % 3 > 0]}\n" for k in range(60))
    log, found = read(written(tmp_path, f"price;n;y\n{rows}"))
    assert (log.format.types["price"], found[0][1]["price"]) == ("number", 1234.5)


def test_dates_in_chinese_and_japanese_are_dates(tmp_path):
    text = "date,y\n" + "".join(f"2026年{k % 12 + 1}月{k % 28 + 1}日,{'ab'[k % 3 > 0]}\n" for k in range(60))
    assert notes_of(tmp_path, text)[0].format.types["date"] == "datetime:%Y年%m月%d日"


def test_words_for_totals_may_be_values(tmp_path):
    rows = [f"{('Total', 'Sum', 'red')[k % 3]},{k},{k}" for k in range(100)]
    log, found = read(written(tmp_path, "\n".join(["kind,n,y", *rows])))
    assert (len(found), log.unreadable) == (100, 0)
    assert decoder_of("csv", "y", columns=["a", "b", "y"]).total_in(["Totally", "", ""]) is None


def test_a_compressed_file_with_all_of_this(tmp_path):
    text = PREAMBLES["title"] + 'day,n,n\n2024-01-02,1,7\n2024-01-03,"2,8\n2024-01-04,3,9\nTotal,,24\n'
    path = written(tmp_path, gzip.compress(text.encode()), "log.csv.gz")
    found, skipped = of_replay(path, None, "n")
    assert ([fields["n.1"] for fields, _ in found], skipped) == ([7, 9], 2)


def test_the_header_of_a_file_that_grows_is_found_once(tmp_path):
    path = written(tmp_path, PREAMBLES["title"] + "day,n,y\n")
    file = OpenFile(str(path))
    file.look("csv", growing=True)
    lines = Lines(file, EventFormat("y"), growing=True)
    assert (lines.columns, lines.begins) == (["day", "n", "y"], Path(path).stat().st_size)
    file.close()


# ---- what a person should look at


def notes_of(tmp_path, text, target="y", **options):
    log, _ = read(written(tmp_path, text), target, **options)
    return log, " | ".join(log.notes)


@pytest.mark.parametrize("number", ["-999", "-9999", "-99.0", "9999", "99999.99"])
def test_numbers_that_may_stand_for_no_value_are_named(tmp_path, number):
    rows = [f"{20 + k % 9}.5,{k % 7},{number if k == 60 else k % 5}.0" for k in range(100)]
    rows[50] = f"{number},3,1.5"
    text = "t,n,y\n" + "\n".join(rows).replace(f"{number}.0", number)
    log, notes = notes_of(tmp_path, text)
    shown = f"{float(number):.10g}"
    assert f"{shown} may stand for no value in t, y; --missing={shown} makes it missing" in notes
    assert f"{shown} may stand for no value" in log.columns[0].warning
    log, notes = notes_of(tmp_path, text, missing=(shown,))
    assert "may stand" not in notes
    assert log.unlabelled == 1


def test_numbers_within_the_range_of_others_stand_for_themselves(tmp_path):
    ages = "\n".join(f"{k},{k % 2}" for k in range(100))
    assert "may stand" not in notes_of(tmp_path, f"age,y\n{ages}\n")[1]


def test_repeated_records_are_named(tmp_path):
    rows = [f"{k},{k % 7},{'ab'[k % 2]}\n" for k in range(300)]
    twice = "".join(row * (2 if k % 20 == 0 else 1) for k, row in enumerate(rows))
    assert "15 of the first 315 records repeat the one before" in notes_of(tmp_path, "a,b,y\n" + twice)[1]
    assert "repeat" not in notes_of(tmp_path, "a,b,y\n" + "".join(rows))[1]
    few = "".join(
        f"{k // 2 % 2},{'ab'[k % 3 > 0]}\n" for k in range(300)
    )  # few different values repeat anyway
    assert "repeat" not in notes_of(tmp_path, "a,y\n" + few)[1]


def test_codes_that_are_read_as_missing_are_named(tmp_path):
    text = "land,y\n" + "".join(f"{('NA', 'DE', 'FR')[k % 3]},{'ab'[k % 2]}\n" for k in range(60))
    assert (
        "NA of land is read as missing; if it is a code, --missing=N/A keeps it"
        in notes_of(tmp_path, text)[1]
    )
    log, notes = notes_of(tmp_path, text, missing=("N/A",))
    assert "NA of" not in notes
    assert log.columns[0].missing == 0


def test_a_clock_in_disguise_is_named(tmp_path):
    text = "battery,n,y\n" + "".join(f"{100 - k // 5}%,{k % 7},{'ab'[k % 2]}\n" for k in range(200))
    log, _ = notes_of(tmp_path, text)
    warnings = {column.name: column.warning for column in log.columns}
    assert "never rises" in warnings["battery"]
    assert not warnings["n"]


SORTED = ["p"] * 40 + ["q"] * 40 + ["z"] * 40


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        (SORTED, "the targets come in runs: `y` changes 2 times in 120 events"),
        ([*SORTED[:39], "q", "p", *SORTED[41:]], "the targets come in runs: `y` changes 4 times"),
        (SORTED[::3] + SORTED[1::3] + SORTED[2::3], ""),
        (["p", "q"] * 60, "the targets follow in turn: in 100 % of events, `y` is that of 2 events before"),
        ((["p"] * 9 + ["q"] * 3) * 10, "the targets follow in turn: in 100 % of events, `y` is that of 12"),
        (["pq"[k * k % 241 % 2] for k in range(120)], ""),
        (["p"] * 120, ""),
        (sorted(k % 12 * 0.37 for k in range(115)), "the log is sorted by its target `y`"),
        ([k % 500 * 0.37 for k in range(30_000)], ""),  # starts again 60 times
        (sorted(k * 0.37 for k in range(115)), "the log is sorted by its target `y`"),
        ([k * 37 % 120 * 0.37 for k in range(120)], ""),
    ],
)
def test_a_log_that_is_sorted_by_its_target_is_named_after_the_last_event(tmp_path, targets, sentence):
    path = written(tmp_path, "a,y\n" + "".join(f"{k % 7},{y}\n" for k, y in enumerate(targets)))
    announced = []
    replay_log(log_of(path), "kaczmarz:features=64", baseline="none", announce=announced.append)
    assert sentence in announced[-1]
    assert bool(sentence) == ("shuffle" in announced[-1])
    log = log_of(path)
    log.look()
    assert ("come in runs" in " ".join(log.notes)) == ("come in runs" in sentence)


def test_first_targets_of_one_class_are_named(tmp_path):
    log = log_of(written(tmp_path, "a,y\n" + "1,u\n" * 1500 + "1,v\n"))
    log.look()
    assert "the first 1,000 events all have the target u of `y`" in log.notes[-1]


@pytest.mark.parametrize("form", ["{} rpm", "{:.1f} m/s", "{:.1f}kg", "{:.1f} °C", "{:,.1f} km²"])
def test_numbers_with_a_unit_are_numbers(tmp_path, form):
    cells = [form.format(1000 + k) for k in range(60)]
    cells[7], cells[8] = "k.A.", "1234"  # none, and one without a unit
    path = written(
        tmp_path, "a\tn\ty\n" + "".join(f"{cell}\t{k % 7}\t{cell}\n" for k, cell in enumerate(cells))
    )
    log, found = read(path)
    unit = form.partition("}")[2].strip()
    assert log.format.types["a"] == f"number:{unit}"
    assert f"read as numbers with a unit: a ({unit}), y ({unit}); --type changes that" in log.notes
    assert [fields["a"] for _, fields, _ in found][6:10] == [1006, None, 1234, 1009]
    assert [y for _, _, y in found][:2] == ["1000", "1001"]
    assert (
        decoder_of("csv", "y", delimiter="\t", columns=["y"], types={"y": f"number:{unit}"}, numbers=True)(
            cells[0].encode()
        ).target
        == 1000.0
    )


def test_codes_with_a_letter_are_no_numbers(tmp_path):
    text = "seat,y\n" + "".join(f"{k % 20}A,{'ab'[k % 2]}\n" for k in range(60))
    assert notes_of(tmp_path, text)[0].format.types["seat"] == "category"
