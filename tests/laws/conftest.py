import pytest

from streamk.learners.classifier import Classifier

from .subjects import COMMON, LEARNERS


@pytest.fixture(params=LEARNERS)
def make(request):
    """A function that makes the learner, and says whether it classifies."""
    cls, extra = LEARNERS[request.param]

    def new(**changes):
        return cls(**{**COMMON, **extra, **changes})

    new.classifies = issubclass(cls, Classifier)
    return new
