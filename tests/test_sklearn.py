"""The estimators are those of scikit-learn: its own checks, and what its users put around them."""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamk
from streamk.sklearn import KernelClassifier, KernelRegressor

SMALL = {"features": 768, "random_state": 0}
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 3))
CLASSES = np.where(ROWS[:, 0] * ROWS[:, 1] > 0.0, "yes", "no")
NUMBERS = np.sin(2.0 * ROWS[:, 0]) + ROWS[:, 1]


@parametrize_with_checks([KernelClassifier(**SMALL), KernelRegressor(**SMALL)])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("cls", "y"), [(KernelClassifier, CLASSES), (KernelRegressor, NUMBERS)])
def test_joblib_stores_estimators_with_their_bytes(cls, y, tmp_path):
    estimator = cls(**SMALL).fit(ROWS, y)
    joblib.dump(estimator, tmp_path / "estimator")
    loaded = joblib.load(tmp_path / "estimator")
    assert loaded.learner_.to_bytes() == estimator.learner_.to_bytes()
    assert (loaded.predict(ROWS) == estimator.predict(ROWS)).all()


def test_a_saved_learner_predicts_frozen_as_its_estimator(tmp_path):
    estimator = KernelClassifier(**SMALL).fit(ROWS, CLASSES)
    estimator.learner_.save(tmp_path / "model.streamk")
    frozen = streamk.load(tmp_path / "model.streamk").frozen()
    labels = frozen.predict_many(ROWS, ["x0", "x1", "x2"])
    assert (estimator.classes_[labels] == estimator.predict(ROWS)).all()


def table():
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    frame["colour"] = RNG.choice(["red", "green"], len(frame))
    frame.loc[::7, "c"] = None
    return frame


@pytest.mark.parametrize(("cls", "y"), [(KernelClassifier, CLASSES), (KernelRegressor, NUMBERS)])
def test_the_order_of_rows_does_not_matter(cls, y):
    order = np.random.default_rng(5).permutation(len(y))
    one = cls(**SMALL).fit(ROWS, y)
    two = cls(**SMALL).fit(ROWS[order], y[order])
    assert one.learner_.to_bytes() == two.learner_.to_bytes()


@pytest.mark.parametrize(("cls", "y"), [(KernelClassifier, CLASSES), (KernelRegressor, NUMBERS)])
def test_frames_hold_strings_and_missing_values(cls, y):
    frame = table()
    one = cls(**SMALL).fit(frame, y)
    assert list(one.feature_names_in_) == ["a", "b", "c", "colour"]
    two = cls(**SMALL).fit(pl.from_pandas(frame), y)
    assert one.learner_.to_bytes() == two.learner_.to_bytes()
    assert (one.predict(frame) == two.predict(pl.from_pandas(frame))).all()
    assert one.score(frame, y) > 0.8


