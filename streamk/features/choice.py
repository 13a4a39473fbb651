"""The choice of ``directions="auto"``: keyed or structured, by the cost of a feature.

Nanoseconds per feature and event, fitted to ``benchmarks/regeneration.py`` on one thread of one machine; the
constants are part of the model's definition, so the choice is the same on every machine, and it is stored in
the model file. Without numbers, directions are keyed.

=========================  ===============================================================================
keyed, one event           ``0.12 + 0.06 k``, ``k`` the numbers in the event that are not 0; and ``0.4 k``
                           more if the frequencies of all ``d`` numbers do not fit the cache
keyed, blocks of 16 up     ``0.9 + 0.008 d`` (a matrix product; zeros cost as much as numbers)
structured                 ``0.17 + 0.05 log₂ n/c``, ``n ≥ d`` the slots and ``c`` the features that share a
                           projection; alone, an event fills its lanes with ``⌈F/nc⌉`` blocks of 16
=========================  ===============================================================================
"""

from __future__ import annotations

from streamk.encoding.rows import ABSENT, MOST_SLOTS, EncodedRows
from streamk.features.frequencies import CACHE_BYTES
from streamk.features.segments import slots_of_first
from streamk.vector.lanes import LANES

STRUCTURED, KEYED = "structured", "keyed"


def choose(numbers: int, nonzero: int, features: int, scales: int, block_size: int) -> str:
    """Return the cheaper directions.

    Parameters
    ----------
    numbers, nonzero
        Numbers in the first learned event, and the nonzero ones (0 costs nothing, unless it is scaled).
    features, scales, block_size
        Of the learner; blocks provide as many rows at once.

    Examples
    --------
    >>> choose(numbers=3, nonzero=3, features=512, scales=4, block_size=1)
    'keyed'
    >>> choose(numbers=54, nonzero=54, features=1024, scales=4, block_size=1)
    'structured'
    >>> choose(numbers=50_000, nonzero=20, features=512, scales=4, block_size=1)
    'keyed'
    """
    together = block_size >= LANES
    if together:
        keyed = 0.9 + 0.008 * numbers
    else:
        fits = 4 * numbers * features <= CACHE_BYTES
        keyed = 0.12 + (0.06 if fits else 0.46) * nonzero
    slots, copies = slots_of_first(numbers), 2 * scales
    blocks = -(-features // (slots * copies))
    lanes = blocks if together else -(-blocks // LANES) * LANES
    projections = lanes * slots / features
    structured = 0.17 + 0.05 * (slots.bit_length() - 1) * projections
    return KEYED if numbers == 0 or keyed <= structured else STRUCTURED


def choose_for(rows: EncodedRows, scaled: bool, features: int, scales: int, block_size: int) -> str:
    """Return the directions for a learner whose first event is the one row, encoded with slots."""
    keys = rows.keys[0]
    numbers = rows.values[0][(keys != ABSENT) & (keys <= MOST_SLOTS)]
    nonzero = len(numbers) if scaled else int((numbers != 0.0).sum())
    return choose(len(numbers), nonzero, features, scales, block_size)
