"""Files of many shapes: each is read right, or one sentence says what to set; rows equal those of csv."""

import contextlib
import csv
import io
import random

import pytest

from connectors.cli.reading import FormatOptions
from connectors.events.decoding import EventFormat
from connectors.files.log import ReplayLog
from connectors.formats.shapes import shape_of
from tests.connectors.test_equal_events import require_equal


def written(tmp_path, data):
    path = tmp_path / "log"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def rows_of(path, target="y", **options):
    """Return the log, and of each event its values in order with the target last."""
    log = ReplayLog(path, FormatOptions(**options).format(target).unlabelled())
    rows = [
        [*fields.values(), y]
        for batch in log.batches()
        for fields, y in zip(batch.events, batch.targets, strict=True)
    ]
    return log, rows


BODY = [(k % 7, f"{k}.5", "red" if k % 3 else "blue", "uv"[k % 2]) for k in range(40)]
NAMES = "a", "b", "c", "y"
RIGHT = [[a, float(b), c, y] for a, b, c, y in BODY]


def table(between=",", end="\n", header=NAMES, rows=BODY, decimal="."):
    lines = [
        between.join(str(cell).replace(".", decimal) for cell in row)
        for row in ([header] if header else []) + list(rows)
    ]
    return end.join(lines) + end


def fixed(rule=""):
    lines = [f"{a:<4}{b:>6}  {c:<8}{y:<3}\n" for a, b, c, y in [NAMES, *BODY]]
    return lines[0] + rule + "".join(lines[1:])


def drawn(before, after, rule):
    lines = [f"{before} {a} | {b:>6} | {c:<5} | {y} {after}\n" for a, b, c, y in [NAMES, *BODY]]
    return lines[0] + rule + "\n" + "".join(lines[1:])


PLAIN = table()
SHAPES = {
    "commas": PLAIN,
    "semicolons": table(";"),
    "semicolons and decimal commas": table(";", decimal=","),
    "tabs": table("\t"),
    "bars": table("|"),
    "tabs and decimal commas": table("\t", decimal=","),
    "CRLF": table(end="\r\n"),
    "no final line end": PLAIN.rstrip("\n"),
    "mixed line ends": PLAIN.replace("u\n", "u\r\n"),
    "blank lines": PLAIN.replace("\n", "\n\n"),
    "blank lines above": "\n\n\n" + PLAIN,
    "a byte-order mark": "\ufeff" + PLAIN,
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-16 without a mark": PLAIN.encode("utf-16-le"),
    "UTF-16, big end first": "\ufeff".encode("utf-16-be") + PLAIN.encode("utf-16-be"),
    "UTF-32": PLAIN.encode("utf-32"),
    "all quoted": "\n".join(",".join(f'"{cell}"' for cell in row) for row in [NAMES, *BODY]) + "\n",
    "words quoted": PLAIN.replace("red", '"red"'),
    "a mark and quotes": "\ufeff" + PLAIN.replace("a,b,c,y", '"a","b","c","y"'),
    "a title": "Report of sales\n" + PLAIN,
    "titles with delimiters": "Report,,,\nAs of 2024,,,\n,,,\n" + PLAIN,
    "comments above": "# made by hand\n# in 2024\n" + PLAIN,
    "a row of totals": PLAIN + "Total,820,,\n",
    "a footer": PLAIN + "\nSource: the office\n",
    "rows affected": PLAIN + "\n(40 rows affected)\n",
    "comments between": PLAIN.replace("5.5,", "5.5,", 1).replace("\n6,", "\n# noon\n6,", 1),
    "a header twice": PLAIN + table(rows=()),
    "a short row": PLAIN + "1,2\n",
    "a long row": PLAIN + "1,2,3,4,5\n",
    "delimiters at the end": PLAIN.replace("\n", ",\n"),
    "blanks around numbers": PLAIN.replace(",", ", ")
    .replace(" b", "b")
    .replace(" c", "c")
    .replace(" y", "y"),
    "blanks around names": PLAIN.replace("a,b,c,y", " a, b, c ,y "),
    "blanks before quotes": PLAIN.replace(",red", ', "red"').replace(",blue", ',  "blue"'),
    "carriage returns": table(end="\r"),
    "single quotes": "\n".join(",".join(f"'{cell}'" for cell in row) for row in [NAMES, *BODY]) + "\n",
    "quotes around lines": "".join(f'"{line}"\n' for line in PLAIN.splitlines()),
    "tildes": table("~"),
    "carets": table("^"),
    "control bytes between": table("\x01"),
    "a rule below the names": PLAIN.replace("a,b,c,y\n", "a,b,c,y\n-,--,----,-\n"),
    "columns of blanks": fixed(),
    "columns of blanks and a rule": fixed("--- ---- ------- --\n"),
    "names of rows of R": "a b c y\n"
    + "".join(f'"{k}" {a} {b} "{c}" "{y}"\n' for k, (a, b, c, y) in enumerate(BODY)),
    "a table of psql": drawn("", "", "---+-----+------+---") + "(40 rows)\n",
    "a table of MySQL": "+---+-----+------+---+\n"
    + drawn("|", "|", "+---+-----+------+---+")
    + "+---+-----+------+---+\n",
    "a table of Markdown": drawn("|", "|", "|:--|---|--:|:-:|"),
    "a table of SAP": "Stock\n\n" + "-" * 25 + "\n" + drawn("|", "|", "-" * 25) + "-" * 25 + "\n",
    "a table of box characters": "┌───┬─────┬──────┬───┐\n"
    + drawn("|", "|", "├───┼─────┼──────┼───┤").replace("|", "│")
    + "└───┴─────┴──────┴───┘\n",
}


