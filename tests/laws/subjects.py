"""Every learner, in the settings whose code differs; every law runs over all of them.

Laws over all settings take most of the time of the suite, so `make test` runs them over every class of
learner, and `make long` over the ``VARIANTS`` of parameters, too.
"""

from __future__ import annotations

import inspect
from collections import deque

import numpy as np
import pytest

import streamk

BUILT = deque(maxlen=3)  # the last learners of a test; its end checks their state
FEW = 12  # examples of a law that runs over all learners
COMMON = {"features": 96, "seed": 11}
LEARNERS = {
    "kernel-classifier": (streamk.KernelClassifier, {"features": 768}),
    "kernel-regressor": (streamk.KernelRegressor, {"features": 768}),
    "kernel-regressor-without-labels": (
        streamk.KernelRegressor, {"features": 768, "label_memory": False},
    ),
    "classifier": (streamk.KaczmarzClassifier, {}),
    "classifier-margin-average": (
        streamk.KaczmarzClassifier, {"loss": "margin", "average": True, "memory": 50},
    ),
    "classifier-blocks": (streamk.KaczmarzClassifier, {"block_size": 7, "average": True}),
    "classifier-margin-blocks": (streamk.KaczmarzClassifier, {"block_size": 7, "loss": "margin"}),
    "classifier-dense": (streamk.KaczmarzClassifier, {"directions": "dense", "kernel": "matern:2.5"}),
    "classifier-unscaled": (streamk.KaczmarzClassifier, {"scale_inputs": False, "kernel": "laplace"}),
    "classifier-dense-unscaled": (
        streamk.KaczmarzClassifier, {"scale_inputs": False, "directions": "dense", "block_size": 5},
    ),
    "classifier-structured": (
        streamk.KaczmarzClassifier, {"directions": "structured", "scales": (2.0, 1.0), "average": True},
    ),
    "classifier-structured-unscaled-blocks": (
        streamk.KaczmarzClassifier, {"directions": "structured", "scale_inputs": False, "block_size": 7},
    ),
    "regressor-structured-ramps": (
        streamk.KaczmarzRegressor, {"directions": "structured", "kernel": "arc-cosine:2"},
    ),
    "classifier-auto": (streamk.KaczmarzClassifier, {"directions": "auto", "scales": (1.0,)}),
    "classifier-growing": (
        streamk.KaczmarzClassifier, {"growth": "sqrt", "features": 64, "period": 5, "max_features": 200},
    ),
    "classifier-growing-structured-blocks": (
        streamk.KaczmarzClassifier,
        {"growth": "linear", "features": 64, "period": 20, "directions": "structured", "block_size": 7},
    ),
    "regressor-growing-sketch": (
        streamk.KaczmarzRegressor,
        {
            "growth": "linear", "features": 64, "period": 30, "max_features": 256, "kernel": "polynomial",
            "average": True,
        },
    ),
    "pursuit-classifier": (streamk.MatchingPursuitClassifier, {"features": 64, "period": 40}),
    "pursuit-classifier-blocks-average": (
        streamk.MatchingPursuitClassifier,
        {"features": 64, "period": 20, "max_features": 128, "block_size": 7, "average": True},
    ),
    "pursuit-regressor-fixed": (
        streamk.MatchingPursuitRegressor, {"growth": "fixed", "features": 40, "loss": "huber"},
    ),
    "kaczmarz-pursuit-classifier-structured": (
        streamk.KaczmarzPursuitClassifier,
        {"features": 64, "period": 30, "max_features": 128, "directions": "structured", "average": True},
    ),
    "kaczmarz-pursuit-classifier-blocks": (
        streamk.KaczmarzPursuitClassifier, {"features": 64, "period": 30, "block_size": 7, "memory": 0},
    ),
    "kaczmarz-pursuit-regressor": (
        streamk.KaczmarzPursuitRegressor, {"features": 64, "growth": "sqrt", "period": 10},
    ),
    "subspace-pursuit-classifier": (
        streamk.SubspacePursuitClassifier, {"features": 128, "rank": 16, "loss": "margin"},
    ),
    "subspace-pursuit-regressor-structured": (
        streamk.SubspacePursuitRegressor,
        {"features": 64, "rank": 32, "directions": "structured", "kernel": "gaussian"},
    ),
    "doubly-stochastic-classifier": (
        streamk.DoublyStochasticClassifier,
        {"features": 64, "batch_size": 16, "precondition": False, "max_features": 256},
    ),
    "doubly-stochastic-classifier-hinge-structured": (
        streamk.DoublyStochasticClassifier,
        {"growth": "fixed", "features": 20, "batch_size": 40, "loss": "hinge", "directions": "structured"},
    ),
    "doubly-stochastic-classifier-sketch": (
        streamk.DoublyStochasticClassifier,
        {"features": 64, "batch_size": 1, "precondition": False, "max_features": 128, "kernel": "polynomial"},
    ),
    "doubly-stochastic-regressor": (
        streamk.DoublyStochasticRegressor,
        {"growth": "fixed", "features": 4, "batch_size": 9, "loss": "quantile", "average": True},
    ),
    "classifier-sketch": (streamk.KaczmarzClassifier, {"kernel": "polynomial:3", "features": 128}),
    "regressor-sketch-blocks": (
        streamk.KaczmarzRegressor,
        {"kernel": "polynomial", "features": 64, "scales": (1.0,), "block_size": 7, "directions": "dense"},
    ),
    "regressor": (streamk.KaczmarzRegressor, {}),
    "regressor-huber-average": (streamk.KaczmarzRegressor, {"loss": "huber", "average": True}),
    "regressor-blocks": (streamk.KaczmarzRegressor, {"block_size": 7, "loss": "epsilon_insensitive"}),
    "low-rank-classifier": (streamk.LowRankKernelClassifier, {"columns": 40, "rows": 70}),
    "low-rank-regressor": (streamk.LowRankKernelRegressor, {"columns": 50, "rows": 80}),
    "low-rank-regressor-made-newton-unscaled": (
        streamk.LowRankKernelRegressor,
        {
            "columns": 30, "keep_columns": False, "move": "newton", "steps": 200, "scale_inputs": False,
            "kernel": "laplacian",
        },
    ),
    "ls-svm": (streamk.LSSVMClassifier, {"block": 30, "rows": 70}),
    "ls-svm-nystrom-unscaled": (
        streamk.LSSVMClassifier,
        {"solver": "nystrom", "block": 20, "committee": 3, "scale_inputs": False, "kernel": "laplacian"},
    ),
    "ls-svm-kaczmarz-pursuit": (
        streamk.LSSVMClassifier,
        {"solver": "kaczmarz-pursuit", "block": 40, "validation": 0.2, "kernel": "polynomial:3"},
    ),
    "ls-svm-regressor": (streamk.LSSVMRegressor, {"block": 30, "committee": 2, "solver": "kaczmarz"}),
    "eigenpro-classifier": (streamk.EigenProClassifier, {"centers": 20}),
    "eigenpro-classifier-means-delayed-unscaled": (
        streamk.EigenProClassifier,
        {
            "centers": 12, "choose": "k-means", "projection": "delayed", "batch": 7, "scale_inputs": False,
            "kernel": "matern:2.5",
        },
    ),
    "eigenpro-regressor-inexact": (
        streamk.EigenProRegressor,
        {"centers": 15, "projection": "inexact", "batch": 5, "rank": 3, "subsample": 10},
    ),
}  # fmt: skip
VARIANTS = {
    "kernel-regressor-without-labels",
    "classifier-margin-average",
    "classifier-blocks",
    "classifier-dense",
    "classifier-unscaled",
    "classifier-structured",
    "classifier-structured-unscaled-blocks",
    "classifier-auto",
    "classifier-growing-structured-blocks",
    "pursuit-classifier",
    "kaczmarz-pursuit-classifier-structured",
    "doubly-stochastic-classifier-sketch",
    "doubly-stochastic-classifier-hinge-structured",
    "classifier-sketch",
    "regressor-sketch-blocks",
    "regressor-huber-average",
    "regressor-blocks",
    "low-rank-regressor",
    "ls-svm",
    "ls-svm-nystrom-unscaled",
    "eigenpro-classifier",
}


