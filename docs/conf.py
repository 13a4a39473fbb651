"""The documentation site: ``make docs`` builds it into ``site/``."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

import streamk

project, author = "streamk", "The streamk authors"
version = release = streamk.__version__
copyright = author

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "sphinx_copybutton"]
extensions += ["sphinx_design"]
exclude_patterns = ["decisions.md"]  # for those who change the code

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.xref_missing",  # links to files of the repository, which tests/test_pages.py checks
    "ref.ref",  # of scikit-learn, in what its estimators inherit
]
nb_execution_mode = "force"
nb_execution_in_temp = True
os.environ["DOCS"] = str(Path(__file__).parent)  # for pages that read a file here
nb_execution_timeout = 300
nb_execution_show_tb = True  # of a failed cell, in a warning, which fails the build
nb_merge_streams = True

templates_path = ["templates"]
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc has them
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"streamk {release}"
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_js_files = ["keyboard.js"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def write_for_programs(app: Sphinx, failure: Exception | None) -> None:
    """Write ``llms.txt``, a list of the pages, and a Markdown copy of each next to its page."""
    if failure is not None or app.builder.format != "html":
        return
    lines = [f"# {project}", "", "> Kernel machines that learn from streams.", ""]
    for name in sorted(app.env.found_docs):
        source = Path(app.srcdir) / f"{name}.md"
        if source.exists():
            target = Path(app.outdir) / f"{name}.md"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            title = re.search(r"^# (.+)$", source.read_text(), re.MULTILINE)
            lines.append(f"- [{title[1] if title else name}]({name}.md)")
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n")


def give_levels_to_captions(
    app: Sphinx, page: str, template: str, context: dict[str, object], doctree: object
) -> None:
    """Say of which level the captions of the navigation are, which are headings to screen readers."""
    tree = str(context.get("furo_navigation_tree", ""))
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> None:
    """Connect what runs for each page, and after a build."""
    app.connect("html-page-context", give_levels_to_captions, priority=900)  # after the theme
    app.connect("build-finished", write_for_programs)
