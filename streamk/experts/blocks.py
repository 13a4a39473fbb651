"""A block of events: one look at its features, for all experts.

Features are worked on in fixed tiles of columns, and what tiles contribute to a sum is added in the order of
the tiles, so no number depends on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from streamk.arrays import Array, Floats
from streamk.encoding.rows import EncodedRows, slices
from streamk.encoding.scaling import scale_rows
from streamk.experts.expert import Expert
from streamk.features.map import FeatureMap
from streamk.features.matrix import distinct_inputs, features_of, fill, products_on_threads, tiles_of, total
from streamk.features.spectra import AMPLITUDE

_ROWS = 256  # rows predicted at once
_LOOKED_AT = 2**23  # features in memory at once


def features_by_tile(e: FeatureMap, rows: EncodedRows, statistics: Array) -> Callable[[slice], Floats]:
    """Return a function that gives the features of the rows in a tile of columns."""
    if e.source is None:
        scaled, row_keys, _ = scale_rows(rows, statistics, e.exponents)
        keys, dense = distinct_inputs(row_keys, scaled)
        e.hold_frequencies(keys)
        return lambda tile: features_of(e, keys, dense, tile)
    phi = np.empty((len(rows.values), e.width), dtype=np.float32)
    fill(e, rows, statistics, AMPLITUDE, phi)
    return lambda tile: phi[:, tile]


def forward(
    e: FeatureMap, rows: EncodedRows, statistics: Array, experts: Sequence[Expert], learning: bool
) -> tuple[list[Floats], list[list[Floats]]]:
    """Return every expert's outputs for a block, ``(sets, m, K)``, and the features it learns from.

    Rows are processed in parts whose features take 32 MiB. Features to learn from are returned only if
    ``learning``.
    """
    tiles = tiles_of(0, e.width)
    wanted = [expert.required_columns() if learning else [] for expert in experts]
    parts = slices(len(rows.values), max(1, _LOOKED_AT // e.width) if learning else _ROWS)
    seen: list[list[object]] = []
    kept: list[list[Floats]] = [
        [np.empty((len(rows.values), w.stop - w.start), dtype=np.float32) for w in asked if w not in tiles]
        for asked in wanted
    ]
    whole: dict[int, list[Floats]] = {}
    for part in parts:
        features = features_by_tile(e, rows.select(part), statistics)

        def of_tile(
            tile: slice, features: Callable[[slice], Floats] = features, part: slice = part
        ) -> tuple[list[object], Floats | None]:
            phi = features(tile)
            for asked, into in zip(wanted, kept, strict=True):
                for w, out in zip([w for w in asked if w not in tiles], into, strict=True):
                    first, last = max(tile.start, w.start), min(tile.stop, w.stop)
                    if first < last:
                        out[part, first - w.start : last - w.start] = phi[
                            :, first - tile.start : last - tile.start
                        ]
            again = any(tile in asked for asked in wanted)
            return [_outputs(expert, phi, tile) for expert in experts], phi if again else None

        by_tile = products_on_threads(of_tile, tiles)
        seen.append(
            [total(o for o in outs if o is not None) for outs in zip(*(f[0] for f in by_tile), strict=True)]
        )
        for tile, (_, phi) in zip(tiles, by_tile, strict=True):
            if phi is not None:
                whole.setdefault(tile.start, []).append(phi)
    outputs = [np.concatenate(parts, axis=1) for parts in zip(*seen, strict=True)]
    joined = {
        start: pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for start, pieces in whole.items()
    }
    answers = []
    for asked, into in zip(wanted, kept, strict=True):
        others = iter(into)
        answers.append([joined[w.start] if w in tiles else next(others) for w in asked])
    return outputs, answers


def _outputs(expert: Expert, phi: Floats, tile: slice) -> Floats | None:
    """Return what a tile of columns adds to an expert's outputs, None if they have none in common."""
    coefficients = expert.coefficients
    first = max(tile.start, expert.first)
    last = min(tile.stop, expert.first + coefficients.shape[2])
    if first >= last:
        return None
    weights = coefficients[:, :, first - expert.first : last - expert.first]
    product: Floats = phi[:, first - tile.start : last - tile.start] @ weights.transpose(0, 2, 1)
    return product
