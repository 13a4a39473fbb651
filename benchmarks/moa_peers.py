"""MOA's ensembles and neighbours through CapyMOA, which needs Java 17."""

from __future__ import annotations

import os
from typing import Any

from contest import Contestant, Peer, Setting, shares, standardised
from logs import CLASSES, NUMBERS, Stream

# One thread; signals are left to Python: after a signal, the virtual machine would fail all later calls.
os.environ.setdefault("CAPYMOA_JVM_ARGS", "-Xrs -Xmx4g -Xss10M -XX:+UseSerialGC -XX:ActiveProcessorCount=1")

# name, class, cost, arguments, whether inputs are standardised and one-hot
FORESTS: dict[str, list[tuple[str, str, float, dict[str, Any], bool]]] = {
    CLASSES: [
        ("HAT", "HoeffdingAdaptiveTree", 60, {}, False),
        ("kNN", "KNN", 250, {"k": 5, "window_size": 1000}, True),
        ("SAMkNN", "SAMkNN", 1350, {}, True),
        ("ARF(10)", "AdaptiveRandomForestClassifier", 500, {"ensemble_size": 10}, False),
        ("ARF(30)", "AdaptiveRandomForestClassifier", 1300, {"ensemble_size": 30}, False),
        ("LeveragingBagging(10)", "LeveragingBagging", 400, {"ensemble_size": 10}, False),
        ("SRP(10)", "StreamingRandomPatches", 1200, {"ensemble_size": 10}, False),
        ("SGBT(100)", "StreamingGradientBoostedTrees", 9000, {}, False),
    ],
    NUMBERS: [
        ("FIMT-DD", "FIMTDD", 100, {}, False),
        ("kNN", "KNNRegressor", 300, {"k": 5, "window_size": 1000}, True),
        ("ARF(10)", "AdaptiveRandomForestRegressor", 300, {"ensemble_size": 10}, False),
        ("ARF(30)", "AdaptiveRandomForestRegressor", 800, {"ensemble_size": 30}, False),
        ("SOKNL(30)", "SOKNL", 1200, {"ensemble_size": 30}, False),
        ("SGBR(10)", "StreamingGradientBoostedRegression", 1500, {}, False),
    ],
}


class Moa(Contestant):
    """A CapyMOA model."""

    def __init__(self, stream: Stream, name: str, more: dict[str, Any], scaled: bool, seed: int) -> None:
        from capymoa import classifier, regressor
        from capymoa.stream import Schema

        self._labels, self._scaled = stream.labels, scaled
        self._rows, nominal = self._encode(stream)
        columns = [f"f{j}" for j in range(self._rows.shape[1])]
        categories = {columns[j]: values for j, values in nominal.items()}
        if self._labels:
            categories["target"] = [f"c{k}" for k in range(len(self._labels))]
        self._schema = Schema.from_custom([*columns, "target"], "target", categories)
        make = getattr(classifier if self._labels else regressor, name)
        self._model = make(schema=self._schema, random_seed=seed, **more)

    def _encode(self, stream: Stream) -> tuple[Any, dict[int, list[str]]]:
        """Return rows of numbers, strings as the indices of their categories, and these by column."""
        if self._scaled:
            return standardised(stream.frame), {}
        frame, nominal = stream.frame.copy(), {}
        for j, name in enumerate(frame.columns):
            if frame[name].dtype != float:
                found = sorted(set(frame[name]))
                nominal[j] = [f"v{k}" for k in range(len(found))]
                frame[name] = frame[name].map({v: float(k) for k, v in enumerate(found)})
        return frame.to_numpy(dtype=float), nominal

    def prepare(self, stream: Stream) -> list[Any]:
        """Return each event twice: without its target, which some of MOA's models read, and with it."""
        from capymoa.core import Instance, LabeledInstance, RegressionInstance

        if self._labels:
            codes = {label: k for k, label in enumerate(self._labels)}
            made, targets = LabeledInstance.from_array, [codes[y] for y in stream.targets]
        else:
            made, targets = RegressionInstance.from_array, stream.targets
        return [
            (Instance.from_array(self._schema, x), made(self._schema, x, y))
            for x, y in zip(self._rows, targets, strict=True)
        ]

    def predict(self, x: Any) -> Any:
        if not self._labels:
            found = self._model.predict(x[0])
            return 0.0 if found is None else float(found)
        found = self._model.predict_proba(x[0])
        return {} if found is None else shares(self._labels, found)

    def learn(self, x: Any, y: Any) -> None:
        self._model.train(x[1])

    def size(self) -> int | None:
        import jpype

        out = jpype.JClass("java.io.ByteArrayOutputStream")()
        stream = jpype.JClass("java.io.ObjectOutputStream")(out)
        try:
            stream.writeObject(self._model.moa_learner)
        except jpype.JClass("java.io.NotSerializableException"):
            return None
        stream.close()
        return int(out.size())


def _peer(name: str, kind: str, cost: float, more: dict[str, Any], scaled: bool) -> Peer:
    def build(stream: Stream, setting: Setting) -> Contestant:
        return Moa(stream, kind, more, scaled, setting.seed)

    return Peer(f"MOA {name}", "capymoa", cost, build)


PEERS: dict[str, list[Peer]] = {task: [_peer(*line) for line in lines] for task, lines in FORESTS.items()}
