"""The former name of :mod:`streamk.evaluation`; the next release removes it."""

import warnings

from streamk.evaluation import *  # noqa: F403

warnings.warn("streamk.prequential is now streamk.evaluation", DeprecationWarning, stacklevel=2)
