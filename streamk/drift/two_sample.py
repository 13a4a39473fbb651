"""A drift detector on whole events: a kernel two-sample test of recent events against a reference.

An alarm names the inputs that changed, by their *discrepancies*: the share of values that differ between two
sets of events.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from river import base

from streamk.arrays import Json, Pickled
from streamk.drift.field_values import ABSENT, FieldValues
from streamk.drift.reference import Reference
from streamk.drift.windows import BLOCK, distances, empty_windows, levels_of
from streamk.encoding.calendar_inputs import with_calendar
from streamk.encoding.fields import Event, kind_of, name_of, named
from streamk.encoding.inputs import Inputs
from streamk.encoding.rows import EncodedRows, stack
from streamk.features.counter import MASK64, mix64_int
from streamk.parameters import check_detector

_FIELD = "x"  # the name of a bare number


def discrepancies(before: Sequence[Event], after: Sequence[Event]) -> dict[str, float]:
    """Return for each input the share of events whose value has moved, from 0 to 1, largest first.

    Of numbers it is the statistic of Kolmogorov and Smirnov, ``sup_t |F(t) − G(t)|``, with ``F(t)`` and
    ``G(t)`` the shares of events that have a number up to ``t``; of strings, booleans, missing and absent
    values the distance of total variation, ``½ Σ_v |p(v) − q(v)|``; where an input has both, the larger of
    the two.

    Examples
    --------
    >>> discrepancies([{"a": 1, "b": "x"}, {"a": 2, "b": "x"}], [{"a": 2, "b": "x"}, {"a": 3, "b": None}])
    {'a': 0.5, 'b': 0.5}
    """
    fields: dict[Any, None] = dict.fromkeys(chain.from_iterable(chain(before, after)))
    moved = {
        name_of(field): FieldValues.of(x.get(field, ABSENT) for x in before).distance(
            FieldValues.of(x.get(field, ABSENT) for x in after)
        )
        for field in fields
    }
    return dict(sorted(moved.items(), key=lambda item: (-item[1], item[0])))


class KernelTwoSample(Pickled, base.DriftDetector):
    """Detects changes of the distribution of whole events, by maximum mean discrepancy.

    The first events are the *reference*. Then, after every 8 events, the last 8, 16, 32, … ``window`` are
    compared with it by ``T_w = (w m/(w + m)) · ‖mean_window φ − mean_reference φ‖²/F``: the squared maximum
    mean discrepancy under a Gaussian kernel at three scales, from ``F`` random Fourier features. An alarm
    is a ``T_w`` above its threshold. The detector then restarts with the next event.

    The thresholds are set so that, without a drift, there are ``false_alarms`` per event in the long run, by
    simulation of streams drawn from the reference (:mod:`streamk.drift.reference`). This holds for any
    distribution of independent events.

    Parameters
    ----------
    false_alarms
        Expected alarms per event of a stream without a change, including the events of references; above 0
        and at most ``0.75/reference``.
    reference
        Events of the reference, ``m``, at least 64. More events detect smaller changes; nothing is detected
        while they are gathered, at the start and after each alarm.
    window
        Events of the longest window: a power of two, from 8 to ``reference``. Short windows detect large
        changes early, long ones small or slow changes.
    features
        Number of features ``F``, a multiple of 64.
    seed
        The only source of randomness. None draws one.

    Notes
    -----
    An event is a dict of numbers, booleans, strings and None (missing). A bare number, such as an error, is
    accepted too. Numbers are centred and scaled by median and quartiles of the reference; the bandwidth is
    the median distance of its events. A field that appears, disappears or becomes missing is a change like
    any other.

    If only ``P(y|x)`` changes, put the label into the event: ``{**x, "label": y}``.

    With dependent events, such as readings of a sensor every second, alarms are more frequent than
    ``false_alarms``. If few values are possible and all but one are rare, they are less frequent. Rates below
    10⁻⁵ are extrapolated with an exponential tail.

    Memory is bounded by the reference and a window of events. The same events and seed give the same
    alarms. A detector can be pickled between events.

    References
    ----------
    [^1]: Gretton, A., Borgwardt, K. M., Rasch, M. J., Schölkopf, B. and Smola, A., 2012. A kernel two-sample
        test. Journal of Machine Learning Research 13.
    [^2]: Cobb, O., Van Looveren, A. and Klaise, J., 2022. Sequential multivariate change detection with
        calibrated and memoryless false detection rates. AISTATS.
    [^3]: Keriven, N., Garreau, D. and Poli, I., 2020. NEWMA: a new method for scalable model-free online
        change-point detection. IEEE Transactions on Signal Processing 68.

    Examples
    --------
    A model that restarts when its inputs change. Prices change at event 3000.

    >>> import random
    >>> import streamk
    >>> from streamk.drift import KernelTwoSample
    >>> rng = random.Random(1)
    >>> model = streamk.KaczmarzClassifier(features=64, seed=7)
    >>> detector = KernelTwoSample(false_alarms=1e-5, seed=7)
    >>> for i in range(4000):
    ...     x = {"price": rng.gauss(10 if i < 3000 else 13, 2), "shop": rng.choice("abc")}
    ...     model.learn_one(x, x["price"] > 11)
    ...     detector.update(x)
    ...     if detector.drift_detected:
    ...         changed = next(iter(detector.summary()["inputs"]))
    ...         print(f"event {i}: {changed} has changed")
    ...         model = model.clone()
    event 3023: price has changed
    """

    def __init__(
        self,
        false_alarms: float = 1e-4,
        reference: int = 1024,
        window: int = 256,
        features: int = 256,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.false_alarms = false_alarms
        self.reference = reference
        self.window = window
        self.features = features
        self.seed = seed
        check_detector(self._get_params(), BLOCK)
        self._seed = secrets.randbits(63) if seed is None else int(seed)
        self._alarms = 0
        self._begin(Inputs())

    def _begin(self, inputs: Inputs) -> None:
        """Start a new reference, and reset everything except the count of alarms."""
        self._drift_detected = False
        self._inputs = inputs
        self._events: list[Event] = []
        self._reference: Reference | None = None
        self._block: list[EncodedRows] = []
        self._recent: deque[Event] = deque(maxlen=self.window)

    def _reset(self) -> None:
        self._begin(Inputs())

    def update(self, x: Event | float) -> None:
        """Process one event, a dict; or one number, as the event ``{"x": number}``.

        Raises
        ------
        ValueError
            If a value is invalid, naming its field. The detector is then unchanged.
        """
        fields = named(x if isinstance(x, Mapping) else _event_of(x))
        event = with_calendar(fields, scaled=False)
        if self._drift_detected:
            inputs = Inputs()
            inputs.encode_checked(event, True)
            self._begin(inputs)
            self._events.append(dict(event))
        elif self._reference is None:
            self._inputs.encode_checked(event, True)
            self._events.append(dict(event))
            if len(self._events) == self.reference:
                self._settle()
        else:
            self._block.append(self._reference.encode(event).copy())
            self._recent.append(dict(event))
            if len(self._block) == BLOCK:
                self._compare(self._reference, stack(self._block))
                self._block = []

    def _settle(self) -> None:
        """Make the reference from the gathered events, and empty windows."""
        seed = mix64_int((self._seed + self._alarms) & MASK64)
        blocks = (1.0 / self.false_alarms - self.reference) / BLOCK
        reference = Reference(self._inputs, self._events, self.features, seed)
        self._thresholds = reference.thresholds(self.window, blocks, seed)
        self._reference = reference
        levels = levels_of(self.window)
        self._windows = empty_windows(levels, self.features)
        self._mean = np.zeros((2, self.features), dtype=np.float32)
        self._mean[0] = reference.mean
        self._distances = np.zeros(levels, dtype=np.float32)
        self._blocks = 0

    def _compare(self, reference: Reference, rows: EncodedRows) -> None:
        """Compare the windows that end with these rows, a block, with the reference."""
        self._windows[-1] = reference.features(rows).sum(axis=0)
        distances(self._windows, self._blocks, self._mean, self.reference, self._distances)
        self._blocks += 1
        if (self._distances > self._thresholds).any():
            self._drift_detected = True
            self._alarms += 1

    def summary(self) -> Json:
        """Return the distance of recent events from the reference, and the changed inputs.

        Returns
        -------
        ``events``
            Events since the start, or the restart after an alarm.
        ``watching``
            Whether the reference is complete.
        ``ratio``, ``window``
            The largest distance as a multiple of its threshold, above 1 at an alarm; and the events of that
            window.
        ``inputs``
            For each input the share of events, 0 to 1, whose value has moved from the reference to that
            window, largest first (:func:`discrepancies`). Without a change it is about ``1/√window``.
        """
        if self._reference is None:
            return {"events": len(self._events), "watching": False, "ratio": 0.0, "window": 0, "inputs": {}}
        events = self.reference + BLOCK * self._blocks + len(self._block)
        ratios = self._distances / self._thresholds
        level = int(ratios.argmax())
        window = BLOCK << level if self._blocks else 0
        compared = list(self._recent)[: len(self._recent) - len(self._block)][-window:] if window else []
        inputs = discrepancies(self._events, compared) if compared else {}
        return {
            "events": events,
            "watching": True,
            "ratio": float(ratios[level]),
            "window": window,
            "inputs": inputs,
        }

    @classmethod
    def _unit_test_params(cls) -> Iterator[Json]:
        yield {"false_alarms": 1e-3, "reference": 128, "window": 64, "features": 64, "seed": 7}


def _event_of(x: object) -> Any:
    """Return the event of a bare number; anything else is returned for the check of events."""
    if isinstance(x, (bool, np.bool_)):
        return {_FIELD: int(x)}
    return {_FIELD: x} if kind_of(type(x)) == "number" else x
