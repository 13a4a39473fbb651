"""The page of a replay: well-formed, named, escaped, small; and, where there is a browser, as it looks."""

import json
import re
import shutil
import subprocess
from html import escape, unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from connectors.replay.page import axes, page, tables, thinning, words
from connectors.replay.page.bars import Bar, bar_chart
from connectors.replay.page.charts import Line, line_chart
from tests.connectors.replay import page_samples as samples

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
PAGES = {
    "usual": samples.classification(),
    "regression": samples.regression(),
    "hostile": samples.hostile(),
    "many classes": samples.classification(samples.NAMES[:2], labels=[f"class {k}" for k in range(20)]),
    "bare": ({"name": "x", "task": "classification", "contenders": []}, {}, {}),
}
BOX = r'x="([\d.]+)%" y="[\d.]+" width="([\d.]+)%"'
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Checked(HTMLParser):
    """Parses a page and fails at what no page should have."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.tags, self.words = [], {}, [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        values = dict(attrs)
        assert len(values) == len(attrs), f"an attribute of {tag} stands twice"
        assert not any(name.startswith("on") for name in values), values
        assert tag not in ("script", "img", "iframe", "object"), tag
        for name in ("href", "src", "xlink:href", "action"):
            assert values.get(name, "data:,").startswith(("data:", "#"))
        if "id" in values:
            assert values["id"] not in self.ids
            assert re.fullmatch(r"[a-z0-9_-]+", values["id"])
            self.ids[values["id"]] = tag
        self.tags.append((tag, values, tuple(self.open)))

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append((data, tuple(self.open)))

    def text(self):
        return " ".join(data for data, inside in self.words if "style" not in inside)


@pytest.fixture(params=PAGES, scope="module")
def text(request):
    return page(*PAGES[request.param])


def test_pages_are_well_formed(text):
    checked = Checked(text)
    assert text.encode()  # a lone surrogate could not be written
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)
    assert "url(" not in text
    assert "@import" not in text
    assert [tag for tag, _, _ in checked.tags].count("h1") == 1


def test_pictures_and_tables_have_names(text):
    checked = Checked(text)
    for tag, values, inside in checked.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            for target in values.get(name, "").split():
                assert target in checked.ids
        if tag == "svg" and "svg" not in inside:
            assert values.get("aria-hidden") == "true" or (
                values["role"] == "img"
                and checked.ids[values["aria-labelledby"]] == "title"
                and checked.ids[values["aria-describedby"]] == "desc"
            )
        if tag == "th":
            assert values["scope"] in ("row", "col")
    for table in re.findall(r"<table>.*?</table>", text):
        assert table.startswith('<table><caption><span id="')
    assert text.count("<table>") == text.count('<div class="scroll" role="region" aria-labelledby=')


def test_what_the_data_say_is_text():
    text = page(*PAGES["hostile"])
    assert samples.HOSTILE not in text
    assert "<script" not in text
    shown = Checked(text).text()
    assert shown.count(samples.HOSTILE) > 20  # it is shown, as what it is
    assert "b␀��" in shown


def test_all_that_is_known_is_shown():
    results, curves, measured = PAGES["usual"]
    shown = Checked(page(results, curves, measured)).text()
    assert "".join(results["command"].split()) in "".join(shown.split())
    for said in (
        results["verdict"],
        results["log"][0]["sha256"],
        *results["comparisons"],
    ):
        assert said in shown
    for said in (
        "3 unreadable, 1 refused",
        "10 fields where 9 are named",
        "0.9290–0.9370",
        "40,102",
        "223.5 kB",
    ):
        assert said in shown
    for said in (
        "accuracy, 90% interval",
        "labels 100 events late",
        "0.22.0",
        "Accuracy by day",
        "−0.050, error",
    ):
        assert said in shown
    assert str(results["contenders"][0]["classes"]["confusion"][0][1]) in shown


def test_the_best_of_a_row_is_marked_and_losses_are_better_small():
    contenders = [
        {"name": "a", "metrics": {"mae": 2.0, "r2": 0.5, "coverage": 0.9, "rmse": 1.0, "width": None}},
        {"name": "b", "metrics": {"mae": 1.0, "r2": 0.4, "coverage": 0.8, "rmse": 1.00001, "width": np.nan}},
        {"name": "c", "metrics": {"mae": np.nan, "r2": 0.1, "rmse": 3.0}},
    ]
    rows = re.findall(r"<tr>.*?</tr>", tables.metrics_table("t", "regression", contenders))[1:]
    best = {re.search(r"row\">(.*?)</th>", row)[1]: re.findall(r"<b>(.*?)</b>", row) for row in rows}
    assert best == {
        "MAE": ["1.0000"],
        "RMSE": ["1.0000", "1.0000"],
        "R²": ["0.5000"],
        "coverage": [],
        "width of intervals": [],
    }
    assert "<td>–</td><td>–</td><td>–</td>" in rows[-1]


def test_a_matrix_of_many_classes_puts_the_rare_ones_together():
    confusion = 20 * np.arange(20)[:, None] + 1000 * np.arange(20)[::-1]  # the last labels are frequent
    classes = {"labels": [f"l{k}" for k in range(20)], "confusion": confusion.tolist(), "recall": [0.25] * 20}
    drawn = tables.confusion_table("m", "k", classes)
    cells = [float(c.replace(",", "")) for c in re.findall(r'class="cell \w+"[^>]*>([\d,]+)<', drawn)]
    assert len(cells) == 144
    assert sum(cells) == confusion.sum()
    assert cells[0] == confusion[9, 9]
    assert cells[1] == confusion[9, 10]  # row: label; column: prediction
    assert "9 others" in drawn


def test_a_thinned_curve_keeps_means_extremes_and_gaps():
    x, y = np.arange(10_000.0), np.sin(np.arange(10_000) / 500)
    y[4321] = 7.0
    y[6000:7000] = np.nan
    curve = thinning.thin(x, y)
    assert len(curve.x) <= thinning.MOST
    assert np.nanmax(curve.high) == 7.0
    assert np.nanmax(curve.y) < 1.3
    assert np.nanmean(curve.y) == pytest.approx(np.nanmean(y), abs=0.01)
    assert np.isnan(curve.y[(curve.x > 6050) & (curve.x < 6950)]).all()
    alone = axes.path(np.array([0, 0.5, 1]), np.array([1.0, np.nan, 2.0]))
    assert alone == "M0.0,1.0h0M1000.0,2.0h0"  # dots where they stand


def test_bars_begin_at_zero():
    drawn = bar_chart("k", "t", [Bar("a", [1.0], "1"), Bar("b", [2.0], "2")])
    assert re.findall(BOX, drawn) == [("0.00", "50.00"), ("0.00", "100.00")]
    drawn = bar_chart("k", "t", [Bar("a", [-1.0], "−1"), Bar("b", [3.0], "3")])
    assert re.findall(BOX, drawn) == [("0.00", "25.00"), ("25.00", "75.00")]


def test_a_last_window_that_is_not_full_ends_with_the_events():
    results, curves, measured = PAGES["usual"]
    first = int(0.56 * 45_312) / 45_312
    assert f'x="{100 * first:.2f}%"' in page(results, curves, measured)


def test_one_wild_window_does_not_flatten_the_others_and_is_mentioned():
    y = np.random.default_rng(1).normal(1, 0.1, 400)
    y[50] = 1e6
    assert thinning.reach(y)[1] < 3
    line = Line("a", 0, np.arange(1.0, 401), y)
    assert "1 window is beyond" in line_chart("k", "t", [line])[1]


def test_alarms_stand_on_the_curve_at_their_events():
    events = np.arange(1.0, 101) * 10
    line = Line("a", 1, events, np.linspace(0, 1, 100), alarms=(500, 990, 5000))
    drawn, _ = line_chart("k", "t", [line])
    found = re.findall(r'x="([\d.]+)%" y="([\d.]+)" overflow="visible"><path class="alarm', drawn)
    assert [float(x) for x, _ in found] == [50.0, 99.0]
    assert float(found[0][1]) == pytest.approx(138, abs=5)  # half way up
    assert float(found[1][1]) < 40


def test_five_contenders_of_ten_thousand_windows_are_less_than_a_megabyte():
    text = page(*samples.classification((*samples.NAMES, "fifth"), windows=10_000))
    assert len(text.encode()) < 400_000
    assert "A point is the mean of 32 windows" in text


def test_labels_at_line_ends_do_not_overlap():
    places = axes.spread([100.0, 101.0, 99.0, 260.0, 263.0], 16, 10, 264)
    assert np.diff(np.sort(places)).min() >= 16
    assert places[2] < places[0] < places[1] < places[3] < places[4] <= 264


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (np.nan, "–"), ("x", "–"), (-0.25, "−0.2500"), (123456.7, "1.235e+05")]
)
def test_decimals(value, text):
    assert words.decimal(value) == text


MEASURE = """<script>
const shown = e => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0 };
addEventListener("load", () => { const pictures = [...document.querySelectorAll('svg[role=img]')];
document.title = JSON.stringify({
  width: document.documentElement.scrollWidth,
  pictures: pictures.length, visible: pictures.filter(shown).length,
  narrow: pictures.filter(e => e.getBoundingClientRect().width < 200).length,
  paper: getComputedStyle(document.body).backgroundColor,
  cut: [...document.querySelectorAll('svg[role=img] text')].filter(e => { const b = e.getBoundingClientRect();
    return b.width && (b.left < 0 || b.right > innerWidth + 0.5) }).map(e => e.textContent)});
parent.postMessage(document.title, "*"); });
</script></body>"""
FRAME = """<!doctype html><html><body>
<iframe style="width:{width}px;height:900px;border:0" srcdoc="{page}"></iframe>
<script>addEventListener("message", e => {{ document.title = e.data; }});</script></body></html>"""


def measured(folder, text, width, scheme):
    """What a browser makes of a page in a frame of a width; windows themselves cannot be so narrow."""
    inner = text.replace("</body>", MEASURE)
    file = folder / "frame.html"
    file.write_text(FRAME.format(width=width, page=escape(inner, quote=True)), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    options += ["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"]
    options += [f"--user-data-dir={folder / 'profile'}", f"--window-size={max(width, 500)},900"]
    options += [f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"]
    done = subprocess.run(
        [BROWSER, *options, file.as_uri()], capture_output=True, text=True, timeout=90, check=True
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return json.loads(unescape(re.search(r"<title>(.*?)</title>", done.stdout)[1]))


@pytest.mark.skipif(BROWSER is None, reason="neither chromium nor google-chrome is installed")
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("usual", 390, "light"),
        ("usual", 1440, "dark"),
        ("hostile", 390, "dark"),
        ("many classes", 390, "light"),
        ("regression", 1440, "light"),
    ],
)
def test_a_browser_shows_all_of_it(tmp_path, name, width, scheme):
    text = page(*PAGES[name])
    found = measured(tmp_path, text, width, scheme)
    assert found["width"] <= width
    assert found["pictures"] == text.count('role="img"') > 0
    assert found["visible"] == found["pictures"]
    assert found["narrow"] == 0
    assert found["cut"] == []
    assert found["paper"] == ("rgb(20, 23, 27)" if scheme == "dark" else "rgb(253, 253, 251)")
