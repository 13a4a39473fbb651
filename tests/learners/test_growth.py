"""Learners of numbers with nothing to tune grow where more features pay."""

import numpy as np
import pytest

import streamk
from streamk.features.sections import Sections
from streamk.learners import kernel as room

MORE = 2 * 128  # features that growth adds to 1,536: a half of two blocks of 256, in whole groups
RENEWED = 1000  # events after which a block first begins anew


def stream(n, seed=0, noise=0.0, fields="abcdef"):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, len(fields)))
    y = np.sin(3.0 * z[:, 0] + 1.5 * z[:, 1]) + noise * rng.normal(size=n)
    return [dict(zip(fields, row, strict=True)) for row in z.tolist()], y.tolist()


def made(**settings):
    return streamk.KernelRegressor(**{"features": 1536, "seed": 3, **settings})


@pytest.fixture
def soon(monkeypatch):
    """Let every learner grow when a block first begins anew."""
    monkeypatch.setattr(room, "_OF_OTHERS", np.inf)
    monkeypatch.setattr(room, "_LEFT", -1.0)


@pytest.mark.parametrize(
    ("others", "left", "grows"), [(0.99, 0.0, True), (0.99, 2.0, False), (0.0, 0.0, False)]
)
def test_it_grows_where_little_is_left_by_those_under_relevance_and_yet_enough(
    monkeypatch, others, left, grows
):
    xs, ys = stream(2200)
    monkeypatch.setattr(room, "_OF_OTHERS", others)
    monkeypatch.setattr(room, "_LEFT", left)
    learner = made()
    learner.learn_many(xs, ys)
    assert learner.feature_count == learner.summary()["features"] == 1536 + grows * MORE


def test_it_pays_for_a_smooth_target_without_noise():
    xs, ys = stream(9000)
    errors = {}
    for grows in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not grows:
                patch.setattr(room, "_OF_OTHERS", 0.0)
            learner = made()
            said = np.array(learner.predict_learn_many(xs, ys))
        assert (learner.feature_count > 1536) == grows
        errors[grows] = np.mean((said - ys)[6000:] ** 2)
    assert errors[True] < 0.9 * errors[False], errors


def test_it_does_not_grow_where_noise_is_most_of_the_target():
    xs, ys = stream(4200, noise=3.0)
    learner = made()
    learner.learn_many(xs, ys)
    assert learner.feature_count == 1536


def test_it_does_not_grow_where_nearly_all_is_explained():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(4200, 3))
    xs = [dict(zip("abc", row, strict=True)) for row in z.tolist()]
    learner = made()
    learner.learn_many(xs, np.sin(z[:, 0]) + 3.0 * z[:, 1])
    assert learner.feature_count == 1536


def test_classes_and_learners_without_relevance_do_not_grow(soon):
    xs, ys = stream(1100)
    flat = made(relevance=False)
    flat.learn_many(xs, ys)
    classes = streamk.KernelClassifier(seed=3)
    classes.learn_many(xs, [y > 0.0 for y in ys])
    assert flat.feature_count == classes.feature_count == 1536


def test_it_grows_once(soon):
    xs, ys = stream(4100)
    learner = made()
    learner.learn_many(xs, ys)
    assert learner.feature_count == 1536 + MORE


