"""scikit-learn estimators of the default learners, for tables (``pip install 'streamk[sklearn]'``).

``fit`` makes passes over the rows, each in another random order, and predictions come from the frozen model
(:meth:`streamk.KernelClassifier.frozen`): rows of a table have no order, so no label predicts the next.
Equal rows with equal targets are joined into one with the sum of their weights, and a seeded hash of what
rows hold decides their order. So the model depends on the set of rows and not on their order, a weight of 2
is the row twice, and rows of weight 0 do not count.

``partial_fit`` learns rows once, in their order, as a stream.

A data frame may hold numbers, booleans, strings, dates and missing values; an array holds numbers and NaN.
"""

# mypy: disable-error-code="misc"
from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, assert_all_finite, check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

import streamk
from streamk.arrays import AnyArray, Array, Places
from streamk.encoding.batches import Batch
from streamk.encoding.frames import batch
from streamk.encoding.keys import category_key
from streamk.features.counter import mix64
from streamk.learners.kernel_loop import COMBINER, EVERYTHING, EXPERTS

__all__ = ["KernelClassifier", "KernelRegressor"]

Hashes = NDArray[np.uint64]
_EVENTS, _MOST = 100_000, 16  # that passes may learn together, and how many passes there may be
_COMPARED, _PART = 16, 1024  # one row in so many is for combiners, after so many rows of experts
_OPENS = 2 / 3  # part of the events after which no block of features opens
_HELD_OUT = 5  # one row in so many, to choose the number of passes
_LEAST = 1e-3  # probability of a label that is scored
_SEEDS = 2**31


_Rows = AnyArray | nw.DataFrame[IntoDataFrame]


def _hashes(rows: _Rows, targets: AnyArray) -> Hashes:
    """Return a hash of each row and its target."""
    if isinstance(rows, np.ndarray):
        columns = list(rows.T)
    else:
        columns = [rows.get_column(name).to_numpy() for name in sorted(rows.columns)]
    hashes: Hashes = np.zeros(len(targets), dtype=np.uint64)
    for column in (targets, *columns):
        hashes = mix64.py_func(hashes ^ _bits(column))
    return hashes


def _bits(column: AnyArray) -> Hashes:
    """Return 64 bits of each value; equal values have equal bits, and so have all NaN."""
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64) + 0.0  # −0 is 0
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.uint64)
    values = [(type(value).__name__, str(value)) for value in column.tolist()]
    keys = {value: category_key(*value) for value in set(values)}
    return np.array([keys[value] for value in values], dtype=np.uint64)


@dataclass(frozen=True)
class _Sample:
    """Rows with their targets, weights and hashes."""

    rows: Batch
    targets: AnyArray
    weights: Array
    hashes: Hashes

    def select(self, places: Places) -> _Sample:
        """Return the rows at these places, in this order."""
        return _Sample(
            self.rows.select(places), self.targets[places], self.weights[places], self.hashes[places]
        )

    def joined(self) -> _Sample:
        """Return each set of equal rows as one of their whole weight, without rows of weight 0."""
        weighted = np.flatnonzero(self.weights)
        _, first, group = np.unique(self.hashes[weighted], return_index=True, return_inverse=True)
        joined = np.bincount(group, self.weights[weighted]).astype(np.float64)
        return replace(self.select(weighted[first]), weights=joined)

    def shuffled(self, seed: int) -> _Sample:
        """Return the rows in an order that depends on their hashes and a seed alone."""
        return self.select(np.argsort(mix64.py_func(self.hashes + np.uint64(seed)), kind="stable"))

    def teach(self, learner: _Learner, number: int, until: int, last: bool) -> None:
        """Let a learner learn the rows in their order, in pass ``number`` of so many ``until`` it predicts.

        A row that experts have learned before does not say how good they are. So until the last pass, some
        rows are held out from them, and only from these do combiners learn after the first one. A block of
        features opens only if half as many events as so far follow, since it must learn before it is of use.
        """
        first = number == 0
        for start in range(0, len(self.targets), _PART):
            part = np.arange(start, min(start + _PART, len(self.targets)))
            held = self.hashes[part] % np.uint64(_COMPARED) == 0
            kinds = [(~held, EVERYTHING if first else EXPERTS), (held, EVERYTHING if last else COMBINER)]
            for of_kind, teaches in [(held | True, EVERYTHING)] if first and last else kinds:
                rows = self.select(part[of_kind])
                learner._teaches, growth = teaches, learner._growth  # which a restart replaces
                growth.count(growth.openings)
                if growth.next > _OPENS * until * len(self.targets):
                    growth.next = np.inf
                if len(rows.targets):
                    learner.learn_many(rows.rows, rows.targets.tolist(), rows.weights)
        learner._teaches = EVERYTHING


