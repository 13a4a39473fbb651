"""Files as other programs write them: headings, labels, times and numbers are read as they are meant."""

import datetime
import decimal
import json
import random

import pyarrow as pa
import pytest
from pyarrow import parquet

from connectors.cli.reading import FormatOptions
from connectors.events.schema import infer
from connectors.events.targets import decide_task
from connectors.files.source import FileSource
from connectors.replay.logs import Reading, delay_of, opened
from connectors.replay.run import replay_log
from connectors.replay.writing import about
from tests.connectors.reading import decoder_of, log_of

FAST = "kaczmarz:features=64"


def written(tmp_path, data, name="log.csv"):
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def table(tmp_path, columns, name="log.parquet"):
    path = tmp_path / name
    parquet.write_table(pa.table(columns), path)
    return path


def rows_of(log):
    return [(batch_line, fields, y) for batch_line, fields, y in log]


# ---- headings over several lines


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "heading",
    [
        '"net\rweight",colour,y',
        '"net\rweight","gross\rweight\r",y',
        '"net\nweight","\r\n",y',
        '\n\n"\r\r",b,y',
    ],
)
def test_no_row_is_lost_after_returns_in_a_heading(tmp_path, heading, end):
    """Replay, the daemon, and shards begin with the first row, and count its line as an editor does."""
    path = written(tmp_path, heading + end + "".join(f"{k},{k % 3},{'ab'[k % 2]}{end}" for k in range(10)))
    log = log_of(path)
    found = rows_of(log)
    assert [next(iter(fields.values())) for _, fields, _ in found] == list(range(10))
    before = (heading + end).count("\n")
    assert [line for line, _, _ in found] == [before + 1 + k for k in range(10)]
    source = FileSource(path, "csv")
    source.begin(source.name, source.begins)
    assert [raw.value.split(b",")[0] for raw in source._read(100)] == [b"%d" % k for k in range(10)]
    source.close(True)


# ---- labels that are large numbers

IDS = [1234567890123456780, 1234567890123456781, 1234567890123456782, 2**53, 2**53 + 1, -(2**63), 10**30]


@pytest.mark.parametrize("form", ["{}", "{:,}", "${}", "{}.0"])
@pytest.mark.parametrize("numbers", [None, "number"])
def test_large_integers_are_labels_of_their_own(tmp_path, form, numbers):
    cells = [form.format(each) for each in IDS * 5]
    path = written(tmp_path, "a;y\n" + "".join(f"{k};{cell}\n" for k, cell in enumerate(cells)))
    types = {} if numbers is None else {"y": numbers}
    log = log_of(path, types=types)
    targets = [y for _, _, y in log]
    assert targets == [str(each) for each in IDS * 5]
    assert "of 7 values" in decide_task(targets, "y").sentence


def test_large_integers_of_json_are_labels_of_their_own(tmp_path):
    lines = [json.dumps({"a": k, "y": f"${each:,}"}) for k, each in enumerate(IDS)]
    path = written(tmp_path, "\n".join(lines), "log.json")
    assert [y for _, _, y in log_of(path)] == IDS


def test_large_ids_are_identifiers():
    ids = [10**18 + k for k in range(60)]
    assert infer("user_id", ids) == infer("user_id", list(map(str, ids))) == "identifier"
    assert infer("user_id", [ids[0]] * 60) == "number"


# ---- times

DAYS = [f"2024-01-{k % 28 + 1:02} 0{k % 10}:30:00" for k in range(100)]


@pytest.mark.parametrize(
    "wrong", ["0000-00-00", "2024-02-30", "2024-01-05 24:01:00", "unknown", "?", "n. a."]
)
@pytest.mark.parametrize("at", [0, 37, 99])
def test_a_column_of_times_may_have_values_that_are_none(wrong, at):
    for form, days in (
        ("iso", DAYS),
        ("%d.%m.%Y", [f"{k % 28 + 1:02}.01.2024" for k in range(100)]),
        ("%Y%m%d", [f"202401{k % 28 + 1:02}" for k in range(100)]),
        ("epoch", [str(1_700_000_000 + k) for k in range(100)]),
    ):
        values = [*days[:at], wrong, *days[at + 1 :]]
        assert infer("at", values) == f"datetime:{form}"


