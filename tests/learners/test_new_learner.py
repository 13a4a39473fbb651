"""A new update rule and its learners are one file of an expert and one of learners, and nothing else changes.

The rule here is the perceptron's with a fixed step, ``A ← A + η r φ/F``, and the sum of its steps is state of
its own. It obeys the laws of all learners: passes, files, copies, growth, merging, river's checks.

A new family of columns is one file and one line of the registry; the one here counts the inputs of an event.
"""

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numba.core.caching import NullCache
from river.checks import yield_checks

import streamk
from streamk.dispatch import implements
from streamk.experts.expert import ITERATE, Expert, count_step, step
from streamk.features import sections
from streamk.features.columns import FAMILIES
from streamk.features.columns.family import Family, fill
from streamk.features.plans import WITHOUT
from streamk.features.sections import COARSE, Sections
from streamk.learners import loading, streaming
from streamk.learners.classifier import Classifier
from streamk.learners.regressor import Regressor
from streamk.learners.streaming import StreamingLearner
from streamk.losses import residuals
from streamk.schedules import Growth
from streamk.state import SUM, Field, Stateful
from streamk.vector.linear_algebra import add_scaled, clear
from tests.laws.subjects import events
from tests.laws.test_same_model import looped, prequential

Nudging = namedtuple("Nudging", "first features coefficients clock loss gain nudged")


class Nudge(Expert):
    """A step of fixed length along the residual."""

    rule = "nudge"
    record_type = Nudging

    def __init__(self, loss: int, gain: float, columns: slice | None = None) -> None:
        super().__init__(loss, columns=columns)
        self.gain, self.nudged = gain, np.zeros(1)

    def fields(self) -> Iterator[Field | Stateful]:
        yield from super().fields()
        yield Field("nudged", "sums of steps", 0.0, 1e300, merge=SUM)


@implements(step, Nudging)
def _step(expert, e, observation):
    phi, i, outputs, aim, known, weight, residual, _ = observation
    residuals(expert.loss, outputs[e, ITERATE, :known], aim, residual[:known])
    columns = expert.coefficients.shape[2]
    for k in range(known):
        amount = np.float32(expert.gain * weight * residual[k] / expert.features)
        add_scaled(expert.coefficients, k * columns, amount, phi, i * phi.shape[1] + expert.first, columns)
        expert.nudged[0] += abs(residual[k])
    count_step(expert.clock, expert.coefficients)


Sizes = namedtuple("Sizes", "first")


class SizeColumns(Family):
    """The number of inputs, and columns that are 0."""

    name, record_type = "sizes", Sizes

    def __init__(self, plan, quadratic):
        super().__init__(plan, quadratic)
        self.width = 64


@implements(fill, Sizes)
def _fill(family, sections, scratch, i, learned, phi):
    clear(phi, i * phi.shape[1] + family.first, 64)
    phi[i, family.first] = scratch.counts[i]


@dataclass(eq=False, repr=False)
class _Nudged(StreamingLearner):
    kernel: str | tuple[str, ...] = "gaussian"
    bandwidth: float | None = None
    scales: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5)
    features: int = 128
    growth: str = "fixed"
    period: int = 1000
    max_features: int = 16384
    loss: str = "squared"
    regularization: float = 0.3  # the step
    average: bool = False
    scale_inputs: bool = True
    directions: str = "keyed"
    seed: int | None = None
    family = "nudged"
    _losses: ClassVar[dict[bool, tuple[str, ...]]] = {True: ("squared",), False: ("squared",)}

    def __post_init__(self) -> None:
        growth = Growth(self.growth, self.period, self.features, self.max_features)
        self._begin([Nudge(self._check(), self.regularization)], growth)

    @classmethod
    def _unit_test_params(cls):
        yield {"seed": 7}


@dataclass(eq=False, repr=False)
class NudgedClassifier(_Nudged, Classifier):
    """A classifier by the rule."""


@dataclass(eq=False, repr=False)
class NudgedRegressor(_Nudged, Regressor):
    """A regressor by the rule."""

    scale_target: bool = True


