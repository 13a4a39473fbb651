"""Changes of fields, predictions and labels are alarms in log and metrics, once; quiet streams have none."""

import json
import logging
import math
import random
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from typer.testing import CliRunner

import streamk
from connectors.cli import app
from connectors.daemon.telemetry import Telemetry
from connectors.events.decoding import Misfits
from connectors.operators import stream_watch
from connectors.operators.stream_watch import LABELS, MOST, OTHERS, PREDICTIONS, StreamWatch


class Seen:
    """Takes what a watch sees, and holds it."""

    def __init__(self):
        self.alarms, self.counts, self.columns = [], [], []

    def alarm(self, kind, sentence):
        self.alarms.append((kind, sentence))

    def misfit(self, field, count):
        self.counts.append((field, count))

    def watched(self, columns):
        self.columns.append(columns)

    @property
    def kinds(self):
        return [kind for kind, _ in self.alarms]


def feed(watch, events, predictions=None, labels=None, size=100):
    """Give events to a watch in batches of a size."""
    predictions, labels = predictions or [0.5] * len(events), labels or [None] * len(events)
    for start in range(0, len(events), size):
        part = slice(start, start + size)
        xs, ps, ys = events[part], predictions[part], labels[part]
        rows = watch.rows(len(xs))
        watch.misfits({}, {})
        watch.add([xs[k] for k in rows], [ps[k] for k in rows], [ys[k] for k in rows])
        watch.labels([y for y in ys if y is not None])


def watched(*streams, size=100, **others):
    seen = Seen()
    watch = StreamWatch(seen)
    for events in streams:
        feed(watch, events, size=size, **others)
    return seen


