"""Check the built site in a headless browser: no overflow, headings in order, contrast of level AA, axe.

    python docs/check_site.py [--browser chromium] [--shots DIRECTORY]

Every page is opened at 390 and 1,440 pixels, light and dark (WCAG 2.1: 4.5 for text, 3 for large text).
Of each kind of page, axe checks one; minor findings, and two about landmarks of the theme, do not count.
Prints what is wrong, a line for each, and ends with 1 if anything is. ``--shots`` writes pictures
of the first page.
"""

from __future__ import annotations

import argparse
import functools
import html
import json
import re
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "site"
PROBE, AXE = "check-site.html", "check-site.js"
KINDS = (
    "index.html", "gallery.html", "replay.html", "commands.html", "tutorials/your-csv.html",
    "api/streamk.KernelClassifier.html",
)  # fmt: skip
SCRIPT = """
<body><script>
const WIDTHS = [390, 1440], THEMES = ["light", "dark"], pages = PAGES, thorough = THOROUGH, found = [];
const THEME = ["region", "landmark-unique"];
const parse = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const part = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = c => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
function behind(element) {
  for (; element; element = element.parentElement) {
    const c = parse(element.ownerDocument.defaultView.getComputedStyle(element).backgroundColor);
    if (c.length < 4 || c[3] > 0.5) return c;
  }
  return [255, 255, 255];
}
function contrasts(doc, where) {
  const walker = doc.createTreeWalker(doc.querySelector("article"), NodeFilter.SHOW_TEXT), seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || !element.offsetParent || element.closest("svg, .headerlink, button")) continue;
    const style = doc.defaultView.getComputedStyle(element);
    const a = light(parse(style.color)), b = light(behind(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const what = `${where}: contrast ${ratio.toFixed(2)} of "${text.slice(0, 30)}" (${element.tagName})`;
    const kind = `${style.color} ${behind(element)}`;
    if (ratio < least && !seen.has(kind)) { seen.add(kind); found.push(what); }
  }
}
function check(doc, page, width, theme) {
  const where = `${page} at ${width}, ${theme}`;
  const wide = doc.documentElement.scrollWidth;
  if (wide > width) found.push(`${where}: ${wide} pixels wide`);
  let last = 0;
  for (const heading of doc.querySelectorAll("article :is(h1, h2, h3, h4, h5, h6)")) {
    const level = Number(heading.tagName[1]);
    if (level > last + 1) found.push(`${where}: ${heading.tagName} "${heading.textContent}" after H${last}`);
    last = level;
  }
  contrasts(doc, where);
}
async function withAxe(frame, source, where) {
  const script = frame.contentDocument.createElement("script");
  script.textContent = source;
  frame.contentDocument.head.append(script);
  const result = await frame.contentWindow.axe.run(frame.contentDocument);
  if (!result.passes.length) found.push(`${where}: axe checked nothing`);
  for (const { id, impact, nodes } of result.violations)
    if (impact !== "minor" && !THEME.includes(id))
      found.push(`${where}: axe: ${id} (${nodes.length}), as ${nodes[0].html.slice(0, 80)}`);
}
async function run() {
  const source = await (await fetch("AXE")).text();
  for (const page of pages) for (const width of WIDTHS) {
    const frame = document.createElement("iframe");
    frame.style = `width: ${width}px; height: 900px; border: 0`;
    frame.src = page;
    await new Promise(done => { frame.onload = done; document.body.append(frame); });
    for (const theme of THEMES) {
      frame.contentDocument.body.dataset.theme = theme;
      check(frame.contentDocument, page, width, theme);
    }
    if (thorough.includes(page)) await withAxe(frame, source, `${page} at ${width}, dark`);
    frame.remove();
  }
  document.body.textContent = "found" + JSON.stringify(found) + "end";
}
run();
</script></body>
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves the site without a log."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


def found_in(browser: str, address: str) -> list[str]:
    """Return what is wrong with the pages, as the script on the probe page finds it."""
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1500,1000",
        "--virtual-time-budget=600000", "--timeout=500000", "--dump-dom", f"{address}/{PROBE}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=550)
    result = re.search(r"<body>found(\[.*\])end</body>", done.stdout, re.DOTALL)
    if result is None:
        raise RuntimeError("the browser did not finish; give it more time")
    found: list[str] = json.loads(html.unescape(result[1]))
    return found


def shoot(browser: str, address: str, directory: Path) -> None:
    """Write pictures of the first page at both widths."""
    directory.mkdir(parents=True, exist_ok=True)
    for width, height in ((500, 900), (1440, 900)):  # a window is at least 500 wide
        picture = directory.absolute() / f"site-{width}.png"
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--window-size={width},{height}", f"--screenshot={picture}", f"{address}/index.html"]
        subprocess.run(command, capture_output=True, check=True)


def main() -> int:
    """Check every page of the site."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--shots", type=Path)
    arguments = parser.parse_args()
    pages = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if path.name != PROBE)
    pages = [
        page for page in pages if not page.startswith("_") and page not in ("search.html", "genindex.html")
    ]
    if not pages:
        parser.error(f"there are no pages in {SITE}; build them by make docs")
    probe = SITE / PROBE
    script = SCRIPT.replace("PAGES", json.dumps(pages)).replace("AXE", AXE)
    probe.write_text(script.replace("THOROUGH", json.dumps(KINDS)))
    axe = SITE / AXE
    shutil.copy(str(files("axe_core_python") / "axe.min.js"), axe)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        found = found_in(arguments.browser, address)
        if arguments.shots is not None:
            shoot(arguments.browser, address, arguments.shots)
    finally:
        server.shutdown()
        probe.unlink()
        axe.unlink()
    print("\n".join(found) or f"{len(pages)} pages at 390 and 1,440 pixels, light and dark: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
