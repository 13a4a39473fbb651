"""Random orders and places as pure functions of a seed (:mod:`streamk.features.counter`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamk.features.counter import GOLDEN64, fill_bits, mix64_int

_WORDS = 2  # of 32 bits, a random number


def uniforms(seed: int, stream: int, count: int) -> NDArray[np.float64]:
    """Return ``count`` numbers in ``[0, 1)``, of 53 random bits each, of one stream of a seed."""
    words = np.empty(_WORDS * count, dtype=np.uint32)
    fill_bits(np.uint64(mix64_int(seed + (stream + 1) * GOLDEN64)), words)  # a block's key, made alone
    high, low = words.reshape(-1, _WORDS).T.astype(np.uint64)
    return ((high << np.uint64(21)) + (low >> np.uint64(11))) * 2.0**-53


def permutation(seed: int, stream: int, count: int) -> NDArray[np.intp]:
    """Return a random order of ``0 … count − 1``."""
    return np.argsort(uniforms(seed, stream, count), kind="stable")