def test_old_features_stay_and_the_other_block_forgets_nothing(soon):
    """At the event that makes it grow, only the block whose turn it is changes what it says."""
    xs, ys = stream(RENEWED)
    learner = made()
    learner.learn_many(xs, ys)
    assert learner.feature_count == 1536
    names = [f"least squares, {name}" for name in room.RELEVANT]
    first, second = (learner._experts[learner._names.index(name)] for name in names)
    waves, known, before = learner._map.waves.copy(), second.information(), second.coefficients.copy()
    assert first.coefficients.any()
    learner._open_due()
    assert learner.feature_count == 1536 + MORE
    np.testing.assert_array_equal(learner._map.waves[:, :1536], waves)
    assert not first.coefficients.any()
    np.testing.assert_array_equal(second.coefficients, before)
    np.testing.assert_array_equal(second.information(), known)
    assert not before[..., -MORE // 2 :].any()
    learner.learn_many(*stream(20, seed=1))
    for expert in (first, second):
        assert expert.coefficients[0, 0, -MORE // 2 :].all()
        assert set(range(expert.coefficients.shape[2] - MORE // 2, expert.coefficients.shape[2])) <= set(
            expert.joined.tolist()
        )


def test_what_is_added_is_of_the_scale_and_the_inputs_of_its_block():
    sections = Sections(1536, True, grows=True)
    features = np.arange(1536 + MORE)
    inputs = sections.inputs_at(features)
    assert np.bincount(inputs).tolist() == [1024, 256 + MORE // 2, 256 + MORE // 2]
    assert inputs[-1] == 2
    assert inputs[1536] == 1
    scales = sections.scales_at(features, np.zeros(len(features), dtype=int))
    assert len(set(scales[1024:].tolist())) == 1
    assert scales[0] > scales[1024] > scales[512]
    assert sections.features == 1536
    sections.grow()
    assert sections.features == 1536 + MORE
    parts = [sections.columns_of_part(part) for part in range(3)]
    assert [part.stop for part in parts] == [
        *(part.start for part in parts[1:]),
        sections.columns_of("cells").start,
    ]
    taken = sorted(
        column
        for _, first, size, there in sections.record.parts.tolist()
        for column in range(first, first + size * there)
    )
    plain = {start + k for start in sections.record.starts.tolist() for k in range(parts[0].stop - 1024)}
    assert sorted({*taken, *plain}) == list(range(sections.columns_of("cells").start))
    assert len(taken) == len(set(taken)) == 1536 + MORE


def test_small_maps_do_not_grow():
    sections = Sections(768, True, grows=True)
    sections.grow()
    assert not sections.grown
    assert sections.features == 768


@pytest.mark.parametrize("settings", [{}, {"label_memory": False}])
def test_the_same_model_however_events_come(soon, settings):
    xs, ys = stream(1100)
    one, many, passed, saved = (made(**settings) for _ in range(4))
    for x, y in zip(xs, ys, strict=True):
        one.learn_one(x, y)
    many.learn_many(xs[:77], ys[:77])
    many.learn_many(xs[77:], ys[77:])
    passed.predict_learn_many(xs, ys)
    for start in range(0, 1100, 100):
        saved.learn_many(xs[start : start + 100], ys[start : start + 100])
        saved = streamk.loads(saved.to_bytes())
    assert one.feature_count == 1536 + MORE
    assert one.to_bytes() == many.to_bytes() == passed.to_bytes() == saved.to_bytes()


def test_a_model_that_has_grown_is_saved_and_closed(soon):
    xs, ys = stream(1100)
    learner = made()
    learner.learn_many(xs, ys)
    for again in (streamk.loads(learner.to_bytes()), learner.closed()):
        assert again.feature_count == 1536 + MORE
        assert again.predict_many(xs[:50]) == learner.predict_many(xs[:50])
    closed = learner.closed()
    closed.learn_many(xs[:50], ys[:50])
    assert np.isfinite(closed.predict_many(xs)).all()


def test_what_was_closed_cannot_be_merged():
    xs, ys = stream(600)
    parts = [made(), made()]
    for part, at in zip(parts, (slice(0, 300), slice(300, 600)), strict=True):
        part.learn_many(xs[at], ys[at])
    with pytest.raises(ValueError, match="model 1 was closed, and has no information matrix"):
        streamk.merge([parts[0], parts[1].closed()])


def test_growing_changes_neither_amplitude_nor_what_blocks_become(monkeypatch):
    """The block renewed third is of the kind of the better one, grown or not."""
    xs, ys = stream(4100)
    plain, grown = made(), made()
    monkeypatch.setattr(room, "_OF_OTHERS", 0.0)
    plain.learn_many(xs, ys)
    monkeypatch.setattr(room, "_OF_OTHERS", np.inf)
    monkeypatch.setattr(room, "_LEFT", -1.0)
    renewed, renew = [], Sections.renew

    def seen(sections, block, errors, error):
        renewed.append((block, errors, error))
        return renew(sections, block, errors, error)

    monkeypatch.setattr(Sections, "renew", seen)
    losses = []
    for start in range(0, 4100, 100):
        losses.append(grown._combiner.losses.copy() if grown.events else None)
        grown.learn_many(xs[start : start + 100], ys[start : start + 100])
    assert plain._map.sections.amplitude == grown._map.sections.amplitude
    assert [block for block, _, _ in renewed] == [0, 1, 0]
    names = [grown._names.index(f"least squares, {name}") for name in room.RELEVANT]
    for (_, errors, error), events in zip(renewed, (1000, 2000, 4000), strict=True):
        then = losses[events // 100]
        assert error == then.min()
        assert errors == then[names].tolist()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_that_has_grown_merges_with_one_that_has_not(monkeypatch, order):
    xs, ys = stream(1900)
    parts = [made(), made()]
    parts[1].learn_many(xs[1100:], ys[1100:])
    monkeypatch.setattr(room, "_OF_OTHERS", np.inf)
    monkeypatch.setattr(room, "_LEFT", -1.0)
    parts[0].learn_many(xs[:1100], ys[:1100])
    assert [part.feature_count for part in parts] == [1536 + MORE, 1536]
    merged = streamk.merge([parts[k] for k in order])
    assert merged.feature_count == 1536 + MORE
    assert streamk.loads(merged.to_bytes()).to_bytes() == merged.to_bytes()
    # the first blocks have other inputs, so both are fitted again to the stored events of the parts
    test_xs, test_ys = stream(400, seed=5)
    errors = [np.mean((np.array(m.predict_many(test_xs)) - test_ys) ** 2) for m in (merged, *parts)]
    assert errors[0] < 1.1 * max(errors[1:])
