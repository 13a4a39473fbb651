"""Contenders as people write them."""

import sys

import numpy as np
import pytest
from river import forest
from sklearn import tree

import streamk
from connectors.replay.contenders import check_name, contender
from streamk.evaluation import Frozen
from streamk.evaluation.adapters import adapter_of
from streamk.evaluation.results import bytes_of


def test_a_learner_with_settings():
    made = contender("kaczmarz:memory=100,kernel=laplace,gaussian,scales=2,1", "classification", seed=3)
    assert isinstance(made, streamk.KaczmarzClassifier)
    assert (made.memory, made.kernel, made.scales, made.seed) == (100, ("laplace", "gaussian"), (2, 1), 3)
    assert contender("kaczmarz:seed=9", "regression").seed == 9
    assert contender("kernel:features=768", "classification").features == 768
    assert contender("kaczmarz:features=64", "classification", extra={"features": "32"}).features == 32


def test_a_model_of_river():
    made = contender("river.forest.ARFClassifier:n_models=3", "classification", seed=4)
    model = made.model.steps["ARFClassifier"]
    assert isinstance(model, forest.ARFClassifier)
    assert (model.n_models, model.seed) == (3, 4)
    for i in range(300):
        x = {"a": float(i % 5), "c": "red" if i % 2 else "blue", "gone": None, "on": i % 3 == 0}
        made.predict(x)
        made.learn(x, i % 2 > 0)
    assert max(made.predict({"a": 1.0, "c": "red"}).items(), key=lambda pair: pair[1])[0] is True


def test_steps_of_river():
    text = "river.preprocessing.StandardScaler | river.linear_model.LinearRegression:l2=0.5,intercept_lr=0.1"
    made = contender(text, "regression")
    assert list(made.model.steps)[-2:] == ["StandardScaler", "LinearRegression"]
    assert made.model.steps["LinearRegression"].l2 == 0.5


def test_a_model_that_is_refitted():
    made = contender("refit:sklearn.tree.DecisionTreeRegressor,every=6h,max_depth=3", "regression", seed=4)
    assert isinstance(made.model, tree.DecisionTreeRegressor)
    assert (made.model.max_depth, made.model.random_state) == (3, 4)
    with pytest.raises(ValueError, match="every is a time; name the field of times with --time"):
        check_name("refit:sklearn.tree.DecisionTreeRegressor,every=1d", timed=False)
    made = contender("refit:sklearn.ensemble.HistGradientBoostingClassifier,random_state=7", "classification")
    assert made.model.random_state == 7


@pytest.mark.parametrize(("package", "install"), [("sklearn", "scikit-learn"), ("lightgbm", "lightgbm")])
def test_a_package_that_is_not_installed(monkeypatch, package, install):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=f"{package} is not installed; pip install {install}"):
        contender(f"refit:{package}.LGBMClassifier,every=5", "classification")


def test_a_model_file(tmp_path):
    learner = streamk.KaczmarzClassifier(features=32, seed=1)
    learner.learn_many([{"a": i % 7} for i in range(100)], [i % 7 > 3 for i in range(100)])
    path = tmp_path / "m.streamk"
    learner.save(path)
    assert contender(str(path), "classification").to_bytes() == learner.to_bytes()
    frozen = contender(f"{path}:learn=false", "classification")
    assert isinstance(frozen, Frozen)
    assert np.isclose(frozen.predict({"a": 6})[True], learner.predict_proba_one({"a": 6})[True])


@pytest.mark.parametrize(
    ("text", "task", "sentence"),
    [
        ("forest", "classification", "--learner forest: no such learner"),
        ("kaczmarz:size=3", "classification", "--learner kaczmarz:size=3: kaczmarz has no such parameter"),
        ("kaczmarz:features", "classification", "after the colon come key=value"),
        ("river.forest.ARF", "classification", r"river\.forest\.ARF: river has no such model"),
        ("river.nothing.ARF", "classification", "river has no such model"),
        ("river.forest", "classification", "river has no such model"),
        ("river.forest.ARFClassifier:trees=3", "classification", "has no parameter 'trees'; it has n_models"),
        ("river.forest.ARFClassifier:n_models=many", "classification", "cannot be made"),
        ("river.forest.ARFRegressor", "classification", "is not for classification"),
        ("river.preprocessing.StandardScaler", "classification", "does not predict"),
        ("river.preprocessing.StandardScaler|os.system", "classification", "begin with river"),
        ("no.streamk", "classification", "there is no such model file"),
        ("refit:DecisionTree", "classification", "no such model; write its path, as refit:sklearn"),
        ("refit:sklearn.tree.Tree", "classification", "no such model; write its path"),
        ("refit:sklearn.trees.Tree", "classification", "no such model; write its path"),
        ("refit:os.system", "classification", "no such model; write its path"),
        ("refit:sklearn.tree.DecisionTreeRegressor", "classification", "is not for classification"),
        ("refit:sklearn.tree.DecisionTreeClassifier,depth=3", "classification", "no parameter 'depth'; did"),
        ("refit:sklearn.tree.DecisionTreeClassifier,every=0", "classification", "every=0 is no number of"),
        ("refit:sklearn.tree.DecisionTreeClassifier,every=1w", "classification", "every=1w is no number of"),
        ("no.streamk:features=3", "classification", "learn=true or learn=false, and nothing else"),
    ],
)
def test_wrong_things(text, task, sentence):
    with pytest.raises(ValueError, match=sentence):
        contender(text, task)


def test_a_model_for_another_task(tmp_path):
    path = tmp_path / "m.streamk"
    streamk.KaczmarzRegressor(seed=1).save(path)
    with pytest.raises(ValueError, match="KaczmarzRegressor is not for classification"):
        contender(str(path), "classification")


def test_sizes_of_models():
    """Of the file of streamk's, frozen or not, of what river's hold in memory; of others nobody knows."""
    learner = streamk.KaczmarzClassifier(seed=1)
    for model in (learner, Frozen(adapter_of(learner, "classification"))):
        assert bytes_of(model) == len(learner.to_bytes())
    for text in ("river.tree.HoeffdingTreeClassifier", "river.naive_bayes.GaussianNB"):
        assert bytes_of(contender(text, "classification")) > 500
    assert bytes_of(object()) is None