@pytest.mark.parametrize(("cls", "y"), [(KernelClassifier, CLASSES), (KernelRegressor, NUMBERS)])
def test_partial_fit_of_rows_without_weight_changes_nothing(cls, y):
    model = cls(**SMALL).partial_fit(ROWS[:90], y[:90])
    before = model.learner_.to_bytes()
    for zeros in (np.zeros(60), [0] * 60, np.zeros(60, dtype=bool), 0):
        model.partial_fit(ROWS[90:150], y[90:150][::-1], sample_weight=zeros)
    assert model.learner_.to_bytes() == before
    for wrong, message in (
        (np.zeros(59), r"shape == \(59,\), expected \(60,\)"),
        (np.zeros((60, 2)), "must be 1D"),
        ([0.0] * 59 + [-1.0], "Negative values"),
        ([None] * 60, "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(ROWS[90:150], y[90:150], sample_weight=wrong)
    with pytest.raises(ValueError, match="all sample weights are zero; at least one row must count"):
        cls(**SMALL).fit(ROWS, y, sample_weight=np.zeros(len(y)))


@pytest.mark.parametrize(("cls", "y"), [(KernelClassifier, CLASSES), (KernelRegressor, NUMBERS)])
def test_a_first_partial_fit_without_weight_only_names_columns_and_classes(cls, y):
    blank = cls(**SMALL).partial_fit(ROWS, y, sample_weight=np.zeros(len(y)))
    assert blank.n_features_in_ == 3
    if cls is KernelClassifier:
        assert blank.classes_.tolist() == ["no", "yes"]
        assert (blank.predict_proba(ROWS[:2]) == 0.5).all()
    else:
        assert np.isfinite(blank.predict(ROWS[:2])).all()
    later = blank.partial_fit(ROWS[:90], y[:90])
    assert later.learner_.to_bytes() == cls(**SMALL).partial_fit(ROWS[:90], y[:90]).learner_.to_bytes()


@pytest.mark.parametrize(("cls", "y"), [(KernelClassifier, CLASSES), (KernelRegressor, NUMBERS)])
def test_partial_fit_is_the_stream(cls, y):
    estimator = cls(**SMALL)
    for part in np.split(np.arange(300), 3):
        estimator.partial_fit(ROWS[part], y[part])
    learner = estimator.learner_.clone()
    targets = np.searchsorted(estimator.classes_, y) if cls is KernelClassifier else y
    learner.learn_many(ROWS, targets.tolist(), names=["x0", "x1", "x2"])
    assert learner.to_bytes() == estimator.learner_.to_bytes()
    found = learner.frozen().predict_many(ROWS, names=["x0", "x1", "x2"])
    if cls is KernelClassifier:
        found = estimator.classes_[found.astype(int)]
    assert (estimator.predict(ROWS) == found).all()


def test_labels_that_come_later_are_named_at_first():
    estimator = KernelClassifier(**SMALL).partial_fit(ROWS[:5], ["a"] * 5, classes=["a", "b"])
    assert estimator.predict_proba(ROWS[:2]).tolist() == [[1.0, 0.0]] * 2
    estimator.partial_fit(ROWS[5:9], ["b"] * 4)
    with pytest.raises(ValueError, match="y has the label 'c', which is not in classes"):
        estimator.partial_fit(ROWS[:1], ["c"])


def test_classes_do_not_change():
    estimator = KernelClassifier(**SMALL).partial_fit(ROWS, CLASSES, classes=["yes", "no"])
    before = estimator.learner_.to_bytes()
    with pytest.raises(ValueError, match=r"classes are \['no', 'yes'\] since the first call"):
        estimator.partial_fit(ROWS, CLASSES, classes=["a", "no", "yes"])
    assert estimator.learner_.to_bytes() == before
    estimator.partial_fit(ROWS, CLASSES, classes=["no", "yes"])


def test_frames_of_other_libraries_and_arrays_have_the_same_columns():
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    estimator = KernelRegressor(**SMALL).fit(pa.Table.from_pandas(frame), NUMBERS)
    assert (estimator.predict(frame) == estimator.predict(pl.from_pandas(frame))).all()
    by_place = KernelRegressor(**SMALL).fit(ROWS, NUMBERS)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        found = by_place.predict(pl.from_pandas(frame))
    assert (found == by_place.predict(ROWS)).all()


def test_passes():
    """Many where the target follows from the inputs, one where it is noise for the most part."""
    assert KernelRegressor(passes=3, **SMALL).fit(ROWS, NUMBERS).n_passes_ == 3
    assert KernelRegressor(**SMALL).fit(ROWS, NUMBERS).n_passes_ >= 4
    noise = [5.0 * np.random.default_rng(seed).normal(size=300) for seed in range(5)]
    passes = [KernelRegressor(**SMALL).fit(ROWS, NUMBERS + one).n_passes_ for one in noise]
    assert np.median(passes) == 1
    with pytest.raises(ValueError, match="passes=0: passes must be at least 1"):
        KernelRegressor(passes=0).fit(ROWS, NUMBERS)


def test_a_fit_continues_from_the_best_passes():
    """The passes over four rows of five that made the error rise are not part of the model."""
    model = KernelRegressor(**SMALL).fit(ROWS, NUMBERS + 0.3 * np.random.default_rng(0).normal(size=300))
    assert 1 < model.n_passes_ < 16
    assert 1.0 < model.learner_.events / len(ROWS) <= 0.8 * (model.n_passes_ - 1) + 1.0


def test_passes_over_noise_are_no_evidence():
    """Experts that have learned a row before agree with it, which says nothing about other rows."""
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(800, 6)), rng.integers(2, size=800)
    model = KernelClassifier(passes=8, random_state=0).fit(X, y)
    certain = abs(model.predict_proba(rng.normal(size=(400, 6)))[:, 1] - 0.5)
    assert certain.mean() < 0.2


def test_pipelines_searches_and_copies():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), KernelClassifier(**SMALL)),
        {"kernelclassifier__passes": [1, 10]},
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.9
    best = search.best_estimator_
    assert (pickle.loads(pickle.dumps(best)).predict(X) == best.predict(X)).all()
    assert clone(best[-1]).get_params() == best[-1].get_params()
    assert not hasattr(clone(best[-1]), "learner_")


def test_it_is_better_than_a_linear_model_where_that_is_wrong():
    linear = cross_val_score(LogisticRegression(), ROWS, CLASSES).mean()
    assert cross_val_score(KernelClassifier(**SMALL), ROWS, CLASSES).mean() > linear + 0.2
    X, y = load_diabetes(return_X_y=True)
    assert (
        cross_val_score(KernelRegressor(**SMALL), X, y).mean() > cross_val_score(Ridge(), X, y).mean() - 0.1
    )


