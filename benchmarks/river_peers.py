"""River's models, with the scaling and one-hot inputs that each needs, and the last label."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from contest import Contestant, Peer, Setting
from logs import CLASSES, NUMBERS, Stream
from river import (
    ensemble,
    feature_extraction,
    forest,
    linear_model,
    multiclass,
    neighbors,
    optim,
    preprocessing,
    rules,
    tree,
)
from river_linear import linear_inputs

Make = Callable[[int], Any]  # of a seed


class RiverClassifier(Contestant):
    """A river classifier; the target of ``binary`` ones is whether the label is the first of two classes."""

    def __init__(self, model: Any, labels: list[str], binary: bool, probabilities: bool) -> None:
        self._model, self.probabilities = model, probabilities
        self._two = labels if binary and len(labels) == 2 else None

    def prepare(self, stream: Stream) -> list[Any]:
        return stream.frame.to_dict("records")

    def predict(self, x: Any) -> dict[str, float]:
        if not self.probabilities:
            label = self._model.predict_one(x)
            if self._two:
                return {self._two[not label]: 1.0}
            return {} if label is None else {label: 1.0}
        found = self._model.predict_proba_one(x)
        return {self._two[not k]: p for k, p in found.items()} if self._two else found

    def learn(self, x: Any, y: str) -> None:
        self._model.learn_one(x, y == self._two[0] if self._two else y)

    def size(self) -> int:
        return len(pickle.dumps(self._model))


class RiverRegressor(Contestant):
    """A river regressor."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def prepare(self, stream: Stream) -> list[Any]:
        return stream.frame.to_dict("records")

    def predict(self, x: Any) -> float:
        return float(self._model.predict_one(x))

    def learn(self, x: Any, y: float) -> None:
        self._model.learn_one(x, y)

    def size(self) -> int:
        return len(pickle.dumps(self._model))


class Last(Contestant):
    """The last label or target that has arrived."""

    probabilities = False

    def __init__(self, task: str) -> None:
        self._last: Any = {} if task == CLASSES else 0.0
        self._task = task

    def prepare(self, stream: Stream) -> list[Any]:
        return [None] * len(stream.targets)

    def predict(self, x: Any) -> Any:
        return self._last

    def learn(self, x: Any, y: Any) -> None:
        self._last = {y: 1.0} if self._task == CLASSES else y

    def size(self) -> int:
        return len(pickle.dumps(self._last))


def _classes(name: str, cost: float, make: Make, kind: str = "", certain: bool = False) -> Peer:
    """Return a peer.

    ``kind`` is ``"linear"`` for a logistic regression, which becomes a softmax regression where there are
    more than two classes; ``"random"`` for one behind random features; ``"pairs"`` for a model of two
    classes, which then takes one against the rest; ``"scaled"`` for one that only needs scaled inputs.
    """

    def build(stream: Stream, setting: Setting) -> Contestant:
        model = make(setting.seed)
        if len(stream.labels) > 2 and kind == "pairs":
            model = multiclass.OneVsRestClassifier(model)
        if len(stream.labels) > 2 and kind in ("linear", "random"):
            model = linear_model.SoftmaxRegression(model.optimizer)
        if kind == "random":
            model = feature_extraction.RBFSampler(seed=setting.seed) | model
        if kind:
            model = linear_inputs() | model
        return RiverClassifier(model, stream.labels, kind in ("linear", "random", "pairs"), not certain)

    return Peer(f"river {name}", "river", cost, build)


def _numbers(name: str, cost: float, make: Make) -> Peer:
    """Return a peer with scaled inputs and target, which models in the leaves of trees need as well."""

    def build(stream: Stream, setting: Setting) -> Contestant:
        return RiverRegressor(linear_inputs() | preprocessing.TargetStandardScaler(make(setting.seed)))

    return Peer(f"river {name}", "river", cost, build)


def _bag(make: Callable[[], Any], **more: Any) -> Make:
    return lambda seed: ensemble.LeveragingBaggingClassifier(make(), n_models=10, seed=seed, **more)


def _knn(kind: Any) -> Make:
    return lambda seed: kind(engine=neighbors.LazySearch(window_size=500))


LAST: dict[str, Peer] = {
    task: Peer(name, "river", 2, lambda stream, setting: Last(stream.task))
    for task, name in ((CLASSES, "last label"), (NUMBERS, "last target"))
}
PEERS: dict[str, list[Peer]] = {
    CLASSES: [
        LAST[CLASSES],
        _classes("LogisticRegression", 60, lambda s: linear_model.LogisticRegression(), "linear"),
        _classes(
            "LogisticRegression, Adam", 110, lambda s: linear_model.LogisticRegression(optim.Adam()), "linear"
        ),
        _classes("PA", 70, lambda s: linear_model.PAClassifier(), "pairs", certain=True),
        _classes("ALMA", 80, lambda s: linear_model.ALMAClassifier(), "pairs", certain=True),
        _classes("RBFSampler + logistic", 3000, lambda s: linear_model.LogisticRegression(), "random"),
        _classes("KNN", 1400, _knn(neighbors.KNNClassifier), "scaled"),
        _classes("HAT", 300, lambda s: tree.HoeffdingAdaptiveTreeClassifier(seed=s)),
        _classes("ARF(10)", 1500, lambda s: forest.ARFClassifier(n_models=10, seed=s)),
        _classes("ARF(30)", 4500, lambda s: forest.ARFClassifier(n_models=30, seed=s)),
        _classes("LeveragingBagging(10)", 2500, _bag(tree.HoeffdingTreeClassifier)),
        _classes("SRP(10)", 4000, lambda s: ensemble.SRPClassifier(n_models=10, seed=s)),
    ],
    NUMBERS: [
        LAST[NUMBERS],
        _numbers("LinearRegression", 50, lambda s: linear_model.LinearRegression()),
        _numbers("LinearRegression, Adam", 90, lambda s: linear_model.LinearRegression(optim.Adam())),
        _numbers("PA", 50, lambda s: linear_model.PARegressor()),
        _numbers("KNN", 1400, _knn(neighbors.KNNRegressor)),
        _numbers("HATR", 300, lambda s: tree.HoeffdingAdaptiveTreeRegressor(seed=s)),
        _numbers("AMRules", 400, lambda s: rules.AMRules()),
        _numbers("ARF(10)", 1500, lambda s: forest.ARFRegressor(n_models=10, seed=s)),
        _numbers("ARF(30)", 4500, lambda s: forest.ARFRegressor(n_models=30, seed=s)),
        _numbers("Bagging(AMRules)", 4000, lambda s: ensemble.BaggingRegressor(rules.AMRules(), 10, s)),
        _numbers("SRP(10)", 4000, lambda s: ensemble.SRPRegressor(n_models=10, seed=s)),
    ],
}