def subjects(names=LEARNERS):
    """Return names of learners as parameters of a test; those of variants run with `make long`."""
    return [pytest.param(name, marks=pytest.mark.long) if name in VARIANTS else name for name in names]


def build(cls, extra, common=COMMON, **changes):
    """Return a learner with what is common to all, as far as it has such parameters."""
    known = inspect.signature(cls).parameters
    learner = cls(**{name: common[name] for name in common if name in known} | extra | changes)
    BUILT.append(learner)
    return learner


def events(n=120, seed=0, classifies=True):
    """A stream with numbers, categories, booleans, missing values, and names that come and go."""
    rng = np.random.default_rng(seed)
    pairs = []
    for i in range(n):
        a, b = rng.normal(size=2)
        x = {"a": float(a), "b": float(b * 100 + 7), "k": int(rng.integers(0, 5))}
        x["colour"] = str(rng.choice(["red", "green", "blue"]))
        x["on"] = bool(rng.random() < 0.5)
        if rng.random() < 0.2:
            x["a"] = None
        if i > n // 3:
            x["late"] = float(rng.random())
        if rng.random() < 0.3:
            del x["colour"]
        score = a + np.sin(b) + (x["on"] - 0.5)
        pairs.append((x, f"class {int(score > 0) + int(score > 1)}" if classifies else 30.0 + 4 * score))
    return pairs