def test_times_that_are_often_unknown_are_times():
    assert infer("closed", ["unknown"] * 40 + DAYS[:60]) == "datetime:iso"
    assert infer("closed", ["unknown"] * 60 + DAYS[:40]) == "category"
    assert infer("code", [f"K{k}" for k in range(20)] + DAYS[:60]) in ("category", "identifier")


@pytest.mark.parametrize("zone", [" UTC", " GMT", " Z", "Z", "UTC", "+00:00", " +0000 UTC", " utc"])
def test_times_with_the_name_of_universal_time(tmp_path, zone):
    times = [f"2024-01-05 10:{k % 60:02}:00{zone}" for k in range(60)]
    path = written(tmp_path, "at,y\n" + "".join(f"{at},{'ab'[k % 2]}\n" for k, at in enumerate(times)))
    log = log_of(path)
    expected = datetime.datetime(2024, 1, 5, 10, 0, tzinfo=datetime.UTC)
    assert next(iter(log)).fields == {"at": expected}
    assert log.format.types["at"] == "datetime:iso"


def test_zones_after_other_forms_of_times():
    assert infer("at", ["05.01.2024 10:00:00 UTC"] * 3) == "datetime:%d.%m.%Y %H:%M:%S"
    assert infer("at", ["Fri, 05 Jan 2024 10:00:00 GMT"] * 3) == "datetime:%a, %d %b %Y %H:%M:%S %z"


def replayed(path, **options):
    how = Reading(FormatOptions().format("y"), time=options.pop("time"))
    with opened([str(path)], how) as (log, _):
        log, late = delay_of(log, how, "600", None, int)
        return replay_log(log, FAST, baseline="none", delay=late, **options)


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_record_without_a_time_is_rejected_with_its_value_and_line(tmp_path, form, strict):
    rows = [{"at": DAYS[k], "v": k % 7, "y": "ab"[k % 2]} for k in range(100)]
    rows[60]["at"] = "n. a."
    if form == "json":
        path = written(tmp_path, "\n".join(map(json.dumps, rows)), "log.json")
    else:
        path = written(tmp_path, "at,v,y\n" + "".join(f"{r['at']},{r['v']},{r['y']}\n" for r in rows))
    line = 61 if form == "json" else 62
    run = replayed(path, time="at", strict=strict)
    assert strict or run.events == 99
    found = [run.error] if strict else run.examples
    assert found[0] == f"{path}, line {line}: field 'at': 'n. a.' is no time: neither ISO 8601 nor a number"
    assert found[0].line == line


@pytest.mark.parametrize("values", [["31.12.2023", "1.1.2024"], ["1700000000", "1700000600"]])
def test_labels_come_by_times_of_any_form(tmp_path, values):
    path = written(
        tmp_path, "when,v,y\n" + "".join(f"{values[k > 30]},{k % 7},{'ab'[k % 2]}\n" for k in range(60))
    )
    assert replayed(path, time="when").events == 60


# ---- DECIMAL


def test_decimals_are_numbers(tmp_path):
    cents = [decimal.Decimal(k) / 100 for k in range(40)]
    columns = {"amount": pa.array(cents, pa.decimal128(10, 2)), "n": list(range(40))}
    log = log_of(table(tmp_path, columns), "amount")
    targets = [y for _, _, y in log]
    assert targets == [k / 100 for k in range(40)]
    assert decide_task(targets, "amount").task == "regression"
    assert replay_log(log, FAST, baseline="none").events == 40
    log = log_of(table(tmp_path, columns), "n")
    assert [fields for _, fields, _ in log] == [{"amount": k / 100} for k in range(40)]
    assert log.format.types["amount"] == "number"


def test_decimals_are_labels(tmp_path):
    flags = pa.array([decimal.Decimal(k % 2 + 10**20) for k in range(40)], pa.decimal128(38, 0))
    log = log_of(table(tmp_path, {"a": list(range(40)), "y": flags}))
    assert [y for _, _, y in log] == [k % 2 + 10**20 for k in range(40)]
    assert replay_log(log, FAST, baseline="none").task == "classification"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (datetime.date(2024, 1, 5), "dates or times"),
        (datetime.datetime(2024, 1, 5, 10), "dates or times"),
        (b"\x01", "bytes"),
        (True, "booleans"),
        ("x", "strings"),
    ],
)
def test_the_sentence_about_the_task_names_the_type_of_the_target(value, what):
    assert f"since `y` has {what}: " in decide_task([value] * 30, "y").sentence