def test_the_learner_is_one_of_streamk(tmp_path):
    estimator = KernelClassifier(**SMALL).fit(ROWS, CLASSES)
    estimator.learner_.save(tmp_path / "model.streamk")
    loaded = streamk.load(tmp_path / "model.streamk")
    codes = loaded.frozen().predict_many(ROWS, names=["x0", "x1", "x2"]).astype(int)
    assert (estimator.classes_[codes] == estimator.predict(ROWS)).all()


RARE = np.where(ROWS[:, 0] + RNG.normal(0.0, 0.8, len(ROWS)) > 2.0, "fraud", "fine")


def test_balanced_classes_have_the_same_whole_weight():
    """As with the weights that scikit-learn computes, also times those of rows."""
    own = RNG.integers(0, 3, len(ROWS)).astype(float)
    for weights in (None, own):
        found = KernelClassifier(**SMALL, class_weight="balanced").fit(ROWS, RARE, weights)
        rows = np.ones(len(ROWS)) if weights is None else weights
        each = {label: rows.sum() / (2.0 * rows[label == RARE].sum()) for label in found.classes_}
        by_hand = rows * np.array([each[label] for label in RARE])
        assert (
            found.learner_.to_bytes()
            == KernelClassifier(**SMALL).fit(ROWS, RARE, by_hand).learner_.to_bytes()
        )
        by_dict = KernelClassifier(**SMALL, class_weight=each).fit(ROWS, RARE, weights)
        assert found.learner_.to_bytes() == by_dict.learner_.to_bytes()
    plain = KernelClassifier(**SMALL).fit(ROWS, RARE)
    found = KernelClassifier(**SMALL, class_weight="balanced").fit(ROWS, RARE)
    assert (found.predict(ROWS) == "fraud").sum() > (plain.predict(ROWS) == "fraud").sum()
    twice = np.concatenate([np.arange(len(ROWS)), np.arange(0, len(ROWS), 3)])
    repeated = KernelClassifier(**SMALL, class_weight="balanced").fit(ROWS[twice], RARE[twice])
    weighted = KernelClassifier(**SMALL, class_weight="balanced")
    weighted.fit(ROWS, RARE, np.where(np.arange(len(ROWS)) % 3, 1.0, 2.0))
    np.testing.assert_allclose(repeated.predict_proba(ROWS), weighted.predict_proba(ROWS), atol=1e-9)


def test_class_weights_in_partial_fit():
    weights = {"fraud": 8.0}
    found = KernelClassifier(**SMALL, class_weight=weights)
    by_hand = KernelClassifier(**SMALL)
    for part in np.split(np.arange(300), 3):
        own = np.linspace(0.5, 1.5, len(part))
        found.partial_fit(ROWS[part], RARE[part], ["fine", "fraud"], own)
        own = own * np.where(RARE[part] == "fraud", 8.0, 1.0)
        by_hand.partial_fit(ROWS[part], RARE[part], ["fine", "fraud"], own)
    assert found.learner_.to_bytes() == by_hand.learner_.to_bytes()
    balanced = KernelClassifier(**SMALL, class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight 'balanced' is not supported for partial_fit"):
        balanced.partial_fit(ROWS, RARE)
    assert not hasattr(balanced, "classes_")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"farud": 2.0}, "are not in class_weight"),
        ("even", "class_weight"),
        ({"fine": 0.0, "fraud": 0.0}, "all sample weights are zero"),
        ({"fraud": -1.0}, "class_weight"),
        ({"fraud": float("nan")}, "class_weight"),
    ],
)
def test_wrong_class_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        KernelClassifier(**SMALL, class_weight=weights).fit(ROWS, RARE)


def test_a_class_of_weight_zero_is_not_learned():
    found = KernelClassifier(**SMALL, class_weight={"fraud": 0.0}).fit(ROWS, RARE)
    assert (found.predict(ROWS) == "fine").all()
    assert clone(found).class_weight == {"fraud": 0.0}


def test_classes_that_are_floats_stay_floats():
    """They are those of scikit-learn, which has the classes of ``y``."""
    X = np.arange(40.0)[:, None]
    whole = KernelClassifier(**SMALL).fit(X, (X[:, 0] > 20).astype(int))
    floats = KernelClassifier(**SMALL).fit(X, (X[:, 0] > 20).astype(float))
    assert floats.classes_.tolist() == [0.0, 1.0]
    assert (floats.predict_proba(X) == whole.predict_proba(X)).all()
    assert (floats.predict(X) == whole.predict(X)).all()
    part = KernelClassifier(**SMALL).partial_fit(X, (X[:, 0] > 20).astype(float), classes=[0.0, 1.0])
    assert {*part.predict(X).tolist()} <= {0.0, 1.0}
