"""Models of partitions to one, its version, and what the commands refuse before they ask anybody."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import streamk
from connectors.cli import app
from connectors.cli.publish import show
from connectors.contract.errors import CHECKPOINT, USAGE, Failure
from connectors.kafka.sections import TopicSourceSection
from connectors.publish.fetching import Place, goes_back, read, write
from connectors.publish.run import Destination, Publication, merged
from connectors.settings.file import load_kafka
from connectors.state.checkpoint import Checkpoint, Progress
from streamk.learners.loading import loads, loads_with_extra

BLANK = streamk.KaczmarzClassifier(features=16, seed=0)
SOURCE = TopicSourceSection(kind="topic", topic="t", group="g")
NAMES = [f"t-{p}" for p in range(5)]


def snapshot(name, count, learner=BLANK, source="t", shift=0, group="g"):
    model = learner.clone()
    for i in range(shift, shift + count):
        model.learn_one({"a": i * 7 % 5, "b": i % 3}, i % 2 > 0)
    return Checkpoint(source, {"model": model.to_bytes()}, {name: Progress(count, "id", count)}, group)


def snapshots(*counts):
    return {
        name: snapshot(name, count, shift=11 * k)
        for k, (name, count) in enumerate(zip(NAMES, counts, strict=False))
        if count is not None
    }


def test_the_merge_is_the_tree_of_partitions():
    there = snapshots(30, 20, 0, None, 40)
    found = merged(SOURCE, NAMES, there, BLANK, learns=True)
    a, b, e = (loads(there[NAMES[k]].parts["model"]) for k in (0, 1, 4))
    assert loads(found.model).to_bytes() == streamk.merge([streamk.merge([a, b]), e]).to_bytes()
    assert found.version == {
        name: Place(c, "id") for name, c in zip(NAMES, (30, 20, 0, None, 40), strict=True) if c is not None
    }
    assert [row.position for row in found.rows] == [30, 20, 0, None, 40]
    learner, extra = loads_with_extra(found.model)
    assert (learner.events, extra) == (90, found.about)
    assert merged(SOURCE, NAMES, there, BLANK, learns=True).model == found.model
    frozen = merged(SOURCE, NAMES, there, BLANK)
    assert loads(frozen.model).to_bytes() == learner.frozen().to_bytes()
    assert (frozen.version, frozen.about) == (found.version, found.about | {"learns": False})


def test_one_partition_is_its_own_model():
    there = snapshots(30)
    found = merged(SOURCE, NAMES[:1], there, BLANK, learns=True)
    assert loads(found.model).to_bytes() == there["t-0"].parts["model"]


def test_events_that_wait_for_their_block_are_learned_in_a_copy():
    blank = streamk.KaczmarzClassifier(features=16, seed=0, block_size=8)
    there = {name: snapshot(name, 13, blank) for name in NAMES[:2]}
    assert merged(SOURCE, NAMES[:2], there, blank).about["events"] == 26
    assert loads(there["t-0"].parts["model"]).pending == 5


@pytest.mark.parametrize(
    ("there", "blank", "sentence", "code"),
    [
        ({"t-0": snapshot("t-0", 3, group="h")}, BLANK, "t-0 belongs to the group 'h'", CHECKPOINT),
        (snapshots(3), BLANK.clone({"features": 32}), "snapshot of t-0 holds a learner with", CHECKPOINT),
        (
            {name: snapshot(name, 3 + k, streamk.EigenProClassifier(seed=0)) for k, name in enumerate(NAMES)},
            streamk.EigenProClassifier(seed=0), "the models of the partitions cannot be merged: .* centers",
            USAGE,
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit(there, blank, sentence, code):
    with pytest.raises(Failure, match=sentence) as raised:
        merged(SOURCE, NAMES, there, blank)
    assert raised.value.code == code


# ---- versions

VERSIONS = st.dictionaries(
    st.sampled_from(["t-0", "t-1", "t-2"]), st.builds(Place, st.integers(0, 5), st.sampled_from(["i", "j"]))
)


@given(VERSIONS, VERSIONS)
def test_versions_of_one_topic_are_ordered(one, other):
    assert read(json.loads(json.dumps(write(one)))) == one
    assert not goes_back(one, one, "i")
    same = [
        {name: place._replace(identity="i") for name, place in version.items()} for version in (one, other)
    ]
    if not goes_back(*same, "i") and not goes_back(*same[::-1], "i"):
        assert same[0] == same[1]


def test_what_goes_back():
    before = {"t-0": Place(5, "i"), "t-1": Place(7, "i")}
    assert not goes_back({"t-0": Place(5, "i"), "t-1": Place(9, "i")}, before, "i")
    assert goes_back({"t-0": Place(9, "i"), "t-1": Place(6, "i")}, before, "i").startswith(
        "t-1 is known up to 6"
    )
    assert goes_back({"t-0": Place(9, "i")}, before, "i") == "t-1 is not known, and was up to 7"
    assert not goes_back({"t-0": Place(1, "j")}, before, "j")  # made anew
    assert goes_back({"t-0": Place(1, "i")}, {"t-0": Place(1, "j")}, "j")  # a model of the old topic


@pytest.mark.parametrize("values", [None, 3, {"t-0": 3}, {"t-0": ["x"]}, {"t-0": [1, 2, 3, 4]}, ["t-0"]])
def test_what_is_no_version(values):
    assert read(values) == {}


# ---- commands


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def settings(tmp_path):
    def write(snapshots='[snapshots]\ntopic = "models"\n'):
        path = tmp_path / "streamk.toml"
        path.write_text(
            f'[source]\nkind = "topic"\ntopic = "t"\ngroup = "g"\n[events]\ntarget = "y"\n{snapshots}'
        )
        return path

    return write


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say where to publish: --to TOPIC, -o FILE, or both"),
        (["--to", "models"], "--to models: the settings use this topic otherwise"),
        (["--to", "t"], "--to t: the settings use this topic otherwise"),
        (["-o", "/nowhere/m"], "-o /nowhere/m: there is no directory /nowhere"),
    ],
)
def test_where_nothing_can_be_published(settings, arguments, sentence):
    found = run("publish", settings(), *arguments)
    assert found.exit_code == USAGE
    assert sentence in found.stderr


def test_what_is_shown(capsys):
    model = merged(SOURCE, NAMES, snapshots(30, 20, 0, None, 40), BLANK)
    target = Destination("published", "t", None)
    show(Publication(model, ["published"]), target, False)
    out = capsys.readouterr().out
    assert "no snapshot yet: t-3\npublished to published" in out
    assert next(line for line in out.splitlines() if "t-4" in line).split().count("40") == 2
    show(Publication(model, []), target, False)
    assert "published already" in capsys.readouterr().out
    show(Publication(model, []), target, True)
    found = json.loads(capsys.readouterr().out)
    assert found["model"]["partitions"]["t-4"] == [40, "id"]
    assert found["snapshots"][3] == {"partition": "t-3", "position": None, "learned": None, "bytes": None}
    assert found["written"] == []


def test_settings_without_snapshots(settings):
    found = run("publish", settings(""), "-o", "published.streamk")
    assert found.exit_code == USAGE
    assert "holds no checkpoint yet" in found.stderr


def test_how_a_reader_says_where_the_brokers_are(tmp_path, settings):
    path = tmp_path / "kafka.toml"
    path.write_text('[kafka]\nservers = ["a:1"]\nsession_seconds = 5\n[else]\nx = 1\n')
    assert load_kafka(path, None, {}).servers == ["a:1"]
    assert load_kafka(path, "b:1,c:2", {}).servers == ["b:1", "c:2"]
    assert load_kafka(settings(), None, {}).servers == ["localhost:9092"]
    found = load_kafka(None, "b:1", {"STREAMK_KAFKA__SESSION_SECONDS": "7", "STREAMK_SOURCE__TOPIC": "t"})
    assert (found.servers, found.session_seconds) == (["b:1"], 7.0)
    with pytest.raises(Failure, match=r"kafka\.tls: Input should be a valid boolean"):
        load_kafka(None, None, {"STREAMK_KAFKA__TLS": "perhaps"})
    assert "no broker answers" in run("fetch", "p", "--servers", "127.0.0.1:1", "-o", tmp_path / "m").stderr