_Learner = streamk.KernelClassifier | streamk.KernelRegressor


def _check_targets(X: ArrayLike, y: ArrayLike) -> AnyArray:
    targets: AnyArray = column_or_1d(y, warn=True)
    assert_all_finite(targets, input_name="y")
    check_consistent_length(X, targets)
    return targets


def _check_weights(X: ArrayLike, weights: object) -> Array:
    """Return weights, one for each row, at least 0; all of them may be 0."""
    array = None if weights is None else np.asarray(weights, dtype=np.float64)
    nothing = array is not None and not array.any()
    if array is not None and nothing:  # scikit-learn 1.9 rejects them
        weights = np.ones(array.shape) if array.ndim else 1.0
    checked: Array = _check_sample_weight(weights, X, dtype=np.float64, ensure_non_negative=True)
    return np.zeros_like(checked) if nothing else checked


class _KernelEstimator(BaseEstimator):
    """Parameters, checks and passes; the estimators add what their targets are."""

    learner_: _Learner
    _learner_class: type[_Learner]
    _model: _Learner

    def __init__(
        self,
        features: int = 1536,
        relevance: bool = True,
        budget: str = "default",
        passes: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.features = features
        self.relevance = relevance
        self.budget = budget
        self.passes = passes
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the estimator by passes over the rows, each in a random order.

        Parameters
        ----------
        X
            Rows, ``(n, n_features)``: a data frame, or an array of numbers.
        y
            Targets, ``(n,)``.
        sample_weight
            Weights of the rows, ``(n,)``: at least 0, not all 0; 1 by default.

        Raises
        ------
        ValueError
            If values, shapes, weights or parameters cannot be used.
        """
        if self.passes is not None and self.passes < 1:
            raise ValueError(f"passes={self.passes!r}: passes must be at least 1, or None")
        rows = self._check_rows(X, reset=True)
        targets = self._set_targets(_check_targets(X, y))
        weights = self._weigh(targets, _check_weights(X, sample_weight))
        if not weights.any():
            raise ValueError("all sample weights are zero; at least one row must count")
        sample = _Sample(self._batch(rows), targets, weights, _hashes(rows, targets)).joined()
        seed = self._draw_seed()
        learner, made = (self._new_learner(seed), 0) if self.passes else self._try_passes(sample, seed)
        self.n_passes_ = self.passes or made + 1
        for number in range(made, self.n_passes_):
            order = sample.shuffled(seed + _SEEDS * number)
            order.teach(learner, number, self.n_passes_, number == self.n_passes_ - 1)
        self._set_learner(learner)
        return self

    def _partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None, weight: object) -> Self:
        first = not hasattr(self, "learner_")
        rows, y = self._check_rows(X, reset=first), _check_targets(X, y)
        if not first and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            passed, known = np.asarray(classes).tolist(), self.classes_.tolist()
            raise ValueError(f"classes={passed!r}: classes are {known} since the first call")
        targets = self._set_targets(y, classes) if first else self._encode(y)
        weights = self._weigh(targets, _check_weights(X, weight))
        learner = self._new_learner(self._draw_seed()) if first else self.learner_
        if first or weights.any():
            learner.learn_many(self._batch(rows), targets.tolist(), weights)
            self._set_learner(learner)
        return self

    def _weigh(self, targets: AnyArray, weights: Array) -> Array:
        """Return weights times those of the rows' classes."""
        return weights

    def _set_learner(self, learner: _Learner) -> None:
        self.learner_, self._model = learner, learner.frozen()

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(_SEEDS))

    def _new_learner(self, seed: int) -> _Learner:
        learner = self._learner_class(
            features=self.features,
            relevance=self.relevance,
            budget=self.budget,
            label_memory=False,
            neighbours=False,  # in a second pass, the nearest event would be the row itself
            seed=seed,
        )
        learner._shuffled.learns = False
        return learner

    def _try_passes(self, sample: _Sample, seed: int) -> tuple[_Learner, int]:
        """Return a learner after as many passes over four rows of five as err least on the fifth; and these.

        1, 2, 4, … passes are tried until the error rises. If one is best, or rows are many, the learner has
        made none.
        """
        rows, learner = len(sample.targets), self._new_learner(seed)
        most, order = min(_MOST, _EVENTS // rows), sample.shuffled(seed)
        training, test = (
            order.select(part) for part in np.split(np.arange(rows), [rows - rows // _HELD_OUT])
        )
        best, made, least, until = learner, 0, np.inf, 1
        while most > 1 and until <= most and len(test.targets):
            for number in range(until // 2, until):
                training.shuffled(seed + _SEEDS * number).teach(learner, number, until, False)
            with learner._without_labels() as model:
                error = self._error(model, test)
            if error >= least:
                break
            made, least, until = until, error, 2 * until
            best = copy.deepcopy(learner) if made > 1 and until <= most else learner
        return (best, made) if made > 1 else (self._new_learner(seed), 0)

    def _check_rows(self, X: ArrayLike, reset: bool = False) -> _Rows:
        """Return rows that have been checked: a frame with the names of columns, or numbers."""
        if not nw.dependencies.is_into_dataframe(X):
            rows: Array = validate_data(
                self,
                X,
                reset=reset,
                dtype=np.float64,
                order="F",  # columns are selected one by one
                ensure_all_finite="allow-nan",
            )
            return rows
        validate_data(self, X, reset=reset, skip_check_array=True)
        frame = nw.from_native(X, eager_only=True)
        if not len(frame):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return frame.rename(dict(zip(frame.columns, self._names(), strict=True)))

    def _batch(self, rows: _Rows) -> Batch:
        """Return checked rows as learners take them."""
        return batch(rows, self._names()) if isinstance(rows, np.ndarray) else batch(rows.to_native())

    def _names(self) -> list[str]:
        """Return the names of columns; by their places if they had none, or names that are no strings."""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if names is None else list(names)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class KernelClassifier(ClassifierMixin, _KernelEstimator):
    """:class:`streamk.KernelClassifier` as an estimator of scikit-learn.

    Parameters
    ----------
    features, relevance, budget
        As for :class:`streamk.KernelClassifier`.
    passes
        How often all rows are learned. None learns four rows of five 1, 2, 4, 8 and 16 times, until the error
        on the fifth rises, and after the best of these continues with one pass over all rows. There is only
        this pass if no second one helps, or above 50,000 rows.
    random_state
        The seed of features and orders.
    class_weight
        Weights of the labels, ``{label: weight}``, by which those of rows are multiplied: 1 for labels that
        are missing. ``"balanced"``, in ``fit`` alone, gives all labels the same whole weight: ``Σ w`` of all
        rows / (number of labels · ``Σ w`` of the label's).

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    learner_ : streamk.KernelClassifier
        The learner; its labels are places in ``classes_``.
    n_passes_ : int
        Passes that ``fit`` made.
    n_features_in_, feature_names_in_
        Columns of the rows that were fitted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from streamk.sklearn import KernelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(cross_val_score(KernelClassifier(random_state=0), X, y).mean() > 0.93)
    True
    """

    learner_: streamk.KernelClassifier
    _model: streamk.KernelClassifier
    _learner_class = streamk.KernelClassifier

    def __init__(
        self,
        features: int = 1536,
        relevance: bool = True,
        budget: str = "default",
        passes: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        class_weight: Mapping[str, float] | Mapping[int, float] | Mapping[bool, float] | str | None = None,
    ) -> None:
        super().__init__(features, relevance, budget, passes, random_state)
        self.class_weight = class_weight

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn rows once, in their order.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.
        sample_weight
            As for :meth:`fit`; rows whose weights are all 0 change nothing.
        classes
            All labels that will come, at the first call; those of ``y`` by default.

        Raises
        ------
        ValueError
            If rows cannot be used, a label is not in ``classes_``, ``classes`` changes, or ``class_weight``
            is ``"balanced"``, which needs all rows.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' is not supported for partial_fit, which does not see all rows; pass "
                "the weights as a dict, computed with sklearn.utils.compute_class_weight from a sample"
            )
        return self._partial_fit(X, y, classes, sample_weight)

    def predict(self, X: ArrayLike) -> AnyArray:
        """Return the most probable label of every row, ``(n,)``."""
        probabilities = self.predict_proba(X)
        labels: AnyArray = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return probabilities, ``(n, n_classes)``, in the order of ``classes_``."""
        check_is_fitted(self)
        return self._probabilities(self._model, self._batch(self._check_rows(X)))

    def _probabilities(self, model: streamk.KernelClassifier, rows: Batch) -> Array:
        if not model.labels:  # no row has counted yet
            return np.full((len(rows), len(self.classes_)), 1.0 / len(self.classes_))
        out = np.zeros((len(rows), len(self.classes_)))
        out[:, np.array(model.labels, dtype=np.intp)] = model.view_array(rows)
        return out

    def _error(self, model: streamk.KernelClassifier, test: _Sample) -> float:
        """Return the mean log loss."""
        likelihoods = self._probabilities(model, test.rows)[np.arange(len(test.targets)), test.targets]
        return float(np.average(-np.log(np.maximum(likelihoods, _LEAST)), weights=test.weights))

    def _weigh(self, targets: AnyArray, weights: Array) -> Array:
        if self.class_weight is None:
            return weights
        if self.class_weight == "balanced":
            totals = np.bincount(targets, weights, len(self.classes_))
            each = totals.sum() / (np.count_nonzero(totals) * np.where(totals > 0.0, totals, np.inf))
        else:
            each = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        if not (np.isfinite(each) & (each >= 0.0)).all():
            raise ValueError(
                f"class_weight={self.class_weight!r}: a weight must be a finite number, at least 0"
            )
        weighted: Array = weights * each[targets]
        return weighted

    def _set_targets(self, y: AnyArray, classes: ArrayLike | None = None) -> AnyArray:
        check_classification_targets(y)
        self.classes_ = np.unique(y if classes is None else np.asarray(classes))
        return self._encode(y)

    def _encode(self, y: AnyArray) -> AnyArray:
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        if (unknown := self.classes_[codes] != y).any():
            raise ValueError(
                f"y has the label {y[unknown][:1].tolist()[0]!r}, which is not in classes; name all at first"
            )
        return codes


class KernelRegressor(RegressorMixin, _KernelEstimator):
    """:class:`streamk.KernelRegressor` as an estimator of scikit-learn.

    Parameters
    ----------
    features, relevance, budget
        As for :class:`streamk.KernelRegressor`.
    passes, random_state
        As for :class:`KernelClassifier`.

    Attributes
    ----------
    learner_ : streamk.KernelRegressor
        The learner.
    n_passes_, n_features_in_, feature_names_in_
        As for :class:`KernelClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.sklearn import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(500, 1))
    >>> model = KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    learner_: streamk.KernelRegressor
    _model: streamk.KernelRegressor
    _learner_class = streamk.KernelRegressor

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn rows once, in their order; parameters as of :meth:`fit`, and weights may all be 0."""
        return self._partial_fit(X, y, None, sample_weight)

    def predict(self, X: ArrayLike) -> Array:
        """Return the prediction of every row, ``(n,)``."""
        check_is_fitted(self)
        return self._model.view_array(self._batch(self._check_rows(X)))

    def _error(self, model: streamk.KernelRegressor, test: _Sample) -> float:
        """Return the mean squared error."""
        errors = model.view_array(test.rows) - test.targets
        return float(np.average(errors**2, weights=test.weights))

    def _set_targets(self, y: AnyArray, classes: ArrayLike | None = None) -> AnyArray:
        return self._encode(y)

    def _encode(self, y: AnyArray) -> Array:
        return np.asarray(y, dtype=np.float64)
