"""``streamk dead-letters`` of a file."""

import json

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from connectors.contract.errors import Failure
from connectors.contract.records import DEAD_LETTERS, DeadLetter, Output, Raw
from connectors.files.sink import FileSink, letters

TOPIC = 'kind = "topic"\ntopic = "t"\ngroup = "g"'


def run(*arguments):
    return CliRunner().invoke(app, ["dead-letters", *map(str, arguments)])


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "dead.jsonl"
    sink = FileSink(path, DEAD_LETTERS)
    raws = [Raw(3, b"\xff" * 100, b"k"), Raw(4, None), Raw(9, b'{"a":\n1', b"\0")]
    outputs = zip(raws, ("bad", "no value", "bad"), strict=True)
    sink.write([Output(DEAD_LETTERS, "log.csv", raw, reason.encode()) for raw, reason in outputs])
    sink.commit({})
    sink.close()
    return path


@pytest.fixture
def settings(tmp_path, written):
    def write(source='kind = "file"\npath = "log.csv"', dead=f'kind = "file"\npath = "{written}"'):
        path = tmp_path / "streamk.toml"
        table = f"[dead_letters]\n{dead}\n" if dead else ""
        path.write_text(f'[source]\n{source}\n[events]\ntarget = "y"\n{table}')
        return path

    return write


def test_letters_are_read_as_they_were_written(written):
    assert list(letters(written)) == [
        DeadLetter("log.csv", 3, "bad", b"k", b"\xff" * 100, 100, False),
        DeadLetter("log.csv", 4, "no value", None, b"", 0, False),
        DeadLetter("log.csv", 9, "bad", b"\0", b'{"a":\n1', 7, False),
    ]


def test_a_line_that_is_being_written_is_left_for_later(written):
    with written.open("ab") as file:
        file.write(b'{"partition": "log')
    assert [letter.offset for letter in letters(written)] == [3, 4, 9]


@pytest.mark.parametrize("line", [b"text\n", b"{}\n", b"\xff\n", b"[" * 9999 + b"\n"])
def test_a_line_that_is_no_dead_letter_is_named(written, settings, line):
    size = written.stat().st_size
    with written.open("ab") as file:
        file.write(line)
    with pytest.raises(Failure, match=rf"dead_letters\.path: .*, byte {size}: this line is no dead letter"):
        list(letters(written))
    assert run("show", settings()).exit_code == 2


def test_show_prints_json_lines(settings):
    done = run("show", settings(), "--json")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0] == {"dead_letters": 3, "truncated": 0, "reasons": {"bad": 2, "no value": 1}}
    assert rows[1] == {
        "partition": "log.csv", "offset": 3, "reason": "bad", "key": "k", "value": "\ufffd" * 60,
        "size": 100, "truncated": False,
    }  # fmt: skip
    assert [row["offset"] for row in rows[1:]] == [3, 4, 9]
    done = run("show", settings(), "--json", "--limit", 2)
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()[1:]] == [4, 9]


def test_show_prints_tables(settings):
    text = run("show", settings()).stdout
    assert "in all, 0 of them truncated" in text
    assert '{"a":\ufffd1' in text
    assert text.index("reason") < text.index("partition")
    assert "partition" not in run("show", settings(), "--limit", 0).stdout


@pytest.mark.parametrize(
    ("command", "source", "dead", "message"),
    [
        ("retry", None, None, "source.kind is 'file', and nothing is sent to a log on disk"),
        (
            "retry",
            'kind = "topic"\ntopic = "t"\ngroup = "g"',
            None,
            "dead_letters.kind: only dead letters in a topic",
        ),
        ("retry", 'kind = "topic"\ntopic = "t"\ngroup = "g"', "", "the settings have no [dead_letters]"),
        ("show", None, "", "the settings have no [dead_letters]"),
        ("show", None, 'kind = "file"\npath = "/no/such"', "dead_letters.path: /no/such cannot be read"),
    ],
)
def test_what_cannot_be_done_is_refused(settings, command, source, dead, message):
    given = {"source": source, "dead": dead}
    done = run(command, settings(**{key: value for key, value in given.items() if value is not None}))
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.splitlines()) == 1
