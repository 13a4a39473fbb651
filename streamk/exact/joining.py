"""What several exact learners know in the terms of one: events, and expansions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.codec import Codec
from streamk.encoding.rows import moved
from streamk.exact.expansion import Expansion
from streamk.exact.reservoir import Sample

Array = NDArray[np.float64]


def sample_in(sample: Sample, part: Codec, whole: Codec) -> Sample:
    """Return events as another codec, which knows all that theirs does, would have encoded them."""
    slots = np.array([whole.inputs.numbers[name] for name in part.inputs.numbers], dtype=np.int32)
    goal = sample.goal.copy()
    if part.labels is not None:
        goal[0] = np.array(_outputs_in(part, whole), dtype=np.float64)[goal[0].astype(np.intp)]
    return Sample(sample.tickets, moved(sample.rows, slots), goal)


def expansion_in(expansion: Expansion, part: Codec, whole: Codec) -> Expansion:
    """Return an expansion with its outputs in the order of another codec's labels; those it lacks are 0."""
    if part.labels is None or whole.labels is None:
        return expansion
    places = _outputs_in(part, whole)[: len(expansion.bias)]
    outputs = max(places, default=-1) + 1
    coefficients, bias = np.zeros((len(expansion.centers), outputs)), np.zeros(outputs)
    coefficients[:, places], bias[places] = expansion.coefficients, expansion.bias
    return expansion._replace(coefficients=coefficients, bias=bias)


def _outputs_in(part: Codec, whole: Codec) -> list[int]:
    """Return the outputs of labels in another codec."""
    assert part.labels is not None
    assert whole.labels is not None
    return [whole.labels.codes[label] for label in part.labels.values]
