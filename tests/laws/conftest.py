import pytest

from streamk.exact.learner import ExactLearner
from streamk.learners.classifier import Classifier
from streamk.learners.streaming import StreamingLearner

from .subjects import BUILT, LEARNERS, build, subjects
from .written import check_written


def of_class(cls):
    return subjects(name for name, (each, _) in LEARNERS.items() if issubclass(each, cls))


@pytest.fixture(autouse=True)
def written():
    """After every law, the learners that it built can be saved, and read from their files."""
    BUILT.clear()
    yield
    for learner in BUILT:
        check_written(learner)
    BUILT.clear()


@pytest.fixture(params=subjects())
def make(request):
    """A function that makes the learner, and says whether it classifies."""
    return maker(request.param)


@pytest.fixture(params=of_class(StreamingLearner))
def make_kernel(request):
    """The same, of learners that keep coefficients and no events."""
    return maker(request.param)


@pytest.fixture(params=of_class(ExactLearner))
def make_exact(request):
    """The same, of those that keep events or centers."""
    return maker(request.param)


def maker(name):
    cls, extra = LEARNERS[name]

    def new(**changes):
        return build(cls, extra, **changes)

    new.classifies = issubclass(cls, Classifier)
    return new
