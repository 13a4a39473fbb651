import contextlib
import json
import logging
import re
import traceback
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from pydantic import ValidationError

import streamk
from connectors.contract.errors import USAGE, Failure
from connectors.events.decoding import Event
from connectors.events.learners import LEARNERS
from connectors.files.sections import PredictionFile
from connectors.kafka.sections import (
    OF_CLIENTS,
    OF_THE_SOURCE,
    LabelTopic,
    PredictionTopic,
    TopicSinkSection,
    TopicSourceSection,
)
from connectors.settings import tables as settings
from connectors.settings.file import example, load, load_kafka
from connectors.settings.tables import Settings
from streamk.evaluation.metric import TASKS

KACZMARZ = "[learner]\nname = 'kaczmarz'\n[learner.parameters]\n"
BASE = '[source]\nkind = "topic"\ntopic = "clicks"\ngroup = "g"\n[events]\ntarget = "y"\n'
FILE = '[source]\nkind = "file"\npath = "log.csv"\n[events]\ntarget = "y"\n'
SECTIONS = {
    "source": TopicSourceSection, "labels": LabelTopic, "events": settings.Events, "schema": settings.Schema,
    "registry": settings.Registry,
    "learner": settings.LearnerSection, "challengers": settings.ChallengerSection,
    "predictions": PredictionTopic, "dead_letters": TopicSinkSection, "limits": settings.Limits,
    "checkpoints": settings.Checkpoints,
    "snapshots": settings.SnapshotSection, "telemetry": settings.TelemetrySection, "log": settings.LogSection,
    "kafka": settings.Kafka,
}  # fmt: skip
SECRET = "hunter2 & friends"


def read(tmp_path, text, **environment):
    path = tmp_path / "streamk.toml"
    path.write_text(text)
    return load(path, {f"STREAMK_{name}": value for name, value in environment.items()})


def refused(tmp_path, text, **environment):
    """Return the sentences that refuse settings."""
    with pytest.raises(Failure) as raised:
        read(tmp_path, text, **environment)
    assert raised.value.code == USAGE
    assert "Traceback" not in str(raised.value)
    return str(raised.value).replace(f"{tmp_path}/", "").split("\n")


