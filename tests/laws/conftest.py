import pytest

from streamk.exact.learner import ExactLearner
from streamk.learners.classifier import Classifier
from streamk.learners.streaming import StreamingLearner

from .subjects import LEARNERS, build


@pytest.fixture(params=LEARNERS)
def make(request):
    """A function that makes the learner, and says whether it classifies."""
    return maker(request.param)


@pytest.fixture(params=[name for name, (cls, _) in LEARNERS.items() if issubclass(cls, StreamingLearner)])
def make_kernel(request):
    """The same, of learners that keep coefficients and no events."""
    return maker(request.param)


@pytest.fixture(params=[name for name, (cls, _) in LEARNERS.items() if issubclass(cls, ExactLearner)])
def make_exact(request):
    """The same, of those that keep events or centers."""
    return maker(request.param)


def maker(name):
    cls, extra = LEARNERS[name]

    def new(**changes):
        return build(cls, extra, **changes)

    new.classifies = issubclass(cls, Classifier)
    return new
