"""Nothing that is accepted makes these learners fail later, or predict what is not a number."""

import itertools
import warnings

import numpy as np
import pytest

import streamk
from streamk.exact.centers import Centers
from streamk.exact.eigenpro_solver import EigenPro, SolverSettings
from streamk.kernels import kernel

from ..laws import test_extremes as extremes
from ..laws.test_extremes import STREAMS, WEIGHTS, cases

AUTOMATIC = SolverSettings("exact", None, None, None)


SETTINGS = itertools.product(
    ["laplace", "gaussian", "arc-cosine:2", "polynomial:3"], ["exact", "inexact", "delayed"]
)


@pytest.mark.parametrize(
    ("kernel", "projection", "stream", "weights"),
    list(cases(SETTINGS)),
)
def test_predictions_stay_numbers(kernel, projection, stream, weights):
    settings = {"kernel": kernel, "projection": projection, "centers": 15, "batch": 6, "seed": 1}
    for cls, y in ((streamk.EigenProClassifier, extremes.Y), (streamk.EigenProRegressor, extremes.T)):
        learner = cls(
            **settings, choose="k-means" if weights == "usual" else "random", scale_inputs=stream != "huge"
        )
        xs = [STREAMS[stream](x) for x in extremes.X]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                learner.learn_many(xs, y, [WEIGHTS[weights](i) for i in range(len(xs))])
            learner.flush()
            many = learner.predict_proba_many if hasattr(learner, "labels") else learner.predict_many
            found = many(xs[:20])
        assert np.isfinite([list(p.values()) if isinstance(p, dict) else p for p in found]).all()
        assert streamk.loads(learner.to_bytes()).to_bytes() == learner.to_bytes()


def test_what_single_precision_cannot_hold_is_not_learned():
    made = EigenPro(kernel("laplace"), 1.0, Centers(np.eye(4, dtype=np.float32), np.ones(4)), AUTOMATIC)
    before, rows, one = np.ones((4, 1)), np.ones((2, 4), dtype=np.float32), np.ones((2, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (3e38, np.inf):
            similar = np.full((2, 4), value, dtype=np.float32)
            assert (made.learn(before, rows, one, np.ones(2), similar) == before).all()
    assert (made.learn(before, rows, one, np.ones(2)) != before).any()


def test_a_kernel_too_large_for_single_precision_is_refused():
    with pytest.raises(ValueError, match="too large for single precision; use a larger bandwidth"):
        EigenPro(Steep(), 1.0, Centers(np.eye(4, dtype=np.float32), np.ones(4)), AUTOMATIC)


class Steep:
    def block(self, X, Z, bandwidth):
        return np.full((len(X), len(Z)), np.inf, dtype=np.float32)