# ---- numbers that are no value

SENSORS = [{"t": 20.5 + k % 7, "n": k % 5, "y": 1.5 * (k % 7)} for k in range(60)]
SENSORS[3]["t"], SENSORS[4]["n"], SENSORS[5]["y"] = -999.0, -999, -999.0


def of_sensors(tmp_path, form, target="y", rows=SENSORS, **options):
    if form == "parquet":
        path = table(tmp_path, {name: [row[name] for row in rows] for name in rows[0]})
    elif form == "json":
        path = written(tmp_path, "\n".join(map(json.dumps, rows)), "log.json")
    else:
        cells = ["\t".join(str(value) for value in row.values()) for row in rows]
        path = written(tmp_path, "\n".join(["\t".join(rows[0]), *cells]))
    return log_of(path, target, **options)


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
@pytest.mark.parametrize("words", [{}, {3: "x"}])
def test_numbers_that_are_no_value_are_missing(tmp_path, form, words):
    """In columns of numbers, next to words, and as targets; however they are written."""
    rows = [{**row, "w": words.get(k, "z") if words else k % 3} for k, row in enumerate(SENSORS)]
    log = of_sensors(tmp_path, form, rows=rows, missing=("-999",))
    found = rows_of(log)
    assert len(found) == 59
    assert log.unlabelled == 1
    assert (found[3][1]["t"], found[4][1]["n"]) == (None, None)
    values = [value for _, fields, _ in found for value in fields.values()]
    assert -999 not in values
    assert values.count(None) == 2
    columns = {column.name: column.missing for column in log.columns}
    assert columns == {"t": 1, "n": 1, "y": 1, "w": 0}
    assert replay_log(of_sensors(tmp_path, form, missing=("-999",)), FAST, baseline="none").events == 59


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_labels_that_are_no_value_are_missing(tmp_path, form):
    rows = [{"a": k, "y": -1 if k % 4 == 0 else k % 3} for k in range(40)]
    log = of_sensors(tmp_path, form, rows=rows, missing=("-1",))
    assert len(rows_of(log)) == 30
    assert log.unlabelled == 10


def test_strings_that_are_no_value_apply_to_json_if_they_are_given(tmp_path):
    rows = [{"a": "?" if k == 1 else "red", "y": "u?"[k == 2]} for k in range(40)]
    log = of_sensors(tmp_path, "json", rows=rows, missing=("?",))
    assert [fields["a"] for _, fields, _ in log][:3] == ["red", None, "red"]
    assert log.unlabelled == 1
    assert len(rows_of(of_sensors(tmp_path, "json", rows=[{"a": "NA", "y": "N/A"}]))) == 1


def test_a_daemon_takes_the_same_values_for_missing():
    decode = decoder_of("json", "y", missing=("-999",))
    found = decode.plain([b'{"a": -999, "b": true, "y": 1}', b'{"a": 1, "b": "-999", "y": -999}'])
    assert found == ([{"a": None, "b": True}, {"a": 1, "b": None}], [1, None])
    assert decode(b'{"a": [-999, 1], "y": 1}').fields == {"a.0": None, "a.1": 1}


# ---- places


@pytest.mark.parametrize("name", ["run, line 2.csv", "a: b, row 9.csv", "log.csv"])
def test_the_line_of_a_rejected_record_does_not_come_from_the_name_of_the_file(tmp_path, name):
    path = written(tmp_path, "a,y\n" + "1,u\n2,v\n" * 20 + "3\n" + "1,u\n" * 5, name)
    run = replay_log(log_of(path, strict=True), FAST, baseline="none")
    assert (run.events, run.error.line) == (40, 42)
    log = log_of(path)
    run = replay_log(log, FAST, baseline="none")
    assert run.events == 45
    (example,) = log.examples
    about_it = about(run, run.results(), log, [], {})["left_out"]["examples"]
    assert about_it == [{"file": name, "line": 42, "reason": example.reason}]
    assert (example.place.file, example.line) == (str(path), 42)
    assert example.reason == "cannot be decoded: 1 values for 2 columns"


# ---- whole exports: what they cost against the same data, cleaned


