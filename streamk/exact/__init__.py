"""The papers' own solvers: they keep events or centers, where the other learners keep a seed."""

from streamk.exact.eigenpro import EigenProClassifier, EigenProRegressor
from streamk.exact.learner import ExactLearner
from streamk.exact.lssvm import LSSVMClassifier

EXACT: dict[str, type[ExactLearner]] = {
    cls.__name__: cls for cls in (EigenProClassifier, EigenProRegressor, LSSVMClassifier)
}

__all__ = ["EXACT", "EigenProClassifier", "EigenProRegressor", "ExactLearner", "LSSVMClassifier"]
