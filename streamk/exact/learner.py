"""The base class of exact learners, whose model is an expansion over stored centers.

There are two kinds: some solve a reservoir of events again from time to time
(:mod:`streamk.exact.reservoir`), others change the coefficients with every batch
(:mod:`streamk.exact.eigenpro`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from streamk.arrays import Array, Arrays, Floats, Json
from streamk.combining.calibration import project_simplex
from streamk.encoding.batches import Batch
from streamk.encoding.codec import Codec, outputs_after
from streamk.encoding.fields import Event
from streamk.encoding.inputs import Inputs
from streamk.encoding.labels import Labels
from streamk.encoding.rows import LARGEST_UNSCALED, EncodedRows, slices
from streamk.encoding.scaling import MEAN, TARGET_CLIP, spread
from streamk.exact.expansion import Expansion, InputColumns
from streamk.handles import make_handle
from streamk.kernels import Kernel
from streamk.kernels import kernel as kernel_named
from streamk.learners.kernel_loop import observe_block
from streamk.learners.learner import Learner, with_prefix

_PIECE = 4096
_DOUBT = 0.01  # of a probability is spread over all classes, so that none is impossible
_NOTHING = np.zeros(0)
_TOO_MANY_NAMES = "Use scale_inputs=False, which stores no names, or put a free-form field into a string"


class ExactLearner(Learner):
    """A learner whose model is an expansion over events, or over centers made of events.

    Outputs of classes estimate their probabilities, from targets of 1 and 0. The probabilities are the
    nearest point of the simplex, with a hundredth spread equally over all classes.
    """

    kernel: str
    bandwidth: float | None
    scale_inputs: bool
    seed: int | None
    _expansion: Expansion | None
    _kernel: Kernel

    def _begin(self) -> None:
        """Initialise the untrained learner."""
        self._kernel = kernel_named(self.kernel)
        labels = Labels() if self.classifies else None
        inputs = Inputs("keyed", self.scale_inputs, LARGEST_UNSCALED, remedy=_TOO_MANY_NAMES)
        self._expansion = None
        self._codec = Codec(inputs, labels)

    @abstractmethod
    def _take(self, rows: EncodedRows, goal: Array) -> None:
        """Learn rows with weight that have been checked, ``goal`` being ``(2, n)``: target and weight."""

    @abstractmethod
    def _until_due(self) -> int:
        """Return how many events with weight may be learned before predictions change."""

    def fit(
        self,
        X: object,
        y: object,
        w: object = None,
        names: Sequence[str] | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Reset the learner, learn a whole data set, and return the learner.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame, a NumPy array with ``names``, or a list of dicts.
        y, w
            Targets, and sample weights, all 1 by default.
        names
            Column names of an array.
        progress
            Whether to show a bar; by default in notebooks.

        Raises
        ------
        ValueError
            If a value, target or weight cannot be taken, or there is nothing to learn; the learner is then
            unchanged.
        """
        fresh = self.clone()
        fresh._fit(X, y, w, names, progress)
        self.__dict__.update(fresh.__dict__)
        return self

    @abstractmethod
    def _fit(
        self, X: object, y: object, w: object, names: Sequence[str] | None, progress: bool | None
    ) -> None:
        """Learn a whole data set; the learner is untrained."""

    @property
    def feature_count(self) -> int:
        """Centers of the expansion."""
        return 0 if self._expansion is None else len(self._expansion.centers)

    @property
    def _current_expansion(self) -> Expansion:
        """The expansion of a learner that has one."""
        if self._expansion is None:
            raise ValueError("the learner has no expansion")
        return self._expansion

    @property
    def _has_begun(self) -> bool:
        return self.events > 0

    def _observe(self, rows: EncodedRows, targets: Array) -> None:
        """Let scales, counters and the target's statistics learn from rows, all of them of weight 1.

        Equal weights, however heavy, are then a log of events to the last bit.
        """
        observe_block(make_handle(self._codec.coding(_NOTHING)), rows, targets, np.ones(len(targets)))

    def _columns(self, parts: Sequence[EncodedRows]) -> InputColumns:
        """Return the columns of rows, with the scales of this moment."""
        inputs = self._codec.inputs
        return InputColumns.of(parts, inputs.statistics[: inputs.slots])

    def _dense(self, columns: InputColumns, rows: EncodedRows) -> Floats:
        """Return rows as vectors with these columns."""
        return columns.dense(rows, len(self._codec.inputs.statistics))

    def _answers(self, rows: EncodedRows) -> Array:
        """Return predictions of checked rows, ``(n, K)``; K is 0 before there is an expansion."""
        if self._expansion is None:
            return np.zeros((len(rows.values), 0))
        outputs: Array = self._expansion.outputs(self._dense(self._expansion.columns, rows))
        if self.classifies:
            wide: Array = np.zeros((len(outputs), max(outputs.shape[1], self._codec.outputs)))
            for output, out in zip(outputs, wide[:, : outputs.shape[1]], strict=True):
                project_simplex(output, out)
                out += _DOUBT * (1.0 / len(out) - out)
            return wide
        return outputs

    def _predict_event(self, x: Event) -> Array | None:
        rows = self._codec.inputs.encode_checked(x, False)
        if self._expansion is None:
            return None
        answer: Array = self._answers(rows)[0]
        return answer

    def _learn_event(self, x: Event, target: float, weight: float, outputs: int) -> None:
        rows = self._codec.inputs.encode_checked(x, True)
        self._take(rows, np.array([[target], [weight]]))

    def _predict_batch(self, rows: Batch) -> Array:
        inputs = self._codec.inputs
        rows.prepare(inputs, None)
        parts = [self._answers(rows.rows(inputs, s.start, s.stop)) for s in slices(len(rows), _PIECE)]
        return np.concatenate(parts) if parts else np.zeros((0, self._codec.outputs))

    def _predict_alike(self, rows: EncodedRows) -> Array:
        return self._answers(rows)

    def _learn_batch(self, rows: Batch, goal: Array, outputs: int, wanted: bool) -> Array:
        out = np.zeros((len(rows) if wanted else 0, max(outputs, self._codec.outputs)))
        for piece in slices(len(rows), _PIECE):
            part, goals = rows.rows(self._codec.inputs, piece.start, piece.stop), goal[:, piece]
            start = 0
            while start < goals.shape[1]:
                learned = np.flatnonzero(goals[1, start:] > 0.0)
                due = self._until_due()
                stop = start + int(learned[due - 1]) + 1 if due <= len(learned) else goals.shape[1]
                cut = slice(start, stop)
                if wanted:
                    answers = self._answers(part.select(cut))
                    out[piece][cut, : answers.shape[1]] = answers
                taken = start + learned[learned < stop - start]
                if len(taken):
                    self._take(part.select(taken), goals[:, taken])
                start = stop
        return out

    def _prepare(self, rows: Batch, weights: Array) -> None:
        with self._codec.inputs.forgetting_on_error():
            rows.prepare(self._codec.inputs, weights > 0.0)

    def _targets(self, targets: Array) -> Array:
        """Return one column a class that is known, 1 for the class and 0 for others; or standardised numbers.

        Numbers without precedent, more than six deviations off, are taken as six.
        """
        if not self.classifies:
            centre, unit = self._unit()
            return np.clip((targets[:, None] - centre) / unit, -TARGET_CLIP, TARGET_CLIP)
        known = outputs_after(make_handle(self._codec.coding(_NOTHING)), targets.max())
        return np.asarray(targets[:, None] == np.arange(known), dtype=np.float64)

    def _unit(self) -> tuple[float, float]:
        """Return centre and unit of numeric targets: those the events so far had."""
        statistics = self._codec.target
        deviation = float(spread(statistics, 0))
        return float(statistics[0, MEAN]), deviation if deviation > 0.0 else 1.0

    def _in_units(self, expansion: Expansion) -> Expansion:
        """Return an expansion for standardised numbers as one that answers in the units of the target."""
        if self.classifies:
            return expansion
        centre, unit = self._unit()
        return expansion._replace(
            coefficients=expansion.coefficients * unit, bias=expansion.bias * unit + centre
        )

    def _to_parts(self) -> tuple[Json, Arrays]:
        arrays = {f"codec.{name}": array for name, array in self._codec.state_dict().items()}
        if self._expansion is not None:
            arrays |= self._expansion.state_dict()
        header = {
            "class": type(self).__name__,
            "parameters": self._parameters(),
            "events": self.events,
            **self._codec.header(),
        }
        return header, arrays | self._waiting.parts((), self._codec.inputs.scaled)

    @classmethod
    def _from_parts(cls, header: Json, arrays: Arrays, closed: bool = False) -> Self:
        self = cls._with_parameters(header["parameters"])
        self._codec.restore(header, with_prefix(arrays, "codec."))
        self._expansion = Expansion.restored(self._kernel, arrays, self._codec.target.shape[1])
        if self._expansion is not None and len(self._expansion.bias) > self._codec.outputs:
            raise ValueError("its expansion has too many outputs")
        self._restore(header, arrays, closed)
        if not closed:
            self._waiting.load(arrays, self._codec.inputs, (), (0, 0), self.events, 0)
            self._check_whole(header, arrays)
        return self

    @abstractmethod
    def _restore(self, header: Json, arrays: Arrays, closed: bool) -> None:
        """Load the state of the solver, in addition to codec and expansion, unless it is closed."""

    def closed(self) -> Self:
        """Return a learner that predicts the same and stores only codec and expansion.

        If it learns more events, it solves these alone, and predicts with the present expansion until then.
        """
        return self._copied(*self._to_parts())

    def frozen(self) -> Self:
        """Return the model to deploy where no labels come: that of :meth:`closed`."""
        return self.closed()
