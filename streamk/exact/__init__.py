"""The solvers of the papers, which store events or centers; the other learners store a seed."""

from streamk.exact import merging as _merging  # noqa: F401  registers how exact learners merge
from streamk.exact.eigenpro import EigenProClassifier, EigenProRegressor
from streamk.exact.learner import ExactLearner
from streamk.exact.low_rank import LowRankKernelClassifier, LowRankKernelRegressor
from streamk.exact.lssvm import LSSVMClassifier, LSSVMRegressor

EXACT: dict[str, type[ExactLearner]] = {
    cls.__name__: cls
    for cls in (
        LSSVMClassifier,
        LSSVMRegressor,
        LowRankKernelClassifier,
        LowRankKernelRegressor,
        EigenProClassifier,
        EigenProRegressor,
    )
}

__all__ = [
    "EigenProClassifier",
    "EigenProRegressor",
    "LSSVMClassifier",
    "LSSVMRegressor",
    "LowRankKernelClassifier",
    "LowRankKernelRegressor",
]
