"""Learners: one algorithm a file, on the river face of :mod:`streamk.learners.streaming`."""

from streamk.learners.doubly_stochastic import DoublyStochasticClassifier, DoublyStochasticRegressor
from streamk.learners.kaczmarz import KaczmarzClassifier, KaczmarzRegressor
from streamk.learners.kaczmarz_pursuit import KaczmarzPursuitClassifier, KaczmarzPursuitRegressor
from streamk.learners.kernel import KernelClassifier, KernelRegressor
from streamk.learners.matching_pursuit import MatchingPursuitClassifier, MatchingPursuitRegressor
from streamk.learners.merging import merge
from streamk.learners.streaming import StreamingLearner
from streamk.learners.subspace_pursuit import SubspacePursuitClassifier, SubspacePursuitRegressor

LEARNERS: dict[str, type[StreamingLearner]] = {
    cls.__name__: cls
    for cls in (
        KernelClassifier,
        KernelRegressor,
        KaczmarzClassifier,
        KaczmarzRegressor,
        DoublyStochasticClassifier,
        DoublyStochasticRegressor,
        MatchingPursuitClassifier,
        MatchingPursuitRegressor,
        SubspacePursuitClassifier,
        SubspacePursuitRegressor,
        KaczmarzPursuitClassifier,
        KaczmarzPursuitRegressor,
    )
}

__all__ = [
    "DoublyStochasticClassifier",
    "DoublyStochasticRegressor",
    "KaczmarzClassifier",
    "KaczmarzPursuitClassifier",
    "KaczmarzPursuitRegressor",
    "KaczmarzRegressor",
    "KernelClassifier",
    "KernelRegressor",
    "MatchingPursuitClassifier",
    "MatchingPursuitRegressor",
    "SubspacePursuitClassifier",
    "SubspacePursuitRegressor",
    "merge",
]