def usual(count):
    return [{"a": 1.0 + i // 10 % 7, "b": "uv"[i // 10 % 2]} for i in range(count)]


def test_a_usual_stream_has_no_alarms():
    seen = watched(usual(5000))
    assert seen.alarms == []
    shares = [{name: column.missing for name, column in columns.items()} for columns in seen.columns]
    assert shares == [{PREDICTIONS: 0.0, LABELS: 1.0, "a": 0.0, "b": 0.0}] * 5


@pytest.mark.parametrize("gone", [{"b": "u"}, {"a": None, "b": "v"}, {"a": math.nan, "b": "v"}])
@pytest.mark.parametrize("before", [2000, 2130, 2500, 2950])
def test_a_field_that_disappears_is_named_once_within_2000_events(gone, before):
    seen = Seen()
    watch = StreamWatch(seen)
    feed(watch, usual(before), size=10)
    feed(watch, [gone] * 2000, size=10)
    assert seen.kinds[:1] == ["missing"]
    assert "the field a is missing" in seen.alarms[0][1]
    feed(watch, [gone] * 5000)
    assert [kind for kind, sentence in seen.alarms if "field a" in sentence] == ["missing"]


@pytest.mark.parametrize("before", [2000, 2130, 2500, 2950])
@pytest.mark.parametrize("factor", [1000.0, 0.001, -1000.0])
def test_another_unit_is_named_once_within_2000_events(before, factor):
    seen = Seen()
    watch = StreamWatch(seen)
    feed(watch, usual(before), size=10)
    changed = [{**event, "a": factor * event["a"]} for event in usual(5000)]
    feed(watch, changed[:2000], size=10)
    assert seen.kinds == ["size"]
    assert "numbers of the field a are" in seen.alarms[0][1]
    assert before != 2000 or f"{abs(factor):.4g} times as large" in seen.alarms[0][1]
    feed(watch, changed[2000:])
    assert seen.kinds == ["size"]


@pytest.mark.parametrize("before", [2000, 2500, 2950])
def test_a_field_that_is_new_is_no_alarm_until_it_goes(before):
    seen = Seen()
    watch = StreamWatch(seen)
    feed(watch, [{"b": "u"}] * before)
    feed(watch, [{"b": "u", "new": 1.0}] * 5000)
    assert seen.alarms == []
    feed(watch, [{"b": "u"}] * 2000)
    assert seen.kinds == ["missing"]


def test_misfits_are_no_usual_change_of_a_field():
    seen = Seen()
    watch = StreamWatch(seen)
    rng = random.Random(10)

    def events(count, low):
        return [{"a": low + rng.random()} for _ in range(count)]

    feed(watch, events(7000, 0.0))
    for _ in range(30):
        watch.misfits({"a": Misfits(100, "w")}, {})
        feed(watch, [{"a": None}] * 100)
    feed(watch, events(7000, 0.0))
    assert seen.kinds == ["misfits"]
    feed(watch, events(3000, 1.0))
    assert seen.kinds == ["misfits", "values"]


def test_another_unit_of_numbers_that_are_mostly_0_is_named():
    rng = random.Random(9)
    events = [{"a": rng.random() if rng.random() < 0.3 else 0.0} for _ in range(5000)]
    assert watched(events, [{"a": 1000.0 * event["a"]} for event in events[:2000]]).kinds == ["size"]


def test_a_clock_is_no_alarm_and_its_unit_is():
    seen = Seen()
    watch = StreamWatch(seen)
    seconds = np.cumsum(np.random.default_rng(1).exponential(1.0, 60_000))
    clock = [{"t": float(t), "id": f"e{k}", "n": k} for k, t in enumerate(seconds)]
    feed(watch, clock[:50_000])
    assert seen.alarms == []
    feed(watch, [{**event, "t": 1000.0 * event["t"]} for event in clock[50_000:52_000]])
    assert seen.kinds == ["size"]


def test_a_number_of_two_sizes_is_no_alarm():
    rng = random.Random(2)
    assert watched([{"a": rng.choice([1.0, 1e4])} for _ in range(50_000)]).alarms == []


def test_other_values_are_an_alarm_once_they_are_unusual():
    rng = random.Random(3)
    events = [{"a": rng.gauss(0, 1), "shop": rng.choice("abc")} for _ in range(8000)]
    renamed = [{"a": rng.gauss(0, 1), "shop": "shop-" + rng.choice("abc")} for _ in range(6000)]
    shifted = [{"a": rng.gauss(9, 1), "shop": "shop-" + rng.choice("abc")} for _ in range(6000)]
    seen = watched(events, renamed, shifted)
    assert seen.kinds == ["values", "values"]
    assert "values of the field shop" in seen.alarms[0][1]
    assert "values of the field a " in seen.alarms[1][1]


def test_what_was_usual_long_ago_is_usual_no_more():
    rng = random.Random(11)

    def numbers(windows, low):
        return [{"a": low + rng.random()} for _ in range(1000 * windows)]

    seen = watched(numbers(3, 0.0), numbers(120, 5.0))
    assert seen.alarms == []  # a change within the first windows says that such changes are usual
    assert watched(numbers(3, 0.0), numbers(20, 5.0), numbers(3, 9.0)).alarms == []
    assert watched(numbers(3, 0.0), numbers(120, 5.0), numbers(3, 9.0)).kinds == ["values"]


def test_predictions_are_watched_without_labels():
    seen = Seen()
    watch = StreamWatch(seen)
    rng = random.Random(4)
    events = [{"a": rng.random()} for _ in range(8000)]
    feed(watch, events, [rng.choice("uv") for _ in events])
    feed(watch, events[:3000], ["w"] * 3000)
    assert seen.kinds == ["values"]
    assert "values of predictions" in seen.alarms[0][1]
    assert seen.columns[-1][PREDICTIONS].values == {"w": 1.0}


def test_predictions_that_start_are_no_alarm_and_those_that_stop_are():
    seen = Seen()
    watch = StreamWatch(seen)
    feed(watch, usual(4000), [None] * 1000 + ["u", "v"] * 1500)
    assert seen.alarms == []
    feed(watch, usual(2000), [None] * 2000)
    assert seen.kinds == ["missing"]


def test_labels_that_stop_to_come_are_an_alarm():
    seen = Seen()
    watch = StreamWatch(seen)
    feed(watch, usual(3000), labels=["u", "v"] * 1500)
    feed(watch, usual(2000))
    assert seen.kinds == ["missing"]
    assert seen.alarms[0][1].startswith("labels are missing in 100 %")


@pytest.mark.parametrize("rare", [0.5, 0.05, 0.03])
def test_a_constant_label_is_named_once_within_2000_events(rare):
    rng = random.Random(5)
    labels = [rng.random() < rare for _ in range(20_000)]
    seen = Seen()
    watch = StreamWatch(seen)
    watch.labels(labels)
    assert seen.alarms == []
    for _ in range(20):
        watch.labels([False] * 100)
    assert seen.kinds == ["constant"]
    assert "labels are all False" in seen.alarms[0][1]
    watch.labels([False] * 5000)
    assert seen.kinds == ["constant"]
    watch.labels([True])
    watch.labels([False] * 40_000)
    assert seen.kinds == ["constant", "constant"]


@pytest.mark.parametrize("labels", [[1.5, 2.5] * 2000, ["u", "v", "w"] * 1000])
def test_constant_numbers_and_classes_are_named(labels):
    seen = Seen()
    watch = StreamWatch(seen)
    watch.labels(labels)
    watch.labels([labels[0]] * 2000)
    assert seen.kinds == ["constant"]


@given(st.lists(st.integers(1, 400), max_size=12), st.integers(0, 2**32))
def test_runs_of_labels_do_not_depend_on_batches(sizes, seed):
    labels = [bool(x) for x in np.random.default_rng(seed).random(sum(sizes)) < 0.3]
    whole, parts = StreamWatch(Seen()), StreamWatch(Seen())
    whole.labels(labels)
    at = 0
    for size in sizes:
        parts.labels(labels[at : at + size])
        at += size
    assert whole.to_bytes() == parts.to_bytes()


def test_a_sorted_log_is_no_alarm_for_its_labels():
    labels = [k // 3000 % 2 for k in range(60_000)]
    seen = Seen()
    watch = StreamWatch(seen)
    for start in range(0, len(labels), 100):
        watch.labels(labels[start : start + 100])
    assert seen.alarms == []


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_windows_do_not_depend_on_batches(size):
    rng = random.Random(6)
    events = [{"a": rng.random()} for _ in range(3000)]
    assert watched(events, size=size).columns == watched(events).columns


def test_refused_events_are_an_alarm_within_2000_events(caplog):
    seen = Seen()
    watch = StreamWatch(seen)
    with caplog.at_level(logging.WARNING):
        for k in range(20):
            watch.refusals(100, [("learner", f"offset {k}: bad")] * (1 if k == 3 else 0))
        assert seen.alarms == []
        assert [record.message for record in caplog.records] == [
            "refused (learner), logged once a cause: offset 3: bad"
        ]
        for _ in range(20):
            watch.refusals(100, [("undecodable", "offset 7: no JSON")] * 40)
    assert seen.kinds == ["refused"]
    assert seen.alarms[0][1] == (
        "400 of the last 1,000 events are refused, and 0 % were before; the last: offset 7: no JSON"
    )
    for _ in range(20):
        watch.refusals(100, [])
    for _ in range(20):
        watch.refusals(100, [("undecodable", "offset 9: no JSON")] * 40)
    assert seen.kinds == ["refused", "refused"]


def test_new_categories_and_quantiles_are_shown():
    events = [{"shop": "abc"[k % 3], "id": f"e{k}", "n": float(k % 100)} for k in range(30_000)]
    first, second = (watched(events, [{**e, "shop": "d"} for e in events[:1000]]).columns[k] for k in (0, -1))
    assert first["shop"].unseen is None
    assert second["shop"].unseen == 1.0
    assert second["shop"].values == {"d": 1.0}
    assert second["id"].unseen is None  # too many to hold
    assert watched(events[:2000]).columns[-1]["shop"].unseen == 0.0
    assert second["n"].quantiles == pytest.approx([0.0, 20.0, 45.0, 70.0, 90.0], abs=6.0)


def test_series_are_bounded():
    seen = watched([{f"x{k}": 1.0 for k in range(200)}] * 1000)
    assert len(seen.columns[0]) == MOST + 2
    watch = StreamWatch(seen)
    watch.misfits({f"x{k}": Misfits(1, "w") for k in range(200)}, {})
    assert len({name for name, _ in seen.counts}) == MOST + 1
    assert seen.counts[-1] == (OTHERS, 1)


def test_misfits_are_counted_by_field_and_named_once():
    seen = Seen()
    watch = StreamWatch(seen)
    for _ in range(20):
        watch.rows(100)
        watch.misfits({"a": Misfits(100, "w0")}, {"a": "number"})
    assert seen.counts == [("a", 100)] * 20
    assert seen.alarms == [
        ("misfits", "100 of 100 values of a do not fit \"number\" (the first: 'w0') and are missing")
    ]


def test_a_checkpoint_holds_what_is_usual():
    rng = random.Random(7)
    before = StreamWatch(Seen())
    feed(before, usual(10_000), labels=[rng.choice("uv") for _ in range(10_000)])
    seen = Seen()
    after = StreamWatch(seen)
    after.restore(before.to_bytes())
    feed(after, [{"b": "u"}] * 1000, labels=["u"] * 1000)
    assert set(seen.kinds) == {"missing", "constant"}
    assert StreamWatch(seen).restore(None) is None  # a checkpoint of an earlier version


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_false_alarm_about_missing_values_comes_less_than_once_in_ten_billion_events(share):
    """Summed over all pairs of counts of two windows of 100 examined events."""
    counts = np.arange(101)
    p = binom.pmf(counts, 100, share)
    alarms = [
        [abs(a - b) >= 25 and stream_watch._differ(a / 100, b / 100, 100) for b in counts] for a in counts
    ]
    assert p @ np.array(alarms, float) @ p < 1e-7


def test_a_million_quiet_events_have_no_alarm():
    """Each event examined stands for ten."""
    rng = np.random.default_rng(8)
    count = 100_000
    columns = {
        "normal": rng.normal(size=count),
        "heavy": rng.standard_cauchy(count),
        "tiny": np.exp(9.0 * rng.normal(size=count)),
        "half": np.where(rng.random(count) < 0.5, np.nan, rng.random(count)),
        "zeros": np.where(rng.random(count) < 0.97, 0.0, 1e6 * rng.random(count)),
        "rare": np.where(rng.random(count) < 0.8, 0.0, np.exp(9.0 * rng.normal(size=count))),
        "walk": np.cumsum(rng.normal(size=count)),
        "day": np.sin(np.arange(count) / 700.0) + 0.1 * rng.normal(size=count),
        "code": rng.integers(0, 60, count).astype(str).astype(object),
        "id": np.arange(count).astype(str).astype(object),
    }
    seen = Seen()
    watch = StreamWatch(seen)
    events = [
        dict(zip(columns, row, strict=True))
        for row in zip(*(c.tolist() for c in columns.values()), strict=True)
    ]
    predictions = (rng.random(count) < 0.2).tolist()
    watch.add(events, predictions, ["x"] * count)
    for share in (0.5, 0.1, 0.01):
        labelled = StreamWatch(seen)
        labelled.labels((rng.random(1_000_000) < share).tolist())
    assert len(seen.columns) == 1000
    assert seen.alarms == []


# ---- in a daemon


def run_daemon(tmp_path, rows, extra="", target="y", task="classification"):
    log, settings = tmp_path / "log.jsonl", tmp_path / "streamk.toml"
    log.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    settings.write_text(
        f'[source]\nkind = "file"\npath = "{log}"\n[events]\ntarget = "{target}"\n{extra}'
        f'[learner]\nname = "kaczmarz"\ntask = "{task}"\nparameters = {{features = 16}}\n'
        f'[checkpoints]\ndirectory = "{tmp_path / "kept"}"\n'
        f'[dead_letters]\nkind = "file"\npath = "{tmp_path / "dead.jsonl"}"\n'
    )
    done = CliRunner().invoke(app, ["run", str(settings)])
    assert done.exit_code == 0, done.output
    return done.output


def base(i, labelled=True):
    return {
        "a": float(i % 7),
        "b": "uvw"[i % 3],
        **({"y": "pq"[i * i % 7 % 2]} if labelled or i < 500 else {}),
    }


CHANGES = {
    "vanishes": (lambda row: {k: v for k, v in row.items() if k != "a"}, "the field a is missing in", ""),
    "times 1000": (lambda row: {**row, "a": 1000.0 * row["a"]}, "numbers of the field a are", ""),
    "misfits": (
        lambda row: {**row, "a": f"w{row['a']}"},
        'values of a do not fit "number"',
        '[schema]\ntypes = {a = "number"}\n',
    ),
}


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_a_daemon_names_the_change_of_a_field(tmp_path, change, labelled):
    changed, sentence, extra = CHANGES[change]
    rows = [base(i, labelled) for i in range(2300)]
    rows += [changed(base(i, labelled)) for i in range(2300, 4300)]
    output = run_daemon(tmp_path, rows, extra)
    assert output.count(sentence) == 1


def test_a_daemon_names_a_constant_label_and_dead_letters(tmp_path):
    rows = [base(i) for i in range(2300)] + [{**base(i), "y": "p"} for i in range(2300, 4300)]
    assert "labels are all 'p'" in run_daemon(tmp_path, rows)
    broken = [base(i) if i % 5 < 3 or i < 4300 else "{no JSON" for i in range(6300)]
    output = run_daemon(tmp_path, rows + broken[4300:])
    assert "% were before; the last: log.jsonl, offset" in output
    assert "refused (undecodable), logged once a cause: log.jsonl, offset" in output


def test_a_restart_compares_with_the_checkpoint(tmp_path):
    rows = [base(i) for i in range(3000)]
    assert "missing" not in run_daemon(tmp_path, rows)
    rows += [{"b": "u", "y": "pq"[i % 2]} for i in range(1000)]
    assert "the field a is missing in 100 %" in run_daemon(tmp_path, rows)


def test_alarms_are_metrics_and_replays_repeat_none(caplog):
    telemetry = Telemetry()
    telemetry.replays(True)
    telemetry.alarm("size", "s")
    telemetry.misfit("a", 1)
    assert not caplog.records
    telemetry.replays(False)
    telemetry.alarm("size", "s")
    telemetry.misfit("a", 2)
    feed(StreamWatch(telemetry), usual(1000), ["u"] * 1000)
    text = telemetry.answer("/metrics")[2].decode()
    for line in (
        'streamk_alarms_total{kind="size"} 1.0',
        'streamk_misfits_total{field="a"} 2.0',
        'streamk_field_quantile{field="a",quantile="0.5"} 4.0',
        'streamk_missing_share{field="(labels)"} 1.0',
        'streamk_predicted_share{label="u"} 1.0',
    ):
        assert line in text
    assert [record.message for record in caplog.records] == ["s"]


def test_the_report_shows_windows_alarms_and_the_summary_of_the_loop():
    telemetry = Telemetry()
    learner = streamk.KernelClassifier(budget="small", seed=1)
    learner.learn_many([{"<a>": float(k % 7)} for k in range(300)], ["uv"[k % 7 > 3] for k in range(300)])
    telemetry.scored(np.zeros((2, 0)), learner)
    telemetry.alarm("size", "numbers of the field <a> are large")
    feed(StreamWatch(telemetry), usual(1000), ["u"] * 1000)
    for error in (0.5, 0.25):
        telemetry.scored(np.full((2, 1000), error), learner)
    telemetry.misfit("b", 7)
    answers = []
    request = threading.Thread(target=lambda: answers.append(telemetry.answer("/report")))
    request.start()
    while request.is_alive():  # as the loop goes round
        telemetry.beat()
    code, kind, body = answers[0]
    page = body.decode()
    assert (code, kind) == (200, "text/html; charset=utf-8")
    assert "numbers of the field &lt;a&gt; are large" in page
    assert "<a>" not in page
    for part in ("Alarms", "Accuracy over events", "Fields, predictions and labels", "Experts", "misfits"):
        assert part in page
    assert telemetry.report.windows.rows[:, 1].tolist() == [0.5, 0.75]
    assert telemetry.report.windows.cumulative.tolist() == [0.5, 0.625]
