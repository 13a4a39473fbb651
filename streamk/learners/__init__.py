"""Learners: one algorithm a file, on the river face of :mod:`streamk.learners.base`."""

from streamk.learners.base import KernelLearner
from streamk.learners.kaczmarz import KaczmarzClassifier, KaczmarzRegressor

LEARNERS: dict[str, type[KernelLearner]] = {
    cls.__name__: cls for cls in (KaczmarzClassifier, KaczmarzRegressor)
}

__all__ = ["LEARNERS", "KaczmarzClassifier", "KaczmarzRegressor", "KernelLearner"]
