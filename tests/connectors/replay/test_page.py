"""The page of a replay: well-formed, named, escaped, small; and, where there is a browser, as it looks."""

import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest

from connectors.replay.page import charts, page, tables, words
from connectors.replay.page.charts import BarRow, Line, bar_chart, line_chart
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
VOID = {"meta", "wbr", "link", "br", "img", "input", "hr"}


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
        "0.9290–",
        "0.9370",
        "40,102",
        "223.5 kB",
    ):
        assert said in shown
    for said in (
        "accuracy, 90% interval",
        "labels come 100 events late",
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
    }
    assert rows[-1].endswith("<td>0.8000</td><td>–</td></tr>")  # a row that holds no figure is omitted


def test_a_matrix_of_many_classes_groups_the_rare_ones_and_does_not_shade_them_as_right():
    confusion = 20 * np.arange(20)[:, None] + 1000 * np.arange(20)[::-1]  # the last labels are frequent
    classes = {"labels": [f"l{k}" for k in range(20)], "confusion": confusion.tolist(), "recall": [0.25] * 20}
    drawn = tables.confusion_table("m", "k", classes)
    cells = [
        float(c.replace(",", "")) for c in re.findall(r'class="cell (?:hit|miss)"[^>]*>([\d,]+)<', drawn)
    ]
    right, wrong = re.search(
        r'class="cell both">([\d,]+) right<br><span class="sub">([\d,]+) wrong<', drawn
    ).groups()
    right, wrong = int(right.replace(",", "")), int(wrong.replace(",", ""))
    assert len(cells) == 143
    assert drawn.count("cell hit") == 11
    assert drawn.count("cell both") == 1
    assert sum(cells) + right + wrong == confusion.sum()
    rare = confusion[:9, :9]
    assert (right, wrong) == (rare.trace(), rare.sum() - rare.trace())
    assert cells[0] == confusion[9, 9]
    assert cells[1] == confusion[9, 10]  # row: label; column: prediction
    assert "other (9 classes)" in drawn
    # the same classes for every contender: how often they were targets decides, not their predictions
    common = {**classes, "targets": [100 - k for k in range(20)]}
    assert re.findall(r'<th scope="row">(l\d+)<', tables.confusion_table("m", "k", common)) == [
        f"l{k}" for k in range(11)
    ]


def test_a_matrix_of_few_classes_is_not_grouped():
    classes = {"labels": ["a", "b"], "confusion": [[3, 1], [2, 4]]}
    drawn = tables.confusion_table("m", "k", classes)
    assert drawn.count("cell hit") == drawn.count("cell miss") == 2
    assert "cell both" not in drawn
    assert "other" not in drawn


def test_a_failed_contender_has_its_error_and_no_figure_speed_or_rank():
    results, curves, measured = samples.failed()
    text = page(results, curves, measured)
    name = results["contenders"][2]["name"]
    assert f'<p class="failed"><strong>{name} failed</strong> after event 2,000: ValueError' in text
    for table in re.findall(r"<table>.*?</table>", text):
        if "Metrics of all events" in table or "Speed, memory and latency" in table:
            assert name not in table
    assert text.count("<b>") > 0


def test_the_recommendation_is_near_the_top():
    text = page(*samples.diverging())
    place = text.index("Use kernel: adaptive random forest diverged; it takes 123.5 MB.")
    assert text.index("<h1>") < place < text.index("<h2>")


def test_headings_name_their_content():
    headings = re.findall("<h2>(.*?)</h2>", page(*PAGES["usual"]))
    assert headings == [
        "Results",
        "Pairwise comparison",
        "Metrics over events",
        "Calibration",
        "Confusion matrix",
        "Thresholds",
        "Worst predictions",
        "Drift of inputs",
        "Results by day",
        "Speed and memory",
        "Experts and relevance of inputs",
        "Skipped rows",
        "Reproduce",
    ]