# ---- what is refused


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", ["source: this setting must be given", "events: this setting must be given"]),
        (BASE.replace('target = "y"', ""), ["events.target: this setting must be given"]),
        (BASE.replace('kind = "topic"\n', ""), ["source.kind: say 'topic' or 'file'"]),
        (FILE.replace('path = "log.csv"\n', ""), ["source.path: this setting must be given"]),
        (BASE + "[sauce]", ["sauce: there is no such setting"]),
        (BASE + "targets = 3", ["events.targets: there is no such setting"]),
        (BASE.replace("topic =", "path ="), None),
        (FILE + "[predictions]\nkind='file'\npath='a'\ngroup='b'", ["predictions.group: there is no such"]),
        (BASE + "[kafka]\noptions = {acks = 1}", ["kafka.options: acks is set by streamk, or is no"]),
        (BASE + "[kafka]\noptions = {fetch_min_bytes = 'x'}", ["kafka.options: fetch_min_bytes must be a"]),
        (BASE + "[kafka]\ntoken_file = 't'", ["kafka: token_file and mechanism = OAUTHBEARER belong"]),
        (BASE + "[kafka]\nservers = 3", ["kafka.servers: Input should be a valid list"]),
        (BASE + "[kafka]\nservers = []", ["kafka.servers: List should have at least 1 item"]),
        (BASE + '[checkpoints]\ndirectory = "a\\u0000b"', ["checkpoints.directory: no file can have"]),
        (BASE + f"[checkpoints]\ndirectory = '{'x' * 300}'", ["checkpoints.directory: no file can have"]),
        (BASE + "[kafka]\ntls = 'perhaps'", ["kafka.tls: Input should be a valid boolean"]),
        (BASE + "[kafka]\nmechanism = 'GSSAPI'", ["kafka.mechanism: Input should be 'PLAIN'"]),
        (BASE + "[kafka]\nmechanism = 'PLAIN'", ["kafka: mechanism needs username and password"]),
        (BASE + "[kafka]\nsession_seconds = 0.5", ["kafka.session_seconds: Input should be greater than"]),
        (BASE + "[kafka]\naway_seconds = 0", ["kafka.away_seconds: Input should be greater than 0"]),
        (BASE + "[kafka]\nca = 'ca.pem'", ["kafka: ca and certificate need tls = true"]),
        (BASE + "[kafka]\ntls = true\ncertificate_key = 'k'", ["kafka: certificate_key needs certificate"]),
        ("start = 'now'\n", ["source.start: Input should be 'earliest' or 'latest'"]),
        (BASE.replace('"g"', "''"), ["source.group: String should have at least 1 character"]),
        (BASE + "format = 'xml'", ["events.format: Input should be 'json', 'csv', 'msgpack' or 'avro'"]),
        (BASE + "format = 'avro'", ["events.format = avro needs [registry], with the url of"]),
        (BASE + "format = 'csv'\ncolumns = ['y']\n[registry]\nurl='http://r'", ["[registry] goes with"]),
        (BASE + "[registry]\nurl = 'http://me:secret@r'", ["registry.url: String should match pattern"]),
        (BASE + "record = {shop = 'offset'}", ["events.record: shop is 'offset'; a field is made of key,"]),
        (BASE + "record = {shop = 'headers.'}", ["events.record: shop is 'headers.'; a field is made of"]),
        (BASE + "repeats = -1", ["events.repeats: Input should be greater than or equal to 0"]),
        (FILE + "repeats = 9", ["events.repeats needs events.key, since records of"]),
        (FILE + "record = {a = 'key'}", ["events.record and [registry] are for"]),
        (BASE + "ignore = [3]", ["events.ignore.0: Input should be a valid string"]),
        (BASE + "[limits]\nratio = 1.5", ["limits.ratio: Input should be less than or equal to 1"]),
        (BASE + "[limits]\nwindow = 0\nconsecutive = 'x'", ["limits.consecutive: ", "limits.window: "]),
        (BASE + "[checkpoints]\nkeep = 1", ["checkpoints.keep: Input should be greater than or equal to 2"]),
        (BASE + "[checkpoints]\nevents = 1.5", ["checkpoints.events: Input should be a valid integer"]),
        (BASE + "[telemetry]\nport = 65536", ["telemetry.port: Input should be less than or equal to 65535"]),
        (BASE + "[telemetry]\nlog = 'xml'", ["log.form: Input should be 'text' or 'json'"]),
        (BASE + "[log]\nform = 'xml'", ["log.form: Input should be 'text' or 'json'"]),
        (BASE + "[log]\nlevel = 'off'", ["log.level: Input should be 'debug', 'info', 'warning' or 'error'"]),
        (BASE + "[log]\nclient = 'all'", ["log.client: Input should be 'off', 'debug', 'info'"]),
        (BASE + "[learner]\nname = 'perceptron'", ["learner: learner perceptron: no such learner; use"]),
        (BASE + "[learner]\ntask = 'ranking'", ["learner: task ranking: no such task; use"]),
        (BASE + "[learner.parameters]\nfeatures = 0", ["learner: features=0: features must be a"]),
        (BASE + "[learner.parameters]\nwidth = 1", ["learner: parameters.width: KernelClassifier has no"]),
        (BASE + "[learner.parameters]\nquantile = 0.5", ["learner: parameters.quantile: Kernel"]),
        (BASE + KACZMARZ + "loss = 'huber'", ["learner: loss='huber': loss must be"]),
        (BASE + KACZMARZ + "scales = 'x'", ["learner: scales='x': scales must be a tuple"]),
        (BASE + "[learner.parameters]\nseed = 2024-01-01", ["learner: seed=datetime.date(2024, 1, 1): seed"]),
        (BASE + "[learner]\nparameters = 3", ["learner.parameters: Input should be a valid dictionary"]),
        (BASE + "format = 'csv'", ["events.columns must name the values of a CSV line"]),
        (FILE + "[snapshots]\ntopic = 's'", ["snapshots are of the partitions of a topic, and source.kind"]),
        (BASE + "[snapshots]\ntopic = 'clicks'", ["snapshots and source are the same topic, clicks"]),
        (BASE + "[snapshots]", ["snapshots.topic: this setting must be given"]),
        (
            BASE + "[snapshots]\ntopic = 's'\n[predictions]\nkind = 'file'\npath = 'p'",
            ["predictions.kind = 'file' does not go with snapshots"],
        ),
        (
            BASE + "[snapshots]\ntopic = 's'\n[learner.parameters]\nseed = 'none'",
            ["learner.parameters.seed = none does not go with snapshots"],
        ),
        ("source = 3\n[events]\ntarget = 'y'", ["source: Input should be a valid dictionary"]),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(tmp_path, text, sentences):
    if text.startswith(("start", "group")):
        text = BASE.replace("[events]", f"{text}[events]")
    found = refused(tmp_path, text)
    if sentences is None:
        assert "streamk.toml: source.path: there is no such setting" in found
        return
    assert len(found) == len(sentences)
    for line, sentence in zip(found, sentences, strict=True):
        assert line.startswith(f"streamk.toml: {sentence}")