def sales(clean):
    """An export with lines above its header, decimal commas, units, ``k.A.`` and a row of totals."""
    rng, rows, total = random.Random(4), [], 0.0
    for k in range(700):
        day = datetime.date(2024, 1, 1) + datetime.timedelta(days=k)
        price, off, degrees = round(rng.uniform(1, 9), 2), rng.choice([0, 5, 10]), rng.gauss(10, 5)
        shop = rng.randrange(5)
        y = round(900 - 80 * price + 15 * off + 20 * shop**2 + 6 * degrees + rng.gauss(0, 10), 2)
        total += y
        if clean:
            celsius = "" if k % 50 == 7 else f"{degrees:.1f}"
            rows.append([day.isoformat(), f"shop {shop}", f"{price}", f"{off}", celsius, f"{y}"])
        else:
            celsius = "k.A." if k % 50 == 7 else f"{degrees:.1f}".replace(".", ",")
            money = f"{y:,.2f} €".translate(str.maketrans(",.", ".,"))
            rows.append(
                [f"{day:%d.%m.%Y}", f"shop {shop}", f"{price}".replace(".", ","), f"{off} %", celsius, money]
            )
    header = ["Datum", "Filiale", "Preis (EUR)", "Rabatt", "Temperatur °C", "y"]
    if clean:
        return "\n".join(map(",".join, [header, *rows]))
    money = f"{total:,.2f} €".translate(str.maketrans(",.", ".,"))
    above = [["Auswertung Absatz"] + [""] * 5, [""] * 6]
    return "\r\n".join(map(";".join, [*above, header, *rows, ["Summe", *[""] * 4, money]])).encode("cp1252")


def sensors(clean):
    """An export with -999 for no value, ``ERR``, per cent and times in milliseconds."""
    rng, rows = random.Random(5), []
    for k in range(700):
        t, rpm = rng.gauss(40, 5), rng.choice([800, 1000, 1200])
        y = round(t / 10 + rpm / 400 + rng.gauss(0, 0.1), 3)
        nothing = "" if clean else "-999"
        cells = [f"{t:.2f}", str(rpm), f"{y}"]
        cells = [nothing if rng.random() < 0.02 else cell for cell in cells]
        broken = rng.random() < 0.01
        at = datetime.datetime.fromtimestamp(1.7e9 + 60 * k, datetime.UTC)
        when = at.isoformat() if clean else f"{1_700_000_000_000 + 60_000 * k}"
        vibration = ("" if clean else "ERR") if broken else f"{rng.random():.3f}"
        rows.append([when, f"{100 - k // 7}" + ("" if clean else "%"), vibration, *cells])
    return "\n".join(map(",".join, [["ts", "battery", "vib", "temp", "rpm", "y"], *rows]))


def orders(clean):
    """An export with a byte order mark, cells over two lines, money and accounts' negatives."""
    rng, rows = random.Random(6), []
    for k in range(700):
        money, off = round(rng.gauss(800, 600), 2), rng.choice([0, 5, 10])
        y = "No" if money - 100 * off + rng.gauss(0, 100) > 0 else "Yes"
        text = '"line one\nline two"' if k % 9 == 0 else "leave at door"
        if clean:
            shown, share = f"{money}", f"{off}"
        else:
            amount = f'"${abs(money):,.2f}"'
            shown, share = (amount if money >= 0 else amount.replace('"$', '"($')[:-1] + ')"'), f"{off}%"
        rows.append([f"ORD-{k:06}", shown, share, text, y])
    header = ["Order ID", "Amount", "Discount", "Notes", "y"]
    return ("" if clean else "\ufeff") + "\n".join(map(",".join, [header, *rows]))


@pytest.mark.parametrize(("export", "missing"), [(sales, ()), (sensors, ("-999",)), (orders, ())])
def test_an_export_costs_at_most_a_twentieth_of_the_error(tmp_path, export, missing):
    """No option is set but the one that a note names."""
    runs = []
    for clean in (True, False):
        path = written(tmp_path, export(clean), f"{clean}.csv")
        log = log_of(path, "y", missing=() if clean else missing)
        if missing and not clean:
            plain = log_of(path, "y")
            next(iter(plain))
            assert any("--missing=-999" in note for note in plain.notes)
        runs.append(replay_log(log, "kernel", baseline="none"))
    clean, messy = runs
    assert messy.events == clean.events
    found = [run.results().metrics(run.names[0]) for run in runs]
    errors = [each["mae"] if "mae" in each else 1 - each["accuracy"] for each in found]
    assert errors[1] <= 1.05 * errors[0], errors
