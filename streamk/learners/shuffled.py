"""The shuffled learner: where labels come in parts, one more learner learns events in random order.

A learner that learned a stream in its order suits what came last. One that learned the same events in random
order, as those of :mod:`streamk.sklearn` do, predicts events long after better on many streams, and worse on
others; a mean of both is mostly better than either. So where labels come 256 events late or more, many at
once (:mod:`streamk.learners.rehearsal`), a learner with the same parameters and seed learns the sample of
earlier events, each once, in the order of their tickets, which are random. Only its frozen model is stored.
It is made when a prediction needs it, and again for the first prediction after a sixteenth more events were
sampled; that takes as long as learning the sample. Before labels come in parts, it is made of all events
while they are few, for predictions of the 257th event without a label and later ones.

With ``f`` the prediction of the stale experts and ``g`` that of the shuffled learner, ``n`` events learned
and labels ``L`` events late, the prediction is ``f + α (g − f)``. The last events say more about the next
ones where labels come sooner, relative to all events::

    α = ½ min(1, 16 L/n)

Time-like numbers (:mod:`streamk.learners.time_like`) are missing in what it learns and predicts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk import model_file
from streamk.arrays import Array, Arrays, typed
from streamk.encoding.codec import KNOWN, LEAST
from streamk.encoding.rows import UNSCALED, EncodedRows, moved
from streamk.encoding.scaling import COUNT, GIVEN, HELD
from streamk.features.reservoir import Sample

_FIRST, _GROWTH = 512, 16  # sampled events of the first model; one for so many of them makes the next due
_MOST_SHARE, _FAR = 0.5, 16
_OF_ANOTHER = "its shuffled learner is of another learner"

_Kernel = Any  # a learner of :mod:`streamk.learners.kernel`
Made = tuple[int, _Kernel]  # how many events had been sampled, and a frozen learner or None
NONE: Made = 0, None


class Shuffled:
    """The models of the shuffled learner.

    Attributes
    ----------
    stored
        The model at the last label that came in parts.
    learns
        Whether models are made; not of a learner that learns in random order itself.
    """

    learns = True

    def __init__(self) -> None:
        self.stored = self._made = NONE  # the latter since then, for predictions

    def latest(self, learner: _Kernel, seen: int, sample: Callable[[], Sample]) -> Made:
        """Return the model to predict with, made of a sample of so many events if that is due."""
        before = self.stored[0]
        if not self.learns or seen < max(before + before // _GROWTH, _FIRST):
            return self.stored
        if self._made[0] != seen:
            self._made = seen, _learned(learner, sample())
        return self._made

    def store(self, made: Made) -> None:
        """Store a model, before the sample changes."""
        self.stored, self._made = made, NONE

    def move(self, places: NDArray[np.int32]) -> None:
        """Forget the models, whose slots are those before names were evicted."""
        self.stored = self._made = NONE

    def state_dict(self) -> Arrays:
        """Return the arrays to store in a model file; none without a model."""
        seen, model = self.stored
        if model is None:
            return {}
        return {
            "shuffled.model": np.frombuffer(model.to_bytes(), dtype=np.uint8),
            "shuffled.seen": np.array([seen], dtype=np.int64),
        }

    def load_state_dict(self, arrays: Arrays, learner: _Kernel) -> None:
        """Load the arrays of the model file of ``learner``; raise a ValueError if they are impossible."""
        if "shuffled.model" not in arrays:
            return
        data = typed(arrays, "shuffled.model", np.uint8, (len(arrays["shuffled.model"]),)).tobytes()
        header, parts = model_file.unpack(data, "its shuffled learner")
        if header.get("class") != type(learner).__name__:
            raise ValueError(_OF_ANOTHER)
        model = type(learner)._from_parts(header, parts)
        seen = int(typed(arrays, "shuffled.seen", np.int64, (1,))[0])
        if not (seen >= _FIRST and model._is_frozen and _are_alike(model, learner)):
            raise ValueError(_OF_ANOTHER)
        self.stored = seen, model


def share_of(lateness: int, events: int) -> float:
    """Return the share ``α`` of the shuffled learner in predictions; a ``lateness`` of 0 is unknown.

    Examples
    --------
    >>> share_of(1000, 10_000), share_of(1000, 32_000), share_of(0, 500)
    (0.5, 0.25, 0.5)
    """
    return _MOST_SHARE * min(_FAR * lateness / events, 1.0) if lateness else _MOST_SHARE


def predictions_of(model: _Kernel, rows: EncodedRows, slots: int, outputs: int) -> Array:
    """Return the predictions ``(n, outputs)`` of a model, of rows of a learner with so many slots."""
    known = model._codec.inputs.slots
    if slots > known:
        places = np.arange(slots, dtype=np.int32)
        places[known:] = UNSCALED
        rows = moved(rows, places)
    out = np.zeros((len(rows.values), outputs))
    model._predict_rows(rows, out)
    return out


def _are_alike(model: _Kernel, learner: _Kernel) -> bool:
    """Return whether a model was made for a learner of its class."""
    ours, theirs = learner._codec, model._codec
    names, known = list(ours.inputs.numbers), list(theirs.inputs.numbers)
    labels, seen = ([] if one.labels is None else one.labels.values for one in (ours, theirs))
    seeds = [None if one._map is None else one._map.seed for one in (learner, model)]
    alike = seeds[0] == seeds[1] and learner._parameters() == model._parameters()
    return alike and known == names[: len(known)] and seen == labels[: len(seen)]


def _learned(learner: _Kernel, sample: Sample) -> _Kernel:
    """Return a frozen learner like another one, which has learned a sample in the order of its tickets."""
    made = _blank(learner)
    made._shuffled.learns = False
    _, rows, goal = sample.select(np.argsort(sample.tickets))
    rows = learner._look().without(rows)
    made._learn_rows(rows, goal, np.arange(goal.shape[1]), np.zeros((0, learner._outputs)))
    return made.frozen()


def _blank(learner: _Kernel) -> _Kernel:
    """Return a learner that has learned nothing, with the parameters, seed, names and labels of another.

    Names and labels that are registered for the next event do not count.
    """
    codec, made = learner._codec, learner._map
    assert made is not None
    blank = type(learner)._with_parameters(learner._parameters())
    inputs, target = blank._codec.inputs, blank._codec.target
    inputs.settle(codec.inputs.directions)
    known = 1 + np.flatnonzero(codec.statistics[:, COUNT] > 0.0).max(initial=-1)
    statistics = codec.statistics[:known].copy()
    statistics[statistics[:, HELD] != GIVEN] = 0.0
    inputs.set_names(list(codec.inputs.numbers)[:known], statistics)
    if codec.labels is not None:
        blank._codec.register(codec.labels.values[: int(max(codec.counts[KNOWN], codec.counts[LEAST]))])
    if codec.target[0, HELD] == GIVEN:
        target[:] = codec.target
    blank._make_map(made.seed, made.slots)
    blank._grow(learner._outputs, blank.features)
    return blank