PREDICTIONS = "[predictions]\nkind = 'topic'\ntopic = 'p'\n"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("['trace', 'b']", ["trace", "b"]), ("true", True), ("false", []), ("[]", []), (None, [])],
)
def test_headers_of_predictions(tmp_path, value, expected):
    line = "" if value is None else f"headers = {value}"
    assert read(tmp_path, BASE + PREDICTIONS + line).predictions.headers == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("trace, b", ["trace", "b"]), ("true", True), ("False", []), ("truth", ["truth"])],
)
def test_headers_of_predictions_from_a_variable(tmp_path, value, expected):
    found = read(tmp_path, BASE + PREDICTIONS, PREDICTIONS__HEADERS=value).predictions
    assert found.headers == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            BASE + PREDICTIONS + "headers = 3",
            "predictions.headers: must be a list of names of headers, or true for all of them",
        ),
        (
            BASE + PREDICTIONS + "headers = [1]",
            "predictions.headers: must be a list of names of headers, or true for all of them",
        ),
        (
            BASE + "[predictions]\nkind = 'file'\npath = 'p'\nheaders = true",
            "predictions: predictions in a file have no headers; leave headers out, or name a topic",
        ),
        (
            FILE + PREDICTIONS + "headers = ['trace']",
            "predictions.headers is for topics; events of a log on disk have no headers",
        ),
        (
            BASE + PREDICTIONS + "top = -1",
            "predictions.top: Input should be greater than or equal to 0",
        ),
        (
            BASE + "[dead_letters]\nkind = 'topic'\ntopic = 'd'\ntop = 3",
            "dead_letters.top: there is no such setting; did you mean dead_letters.topic?",
        ),
    ],
)
def test_wrong_settings_of_predictions(tmp_path, text, sentence):
    assert refused(tmp_path, text) == [f"streamk.toml: {sentence}"]


@pytest.mark.parametrize("section", ["source", "predictions"])
def test_a_topic_that_is_missing(tmp_path, section):
    text = (
        BASE.replace('topic = "clicks"\n', "")
        if section == "source"
        else f"{BASE}[{section}]\nkind = 'topic'"
    )
    assert refused(tmp_path, text) == [f"streamk.toml: {section}.topic: this setting must be given"]
    assert refused(tmp_path, BASE, SOURCE__TOPIC__X="3")[0].startswith(
        "STREAMK_SOURCE__TOPIC__X: source.topic"
    )
    wrong = refused(tmp_path, BASE.replace('"clicks"', "3"))
    assert wrong == ["streamk.toml: source.topic: Input should be a valid list"]


@pytest.mark.parametrize("value", ["3", "[3]", "{a = 3}"])
def test_features_that_are_wrong(tmp_path, value):
    found = refused(tmp_path, BASE + f"features = {value}")
    assert all(re.match(r"streamk\.toml: events\.features(\.\w+)?: ", line) for line in found)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"KAFKA__TLS": "perhaps"}, "STREAMK_KAFKA__TLS: kafka.tls: Input should be a valid boolean"),
        ({"CHECKPOINTS__EVENTS": "0"}, "STREAMK_CHECKPOINTS__EVENTS: checkpoints.events: Input should be"),
        ({"SOURCE__START": "now"}, "STREAMK_SOURCE__START: source.start: Input should be"),
        ({"SOURCE__PATH": "x"}, "STREAMK_SOURCE__PATH: source.path: there is no such setting"),
        ({"KAFKA__PASSWRD": "x"}, "STREAMK_KAFKA__PASSWRD: kafka.passwrd: there is no such setting"),
        ({"KAFKA__PASSWORD__X": "x"}, "STREAMK_KAFKA__PASSWORD__X: kafka.password"),
        ({"LOG__LEVEL": "off"}, "STREAMK_LOG__LEVEL: log.level: Input should be"),
        ({"TELEMETRY__LOG": "xml"}, "STREAMK_TELEMETRY__LOG: log.form: Input should be"),
        ({"EVENTS__TARGET__X": "1"}, "STREAMK_EVENTS__TARGET__X: events.target is not a table"),
        ({"EVENTS__TARGET__X__Z": "1"}, "STREAMK_EVENTS__TARGET__X__Z: events.target"),
        ({"TELEMETRY__PORT": "http"}, "STREAMK_TELEMETRY__PORT: telemetry.port: Input should be"),
    ],
)
def test_a_variable_that_is_wrong_is_named(tmp_path, variables, sentence):
    assert [line.startswith(sentence) for line in refused(tmp_path, BASE, **variables)] == [True]


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("KAFKA_SERVERS", "KAFKA__SERVERS"),
        ("KAFKA_SERVER", "KAFKA__SERVERS"),
        ("KAFKA_PASSWORD", "KAFKA__PASSWORD"),
        ("KAFAK__SERVERS", "KAFKA__SERVERS"),
        ("TELEMETRY_PORT", "TELEMETRY__PORT"),
        ("DEAD_LETTERS_TOPIC", "DEAD_LETTERS__TOPIC"),
        ("DEBUG", None),
        ("KAFKA", None),
        ("VERSION", None),
        ("IMAGE__TAG", None),
    ],
)
def test_a_variable_of_no_section_is_ignored_with_one_warning(tmp_path, variable, meant):
    path, warnings = tmp_path / "streamk.toml", []
    path.write_text(BASE)
    found = load(path, {f"STREAMK_{variable}": SECRET}, warnings.append)
    assert found == read(tmp_path, BASE)
    (warning,) = warnings
    assert warning.startswith(f"STREAMK_{variable}: this variable is ignored")
    assert ("did you mean" in warning) == (meant is not None)
    if meant:
        assert warning.endswith(f"did you mean STREAMK_{meant}?")
    assert SECRET not in warning


