"""Follow the pages as a reader: ``python docs/follow_pages.py`` runs every command and example as printed.

It clones the repository into a temporary directory, makes a new environment, and runs the blocks of
``README.md`` and of the pages in turn; examples in Python must also print what the page shows. Tutorials run
when ``make docs`` builds the site. Between the blocks of ``docs/daemon.md`` it does what the page asks of a
reader: it starts a broker on port 9092, fills a topic and edits ``streamk.toml``. Commands in sentences are
not run; their options are looked up in ``--help``. With ``--long``, papers are reproduced, too, which takes
hours.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.kafka.broker import Broker  # noqa: E402

DAEMON = "docs/daemon.md"
PAGES = ["README.md", "docs/start.md", "docs/replay.md", DAEMON, "docs/sklearn.md", "docs/learners.md"]
PAGES += ["docs/features.md", "docs/drift.md", "docs/exact.md", "docs/papers.md", "docs/streams.md"]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:streamk|python) [^`]+)`")
LONG = ("python examples/papers/", "python benchmarks/board.py")
RUNS = "streamk run streamk.toml"  # until Ctrl-C, which comes after so many seconds
SECONDS, LIMIT = 40, 900
DOCTEST = (
    "import doctest, sys; flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS; "
    "found = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags); "
    "print(found); sys.exit(found.failed > 0)"
)
EVENTS = 4000  # in the topic of docs/daemon.md
TOPICS = {"events": 8, "predictions": 4, "dead-letters": 1, "others": 4}
SINKS = """
[predictions]
kind = "topic"
topic = "predictions"

[dead_letters]
kind = "topic"
topic = "dead-letters"
"""


@dataclass(eq=False)
class Reader:
    """A reader with a clone, an environment and a shell."""

    directory: Path
    long: bool
    rows: list[tuple[str, str, str, float]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the reader's shell."""
        path = [self.directory / "environment/bin", self.directory / "tools", os.environ["PATH"]]
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA", "PYTHON"))}
        return {**plain, "PATH": os.pathsep.join(map(str, path))}

    @property
    def clone(self) -> Path:
        """The directory of the clone."""
        return self.directory / "streamk"

    def run(self, page: str, command: str, shown: str = "", interrupt: float = 0.0) -> bool:
        """Run a command of a page; return whether it ended with 0."""
        start = time.monotonic()
        with (self.directory / "output").open("w+") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}" if interrupt else command],
                cwd=self.clone, env=self.environment,
                stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                process.wait(interrupt or LIMIT)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT if interrupt else signal.SIGKILL)
                process.wait(60)
            output.seek(0)
            text = output.read()
        seconds = time.monotonic() - start
        outcome = "as printed" if process.returncode == 0 else f"FAILED with {process.returncode}"
        self.note(page, shown or command, outcome, seconds)
        if process.returncode:
            print(text[-3000:], file=sys.stderr)
        return process.returncode == 0

    @functools.cache  # noqa: B019  # there is one reader
    def help(self, command: str) -> str:
        """Return what a command prints with ``--help``, empty if it fails."""
        done = subprocess.run(
            f"{command} --help", shell=True, cwd=self.clone, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.stdout if done.returncode == 0 else ""

    def note(self, page: str, command: str, outcome: str, seconds: float = 0.0) -> None:
        """Record and print an outcome."""
        self.rows.append((page, command, outcome, seconds))
        print(f"{page}: {command.splitlines()[0]}: {outcome}, {seconds:.1f} s", flush=True)


def commands(block: str) -> Iterator[str]:
    """Return the commands of a block, each without its comment."""
    for line in block.replace("\\\n", " ").splitlines():
        yield re.sub(r"\s+#.*", "", line)


@functools.cache
def docker_runs() -> bool:
    """Return whether images can be built and run."""
    return (
        shutil.which("docker") is not None
        and not subprocess.run(["docker", "info"], capture_output=True).returncode
    )


def follow(reader: Reader, page: str) -> None:
    """Run the blocks of a page."""
    text = (reader.clone / page).read_text()
    for block in BLOCK.findall(text):
        for command in commands(block):
            for prefix, prepare in PREPARATIONS.items():
                if page == DAEMON and command.startswith(prefix):
                    prepare(reader)
            if command.startswith(LONG) and not reader.long:
                reader.note(page, command, "skipped, it takes minutes to hours")
            elif command.startswith("docker ") and not docker_runs():
                reader.note(page, command, "skipped, no Docker daemon runs here")
            elif "../shared" in command and not (ROOT.parent / "shared").exists():
                reader.note(page, command, "skipped, the data are not here")
            else:
                reader.run(page, command, interrupt=SECONDS if command == RUNS else 0.0)
    if ">>> " in text:
        reader.run(page, f"python -c {shlex.quote(DOCTEST)} {page}", "examples in Python")


# ---- what docs/daemon.md asks of its reader


def fill_topics(reader: Reader) -> None:
    """Create the topics, write events, and let the settings name the sinks."""
    from kafka import KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers="localhost:9092")
    forever = {"retention.ms": "-1"}  # the page replays events of a fixed day
    admin.create_topics([NewTopic(name, n, 1, topic_configs=forever) for name, n in TOPICS.items()])
    admin.close()
    producer = KafkaProducer(bootstrap_servers="localhost:9092")
    noon = 1_793_534_400_000  # on the first day that the page replays, in milliseconds
    for i in range(EVENTS):
        label = "a label of another type" if i % 500 == 499 else i % 7 > 3
        value = json.dumps({"a": i % 7, "b": i * 37 % 100, "label": label})
        producer.send("events", value.encode(), key=str(i).encode(), timestamp_ms=noon + i)
    producer.close()
    settings = reader.clone / "streamk.toml"
    settings.write_text(settings.read_text() + SINKS)


