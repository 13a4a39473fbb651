"""scikit-learn's linear models by ``partial_fit``, row by row, on standardised inputs or random features."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from contest import Contestant, Peer, Setting, Standard, shares, standardised
from logs import CLASSES, NUMBERS, Stream

COMPONENTS = 1000


class Scikit(Contestant):
    """A linear model; with ``gamma``, on 1,000 random features of a Gaussian kernel."""

    def __init__(self, stream: Stream, random: bool, seed: int) -> None:
        from sklearn.linear_model import SGDClassifier, SGDRegressor

        self._labels, self._target, self._seed = stream.labels, Standard(), seed
        self._random, self._sampler = random, None
        self._fitted = False
        if self._labels:
            self._model: Any = SGDClassifier(loss="log_loss", random_state=seed)
        elif random:
            self._model = SGDRegressor(learning_rate="constant", eta0=0.3, alpha=1e-6, random_state=seed)
        else:
            self._model = SGDRegressor(random_state=seed)

    def prepare(self, stream: Stream) -> list[Any]:
        from sklearn.kernel_approximation import RBFSampler

        rows = standardised(stream.frame)
        if self._random:
            sampler = RBFSampler(gamma=0.5 / rows.shape[1], n_components=COMPONENTS, random_state=self._seed)
            sampler.fit(rows[:1])
            self._sampler = sampler.random_weights_, sampler.random_offset_
        return [row[None] for row in rows]

    def _features(self, x: Any) -> Any:
        if self._sampler is None:
            return x
        weights, offset = self._sampler
        return np.sqrt(2.0 / COMPONENTS) * np.cos(x @ weights + offset)

    def predict(self, x: Any) -> Any:
        return self._say(self._features(x))

    def learn(self, x: Any, y: Any) -> None:
        self._teach(self._features(x), y)

    def answer(self, xs: list[Any], ys: list[Any]) -> list[Any]:
        """Compute the features of an event once."""
        answers = []
        for x, y in zip(xs, ys, strict=True):
            phi = self._features(x)
            answers.append(self._say(phi))
            self._teach(phi, y)
        return answers

    def _say(self, phi: Any) -> Any:
        if not self._labels:
            if not self._fitted:
                return 0.0
            z = float((phi @ self._model.coef_ + self._model.intercept_)[0])
            return self._target.mean + self._target.deviation * z
        if not self._fitted:
            return {}
        margins = (phi @ self._model.coef_.T + self._model.intercept_)[0]
        chances = 1.0 / (1.0 + np.exp(-np.clip(margins, -500.0, 500.0)))
        if len(self._labels) == 2:
            return {self._labels[0]: 1.0 - float(chances[0]), self._labels[1]: float(chances[0])}
        return shares(self._labels, chances)

    def _teach(self, phi: Any, y: Any) -> None:
        if self._labels:
            self._model.partial_fit(phi, [y], classes=None if self._fitted else self._labels)
        else:
            self._model.partial_fit(phi, [self._target.learn(y)])
        self._fitted = True

    def size(self) -> int:
        return len(pickle.dumps((self._model, self._sampler)))


def _peer(name: str, random: bool, cost: float) -> Peer:
    def build(stream: Stream, setting: Setting) -> Contestant:
        return Scikit(stream, random, setting.seed)

    return Peer(f"scikit-learn {name}", "scikit-learn", cost, build)


PEERS: dict[str, list[Peer]] = {
    task: [_peer("SGD", False, 1600), _peer("RBFSampler(1000) + SGD", True, 1700)]
    for task in (CLASSES, NUMBERS)
}