def test_a_warning_goes_to_the_log_by_default(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("connectors"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("connectors"), "handlers", [])
    caplog.set_level("WARNING", "connectors")  # which commands in this process may have raised
    read(tmp_path, BASE, IMAGE_TAG="100%s")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("STREAMK_IMAGE_TAG: ")


@pytest.mark.parametrize(
    ("text", "variables", "key", "meant"),
    [
        (BASE, {"KAFKA__PASSWRD": "x"}, "STREAMK_KAFKA__PASSWRD: kafka.passwrd", "kafka.password"),
        (BASE, {"KAFKA__SERVER": "x"}, "STREAMK_KAFKA__SERVER: kafka.server", "kafka.servers"),
        (BASE + "[kafka]\nserver = 'x'", {}, "streamk.toml: kafka.server", "kafka.servers"),
        (BASE + "[chekpoints]", {}, "streamk.toml: chekpoints", "checkpoints"),
        (BASE.replace("[events]", "gruop = 'g'\n[events]"), {}, "streamk.toml: source.gruop", "source.group"),
        (FILE.replace("[events]", "group = 'g'\n[events]"), {}, "streamk.toml: source.group", None),
        (BASE + "[limits]\nxyz = 3", {}, "streamk.toml: limits.xyz", None),
    ],
)
def test_a_key_that_is_unknown_is_refused_with_the_nearest_one(tmp_path, text, variables, key, meant):
    hint = f"; did you mean {meant}?" if meant else ""
    assert refused(tmp_path, text, **variables) == [f"{key}: there is no such setting{hint}"]


# ---- the deprecated name of log.form


@pytest.mark.parametrize(
    ("text", "variables", "form", "name"),
    [
        ("[telemetry]\nlog = 'json'", {}, "json", "streamk.toml"),
        ("", {"STREAMK_TELEMETRY__LOG": "json"}, "json", "STREAMK_TELEMETRY__LOG"),
        ("[telemetry]\nlog = 'json'\n[log]\nform = 'text'", {}, "text", "streamk.toml"),
        ("[telemetry]\nlog = 'json'\n[log]\nlevel = 'error'", {}, "json", "streamk.toml"),
        ("[telemetry]\nport = 0\n[log]\nform = 'json'", {}, "json", None),
    ],
)
def test_telemetry_log_is_a_deprecated_name_of_log_form(tmp_path, text, variables, form, name):
    path, warnings = tmp_path / "streamk.toml", []
    path.write_text(BASE + text)
    assert load(path, variables, warnings.append).log.form == form
    told = [] if name is None else [f"{name}: telemetry.log is deprecated; set log.form instead"]
    assert [warning.replace(f"{tmp_path}/", "") for warning in warnings] == told


def test_variables_of_kubernetes_services_are_no_settings(tmp_path):
    """A Service called streamk, or one whose name begins so, gives every pod such variables."""
    told = {
        "SERVICE_HOST": "10.0.0.11", "SERVICE_PORT": "9100", "SERVICE_PORT_HTTP": "9100",
        "PORT": "tcp://10.0.0.11:9100", "PORT_9100_TCP": "tcp://10.0.0.11:9100", "PORT_9100_TCP_PROTO": "tcp",
        "PORT_9100_TCP_PORT": "9100", "PORT_9100_TCP_ADDR": "10.0.0.11",
        "KAFKA_SERVICE_HOST": "10.0.0.12", "KAFKA_EU_1_SERVICE_PORT": "9092", "KAFKA_PORT": "tcp://10.0.0.12:9092",
    }  # fmt: skip
    path, warnings = tmp_path / "streamk.toml", []
    path.write_text(BASE)
    variables = {f"STREAMK_{name}": value for name, value in told.items()}
    assert load(path, variables, warnings.append) == read(tmp_path, BASE)
    assert warnings == []


@pytest.mark.parametrize(
    ("variables", "key"),
    [
        ({"LEARNER__PARAMETERS__FEATURES": "many"}, "features"),
        ({"LEARNER__PARAMETERS__WIDTH": "3"}, "width"),
        ({"LEARNER__NAME": "perceptron"}, "learner"),
        ({"SOURCE__KIND": "queue"}, "source.kind"),
    ],
)
def test_a_variable_that_a_section_refuses_is_named(tmp_path, variables, key):
    (line,) = refused(tmp_path, BASE, **variables)
    assert f"STREAMK_{next(iter(variables))}" in line
    assert key in line


@pytest.mark.parametrize("value", ["{[]: 1}", "(" * 10_000])
def test_a_parameter_that_python_cannot_read(tmp_path, value):
    (line,) = refused(tmp_path, BASE, LEARNER__PARAMETERS__FEATURES=value)
    assert "features" in line


def test_every_mistake_has_its_line(tmp_path):
    text = BASE + "x = 1\n[kafka]\ntls = 3.5\n[limits]\nratio = 0\n[nothing]\n"
    assert [line.split(": ")[:2] for line in refused(tmp_path, text, CHECKPOINTS__KEEP="no")] == [
        ["streamk.toml", "kafka.tls"],
        ["streamk.toml", "events.x"],
        ["streamk.toml", "limits.ratio"],
        ["STREAMK_CHECKPOINTS__KEEP", "checkpoints.keep"],
        ["streamk.toml", "nothing"],
    ]


@pytest.mark.parametrize(
    ("one", "two", "sentence"),
    [
        ("predictions", "topic = 'clicks'", "predictions and source are the same topic, clicks"),
        ("dead_letters", "topic = 'clicks'", "dead_letters and source are the same topic, clicks"),
    ],
)
def test_a_topic_that_is_used_twice(tmp_path, one, two, sentence):
    assert refused(tmp_path, f"{BASE}[{one}]\nkind = 'topic'\n{two}") == [f"streamk.toml: {sentence}"]


TOPICS = BASE.replace('"clicks"', "{}")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("'a'", ["a"]),
        ("['b', 'a', 'b']", ["b", "a"]),
        ("'a, b'", ["a", "b"]),
        ("'^a{1,2}-.*$'", ["^a{1,2}-.*$"]),
        ("['a', '^b']", ["a", "^b"]),
    ],
)
def test_several_topics(tmp_path, value, names):
    source = read(tmp_path, TOPICS.format(value)).source
    assert (source.topic, source.place) == (names, ", ".join(names))