def numeric(between):
    rows = [(k % 7, k * 1.5, k % 2) for k in range(40)]
    return (
        between.join("abY").replace("Y", "y")
        + "\n"
        + "".join(between.join(map(str, row)) + "\n" for row in rows)
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_read_right(tmp_path, shape):
    log, rows = rows_of(written(tmp_path, SHAPES[shape]))
    rows = [[*row[-4:-2], row[-2].strip(), row[-1].strip()] for row in rows]  # a name of a row is first
    assert rows == RIGHT
    extra = {
        "a row of totals", "a footer", "rows affected", "comments between", "a header twice", "a short row",
        "a long row", "a table of psql",
    }  # fmt: skip
    assert log.unreadable == int(shape in extra)
    if log.unreadable:
        assert str(log.examples[0]).startswith(f"{log.name}, line ")


@pytest.mark.parametrize(
    "shape",
    ["a rule below the names", "columns of blanks", "a table of psql", "single quotes", "names of rows of R"],
)
def test_every_command_reads_a_shape_alike(tmp_path, shape):
    require_equal(written(tmp_path, SHAPES[shape]), "csv")


@pytest.mark.parametrize(
    "shape",
    ["a rule below the names", "columns of blanks and a rule", "a table of MySQL", "a table of Markdown"],
)
def test_a_row_of_dashes_in_a_table_with_rules_is_a_row_of_missing_values(tmp_path, shape):
    lines = SHAPES[shape].splitlines()
    between = "|" if "|" in lines[1] else "," if "," in lines[0] else " "
    row = between.join(["--"] * 4)
    lines[9:9] = [row if between == "," else f"| {row.replace('|', ' | ')} |" if between == "|" else row]
    log, rows = rows_of(written(tmp_path, "\n".join(lines)))
    assert len(rows) == 41 - log.unreadable
    assert [row for row in rows if row[:2] == [None, None]]
    assert {name: misfits.count for name, misfits in log.misfits.items()} == {"a": 1, "b": 1}


def test_a_rule_of_two_dashes_a_column_is_a_rule_below_names_alone(tmp_path):
    text = "id,nm,yy\n--,--,--\n" + "1,2,0.5\n" * 9 + "--,--,--\nid,nm,yy\n--,--,--\n" + "1,2,0.5\n" * 9
    log, rows = rows_of(written(tmp_path, text), "yy", types=["id=number", "nm=number"])
    assert (len(rows), log.unreadable, rows.count([None, None, "--"])) == (19, 1, 1)
    log, rows = rows_of(written(tmp_path, "id,nm,yy\n" + "1,2,0.5\n--,--,--\n" + "1,2,0.5\n" * 9), "yy")
    assert (len(rows), log.misfits["id"].count) == (11, 1)


@pytest.mark.parametrize(
    "units",
    [
        ",[kg],(mm),°C", "-,kg,mm,°C", "yyyy-mm-dd,kg,mm,%", ",kg,-,°C", ",,,[m/s]", "UTC,kg,mm,-",
        "(UTC),(kg),(1),(°C)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rule", ["", "----,---,---,---\n"])
def test_a_row_of_units_below_the_names_is_skipped_and_noted(tmp_path, units, rule):
    rows = "".join(f"2024-01-{k % 28 + 1:02},{k % 5},{k},{k % 3}.5\n" for k in range(40))
    log, found = rows_of(written(tmp_path, f"day,n,m,y\n{rule}{units}\n{rows}"))
    assert (len(found), log.unreadable, log.misfits) == (40, 0, {})
    assert found[0][1:] == [0, 0, "0.5"]
    line = 3 if rule else 2
    shown = ", ".join(filter(None, units.split(",")))
    assert f"{log.name}: line {line} is skipped, as the units of columns: {shown}" in log.notes
    require_equal(tmp_path / "log", "csv")


def test_the_units_of_a_log_with_few_rows_are_recognised_by_known_types(tmp_path):
    path = written(tmp_path, "n,m,y\nkg,mm,\n1,2,\n")
    _, rows = rows_of(path, types=["n=number", "m=number"])
    assert rows == [[1, 2, None]]


@pytest.mark.parametrize(
    "first",
    [
        "2024-01-01,kg,1,0.5", "2024-01-01,-,-,-", "shop,-,-,-", ",NA,,", ",,err,", "red,kg,mm,°C",
        "-,not yet there at all this early,(mm),°C",
    ],
)  # fmt: skip
def test_a_first_row_that_may_be_a_record_stays(tmp_path, first):
    rows = "".join(
        f"{('2024-01-02', 'red')['red' in first or 'shop' in first]},{k},7,0.5\n" for k in range(9)
    )
    log, found = rows_of(written(tmp_path, f"day,n,m,y\n{first}\n{rows}"))
    assert len(found) == 10
    assert not any("units" in note for note in log.notes)


@pytest.mark.parametrize("between", ["  ", " ", "\t  "])
def test_numbers_with_blanks_between(tmp_path, between):
    _, rows = rows_of(written(tmp_path, numeric(between)))
    assert rows == [[k % 7, k * 1.5, str(k % 2)] for k in range(40)]


def test_numbers_in_fixed_width_without_a_header(tmp_path):
    text = "".join(f"{k % 7:5d}{k * 1.5:8.2f}   {'uv'[k % 2]}\n" for k in range(40))
    log, rows = rows_of(written(tmp_path, text), columns="a,b,y")
    assert rows == [[k % 7, k * 1.5, "uv"[k % 2]] for k in range(40)]
    assert any("blanks between values" in note for note in log.notes)


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ('"1,234.50"', 1234.5), ('"$1,234.50"', 1234.5), ("($12.00)", -12.0), ("5%", 5.0), ("-7", -7.0),
        ("1e3", 1000.0), ("12 kg", 12.0), ("12.5 kg", 12.5), ("€ 5", 5.0), (".5", 0.5), ("1 000", 1000.0),
        ("+3", 3.0), ("7-", -7.0),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(tmp_path, cell, number):
    text = "a,y\n" + "".join(f"{cell},{'uv'[k % 2]}\n" for k in range(40))
    assert {row[0] for row in rows_of(written(tmp_path, text))[1]} == {number}


@pytest.mark.parametrize(("cell", "number"), [("1.209,77 €", 1209.77), ("1.209,77", 1209.77), ("-3,5", -3.5)])
def test_numbers_with_decimal_commas(tmp_path, cell, number):
    text = "a;y\n" + "".join(f"{cell};{'uv'[k % 2]}\n" for k in range(40))
    assert {row[0] for row in rows_of(written(tmp_path, text))[1]} == {number}


SENTENCES = {
    "no header": (table(header=None), {}, r"no column 'y'; .* --columns a,b,… names the 4 columns"),
    "numbers without a header": (
        "1,2\n3,4\n",
        {},
        r"\(1, 2\); name the 2 columns with --columns",
    ),
    "too few names": (
        table(header=None),
        {"columns": "a,y"},
        "has 2 names, and the rows have 4 values",
    ),
    "another name": (PLAIN.replace("c,y", "c,Y"), {}, r"there is no column 'y'; did you mean Y\?"),
    "nothing": ("", {}, "is empty"),
    "blanks": (" \n\n", {}, "is empty"),
    "a wrong delimiter": (PLAIN, {"delimiter": ";"}, "there is no column 'y'"),
    "too much is skipped": (PLAIN, {"skip": 2}, "there is no column 'y'"),
    "an unknown encoding": (PLAIN, {"encoding": "none"}, "encoding 'none' is unknown"),
    "LibSVM": ("1 3:0.5 7:1\n0 1:2\n" * 20, {}, "is sparse text of LibSVM; write it as CSV or JSON lines"),
    "LibSVM with groups": ("2 qid:1 1:0.5\n" * 20, {}, "is sparse text of LibSVM"),
    "Vowpal Wabbit": ("1 |f a:5 c=red\n" * 20, {}, "is text of Vowpal Wabbit; write it as CSV or JSON lines"),
    "Vowpal Wabbit with tags": ("-1 2.0 'x|f a:5 b\n" * 20, {}, "is text of Vowpal Wabbit"),
    "a wrong decimal mark": (PLAIN, {"decimal": "x"}, "decimal 'x'"),
}


@pytest.mark.parametrize("shape", SENTENCES)
def test_a_shape_that_cannot_be_read_is_a_sentence(tmp_path, shape):
    data, options, sentence = SENTENCES[shape]
    path = written(tmp_path, data)
    with pytest.raises(ValueError, match=sentence) as raised:
        list(ReplayLog(path, FormatOptions(**options).format("y")).batches())
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("sign", ["-", "= ", "- ", '"', "'", '\\"', " "])
def test_long_lines_are_looked_at_in_linear_time(sign):
    for end in ("", "x"):
        shape_of("log", f"a,y\n{sign * 500_000}{end}\n1,2\n".encode())


def test_a_rule_in_quotes_is_a_value(tmp_path):
    text = 'c,y\n"x\n---\ny",u\n' + "".join(f"{'rb'[k % 2]},{'uv'[k % 2]}\n" for k in range(40))
    assert rows_of(written(tmp_path, text))[1][0] == ["x\n---\ny", "u"]


def test_quotes_after_a_backslash(tmp_path):
    text = "n,c,y\n" + "".join(f'{k},"say \\"{k % 3}, 1\\" \\\\",{"uv"[k % 2]}\n' for k in range(40))
    log, rows = rows_of(written(tmp_path, text))
    assert rows == [[k, f'say "{k % 3}, 1" \\', "uv"[k % 2]] for k in range(40)]
    assert any("a backslash before quotes" in note for note in log.notes)
    path = "n,c,y\n" + "".join(f'{k},"C:\\{k % 3}\\",{"uv"[k % 2]}\n' for k in range(40))
    assert rows_of(written(tmp_path, path))[1] == [[k, f"C:\\{k % 3}\\", "uv"[k % 2]] for k in range(40)]


@pytest.mark.parametrize("line", ["10:00:01 level=info n=5", "x y z"])
def test_lines_of_one_value_are_noted(tmp_path, line):
    log = ReplayLog(written(tmp_path, f"{line}\n" * 40), EventFormat())
    list(log.batches())
    assert any("--delimiter names what is between values" in note for note in log.notes)


def test_a_first_line_that_is_a_record_is_noted(tmp_path):
    log, _ = rows_of(written(tmp_path, table(header=None)), target=None)
    assert any("if it is a record, --columns a,b,… gives their names" in note for note in log.notes)
    log, _ = rows_of(written(tmp_path, "name,2023,2024\n" + "x,1,2\ny,3,4\n" * 9), target=None)
    assert not any("--columns" in note for note in log.notes)


def test_a_text_of_another_encoding(tmp_path):
    text = "都市,y\n" + "東京,u\n大阪,v\n" * 20
    rows = rows_of(written(tmp_path, text.encode("shift_jis")), encoding="shift_jis")[1]
    assert rows[:2] == [["東京", "u"], ["大阪", "v"]]


# ---- the shapes of suites of CSV, against the reader of Python

SUITE = {
    "comma in quotes": 'first,last,address\nJohn,Doe,"120 any st., Anytown, WW"\n',
    "empty": 'a,b,c\n1,"",""\n2,3,4\n',
    "empty, CRLF": 'a,b,c\r\n1,"",""\r\n2,3,4\r\n',
    "escaped quotes": 'a,b\n1,"ha ""ha"" ha"\n3,4\n',
    "JSON in a cell": 'key,val\n1,"{""type"": ""Point"", ""coordinates"": [102.0, 0.5]}"\n',
    "line ends in quotes": 'a,b,c\n1,2,3\n"Once upon \na time",5,6\n7,8,9\n',
    "line ends in quotes, CRLF": 'a,b,c\r\n1,2,3\r\n"Once upon \r\na time",5,6\r\n7,8,9\r\n',
    "quotes and line ends": 'a,b\n1,"ha \n""ha"" \nha"\n3,4\n',
    "simple": "a,b,c\n1,2,3\n",
    "simple, CRLF": "a,b,c\r\n1,2,3\r\n",
    "UTF-8": "a,b,c\n1,2,3\n4,5,ʤ\n",
    "locations": "id,where\n1,\"Paris, France\"\n2,'Rome'\n",
    "no final line end": "a,b\n1,2\n3,4",
    "final quote without a line end": 'a,b\n1,2\n3,"4"',
    "empty last cells": "a,b,c\n1,2,\n,,3\n4,,\n",
    "one column": "a\nx\ny\nz\n",
    "header only": "a,b,c\n",
    "single quotes": "a,b\n'x','y'\nit's,fine\n",
    "blank lines": "a,b\n\n1,2\n\n\n3,4\n\n",
    "a quote within": 'a,b\n1,5" pipe\n2,x\n',
    "tabs": "a\tb\n1\tx y\n2\tz\n",
    "bars": "a|b\n1|x,y\n2|z\n",
    "semicolons": "a;b\n1;x,y\n2;z\n",
    "long cells": "a,b\n1," + "x" * 50_000 + "\n2,y\n",
    "many columns": ",".join(f"c{k}" for k in range(2000)) + "\n" + ",".join("7" * 2000) + "\n",
    "NUL within": "a,b\n1,x\0y\n2,z\n",
    "blanks as values": "a,b\n ,x\n1, \n",
    "commas alone": "a,b,c\n,,\n1,2,3\n",
    "a byte-order mark before quotes": '\ufeff"a","b"\n"1","x"\n',
    "other blanks": "a,b\n1,x\u00a0y\n2,\u2003z\n",
    "vertical tabs": "a,b\n1,x\x0by\n2,z\x0c\n",
    "line separators of Unicode": "a,b\n1,x\u2028y\n2,z\u0085\n",
    "emoji": "a,b\n1,👩‍💻\n2,é́\n",
    "backslashes": 'a,b\n1,"x\\"\n2,y\\n\n',
    "numbers of many digits": "a,b\n123456789012345678901234567890,0.1234567890123456789\n",
    "right to left": "a,b\n1,שלום\n2,مرحبا\n",
}
DIFFERENT = {  # and why
    "a header again": ("a,b\n1,2\na,b\n3,4\n", [["1", "2"], ["3", "4"]], "the header again"),
    "short and long rows": ("a,b\n1,2\n3\n4,5,6\n7,8\n", [["1", "2"], ["7", "8"]], "1 values for 2 columns"),
    "a quote that never closes": ('a,b\n1,2\n3,"4\n5,6\n', [["1", "2"], ["5", "6"]], "a quote opens"),
    "text after a quote": ('a,b\n1,"x"y\n2,z\n', [["2", "z"]], "expected after"),
    "bytes of no encoding": (
        b"a,b\n1,\xff\xfe\n\xc3\xa9,\xc3\xa9\n\xc3\xbc,3\n",
        [["é", "é"], ["ü", "3"]],
        "utf-8",
    ),
    "comments": ("# made\na,b\n1,2\n# end\n3,4\n", [["1", "2"], ["3", "4"]], "1 values for 2 columns"),
}


def strings_of(path):
    """Return the names of the columns, and the strings of each record; the log, too."""
    log = ReplayLog(path, FormatOptions(missing=[]).format(None).unlabelled())
    batches = log.batches()
    with contextlib.closing(batches), contextlib.suppress(StopIteration):
        next(batches)
    names = [column.name for column in log.columns]
    delimiter = log.dialect.delimiter if log.dialect else None
    log = ReplayLog(
        path, EventFormat(features=names, verbatim=names, missing=(), delimiter=delimiter, labelled=False)
    )
    events = [fields for batch in log.batches() for fields in batch.events]
    return names, [[fields.get(name) or "" for name in names] for fields in events], log


@pytest.mark.parametrize("shape", SUITE)
def test_rows_and_columns_are_those_of_the_reader_of_python(tmp_path, shape):
    text = SUITE[shape]
    between = {"tabs": "\t", "bars": "|", "semicolons": ";"}.get(shape, ",")
    header, *rows = [
        row
        for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=between)
        if row
    ]
    path = written(tmp_path, text)
    if not rows:
        log = ReplayLog(path, FormatOptions().format(None).unlabelled())
        with pytest.raises(ValueError, match="holds no events"):
            log.look()
        return
    names, found, log = strings_of(path)
    assert names == header
    assert found == rows
    assert not log.unreadable


@pytest.mark.parametrize("shape", DIFFERENT)
def test_rows_that_differ_from_the_reader_of_python_are_counted_with_a_reason(tmp_path, shape):
    data, rows, reason = DIFFERENT[shape]
    _, found, log = strings_of(written(tmp_path, data))
    assert found == rows
    assert log.unreadable
    assert any(reason in str(example) for example in log.examples)


@pytest.mark.parametrize("seed", range(40))
def test_random_tables_are_those_of_the_reader_of_python(tmp_path, seed):
    rng = random.Random(seed)
    width, between = rng.randint(2, 8), rng.choice(",;\t|")
    letters = ["a", "b", "7", ".", "é", '"', between, "\n", "'", "\\", " x", "\u2028"]
    rows = [
        ["x" + "".join(rng.choices(letters, k=rng.randint(0, 5))) for _ in range(width)]
        for _ in range(rng.randint(1, 300))
    ]
    stream = io.StringIO(newline="")
    quoting = rng.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC])
    writer = csv.writer(stream, delimiter=between, lineterminator=rng.choice(["\n", "\r\n"]), quoting=quoting)
    writer.writerows([[f"n{k}" for k in range(width)], *rows])
    names, found, log = strings_of(written(tmp_path, stream.getvalue()))
    assert (names, found, log.unreadable) == ([f"n{k}" for k in range(width)], rows, 0)