def test_numbers_of_a_page_have_separators():
    shown = Checked(page(*samples.diverging())).text()
    for figure in ("2,345.7", "4.13e+14", "−3.20e+21", "40,102", "1,230 s", "740.7 MB", "60,000 events"):
        assert figure in shown
    for text, _ in Checked(page(*samples.diverging())).words:
        assert not re.search(r"(?<![\d.,e])\d{4,}", text) or "{" in text, text


def test_a_diverging_contender_is_clipped_with_arrows_and_others_keep_their_scale():
    results, curves, measured = samples.diverging()
    text = page(results, curves, measured)
    first = re.search(r'<svg class="plot curves".*?</desc>(.*?</figcaption>)', text, re.DOTALL)[1]
    arrows = re.findall(r'<svg class="at clipped" x="([\d.]+)%" y="12".*?class="mark (c\d)"', first)
    assert 5 < len(arrows) <= 24
    assert {colour for _, colour in arrows} == {"c1"}
    assert min(float(x) for x, _ in arrows) > 10
    assert (
        "The axis is clipped; arrows at its edge mark values beyond it: adaptive random forest in " in first
    )
    heights = [float(y) for y in re.findall(r'<line class="grid"[^>]*y1="([\d.]+)"', first)]
    words = [float(w.replace(",", "")) for w in re.findall(r'class="tick right"[^>]*>([\d,]+)<', first)]
    assert len(heights) >= 3
    assert max(words) < 20_000


def test_a_thinned_curve_keeps_means_extremes_and_gaps():
    x, y = np.arange(10_000.0), np.sin(np.arange(10_000) / 500)
    y[4321] = 7.0
    y[6000:7000] = np.nan
    curve = charts.thin(x, y)
    assert len(curve.x) <= charts.MOST
    assert np.nanmax(curve.high) == 7.0
    assert np.nanmax(curve.y) < 1.3
    assert np.nanmean(curve.y) == pytest.approx(np.nanmean(y), abs=0.01)
    assert np.isnan(curve.y[(curve.x > 6050) & (curve.x < 6950)]).all()
    alone = charts.path(np.array([0, 0.5, 1]), np.array([1.0, np.nan, 2.0]))
    assert alone == "M0.0,1.0h0M1000.0,2.0h0"  # dots where they stand


def test_bars_begin_at_zero():
    drawn = bar_chart("k", "t", [BarRow("a", [1.0], "1"), BarRow("b", [2.0], "2")])
    assert re.findall(BOX, drawn) == [("0.00", "50.00"), ("0.00", "100.00")]
    drawn = bar_chart("k", "t", [BarRow("a", [-1.0], "−1"), BarRow("b", [3.0], "3")])
    assert re.findall(BOX, drawn) == [("0.00", "25.00"), ("25.00", "75.00")]


def test_a_last_window_that_is_not_full_ends_with_the_events():
    results, curves, measured = PAGES["usual"]
    first = int(0.56 * 45_312) / 45_312
    assert f'x="{100 * first:.2f}%"' in page(results, curves, measured)


def test_one_wild_window_does_not_flatten_the_others_and_is_mentioned():
    y = np.random.default_rng(1).normal(1, 0.1, 400)
    y[50] = 1e6
    assert charts.reach(y)[1] < 3
    line = Line("a", 0, np.arange(1.0, 401), y)
    assert "mark values beyond it: a in 1 window, as far as 1,000,000." in line_chart("k", "t", [line])[1]


def test_alarms_are_drawn_on_the_curve_at_their_events():
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


def test_values_under_the_pointer_are_those_of_the_window():
    whole = Line("whole", 0, np.arange(1.0, 81.0) * 10, np.arange(80.0))
    late = Line("late", 1, np.arange(41.0, 81.0) * 10, np.arange(40.0) + 100)
    shown = charts.readings([whole, late])
    assert len(shown) == 40
    assert [event for event, _ in shown[:2]] == [20.0, 40.0]
    assert shown[0][1][0] == 1.0
    assert np.isnan(shown[0][1][1])
    assert shown[-1] == (800.0, [79.0, 139.0])
    assert all(np.isnan(values[1]) == (event < 410) for event, values in shown)