@pytest.mark.parametrize(
    ("value", "more", "sentence"),
    [
        ("[]", "", "source.topic: List should have at least 1 item"),
        ("['a', '']", "", "source.topic: a name should have at least 1 character"),
        ("'^a('", "", "source.topic: '^a(' is no regular expression: missing ), unterminated subpattern"),
        (
            "'^a'",
            "[predictions]\nkind = 'topic'\ntopic = 'ab'",
            "source.topic names or matches ab, the topic of",
        ),
        ("['a', 'b']", "[dead_letters]\nkind = 'topic'\ntopic = 'b'", "source.topic names or matches b, the"),
        ("'^a'", "[snapshots]\ntopic = 'a'", "source.topic names or matches a, the topic of snapshots"),
        ("'^'", "[learner]\nfollow = 'a'", "source.topic names or matches a, the topic of learner.follow"),
        ("'^a'", "[labels]\nkind = 'topic'\ntopic = 'b'", "labels go with one topic of events"),
    ],
)
def test_topics_that_are_refused(tmp_path, value, more, sentence):
    (line,) = refused(tmp_path, TOPICS.format(value) + more)
    assert line.startswith(f"streamk.toml: {sentence}")


@pytest.mark.parametrize(
    ("source", "partitions", "expected"),
    [
        ("a", [], True),
        ("a, c", ["c-0"], True),
        ("c", ["c-0"], False),
        ("^x", ["b-1-0", "x-2"], True),
        ("^b", [], True),
    ],
)
def test_a_source_continues_with_what_it_has_in_common(tmp_path, source, partitions, expected):
    section = read(tmp_path, TOPICS.format("['a', '^b']")).source
    assert section.continues(source, partitions) == expected


