"""A learner as a model file, and as smaller learners that predict the same.

The state is small and explicit: a seed, coefficients, the names and scales of inputs, and a few counters.
Everything else is regenerated.
"""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import NDArray

from streamk.encoding.codec import KNOWN
from streamk.encoding.pending import Pending
from streamk.encoding.rows import MOST_SLOTS
from streamk.learners.learner import with_prefix
from streamk.learners.state import LearnerState
from streamk.parameters import check_map


class SavedLearner(LearnerState):
    """A learner that has a model file."""

    _is_frozen = False

    def averaged(self) -> Self:
        """Return a learner whose coefficients are this one's average, and which averages no more.

        It predicts the same, is half the size or less, and can go on learning from the average; an open block
        is opened again then.
        """
        header, arrays = self._to_parts()
        if self.average:
            header["parameters"] = {**header["parameters"], "average": False}
            for k, expert in enumerate(self._experts):
                arrays[f"expert{k}.coefficients"] = expert.coefficients[-1:]
        return self._copied(header, arrays)

    def closed(self) -> Self:
        """Return a learner that predicts the same, without the matrix of an open block, if it has one.

        It is as small as its coefficients. If it learns on, it opens the block again, from where it stands.
        """
        return self._copied(*self._to_parts())

    def frozen(self) -> Self:
        """Return the model to deploy where no labels come: it predicts, and does not learn.

        It is as small as that of :meth:`closed`. A ``Kernel…`` learner weighs its experts as experts that
        stand still, its label memory holds the mean, and its intervals are as wide as the errors of such
        experts (:mod:`streamk.learners.stale`); others predict as they do.

        Examples
        --------
        >>> import streamk
        >>> learner = streamk.KernelRegressor(seed=7)
        >>> learner.learn_many([{"a": float(i % 7)} for i in range(200)], [float(i % 7) for i in range(200)])
        >>> model = learner.frozen()
        >>> round(model.predict_one({"a": 3.0}), 1)
        3.0
        >>> model.learn_one({"a": 3.0}, 3.0)
        Traceback (most recent call last):
        ValueError: the learner is frozen; let the learner learn that frozen() was called on
        """
        made = self.closed()
        made._freeze(self)
        made._is_frozen = True
        return made

    def _freeze(self, learner: Self) -> None:
        """Predict from now on without new labels, with what ``learner`` found of that."""

    def _check_learns(self) -> None:
        """Raise a ValueError if it is frozen."""
        if self._is_frozen:
            raise ValueError("the learner is frozen; let the learner learn that frozen() was called on")

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        named, arrays = self._codec.parts()
        found = {f"codec.{name}": array for name, array in arrays.items()} | self._combiner.parts()
        if self._map is not None:
            if self._map.sections is not None:
                found |= self._map.sections.arrays()
            for k, expert in enumerate(self._experts):
                found |= {f"expert{k}.{name}": array for name, array in expert.parts().items()}
            if self._asked is not None:
                found |= self._asked.parts(self._live())
            if self._stale is not None:
                found |= self._stale.parts(self.events)
        header = {
            "class": type(self).__name__,
            "parameters": self._parameters(),
            "seed": None if self._map is None else self._map.seed,
            "slots": None if self._map is None else self._map.slots,
            "openings": self._growth.openings,
            "events": self.events,
            "pending": self.pending,
            **({"frozen": True} if self._is_frozen else {}),
            **named,
        }
        return header, found | self._pending.arrays()

    @classmethod
    def _from_parts(
        cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], closed: bool = False
    ) -> Self:
        self = cls._with_parameters(header["parameters"])
        self._is_frozen = header.get("frozen") is True
        self._codec.restore(header, with_prefix(arrays, "codec."))
        self._combiner.restore(arrays)
        if header["seed"] is not None:
            self._restore_experts(header, arrays, closed)
        elif self._codec.events:
            raise ValueError("it has learned, and has no seed")
        if "pending.goal" in arrays:
            inputs = self._codec.inputs
            waiting = Pending.from_arrays(arrays, inputs.slots, self._together, inputs.largest)
            self._pending = inputs.waiting = waiting
        self._check_labels(self._pending.targets())
        if not closed:
            self._check_whole(header, arrays)
        return self

    def _restore_experts(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], closed: bool) -> None:
        inputs, slots, openings = self._codec.inputs, header["slots"], header["openings"]
        if not inputs.settled:
            raise ValueError("it has learned, and its directions are not chosen")
        structured = inputs.directions == "structured"
        if (not isinstance(slots, int) or not 0 <= slots <= MOST_SLOTS) if structured else slots is not None:
            raise ValueError(f"its slots are {slots!r}")
        if not isinstance(openings, int) or not 1 <= openings <= max(
            1, self._growth.openings_at(self.events)
        ):
            raise ValueError(f"its openings are {openings!r}")
        check_map({**{name: getattr(self, name) for name in _OF_MAP}, "seed": header["seed"]})
        self._growth.count(openings)
        features = self._growth.blocks * self._growth.size
        outputs = arrays["expert0.coefficients"].shape[1]
        made = self._make_map(header["seed"], slots)
        if not max(1, self._codec.counts[KNOWN]) <= outputs <= self._codec.outputs:
            raise ValueError(f"coefficients of {outputs} outputs do not fit")
        if made.sections is not None:
            made.sections.restore(arrays, closed)
            if len(made.sections.cross.squares) > outputs:
                raise ValueError(f"moments of more than {outputs} outputs do not fit")
            if not closed:
                made.sections.sample.restore(arrays, inputs.slots, inputs.largest)
                self._check_labels(made.sections.sample.events().goal[0].tolist())
            made.renew()
        self._grow(outputs, features)
        for k, expert in enumerate(self._experts):
            expert.opened(openings, self._growth.columns, False)
            expert.restore(with_prefix(arrays, f"expert{k}."))
            if closed:
                expert.close()
        if self._asked is not None:
            self._asked.restore({} if closed else arrays, self._live(), self.events)
        if self._stale is not None:
            self._stale.restore({} if closed else arrays, self._coefficients(), self.events)
        if not all(expert.is_open for expert in self._experts):
            self._growth.open_again()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _SCRATCH}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


_OF_MAP = ("kernel", "bandwidth", "scales", "features", "directions")
_SCRATCH = ("_arguments", "_loans", "_entry", "_goal", "_out")
