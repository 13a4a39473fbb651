"""The field's words: phrases of a private vocabulary, and the plain words to use instead.

Pages, docstrings, comments, strings and the names of tests are scanned. ``remaining_words.json`` holds how
often a phrase may still occur in a package; after phrases have been replaced, ``python tests/test_words.py``
lowers these numbers, and nothing raises them.
"""

import io
import json
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REMAINING = Path(__file__).with_name("remaining_words.json")
WORDS = {  # a phrase, as a regular expression: plain words
    "mend(s|ed|ing)?": "fix, correct",
    "cures?|troubles?": "remedy, failure",
    "whoever|whom": "users, callers, or the name of the component",
    "(no|some|any|every)body": "no process, no caller, or the name of the component",
    "(go|goes|going|gone|went) on": "resume, continue",
    "(come|comes|coming|came) back": "return, restart",
    "anew|as of old|as ever": "again, as before",
    "a moment ago|of the moment": "recently, current",
    "beginning": "start",
    "for ever|for long": "forever, for a long time",
    "stray(s|ed|ing)?": "outliers",
    "(out of|within) reach": "out of range, in range",
    "(be|is|are|was|were|stay|stays|stayed|staying) away": "unavailable, out of range",
    "lent|lend(s|ing)?|loans?|borrow(s|ed|ing)?": "handle, view without reference counting",
    "knock(s|ed)?|ledgers?|tenures?|rooms?": "request, log, lease, package, space",
    "tells?|told": "infer, detect, report, set",
    "said": "reported, printed, predicted",
    "asked": "requested, predicted",
    "knows?|knew": "hold, store, or a participle: trained, known",
    "(has|have) seen": "processed",
    "(how|too) sure|surely": "confidence, overconfident, significantly",
    "worth": "relevance, importance",
    "taken for": "predicted as, read as",
    "beside": "compared with, next to",
    "apart": "separate, separately",
    "stands? (on|still|beside)": "uses, does not change, next to",
    "packed": "compressed",
    "texts": "strings",
    "(leave|leaves|leaving|left) out": "skip, skipped",
    "lacking": "missing, without",
    "lasts|lasted": "persists, is stored",
    "(is|are|was|were) kept": "is stored",
    "heed(s|ed)?|borne": "use, tolerate",
    "in vain": "without success",
    "at hand": "available, in memory",
    "hand(s|ed)? on": "pass",
    "is odd": "is irregular",
    "the way of an event|on (its|their) way": "event processing, in transit",
}
PATTERNS = {
    phrase: re.compile(rf"\b(?:{phrase.replace(' ', chr(92) + 's+')})\b(?!\.py)", re.IGNORECASE)
    for phrase in WORDS
}


def text_of_page(path):
    """The text of a page; of the changelog its newest section."""
    text = path.read_text()
    return text[: re.search(r"(?s)\n## .*?(?=\n## |$)", text).end()] if path.name == "CHANGELOG.md" else text


def text_of_code(source):
    """The comments and strings of Python in their places, with something that is no word in place of code."""
    lines = [re.sub(r"\S", "\0", line) for line in source.splitlines()]

    def place(text, row, column):
        for k, line in enumerate(text.split("\n")):
            start = column if k == 0 else 0
            lines[row - 1 + k] = lines[row - 1 + k][:start] + line + lines[row - 1 + k][start + len(line) :]

    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            place(token.string.replace("#", " "), *token.start)
        elif token.type == tokenize.STRING:
            prefix = re.match(r"\w*", token.string).end()
            text = " " * prefix + re.sub("[\"']", " ", token.string[prefix:])
            if "f" in token.string[:prefix].lower():
                text = re.sub(r"\{[^{}]*\}", lambda code: re.sub(r"\S", "\0", code.group()), text)
            place(text, *token.start)
        elif tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            place(token.string, *token.start)
    return "\n".join(lines)


def names_of_tests(source):
    """The names of tests in their lines, in words."""
    names = (re.match(r" *def (test_\w+)", line) for line in source.splitlines())
    return "\n".join(name[1].replace("_", " ") if name else "" for name in names)


FILES = {  # what is scanned, by package
    "pages": [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.toml")],
    **{p: [*ROOT.glob(f"{p}/**/*.py")] for p in ("streamk", "connectors", "benchmarks", "examples", "tests")},
}


def text_of(package, path):
    """What of a file is scanned."""
    if package == "pages":
        return text_of_page(path)
    return (names_of_tests if package == "tests" else text_of_code)(path.read_text())


def found_in(text):
    """Yield each phrase that a text contains, as its pattern, the words found and their line."""
    for phrase, pattern in PATTERNS.items():
        for match in pattern.finditer(text):
            yield phrase, " ".join(match.group().split()), text.count("\n", 0, match.start()) + 1


def occurrences(package):
    """Return by phrase where a package has it."""
    found = {}
    for path in sorted(FILES[package]):
        for phrase, words, line in found_in(text_of(package, path)):
            place = f'{path.relative_to(ROOT)}:{line}: "{words}": write {WORDS[phrase]}'
            found.setdefault(phrase, []).append(place)
    return found


def surplus(package):
    """Return by phrase how often a package may have it, and where it has it more often."""
    remaining = json.loads(REMAINING.read_text()).get(package, {})
    counted = {phrase: (remaining.get(phrase, 0), places) for phrase, places in occurrences(package).items()}
    return {phrase: (most, places) for phrase, (most, places) in counted.items() if len(places) > most}


@pytest.mark.parametrize("package", FILES)
def test_files_use_the_words_of_the_field(package):
    more = surplus(package)
    assert not more, "\n".join(
        f"{len(places)} × {phrase}, at most {most}:\n  " + "\n  ".join(places)
        for phrase, (most, places) in more.items()
    )


def test_phrases_are_found_in_strings_and_comments_across_lines_and_not_in_code():
    source = 'told = (f"it {told} goes"\n    " on")  # as\n# ever\nprint("""is\nkept""", said)\n'
    assert sorted(found_in(text_of_code(source))) == [
        ("(go|goes|going|gone|went) on", "goes on", 1),
        ("(is|are|was|were) kept", "is kept", 4),
        ("anew|as of old|as ever", "as ever", 2),
    ]
    assert [*found_in(names_of_tests("x = 1\ndef test_what_is_said(): pass"))] == [("said", "said", 2)]


def lower():
    """Lower the numbers of phrases that remain to the present ones."""
    remaining = json.loads(REMAINING.read_text())
    for package, numbers in remaining.items():
        found = occurrences(package)
        least = {phrase: min(most, len(found.get(phrase, []))) for phrase, most in numbers.items()}
        remaining[package] = {phrase: most for phrase, most in least.items() if most}
    REMAINING.write_text(json.dumps(remaining, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def test_older_sections_of_the_changelog_are_exempt(tmp_path):
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## 2\n- said\n\n### Daemon\n- told\n\n## 1\n- mended\n")
    assert [words for _, words, _ in found_in(text_of_page(changelog))] == ["told", "said"]


def test_numbers_of_remaining_phrases_only_fall(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("said, said and told\n")
    monkeypatch.setitem(FILES, "pages", [page])
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "REMAINING", tmp_path / "remaining_words.json")
    REMAINING.write_text('{"pages": {"said": 1, "tells?|told": 3, "packed": 2}}')
    place = 'page.md:1: "said": write reported, printed, predicted'
    assert surplus("pages") == {"said": (1, [place, place])}
    lower()
    assert json.loads(REMAINING.read_text()) == {"pages": {"said": 1, "tells?|told": 1}}


if __name__ == "__main__":
    lower()