def test_two_sinks_into_one(tmp_path):
    sinks = "[predictions]\nkind = '{0}'\n{1} = 'out'\n[dead_letters]\nkind = '{0}'\n{1} = '{2}'\n"
    same = "streamk.toml: dead_letters and predictions are the same"
    assert refused(tmp_path, BASE + sinks.format("topic", "topic", "out")) == [f"{same} topic, out"]
    assert refused(tmp_path, BASE + sinks.format("file", "path", "./out")) == [f"{same} file, out"]
    assert read(tmp_path, BASE + sinks.format("topic", "topic", "out2")).dead_letters.topic == "out2"
    files = FILE + "[predictions]\nkind = 'file'\npath = 'log.csv'"
    assert refused(tmp_path, files) == ["streamk.toml: predictions and source are the same file, log.csv"]
    assert read(tmp_path, BASE + "[predictions]\nkind = 'file'\npath = 'clicks'").predictions.kind == "file"


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "streamk.toml"
    for what, message in [
        (lambda: None, "No such file or directory; streamk init writes an example"),
        (lambda: path.write_bytes(b"[source\n"), "not valid TOML: "),
        (lambda: path.write_bytes(b"a = 1\na = 2\n"), "not valid TOML: "),
        (lambda: path.write_bytes(b"a = '\xff'"), "not valid TOML: "),
        (lambda: (path.unlink(), path.mkdir()), "Is a directory"),
    ]:
        what()
        with pytest.raises(Failure, match=re.escape(f"{path}: {message}")) as raised:
            load(path, {})
        assert raised.value.code == USAGE


# ---- variables


def test_variables_go_before_the_file(tmp_path):
    text = BASE + "[kafka]\nservers = ['one:1']\n[checkpoints]\nkeep = 5\nseconds = 3"
    found = read(
        tmp_path, text, KAFKA__SERVERS="two:2, three:3", KAFKA__TLS="true", CHECKPOINTS__KEEP="4",
        SOURCE__GROUP="g", EVENTS__IGNORE="a,b", EVENTS__COLUMNS="x", TELEMETRY__PORT="8080",
        EVENTS__FEATURES="a, b.c", PREDICTIONS__KIND="file", PREDICTIONS__PATH="out.jsonl",
        LIMITS__RATIO="0.1",
    )  # fmt: skip
    assert (found.kafka.servers, found.kafka.tls) == (["two:2", "three:3"], True)
    assert (found.checkpoints.keep, found.checkpoints.seconds) == (4, 3.0)
    assert (found.source.topic, found.source.group) == (["clicks"], "g")
    assert (found.events.target, found.events.ignore, found.events.columns) == ("y", ["a", "b"], ["x"])
    assert found.events.features == ["a", "b.c"]
    assert found.predictions == PredictionFile(kind="file", path=Path("out.jsonl"))
    assert (found.telemetry.port, found.limits.ratio) == (8080, 0.1)


def test_variables_alone(tmp_path, monkeypatch):
    (tmp_path / "streamk.toml").write_text("")
    for name, value in {
        "SOURCE__KIND": "topic",
        "SOURCE__TOPIC": "t",
        "SOURCE__GROUP": "g",
        "EVENTS__TARGET": "y",
    }.items():
        monkeypatch.setenv(f"STREAMK_{name}", value)
    monkeypatch.setenv("STREAMK_TEST_KAFKA", "for the tests alone")
    monkeypatch.setenv("STREAM_KAFKA__TLS", "of somebody else")
    assert load(tmp_path / "streamk.toml").source.topic == ["t"]


def test_features_as_a_table(tmp_path):
    assert read(tmp_path, BASE + "features = {x = 'after.x'}").events.features == {"x": "after.x"}
    assert read(tmp_path, BASE, EVENTS__FEATURES__X="after.x").events.features == {"x": "after.x"}