@dataclass(eq=False, repr=False)
class SizedRegressor(_Nudged, Regressor):
    """A regressor by the rule that sees how many inputs an event has, and nothing else."""

    kernel: str | tuple[str, ...] = ("laplacian", "gaussian")
    scales: tuple[float, ...] = COARSE
    features: int = 768
    scale_target: bool = False

    def __post_init__(self) -> None:
        columns = self._make_sections().columns_of("sizes")
        expert = Nudge(self._check(), self.regularization, columns)
        self._begin([expert], Growth("fixed", 1000, self.features, self.features))

    def _make_sections(self) -> Sections:
        return Sections(768, False, plan=WITHOUT)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    """Register the learners, and keep a rule of a test out of the shared cache of compiled code."""
    monkeypatch.setattr(sections, "FAMILIES", (*FAMILIES, SizeColumns))
    for cls in (NudgedClassifier, NudgedRegressor, SizedRegressor):
        monkeypatch.setitem(loading._CLASSES, cls.__name__, cls)
    monkeypatch.setattr(streaming.compiled, "_cache", NullCache())


@pytest.fixture(params=[NudgedClassifier, NudgedRegressor])
def make(request):
    return lambda **settings: request.param(**{"seed": 3, **settings})


def test_it_learns():
    pairs = events(600, seed=4)
    found = looped(NudgedClassifier(seed=3), pairs)
    decided = [max(p, key=p.get) if p else None for p in found]
    right = sum(guess == y for guess, (_, y) in zip(decided[300:], pairs[300:], strict=True))
    commonest = max(sum(y == label for _, y in pairs[300:]) for label in {y for _, y in pairs})
    assert right > commonest + 30


def test_passes_files_copies_and_growth(make):
    settings = {"features": 64, "growth": "linear", "period": 50, "max_features": 192, "average": True}
    one, many = make(**settings), make(**settings)
    pairs = events(classifies=one.classifies)
    xs, ys = map(list, zip(*pairs, strict=True))
    looped(one, pairs)
    prequential(many, xs, ys)
    assert one.to_bytes() == many.to_bytes()
    again = streamk.loads(one.to_bytes())
    assert again._experts[0].nudged == one._experts[0].nudged > 0.0
    assert looped(again, pairs) == looped(one, pairs)
    assert again.to_bytes() == one.to_bytes()


@pytest.mark.parametrize("impossible", [np.nan, -1.0, 1e301])
def test_a_file_with_impossible_state_is_refused(make, impossible):
    learner = make()
    looped(learner, events(20, classifies=learner.classifies))
    header, arrays = learner._to_parts()
    arrays["expert0.nudged"] = np.full(1, impossible)
    with pytest.raises(ValueError, match="sums of steps are impossible"):
        type(learner)._from_parts(header, arrays)
    learner._experts[0].nudged[:] = impossible  # what is written can be read
    again = streamk.loads(learner.to_bytes())
    assert again._experts[0].nudged[0] == {-1.0: 0.0, 1e301: 1e300}.get(impossible, 0.0)
    assert again.to_bytes() == learner.to_bytes()


def test_merging(make):
    halves = make(scale_inputs=False), make(scale_inputs=False)
    pairs = events(classifies=halves[0].classifies)
    for half, some in zip(halves, (pairs[:60], pairs[60:]), strict=True):
        looped(half, some)
    merged = streamk.merge(halves)
    assert merged.events == 120
    assert merged._experts[0].nudged == pytest.approx(sum(half._experts[0].nudged[0] for half in halves))


@pytest.mark.parametrize("cls", [NudgedClassifier, NudgedRegressor])
def test_checks_of_river(cls):
    for check in yield_checks(cls(seed=3)):
        check(cls(seed=3))


def test_a_family_of_columns_is_used_saved_and_merged():
    xs = [dict.fromkeys("abc"[: 1 + k % 3], float(k % 5)) for k in range(300)]
    one, many = SizedRegressor(seed=3), SizedRegressor(seed=3)
    for x in xs:
        one.learn_one(x, len(x) / 10.0)
    many.learn_many(xs, [len(x) / 10.0 for x in xs])
    assert one.to_bytes() == many.to_bytes()
    few, more = one.predict_one({"a": 1.0}), one.predict_one({"a": 1.0, "b": 1.0, "c": 1.0})
    assert few < 0.2 < more
    again = streamk.loads(one.to_bytes())
    assert again.predict_many(xs[:9]) == one.predict_many(xs[:9])
    merged = streamk.merge([one, many])
    np.testing.assert_allclose(merged.predict_many(xs[:9]), one.predict_many(xs[:9]), rtol=1e-5)
    assert merged._map.sections.columns_of("sizes") == slice(merged._map.columns - 64, merged._map.columns)