def learn_by_partition(reader: Reader) -> None:
    """Let the settings name the topic of snapshots, a new group and new predictions, and run the daemon."""
    settings = reader.clone / "streamk.toml"
    text = settings.read_text().replace("streamk-events-label", "another-group")
    text = text.replace('"predictions"', '"others"')
    settings.write_text(
        text.replace('# directory = "checkpoints"', 'directory = "other"')
        + '\n[snapshots]\ntopic = "clicks-models"\n'
    )
    reader.run(DAEMON, RUNS, interrupt=SECONDS)


PREPARATIONS: dict[str, Callable[[Reader], None]] = {
    "streamk check streamk.toml": fill_topics,
    "streamk publish streamk.toml": learn_by_partition,
}


TOPICS_COMMAND = """
import argparse
from kafka.admin import KafkaAdminClient, NewTopic
parser = argparse.ArgumentParser()
parser.add_argument("--create", action="store_true", required=True)
for option in ("--bootstrap-server", "--topic"):
    parser.add_argument(option, required=True)
parser.add_argument("--partitions", type=int, required=True)
parser.add_argument("--config", action="append", type=lambda pair: pair.split("="))
given = parser.parse_args()
admin = KafkaAdminClient(bootstrap_servers=given.bootstrap_server)
admin.create_topics([NewTopic(given.topic, given.partitions, 1, topic_configs=dict(given.config))])
admin.close()
"""


def write_tools(reader: Reader) -> None:
    """Write a command that creates topics as Kafka's does; the tests' jars have no tools."""
    tool = reader.directory / "tools/kafka-topics.sh"
    tool.parent.mkdir()
    tool.write_text(f"#!{sys.executable}\n{TOPICS_COMMAND}")
    tool.chmod(0o755)


# ---- commands in sentences


def check_options(reader: Reader) -> None:
    """Look up the options of the commands in sentences in ``--help``, and files of commands without any."""
    pages = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
    for page in pages:
        for command in sorted(set(INLINE.findall((reader.clone / page).read_text()))):
            program, *options = re.split(r"\s(?=--)", command)
            words = program.split()[: 2 if program.startswith("python") else 3]
            name = " ".join(word for word in words if re.fullmatch(r"[\w./-]+", word) and not word.isupper())
            if words[0] == "python" and not options:
                known = (reader.clone / words[1]).exists()
            else:
                text = reader.help(name)
                known = text != "" and all(re.split(r"[\s=]", option)[0] in text for option in options)
            if not known:
                reader.note(page, command, "FAILED: there is no such command or option")


def main() -> int:
    """Follow all pages; return 1 if any command failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages to follow; all by default")
    parser.add_argument("--long", action="store_true", help="also what takes minutes to hours")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as at_the_end:
        reader = Reader(Path(name), arguments.long)
        subprocess.run(["git", "clone", "--quiet", ROOT, reader.clone], check=True)
        if (ROOT.parent / "shared").exists():
            (reader.directory / "shared").symlink_to(ROOT.parent / "shared")
        subprocess.run([sys.executable, "-m", "venv", reader.directory / "environment"], check=True)
        if "README.md" not in arguments.pages:
            reader.run("README.md", "pip install .")
            reader.run("README.md", "streamk demo")
        for page in arguments.pages:
            if page == DAEMON:
                write_tools(reader)
                broker = Broker(reader.directory / "broker", port=9092)
                at_the_end.callback(broker.kill)
                broker.start()
            if page == "docs/sklearn.md":
                reader.run(page, "pip install '.[sklearn]'")
            follow(reader, page)
        reader.run("CONTRIBUTING.md", "pip install '.[bench,parquet,plots,test]'")
        check_options(reader)
    table = Table("page", "command", "outcome", "seconds")
    for page, command, outcome, seconds in reader.rows:
        table.add_row(page, Text(command), outcome, f"{seconds:.1f}")
    Console(width=160).print(table)
    return any("FAILED" in outcome for _, _, outcome, _ in reader.rows)


if __name__ == "__main__":
    sys.exit(main())
