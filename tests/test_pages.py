"""Links and file names of the pages."""

import re
from pathlib import Path

import pytest

import streamk

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("**/*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"`((?:\w+/)+(?:\w+\.\w+)?|\w+\.py)`|python ([\w/]+\.py)")
PACKAGES = "", "streamk", "connectors", "streamk/features", "docs"
WRITTEN = "site/", "papers-output/", "page/index.html", "page/results.json"  # by the commands of a page


def anchors_of(page):
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_of_a_page_lead_somewhere(page):
    for link in LINK.findall(page.read_text()):
        if not link.startswith("https://"):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors_of(target), f"{page.name}: no heading for {link}"


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    for names in FILE.findall(page.read_text()):
        name = "".join(names)
        if name not in WRITTEN and not name.startswith("../"):
            assert any((ROOT / package / name).exists() for package in PACKAGES), f"{page.name}: {name}"


def test_the_reference_has_every_public_name():
    page = (ROOT / "docs/api.md").read_text()
    names = {line.strip().rpartition(".")[2] for line in page.splitlines() if line.startswith("   ")}
    assert set(streamk.__all__) <= names
    assert {"replay", "Results", "Contest", "KernelTwoSample", "learn"} <= names


def test_every_page_is_in_the_site():
    pages = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").glob("**/*.md")}
    listed = set(re.findall(r"^\w[\w/-]*$", (ROOT / "docs/index.md").read_text(), re.MULTILINE))
    assert pages - {"index", "decisions"} == listed


def test_the_citation_names_the_version():
    assert f"version: {streamk.__version__}\n" in (ROOT / "CITATION.cff").read_text()
