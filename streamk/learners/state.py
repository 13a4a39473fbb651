"""What a learner is between two events: parameters, counters, names, coefficients; and its model file.

The state is small and explicit: a seed, coefficients, the names and scaling statistics of inputs, and one
short vector of counters. Everything else is regenerated.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from river import base

from streamk import model_file
from streamk.expansion import Expansion
from streamk.features.choice import KEYED, STRUCTURED
from streamk.features.directions import AUTO
from streamk.features.feature_map import width_of
from streamk.features.lanes import aligned
from streamk.inputs import Inputs
from streamk.kernels import kernel
from streamk.labels import plain
from streamk.learners.events import CALIBRATION, EVENTS, KNOWN
from streamk.learners.pending import Pending, typed
from streamk.losses import CODES, FIRST_REGRESSION
from streamk.parameters import check_map, check_parameters
from streamk.probabilities import STATE, initialise
from streamk.rows import MOST_SLOTS
from streamk.schedules import events_before_opening, openings_at

Array = NDArray[np.float64]


class LearnerState(base.Estimator):
    """The state of a learner over one :class:`streamk.expansion.Expansion`.

    The ``__init__`` of a subclass names its parameters, as river requires, and hands them to
    :meth:`_initialise`, which stores them under their names.
    """

    kernel: str
    bandwidth: float | None
    scales: tuple[float, ...]
    features: int
    growth: str
    period: int
    max_features: int
    loss: str
    regularization: float
    memory: int | None = None
    average: bool
    block_size: int
    scale_inputs: bool
    directions: str
    seed: int | None
    _active: Any = None  # the open block, of learners that have one
    _target_kind: ClassVar[str]  # "class" or "number"
    _losses: ClassVar[dict[str, tuple[str, ...]]]  # by the kind of target

    def _initialise(self, parameters: dict[str, Any]) -> None:
        for name, value in parameters.items():
            if name != "self":
                setattr(self, name, plain(value))
        check_parameters(self, self._losses[self._target_kind])
        self._inputs = Inputs(self.directions, self.scale_inputs)
        self._expansion: Expansion | None = None
        self._state: Array = np.zeros(CALIBRATION + STATE)
        loss = CODES[self._target_kind, self.loss]
        initialise(loss, self._state[CALIBRATION:])
        least = float(loss >= FIRST_REGRESSION)
        self._rules: Array = np.array([[float(loss), self.regularization, self._horizon, least]])
        self._pending = Pending()
        self._openings = 0
        self._next_opening = 0.0
        self._make_scratch()

    def _make_scratch(self) -> None:
        self._target: Array = np.zeros((2, 1))
        self._out: Array = np.zeros((1, 1, self._outputs))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_target", "_out")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_scratch()

    @property
    def _outputs(self) -> int:
        return 1 if self._expansion is None else self._expansion.outputs

    @property
    def _together(self) -> int:
        """How many events are learned at a time."""
        return self.block_size

    @property
    def _gathers(self) -> bool:
        """Whether events wait for others, to be learned by matrix products."""
        return self._together > 1

    @property
    def _growth_period(self) -> int:
        """Events in the unit of time of :func:`streamk.schedules.openings_at`."""
        return self.period

    @property
    def _horizon(self) -> float:
        """How many events the growing regulariser counts at most."""
        return math.inf if self.memory is None else float(self.memory)

    @property
    def _blocks(self) -> int:
        """Blocks of ``features`` features that are open, or have been."""
        return max(1, min(self._openings, self._most_blocks))

    @property
    def _most_blocks(self) -> int:
        return 1 if self.growth == "fixed" else self.max_features // self.features

    def _open_due(self) -> None:
        """Open the blocks of features that are due: a function of the events learned and of nothing else."""
        expansion = self._expansion
        if expansion is None or self._state[EVENTS] < self._next_opening:
            return
        self._count_openings(openings_at(self.growth, self._growth_period, self.events))
        expansion.extend(self._blocks * self.features)
        self._opened()

    def _count_openings(self, openings: int) -> None:
        self._openings = openings
        self._next_opening = events_before_opening(self.growth, self._growth_period, openings + 1)

    def _opened(self) -> None:
        """Begin with the block that was opened; most learners have nothing to begin."""

    @property
    def events(self) -> int:
        """Events learned so far, without those waiting for a block to fill."""
        return int(self._state[0])

    @property
    def feature_count(self) -> int:
        """Random features in use now: 0 before any learning, then ``features`` and more if they grow."""
        return 0 if self._expansion is None else self._expansion.features

    @property
    def pending(self) -> int:
        """Events waiting for their block to fill; always 0 for ``block_size=1``."""
        return len(self._pending)

    def averaged(self) -> Self:
        """Return a learner whose coefficients are this one's average, and which averages no more.

        It predicts the same, is half the size or less, and can go on learning from the average; an open block
        is opened again then.
        """
        header, arrays = self._to_parts()
        header["parameters"] = {**header["parameters"], "average": False}
        if self._expansion is not None:
            arrays["coefficients"] = self._expansion.coefficients[:, -1:]
        return self._copied(header, arrays)

    def _copied(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the learner of these parts, which it does not share; without an open block."""
        kept = {k: v.copy() for k, v in arrays.items() if not k.startswith("active.")}
        return type(self)._from_parts(header, kept)

    def save(self, path: str | Path, extra: Any = None) -> int:
        """Write the model to ``path`` and return its size in bytes.

        The file is safetensors with a JSON header (:mod:`streamk.model_file`); it is written beside
        ``path`` and renamed, so a crash leaves the old file or the new one. Events waiting for
        their block are saved too.

        Parameters
        ----------
        path
            The file, in a directory that exists.
        extra
            JSON values to keep in the same file; :func:`streamk.model_file.loads_with_extra` returns them.
        """
        header, arrays = self._to_parts()
        return model_file.write(path, header if extra is None else {**header, "extra": extra}, arrays)

    def to_bytes(self) -> bytes:
        """Return what :meth:`save` would write."""
        return model_file.pack(*self._to_parts())

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        expansion, inputs = self._expansion, self._inputs
        parameters = {k: plain(v) for k, v in self._get_params().items()}
        parameters["scales"] = [plain(scale) for scale in self.scales]
        header: dict[str, Any] = {
            "class": type(self).__name__,
            "parameters": parameters,
            "seed": None if expansion is None else expansion.seed,
            "bandwidth": None if expansion is None else expansion.bandwidth,
            "directions": inputs.directions if inputs.settled else AUTO,
            "slots": None if expansion is None else expansion.slots,
            "numbers": list(inputs.numbers),
            "openings": self._openings,
            "events": self.events,
            "pending": self.pending,
        }
        arrays: dict[str, NDArray[Any]] = {"state": self._state, "statistics": inputs.statistics}
        if expansion is not None:
            arrays["coefficients"] = expansion.coefficients
        return header, arrays | self._pending.arrays()

    @classmethod
    def _from_parts(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        parameters = dict(header["parameters"])
        parameters["scales"] = tuple(parameters["scales"])
        self = cls(**parameters)
        names = header["numbers"]
        if not isinstance(names, list) or not set(map(type, names)) <= {str} or len(set(names)) != len(names):
            raise ValueError("its names of numbers are not distinct texts")
        if self.directions == AUTO and header["directions"] != AUTO:
            if header["directions"] not in (KEYED, STRUCTURED):
                raise ValueError(f"its directions are {header['directions']!r}")
            self._inputs.settle(header["directions"])
        if header["seed"] is not None and not self._inputs.settled:
            raise ValueError("it has learned, and its directions are not chosen")
        self._inputs.numbers = {name: i for i, name in enumerate(names)}
        slots = len(names) if self.scale_inputs else 0
        self._inputs.statistics = typed(arrays, "statistics", np.float64, (slots, 3))
        self._state = typed(arrays, "state", np.float64, self._state.shape)
        counters, calibration = self._state[:KNOWN], self._state[CALIBRATION]
        if not (np.isfinite(self._state).all() and (counters == np.clip(counters.round(), 0, 2.0**53)).all()):
            raise ValueError("its counters are impossible")
        if not -10.0 <= calibration <= 10.0:
            raise ValueError("its calibration is impossible")
        if header["seed"] is not None:
            self._count_openings(self._openings_in(header))
            features = self._blocks * self.features
            check_map(
                self.kernel, header["bandwidth"], self.scales, self.features, self.directions, header["seed"]
            )
            found = arrays["coefficients"].shape
            outputs = found[2] if self._target_kind == "class" else 1
            shape = (1, 2 if self.average else 1, max(outputs, 1), width_of(features))
            coefficients = typed(arrays, "coefficients", np.float32, shape)
            self._expansion = Expansion(
                kernel(self.kernel), header["bandwidth"], tuple(self.scales), self.features,
                header["seed"], self._slots_in(header), *shape[1:3],
            )  # fmt: skip
            self._expansion.extend(features)
            self._expansion.coefficients = aligned(coefficients)
            if not np.isfinite(coefficients).all():
                raise ValueError("its coefficients are not finite")
        if not 0 <= self._state[KNOWN] <= self._outputs:
            raise ValueError("its counters are impossible")
        if "pending.goal" in arrays:
            self._pending = Pending.from_arrays(arrays, slots, self._together)
        self._make_scratch()
        return self

    def _openings_in(self, header: dict[str, Any]) -> int:
        """Return the openings that a model file tells, if they are possible."""
        openings = header["openings"]
        most = openings_at(self.growth, self._growth_period, self.events)
        if not isinstance(openings, int) or not 1 <= openings <= most:
            raise ValueError(f"its openings are {openings!r}")
        return openings

    def _slots_in(self, header: dict[str, Any]) -> int | None:
        """Return the slots of the first segment that a model file tells, if they are possible."""
        slots = header["slots"]
        if self._inputs.directions != STRUCTURED:
            return None
        if not isinstance(slots, int) or not 0 <= slots <= MOST_SLOTS:
            raise ValueError(f"its slots are {slots!r}")
        return slots