def test_parameters(tmp_path):
    text = (
        BASE
        + "[learner]\nname = 'kaczmarz-pursuit'\ntask = 'regression'\n[learner.parameters]\nfeatures = 64"
    )
    found = read(
        tmp_path, text, LEARNER__PARAMETERS__SCALES="2,1", LEARNER__PARAMETERS__AVERAGE="true",
        LEARNER__PARAMETERS__MEMORY="none", LEARNER__PARAMETERS__KERNEL="matern:2.5",
    ).learner.build()  # fmt: skip
    assert type(found) is streamk.KaczmarzPursuitRegressor
    assert (found.features, found.scales, found.average, found.memory) == (64, (2, 1), True, None)
    assert (found.kernel, found.seed) == ("matern:2.5", 0)
    listed = read(tmp_path, text + "\nscales = [2.0, 1]\nseed = 5").learner.build()
    assert (listed.scales, listed.seed) == ((2.0, 1), 5)


# ---- secrets


def test_secrets_are_not_shown(tmp_path):
    text = BASE + f"[kafka]\npassword = {json.dumps(SECRET)}\nmechanism = 'PLAIN'\nusername = 'u'\n"
    found = read(tmp_path, text, KAFKA__CERTIFICATE_PASSWORD=SECRET)
    assert found.kafka.password.get_secret_value() == SECRET
    assert found.kafka.certificate_password.get_secret_value() == SECRET
    for part in (found, found.kafka, found.kafka.password):
        assert SECRET not in f"{part!r}{part!s}{part}"
    assert SECRET not in f"{found.model_dump()}{found.model_dump_json()}{found.kafka.__dict__}"


@pytest.mark.parametrize(
    "text",
    [
        "password = {0}\nmechanism = 'PLAIN'",
        "password = {0}\nusername = 3",
        "password = [{0}]",
        "password = {{a = {0}}}",
        "pasword = {0}",
        "password = {0}\npassword = {0}",
        "password = {0}\nnot TOML",
        "password = {0} and more",
        "certificate_password = {0}\ntls = {0}",
        "servers = {0}\npassword = {0}\nsession_seconds = 0",
    ],
)
def test_secrets_are_in_no_error(tmp_path, text):
    path = tmp_path / "streamk.toml"
    path.write_text(BASE + "[kafka]\n" + text.format(json.dumps(SECRET)))
    for variables in (
        {},
        {"STREAMK_KAFKA__PASSWORD__X": SECRET},
        {"STREAMK_KAFKA__PASSWORD": SECRET, "STREAMK_SOURCE__KIND": "1"},
    ):
        with pytest.raises(Failure) as raised:
            load(path, variables)
        assert SECRET not in "".join(traceback.format_exception(raised.value))
        assert SECRET not in repr(raised.value)


@pytest.mark.parametrize("kafka", [True, False])
@pytest.mark.parametrize(
    "servers",
    [
        ["reader:hunter2@broker:9092"],
        ["broker:9092", "SASL_SSL://reader:hunter2@other:9092"],
        "broker:9092, reader:hunter2@other:9092",
        ["reader@broker:9092"],
        "reader:hunter2,hunter2@broker:9092",
    ],
)
def test_an_address_with_a_password_is_refused_and_not_shown(tmp_path, servers, kafka):
    """Of the settings and of the commands that read the table of the brokers alone."""
    path = tmp_path / "streamk.toml"
    path.write_text(f"{BASE}[kafka]\nservers = {json.dumps(servers)}\n")
    with pytest.raises(Failure) as raised:
        load_kafka(path, None, {}) if kafka else load(path, {})
    assert raised.value.code == USAGE
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{path}: kafka.servers: ")
    assert "kafka.username" in line
    assert "kafka.password" in line
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))
    with pytest.raises(ValidationError) as unexplained:
        settings.Kafka(servers=servers)
    assert "hunter2" not in str(unexplained.value)


def test_an_address_of_the_command_line_or_a_variable_is_not_shown_either():
    for servers, variables in [
        ("reader:hunter2@broker:9092", {}),
        (None, {"STREAMK_KAFKA__SERVERS": "reader:hunter2@broker:9092"}),
    ]:
        with pytest.raises(Failure, match=r"kafka\.servers: .*kafka\.username") as raised:
            load_kafka(None, servers, variables)
        assert "hunter2" not in str(raised.value)


# ---- what they are for


