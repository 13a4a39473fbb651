"""The file of a run: what it goes on from, and what it refuses."""

import pytest

import streamk
from streamk.distributed import Rows, learn
from tests.distributed.streams import CLASSIFIER, REGRESSOR, News, Untouchable, reference, shards_of

SIZES = (90, 60, 30)


def run(path, shards=None, learner=CLASSIFIER, **options):
    return learn(
        shards or shards_of(SIZES), learner, **{"round": 20, "engine": "here", "checkpoint": path, **options}
    )


def without_seconds(curve):
    return [entry._replace(seconds=0.0) for entry in curve]


@pytest.mark.parametrize("after", [1, 2, 4, 5, 7, 9])
@pytest.mark.parametrize("learner", [CLASSIFIER, REGRESSOR], ids=lambda learner: type(learner).__name__)
def test_an_interrupted_run_ends_as_if_it_had_not_been(tmp_path, learner, after):
    shards, path = shards_of(SIZES, learner is CLASSIFIER), tmp_path / "run"
    whole = learn(shards, learner, round=20, passes=2, engine="here")
    with pytest.raises(KeyboardInterrupt):
        run(path, shards, learner, passes=2, watch=News(after))
    assert path.exists() == (after > 1)
    news = News()
    trained = run(path, shards, learner, passes=2, watch=news)
    assert len(news.rounds) == len(whole.curve) - after + 1  # the round that was told of was not yet kept
    assert trained.learner.to_bytes() == whole.learner.to_bytes() == reference(shards, learner, 20, 2)
    assert without_seconds(trained.curve) == without_seconds(whole.curve)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_drawn_seed_is_stored(tmp_path):
    learner = streamk.KaczmarzClassifier(features=64)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", learner=learner, watch=News(3))
    drawn = streamk.load(tmp_path / "run").seed
    assert run(tmp_path / "run", learner=learner).learner.seed == drawn


def test_a_finished_run_learns_nothing_more_unless_there_are_more_passes(tmp_path):
    path = tmp_path / "run"
    once = run(path)
    names = [shard.name for shard in shards_of(SIZES)]
    again = run(path, [Untouchable(name) for name in names])
    assert again.learner.to_bytes() == once.learner.to_bytes() == streamk.load(path).to_bytes()
    assert again.curve == once.curve
    twice = run(path, passes=2)
    assert twice.learner.to_bytes() == reference(shards_of(SIZES), CLASSIFIER, 20, 2)
    with pytest.raises(ValueError, match="in pass 2 already, and passes is 1"):
        run(path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"round": 30}, "it has round 20 and this one 30"),
        ({"evaluate": False}, "it has evaluate True and this one False"),
        ({"learner": CLASSIFIER.clone({"features": 128})}, "it has features=64 and this one features=128"),
        ({"learner": REGRESSOR}, "it has learner 'KaczmarzClassifier'"),
        ({"shards": shards_of(SIZES)[:2]}, "it has 3 shards and this one 2"),
        ({"shards": [*shards_of(SIZES)[:2], Rows("other", [], [])]}, "shard 2 is 'part 2' there and 'other'"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, options, sentence):
    path = tmp_path / "run"
    run(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=sentence):
        run(path, **options)
    assert path.read_bytes() == before


def test_the_initial_state_of_the_learner_identifies_the_run(tmp_path):
    learner = streamk.KaczmarzClassifier(features=64, seed=7)
    run(tmp_path / "run", learner=learner)
    learner.learn_one({"x": 1.0, "colour": "red"}, True)
    with pytest.raises(ValueError, match="it has learned before None"):
        run(tmp_path / "run", learner=learner)


def test_damage_is_refused(tmp_path):
    path = tmp_path / "run"
    run(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), max(len(whole) // 40, 1)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="run"):
            run(path)
        path.write_bytes(whole[:place])
        with pytest.raises(ValueError, match="run is not a streamk model file"):
            run(path)
    CLASSIFIER.save(path)
    with pytest.raises(ValueError, match="no checkpoint of shards"):
        run(path)
