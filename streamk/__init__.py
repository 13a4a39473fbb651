"""Kernel machines that learn from streams.

A model is a seed and a table of coefficients. It learns one event at a time, plugs into river, and the
same log with the same seed gives the same model.

>>> import streamk
>>> learner = streamk.KaczmarzClassifier(features=64, seed=7)
>>> for i in range(200):
...     learner.learn_one({"x": i % 7, "colour": "red"}, i % 7 > 3)
>>> learner.predict_one({"x": 6, "colour": "red"})
True
"""

from streamk import code_cache as _first  # noqa: F401  before anything is to be compiled
from streamk import exact, learners
from streamk.exact import *  # noqa: F403
from streamk.learners import *  # noqa: F403
from streamk.learners.loading import load, loads
from streamk.random_features import RandomFeatures

__version__ = "0.5.0"

__all__ = ["RandomFeatures", "load", "loads"]
__all__ += exact.__all__
__all__ += learners.__all__


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__version__"])