def test_the_decoder_of_the_settings(tmp_path):
    found = read(tmp_path, BASE + "format = 'csv'\ncolumns = ['a', 'y', 'k']\nkey = 'k'")
    assert found.decoder()(b"1,2,3") == Event({"a": 1.0}, "2", None, "3", None)
    numbers = "\n[learner]\ntask = 'regression'\n[schema]\ndecimal = ','\ntypes = {k = 'category'}"
    found = read(tmp_path, FILE + "format = 'csv'\nignore = ['k']" + numbers)
    decode = found.format.decoder("csv", ["k", "y"], "\t")
    assert decode(b"1,0\t2,5") == Event({}, 2.5, None, None, None)
    with pytest.raises(Failure, match=r"schema: .*type 'digit' of the field 'k' is unknown"):
        read(tmp_path, FILE + "[schema]\ntypes = {k = 'digit'}")


def test_settings_do_not_change(tmp_path):
    found = read(tmp_path, BASE)
    with pytest.raises(ValueError, match="frozen"):
        found.kafka.tls = True


KEYS = [(name, key) for name, section in SECTIONS.items() for key in section.model_fields]


@given(
    key=st.sampled_from(KEYS),
    value=st.one_of(
        st.text(max_size=8), st.sampled_from(["", "0", "-1", "1e999", "nan", "true", "none", "1,2"])
    ),
)
def test_any_text_is_a_value_or_is_refused(tmp_path_factory, key, value):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(
        example() + "[predictions]\nkind='topic'\ntopic='p'\n[dead_letters]\nkind='topic'\ntopic='d'\n"
    )
    name = f"STREAMK_{key[0]}__{key[1]}".upper()
    try:
        assert isinstance(load(path, {name: value}), Settings)
    except Failure as failure:
        sentences = str(failure)
    else:
        return
    assert key[0] in sentences


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", LEARNERS)
def test_any_parameter_is_a_value_or_is_refused(name, task):
    values = ({}, [], [[1]], [None], {"a": 1}, date(2024, 1, 1), 2**70, -1, 1e400, "é" * 99)
    for key in LEARNERS[name][task]()._get_params():
        for value in values:
            section = {"name": name, "task": task, "parameters": {key: value}}
            with contextlib.suppress(ValidationError):
                settings.LearnerSection.model_validate(section)


@pytest.mark.parametrize(
    "key", ["events.target", "events.key", "events.time", "events.weight", "source.topic"]
)
def test_a_name_that_is_empty(tmp_path, key):
    name = key.upper().replace(".", "__")
    (line,) = refused(tmp_path, BASE, **{name: ""})
    assert line.startswith(f"STREAMK_{name}: {key}: ")


def test_secrets_come_from_files(tmp_path):
    place = tmp_path / "password"
    place.write_text("it's a secret \n")
    found = read(tmp_path, BASE, KAFKA__PASSWORD_FILE=str(place), KAFKA__CERTIFICATE_PASSWORD_FILE=str(place))
    assert found.kafka.secrets == ["it's a secret "] * 2
    with pytest.raises(
        Failure, match=r"STREAMK_KAFKA__PASSWORD_FILE: STREAMK_KAFKA__PASSWORD sets kafka\.pass"
    ):
        read(tmp_path, BASE, KAFKA__PASSWORD_FILE=str(place), KAFKA__PASSWORD="x")
    with pytest.raises(
        Failure, match=r"STREAMK_KAFKA__PASSWORD_FILE: .*nowhere cannot be read: No such file"
    ):
        read(tmp_path, BASE, KAFKA__PASSWORD_FILE=str(tmp_path / "nowhere"))
    place.write_bytes(b"\xff")
    with pytest.raises(Failure, match="cannot be read: it is not text"):
        read(tmp_path, BASE, KAFKA__PASSWORD_FILE=str(place))
    with pytest.raises(Failure, match="username_file"):  # no secret
        read(tmp_path, BASE, KAFKA__USERNAME_FILE=str(place))


def test_options_of_the_client_also_from_variables(tmp_path):
    found = read(
        tmp_path, BASE, KAFKA__OPTIONS__FETCH_MIN_BYTES="100", KAFKA__OPTIONS__CLIENT_RACK="eu-1a"
    ).kafka
    assert found.options == {"fetch_min_bytes": 100, "client_rack": "eu-1a"}
    assert found.options_of(OF_CLIENTS) == {}
    assert {*OF_CLIENTS} < KafkaAdminClient.DEFAULT_CONFIG.keys() & KafkaProducer.DEFAULT_CONFIG.keys()
    assert {*OF_CLIENTS, *OF_THE_SOURCE} < KafkaConsumer.DEFAULT_CONFIG.keys()
