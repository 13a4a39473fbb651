"""What probabilities decide and what they cost, event by event."""

from __future__ import annotations

import numpy as np

from streamk.metrics.exact import Floats, Integers

_CERTAIN_ENOUGH = 1e-15  # bound of probabilities in log loss, as river has it


def decisions(probabilities: Floats) -> Integers:
    """Return the first of the most probable classes of each row, -1 where there is no prediction.

    Examples
    --------
    >>> import numpy as np
    >>> decisions(np.array([[0.2, 0.4, 0.4], [0.0, 0.0, 0.0], [np.nan, 1.0, 0.0]]))
    array([ 1, -1, -1])
    """
    if not probabilities.shape[1]:
        return np.full(len(probabilities), -1, np.int64)
    top = probabilities.max(axis=1)
    found: Integers = np.where((top > 0.0) & (top < np.inf), probabilities.argmax(axis=1), -1)
    return found


def log_losses(targets: Integers, probabilities: Floats) -> Floats:
    """Return the log loss of each event, 0 where there is no prediction.

    Examples
    --------
    >>> import numpy as np
    >>> log_losses(np.array([0, 2, 0]), np.array([[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]])).round(4)
    array([ 0.6931, 34.5388, 0. ])
    """
    width = probabilities.shape[1]
    padded = np.pad(probabilities, ((0, 0), (0, 1)))
    own = padded[np.arange(len(targets)), np.minimum(targets, width)]
    found: Floats = np.where(decisions(probabilities) >= 0, losses_of(own), 0.0)
    return found


def losses_of(own: Floats) -> Floats:
    """Return the log losses of events from the probabilities of their own classes."""
    return -np.log(np.clip(own, _CERTAIN_ENOUGH, 1.0 - _CERTAIN_ENOUGH))
