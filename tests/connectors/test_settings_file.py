"""The example of the settings, which streamk init writes."""

import re

from connectors.files.sections import FileSinkSection, FileSourceSection
from connectors.kafka.sections import LabelTopic, PredictionTopic, TopicSinkSection, TopicSourceSection
from connectors.settings import tables as settings
from connectors.settings.file import example
from connectors.settings.tables import Settings

from .test_settings import SECTIONS, read


def sections(text):
    """Return the lines of the example by section, the mark of a comment left out."""
    found = {}
    for line in text.splitlines():
        if header := re.match(r"(?:# )?\[+(\w+)\]+", line):
            found[header[1]] = lines = []
        elif found and line:
            lines.append(line.removeprefix("# "))
    return found


def test_the_example_is_valid(tmp_path):
    found = read(tmp_path, example())
    assert found == Settings(
        source=TopicSourceSection(kind="topic", topic="events", group="streamk-events-label"),
        events=settings.Events(target="label"),
    )
    assert (found.predictions, found.dead_letters) == (None, None)


def test_the_example_shows_the_defaults(tmp_path):
    lines = example().splitlines()
    given = [re.sub(r"^# (?=\[|\w+ = (?!\"\"))", "", line) for line in lines]
    assert sum(a != b for a, b in zip(lines, given, strict=True)) > 25
    found = read(tmp_path, "\n".join(given))
    assert found.predictions == PredictionTopic(kind="topic", topic="predictions")
    assert found.dead_letters == TopicSinkSection(kind="topic", topic="dead-letters")
    assert found.snapshots == settings.SnapshotSection(topic="snapshots")
    assert found.labels == LabelTopic(kind="topic", topic="labels")
    assert found.registry == settings.Registry(url="http://localhost:8081")
    assert found.challengers == (settings.ChallengerSection(name="challengers"),)
    without = {
        "labels": None,
        "challengers": (),
        "registry": None,
        "predictions": None,
        "dead_letters": None,
        "snapshots": None,
    }
    assert found.model_copy(update=without) == read(tmp_path, example())


def test_the_example_has_everything():
    assert list(Settings.model_fields) == list(dict.fromkeys(Settings.model_fields))
    found = sections(example())
    assert (
        found.keys()
        == SECTIONS.keys()
        == {info.alias or name for name, info in Settings.model_fields.items()}
    )
    for name, section in SECTIONS.items():
        keys = [line.partition(" = ")[0] for line in found[name]]
        assert keys == list(section.model_fields)
        for line in found[name]:
            assert re.search(r"  # \w.{4}", line), f"{line} is not explained"
    for field in FileSourceSection.model_fields.keys() | FileSinkSection.model_fields.keys():
        assert field in "\n".join(found["source"])
