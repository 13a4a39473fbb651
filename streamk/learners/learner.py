"""The base class of learners: fixed parameters, batches of events, and model files."""

from __future__ import annotations

import math
import secrets
from abc import abstractmethod
from collections.abc import Hashable, Iterable, KeysView, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from river import base

from streamk import model_file
from streamk.arrays import Array, Arrays, Json, Pickled, padded
from streamk.encoding.batches import Batch, portions
from streamk.encoding.codec import EVENTS, KNOWN, Codec
from streamk.encoding.fields import Event, name_of
from streamk.encoding.labels import Label, plain
from streamk.encoding.rows import EncodedRows, slices
from streamk.encoding.targets import check_weights, targets
from streamk.handles import make_handle
from streamk.learners.explanation import Explanation, explain
from streamk.learners.kernel_loop import observe_block
from streamk.learners.summary import Summary
from streamk.learners.waiting import Held, Seen, Waiting
from streamk.state import Live

ColumnNames = Sequence[str] | None  # of an array
_PIECE = 4096  # rows encoded at once
_NOTHING = np.zeros(0)


class Learner(Pickled, base.Estimator):
    """A river estimator with parameters, a codec and parts that a model file holds.

    A public learner is a dataclass of parameters, which are fixed at construction: another value needs
    another learner (:meth:`clone`). Subclasses implement learning and prediction of encoded events;
    :class:`~streamk.learners.classifier.Classifier` and :class:`~streamk.learners.regressor.Regressor` add
    river's methods.
    """

    family: ClassVar[str]  # its name in settings and commands, together with a task
    seed: int | None
    classifies: ClassVar[bool]
    _codec: Codec
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __setattr__(self, name: str, value: object) -> None:
        if "_codec" in self.__dict__ and name in self.__dataclass_fields__:
            raise AttributeError(
                f"{name} is fixed once a learner is made; "
                f"make another: learner.clone({{{name!r}: {value!r}}})"
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        """Return the parameters, and how many events were learned."""
        return f"{super().__repr__()} after {self.events:,} events" if self.events else super().__repr__()

    def _repr_html_(self) -> str:
        """Return parameters, events, relevance of inputs and weights of experts for a notebook."""
        parameters = ", ".join(f"{name}={value!r}" for name, value in self._get_params().items())
        return self.summary().to_html(f"{type(self).__name__}({parameters}), {self.events:,} events learned")

    def summary(self) -> Summary:
        """Return ``events``, ``features`` and ``bytes`` of the model file; ``Kernel…`` learners add more."""
        return Summary(events=self.events, features=self.feature_count, bytes=len(self.to_bytes()))

    def _make_plain(self) -> None:
        """Make parameters that are NumPy scalars the Python values they hold."""
        for field in fields(self):
            setattr(self, field.name, plain(getattr(self, field.name)))
        self._waiting = Waiting()

    @property
    def events(self) -> int:
        """Events learned so far, without those waiting for a block to fill."""
        return self._codec.events

    @property
    @abstractmethod
    def feature_count(self) -> int:
        """Numbers that an event is turned into: random features, or similarities with centers."""

    @property
    def pending(self) -> int:
        """Events waiting for their block to fill."""
        return 0

    def flush(self) -> None:
        """Learn the events that wait for their block to fill, if any."""

    @property
    def waiting(self) -> KeysView[Hashable]:
        """The keys of the events that wait for their labels, the oldest first."""
        return self._waiting.held.keys()

    def ask_one(self, key: Hashable, x: Event) -> Label | float | None:
        """Return what ``predict_one`` does, and let the event wait under a key for :meth:`tell_one`.

        Where labels come late, ``Kernel…`` learners then learn the event as they predicted it
        (:mod:`streamk.learners.waiting`).

        Parameters
        ----------
        key
            A string or a whole number, of no event that waits.
        x
            As for ``learn_one``.

        Raises
        ------
        ValueError
            If an event waits under this key, or the key or a value cannot be taken; nothing changes.

        Examples
        --------
        >>> import streamk
        >>> learner = streamk.KernelClassifier(seed=7)
        >>> learner.ask_one("order 1", {"amount": 3.0}), learner.ask_one("order 2", {"amount": 4.0})
        (None, None)
        >>> learner.tell_one("order 2", "fine")
        >>> list(learner.waiting)
        ['order 1']
        """
        self._waiting.check(key)
        answer = self.predict_one(x)
        self._hold(key, x)
        return answer

    def tell_one(self, key: Hashable, y: object, w: float = 1.0) -> None:
        """Learn the event that waits under a key, whose label has come.

        Parameters
        ----------
        key
            As passed to ``ask_one``.
        y
            The label or target; None if there will be none, so that the event waits no longer.
        w
            Sample weight.

        Raises
        ------
        KeyError
            If no event waits under this key: its label has come before, or it never was, or so many events
            came after it that it waits no longer.
        ValueError
            If the label or the weight cannot be taken; the event then still waits.
        """
        held = self._waiting.of(key)
        if y is None:
            self._waits_no_longer(held)
        else:
            self._tell(held, y, w)
        del self._waiting.held[key]

    def tell_many(self, keys: Sequence[Hashable], y: object, w: object = None) -> None:
        """Learn events whose labels have come together, in the order of their predictions.

        Parameters and errors are those of :meth:`tell_one`; after an error, nothing was learned.
        """
        waiting, values = self._waiting, targets(y, len(keys))
        weights = check_weights(w, len(keys)).tolist()
        held = [waiting.of(key) for key in keys]
        if len({event.number for event in held}) < len(held):
            raise ValueError("two labels come for one event; pass each key once")
        self._check_targets(values, weights)
        for k in sorted(range(len(keys)), key=lambda k: held[k].number):
            self.tell_one(keys[k], values[k], weights[k])

    @property
    def waiting_is_full(self) -> bool:
        """Whether one more event would take the place of the oldest one that waits."""
        return len(self._waiting.held) >= self._waiting.most

    def set_aside(self, key: Hashable) -> bytes:
        """Return what waits under a key as bytes, to be stored elsewhere until :meth:`take_back`.

        So any number of events may wait, while few are in memory.

        Raises
        ------
        KeyError
            If no event waits under this key.

        Examples
        --------
        >>> import streamk
        >>> learner = streamk.KernelClassifier(seed=7)
        >>> answer = learner.ask_one("order 1", {"amount": 3.0})
        >>> stored = learner.set_aside("order 1")
        >>> list(learner.waiting)
        []
        >>> learner.take_back("order 1", stored)
        >>> learner.tell_one("order 1", "fine")
        """
        return self._waiting.set_aside(key, self._codec.inputs.scaled)

    def take_back(self, key: Hashable, stored: bytes) -> None:
        """Let an event wait again that :meth:`set_aside` returned; take each back once.

        Raises
        ------
        ValueError
            If an event waits under this key, or the bytes are damaged or another learner's.
        """
        self._waiting.take_back(key, stored, *self._waits_with())

    def _waits_with(self) -> tuple[int, Live]:
        """Return the number of experts, and the arrays of the combiner, whose values waiting events have."""
        return 0, []

    def _hold(self, key: Hashable, x: Event) -> None:
        """Hold an event that was predicted."""
        self._waiting.hold(key, x, self.events, self._seen(x))

    def _seen(self, x: Event) -> Seen | None:
        """Return what is held of an event that was predicted, besides its fields."""
        return None

    def _tell(self, held: Held, y: object, w: float) -> None:
        """Learn an event that waited."""
        self.learn_one(held.x, y, w)

    def _waits_no_longer(self, held: Held) -> None:
        """Record that an event has no label."""

    @abstractmethod
    def _check_targets(self, values: Sequence[object], weights: Sequence[float]) -> Sequence[object]:
        """Return targets as learners take them; raise the ValueError of the first that they cannot take."""

    @abstractmethod
    def predict_one(self, x: Event) -> Label | float | None:
        """Return the prediction of one event."""

    @abstractmethod
    def learn_one(self, x: Event, y: Any, w: float = 1.0) -> None:
        """Learn one event."""

    @property
    @abstractmethod
    def _has_begun(self) -> bool:
        """Whether it holds any state that merging must use."""

    def _must_lead(self) -> int:
        """Return how many events one copy must learn alone before copies can learn in parallel."""
        return 0

    def _may_learn_apart(self, copies: int) -> float:
        """Return how many events each copy may learn before all copies should be merged."""
        return math.inf

    def _settle(self) -> None:
        """Do what is due after merging."""

    def _pass_by(self, counts: bool) -> None:
        """Record an event without a label, if it ``counts``."""

    @abstractmethod
    def view_array(self, X: object, names: Sequence[str] | None = None) -> Array:
        """Return predictions as an array, and leave no trace of them in the learner.

        ``predict_many`` counts the events that it predicts, by which ``Kernel…`` learners see how late labels
        come. This is for events whose labels never come to this learner, as those of a service that
        answers while it learns: the model is the same, to the byte, with and without them.

        Parameters
        ----------
        X, names
            As for :meth:`learn_many`.

        Returns
        -------
        array
            Probabilities ``(n, labels)``, or numbers ``(n,)``.

        Examples
        --------
        >>> import streamk
        >>> learner = streamk.KernelRegressor(seed=7)
        >>> learner.learn_many([{"a": float(i % 7)} for i in range(200)], [float(i % 7) for i in range(200)])
        >>> learner.view_array([{"a": 3.0}]).round(1)
        array([3.])
        """

    def _explain(self, x: Event, column: int, untrained: float) -> Explanation:
        """Return an output as a sum; ``untrained`` is its value before any learning."""

        def predict(rows: EncodedRows) -> Array:
            return padded(self._predict_alike(rows), (len(rows.values), column + 1))[:, column]

        with self._leave_no_trace():
            out = self._predict_event(x)
        if out is None:
            return Explanation(untrained, untrained, dict.fromkeys(map(name_of, x), 0.0))
        prediction = float(out[column]) if column < len(out) else 0.0
        return explain(self._codec.inputs, x, prediction, self._background(), predict)

    def _background(self) -> EncodedRows | None:
        """Return recent events, if it stores any."""
        return None

    @abstractmethod
    def _predict_alike(self, rows: EncodedRows) -> Array:
        """Return predictions ``(n, K)`` of checked rows, each as the next event, after any learning."""

    def _leave_no_trace(self) -> AbstractContextManager[None]:
        """Return a context in which predictions count nothing."""
        return nullcontext()

    @abstractmethod
    def frozen(self) -> Self:
        """Return the model to deploy where no labels come."""

    def learn_many(self, X: object, y: object, w: object = None, names: Sequence[str] | None = None) -> None:
        """Learn many events: the same model as a loop of ``learn_one``, in one compiled loop.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame, a NumPy array with ``names``, or a list of dicts.
        y
            The targets: a series, an array or a list. None for an event without one, which is not learned.
        w
            Sample weights, all 1 by default.
        names
            Column names of an array.

        Raises
        ------
        ValueError
            If any value, target or weight cannot be taken, naming field and row; nothing was
            then learned.
        """
        self._pass(X, y, w, names, wanted=False)

    @property
    def number_names(self) -> list[str] | None:
        """Names of its numbers, None if it needs no names (``scale_inputs=False``)."""
        inputs = self._codec.inputs
        return list(inputs.numbers) if inputs.registers else None

    @property
    def has_inputs(self) -> bool:
        """Whether it has any named input; never with ``scale_inputs=False`` and no strings."""
        inputs = self._codec.inputs
        return bool(inputs.numbers or inputs.known_categories())

    @property
    def changed_fields(self) -> tuple[tuple[str, bool], ...]:
        """Fields that became categories (True) or numbers (False); a new tuple after each change."""
        return self._codec.inputs.changed

    def save(self, path: str | Path, extra: object = None) -> int:
        """Write the model to ``path`` and return its size in bytes.

        The file is safetensors with a JSON header (:mod:`streamk.model_file`); it is written next
        to ``path`` and renamed, so a crash leaves the old file or the new one. Events waiting for
        their block are saved too.

        Parameters
        ----------
        path
            The file, in a directory that exists.
        extra
            JSON values to keep in the same file; :func:`streamk.learners.loading.loads_with_extra` returns
            them.
        """
        header, arrays = self._to_parts()
        return model_file.write(path, header if extra is None else {**header, "extra": extra}, arrays)

    def to_bytes(self) -> bytes:
        """Return what :meth:`save` would write."""
        return model_file.pack(*self._to_parts())

    def _get_params(self) -> Json:
        """Return the parameters, without river's inspection of the signature at every call."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _parameters(self) -> Json:
        """Return the parameters as values that JSON takes."""
        parameters = {k: plain(v) for k, v in self._get_params().items()}
        return {
            name: [plain(v) for v in value] if isinstance(value, tuple) else value
            for name, value in parameters.items()
        }

    @classmethod
    def _with_parameters(cls, parameters: Json) -> Self:
        """Return an untrained learner with the parameters that :meth:`_parameters` returned."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()})

    def _draw_seed(self) -> int:
        """Return the seed to begin with: the parameter, or a new one if it is None."""
        return secrets.randbits(63) if self.seed is None else self.seed

    def _copied(self, header: Json, arrays: Arrays) -> Self:
        """Return the closed learner of a copy of these parts."""
        return self._from_parts(header, {name: array.copy() for name, array in arrays.items()}, closed=True)

    def _check_whole(self, header: Json, arrays: Arrays) -> None:
        """Raise a ValueError if a model file has parts that this learner, made from it, would not save."""
        if model_file.pack(*self._to_parts()) != model_file.pack(header, arrays):
            raise ValueError("it has parts that do not belong to it")

    def _check_labels(self, targets: Iterable[float]) -> None:
        """Raise a ValueError if a target of a stored event is the code of no label."""
        if self._codec.labels is not None and not set(targets) <= set(range(len(self._codec.labels))):
            raise ValueError("an event that it stores has no label")

    @abstractmethod
    def _to_parts(self) -> tuple[Json, Arrays]:
        """Return the header and the arrays of a model file."""

    @classmethod
    @abstractmethod
    def _from_parts(cls, header: Json, arrays: Arrays, closed: bool = False) -> Self:
        """Return the learner of these parts."""

    @abstractmethod
    def _pass(
        self, X: object, y: object, w: object, names: ColumnNames, wanted: bool, scales_only: bool = False
    ) -> tuple[Batch, Array]:
        """Learn a batch; return it with the predictions made before each row, if ``wanted``.

        If ``scales_only``, learn the names, labels and scales of the codec, and nothing else.
        """

    @abstractmethod
    def _prepare(self, rows: Batch, weights: Array) -> None:
        """Check every row and register the names of those with weight; unchanged on error."""

    @abstractmethod
    def _learn_event(self, x: Event, target: float, weight: float, outputs: int) -> None:
        """Learn one event whose target has been checked; nothing changes if ``x`` is invalid."""

    @abstractmethod
    def _learn_batch(self, rows: Batch, goal: Array, outputs: int, wanted: bool) -> Array:
        """Learn the rows in order and, if ``wanted``, return the predictions made before each.

        ``goal`` is ``(2, n)``: target and weight. Targets and rows have been checked.
        """

    def _observe_batch(self, rows: Batch, goal: Array, outputs: int, wanted: bool) -> Array:
        """Let the codec learn scales from rows, passed as to :meth:`_learn_batch`; no event counts."""
        codec, before = self._codec, self._codec.counts.copy()
        for where, portion in portions(rows, codec.inputs, goal[1] > 0.0):
            targets, weights = goal[:, where]
            for part in slices(len(portion), _PIECE):
                learned = np.flatnonzero(weights[part] > 0.0)
                piece = portion.rows(codec.inputs, part.start, part.stop).select(learned)
                of_learned = (targets[part][learned], weights[part][learned])
                observe_block(
                    make_handle(codec.coding(_NOTHING)),
                    codec.inputs.transform(piece),
                    *map(np.ascontiguousarray, of_learned),
                )
        codec.counts[[EVENTS, KNOWN]] = before[[EVENTS, KNOWN]]
        return np.zeros((0, outputs))

    @abstractmethod
    def _predict_event(self, x: Event) -> Array | None:
        """Return the prediction of one event, ``(K,)``, or None before any learning."""

    @abstractmethod
    def _predict_batch(self, rows: Batch) -> Array:
        """Return predictions of every row, ``(n, K)``; K is 0 before any learning."""


def with_prefix(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays whose names begin so, by what follows."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