def test_labels_at_line_ends_do_not_overlap():
    places = charts.spread([100.0, 101.0, 99.0, 260.0, 263.0], 16, 10, 264)
    assert np.diff(np.sort(places)).min() >= 16
    assert places[2] < places[0] < places[1] < places[3] < places[4] <= 264


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (np.nan, "–"),
        ("x", "–"),
        (-0.25, "−0.2500"),
        (99.96, "99.960"),
        (999.96, "999.96"),
        (1234.56, "1,234.6"),
        (123456.7, "123,457"),
        (4.13e14, "4.13e+14"),
        (1e-7, "1.00e−07"),
    ],
)
def test_decimals(value, text):
    assert words.decimal(value) == text


MEASURE = """<script>
const box = e => e.getBoundingClientRect();
const shown = e => { const b = box(e); return b.width > 0 && b.height > 0 };
const crossed = texts => texts.flatMap((a, i) => texts.slice(i + 1).filter(b => {
  const p = box(a), q = box(b);
  return Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
    && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3;
}).map(b => a.textContent + " | " + b.textContent));
addEventListener("load", () => {
  const pictures = [...document.querySelectorAll("svg[role=img]")];
  const tables = [...document.querySelectorAll("table")].map(t => [t, t.closest(".scroll")]);
  const scrolls = place => place.scrollWidth > place.clientWidth + 1;
  const name = t => t.querySelector("caption").textContent.slice(0, 40);
  const cue = place => { const style = getComputedStyle(place);
    return style.overflowX === "auto" && style.backgroundAttachment.includes("local, scroll")
      && style.backgroundImage.split("gradient").length === 5 };
  parent.postMessage({ frame: document.title, found: {
    width: document.documentElement.scrollWidth,
    pictures: pictures.length, visible: pictures.filter(shown).length,
    narrow: pictures.filter(e => box(e).width < 200).length,
    paper: getComputedStyle(document.body).backgroundColor,
    cut: pictures.flatMap(p => [...p.querySelectorAll("text")]).filter(e => { const b = box(e);
      return b.width && (b.left < 0 || b.right > innerWidth + 0.5) }).map(e => e.textContent),
    astray: pictures.flatMap(p => [...p.querySelectorAll(".mark")].map(m => [box(m), box(p)]))
      .filter(([m, p]) => m.width && (m.top < p.top - 10 || m.bottom > p.bottom + 10)).length,
    overlapping: [
      ...pictures.map(p => [...p.querySelectorAll("text")].filter(e => !e.closest(".shown"))),
      ...[...document.querySelectorAll(".shown")].map(g => [...g.querySelectorAll("text")]),
    ].flatMap(texts => crossed(texts.filter(shown))),
    scrolling: tables.filter(([, place]) => scrolls(place)).map(([t]) => name(t)),
    uncued: tables.filter(([, place]) => scrolls(place) && !cue(place)).map(([t]) => name(t)),
    spilled: tables.flatMap(([t, place]) => [...t.querySelectorAll("th, td")].filter(c =>
      c.scrollWidth > c.clientWidth + 1 || (!scrolls(place) && box(c).right > box(place).right + 1))
      .map(c => name(t) + ": " + c.textContent)),
  }}, "*");
});
</script></body>"""
AXE = """<script>
addEventListener("load", async () => {
  const { passes, violations } = await axe.run(document);
  const found = violations.map(each => `${each.impact} ${each.id}: ${each.nodes[0].html.slice(0, 120)}`);
  parent.postMessage({ frame: document.title, found: { passes: passes.length, violations: found } }, "*");
});
</script></body>"""
OUTER = """<!doctype html><html><body><script>
const found = {{}};
addEventListener("message", e => {{ found[e.data.frame] = e.data.found;
  document.title = JSON.stringify(found); }});
</script>{frames}</body></html>"""
FRAME = '<iframe style="width:{width}px;height:900px;border:0" src="{file}"></iframe>'


