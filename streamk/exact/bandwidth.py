"""The bandwidth of a kernel where none is given."""

from __future__ import annotations

import numpy as np

from streamk.kernel_blocks import Floats
from streamk.kernels import Kernel

_LOOKED_AT = 500  # rows and more, evenly spaced


def bandwidth_for(kernel: Kernel, X: Floats) -> float:
    """Return the median distance between rows, in the kernel's own metric.

    Of a kernel of inner products it is the root of the rows' mean squared length, so that products are about
    1. Where all rows are the same, it is 1.
    """
    from scipy.spatial.distance import pdist  # a fifth of a second, which no other learner needs

    rows = X[:: max(1, len(X) // _LOOKED_AT)].astype(np.float64)
    metric = getattr(kernel, "metric", None)
    if metric is None:
        typical = float(np.sqrt(np.mean(np.sum(rows * rows, axis=1)))) if len(rows) else 0.0
    else:
        distances = pdist(rows, metric)
        apart = distances[distances > 0.0]
        typical = float(np.median(apart)) if len(apart) else 0.0
    return typical if typical > 0.0 else 1.0