def measured(folder, texts, scheme="light", measure=MEASURE):
    """What a browser makes of pages in frames of a width; windows themselves cannot be so narrow.

    ``texts`` are pages by names and widths.
    """
    frames = []
    for k, ((name, width), text) in enumerate(texts.items()):
        titled = re.sub("<title>.*?</title>", f"<title>{name} {width}</title>", text, flags=re.DOTALL)
        (folder / f"{k}.html").write_text(titled.replace("</body>", measure), encoding="utf-8")
        frames.append(FRAME.format(width=width, file=f"{k}.html"))
    file = folder / "frames.html"
    file.write_text(OUTER.format(frames="".join(frames)), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    options += ["--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom"]
    options += [f"--user-data-dir={folder / 'profile'}", "--window-size=1600,900"]
    options += [f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"]
    done = subprocess.run(
        [BROWSER, *options, file.as_uri()], capture_output=True, text=True, timeout=180, check=True
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return json.loads(unescape(re.search(r"<title>(.*?)</title>", done.stdout)[1]))


def classes(count):
    return ("DOWN", "UP") if count == 2 else [f"class {k}" for k in range(count)]


MATRIX = {
    **{
        f"{contenders} contenders, {count} classes": samples.classification(
            samples.SIX[:contenders], labels=classes(count)
        )
        for contenders in (2, 6)
        for count in (2, 7, 40)
    },
    "2 contenders, one diverging": samples.diverging(samples.SIX[:2]),
    "6 contenders, one diverging": samples.diverging(),
    "one failed": samples.failed(),
    "usual": PAGES["usual"],
    "hostile": PAGES["hostile"],
    "regression": PAGES["regression"],
}
needs_browser = pytest.mark.skipif(BROWSER is None, reason="neither chromium nor google-chrome is installed")


@pytest.fixture(scope="module")
def in_a_browser(tmp_path_factory):
    texts = {(name, width): page(*MATRIX[name]) for name in MATRIX for width in (390, 1440)}
    return measured(tmp_path_factory.mktemp("pages"), texts)


@needs_browser
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", MATRIX)
def test_a_browser_shows_a_page_without_overflow_cut_columns_or_overlapping_labels(in_a_browser, name, width):
    found = in_a_browser[f"{name} {width}"]
    assert found["width"] <= width
    assert found["pictures"] == page(*MATRIX[name]).count('role="img"') > 0
    assert found["visible"] == found["pictures"]
    assert found["narrow"] == 0
    assert found["cut"] == []
    assert found["astray"] == 0  # marks outside their pictures
    assert found["overlapping"] == []
    assert found["spilled"] == []
    assert found["uncued"] == []
    if width == 1440:
        assert found["scrolling"] == []
    elif "6 contenders" in name:
        assert len(found["scrolling"]) > 1  # with a cue, since none is without


@needs_browser
@pytest.mark.parametrize(("scheme", "paper"), [("dark", "rgb(20, 23, 27)"), ("light", "rgb(253, 253, 251)")])
def test_a_page_follows_the_colours_of_the_system(tmp_path, scheme, paper):
    found = measured(tmp_path, {("usual", 390): page(*PAGES["usual"])}, scheme)
    assert found["usual 390"]["paper"] == paper


@needs_browser
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_finds_nothing(tmp_path, scheme):
    script = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    texts = {
        (name, width): page(*PAGES[name]) for name, width in [*((n, 1440) for n in PAGES), ("usual", 390)]
    }
    found = measured(tmp_path, texts, scheme, f"<script>{script}</script>{AXE}")
    assert len(found) == len(texts)
    assert {name: each["violations"] for name, each in found.items() if each["violations"]} == {}
    assert min(each["passes"] for each in found.values()) > 10
