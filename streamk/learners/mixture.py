"""The mixture: the experts of ``Kernel…`` learners, and the columns of the map that each of them uses.

The best gain, scale, loss, memory and order differ between streams by factors of a hundred, and features cost
more than experts. So all experts share one map:

* projections (Kaczmarz) on inputs alone, and on features and the label memory; for numbers two on coarse
  features, with gains of 1 and 0.3, one on all features, and one on all columns; for classes, whose loss is
  the margin loss, one on fine features and one on each block of features under learned relevance, and two
  with the squared loss: on coarse features, and on all features with a gain that falls with the number of
  events;
* recursive least squares on inputs and label memory, once without forgetting and once with a factor of 0.998,
  for classes with the logistic loss; and on each of two blocks of features under learned relevance, together
  with inputs and label memory. The latter restart when their error rises;
* for numbers, recursive least squares with a factor of 0.998 on products of two inputs
  (:mod:`streamk.features.columns.products`);
* for numbers, recursive least squares with a factor of 0.998 for the target's logarithm, on inputs and
  logarithms of recent labels (:mod:`streamk.experts.logarithm`);
* for numbers, recursive least squares in 32 directions of the features, and projections in the others
  (:mod:`streamk.experts.subspace`);
* projections onto the cells of random grids (:mod:`streamk.experts.tables`), for numbers that act like
  categories, edges, and combinations of inputs: one of all grids, one of those of each number of fields, and
  for numbers one that learns the target's logarithm;
* effects of single values on the first linear expert (:mod:`streamk.experts.values`), for categories of many
  values and numbers that are missing; and on these, effects of whole numbers, which may be codes;
* the five nearest of the last 512 events (:mod:`streamk.experts.neighbours`), for clusters that move;
* the last label, and for classes their frequencies.

Each of them is the best on some stream; :mod:`streamk.combining.stacking` learns their weights, and for
classes those of two saturated outputs: of logistic regression with forgetting, and of least squares on the
blocks. For numbers, one more expert learns the size of errors, for intervals; predictions do not use it.

*Retired* experts are projections with other gains, in models of earlier formats only. The mixture is as good
without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamk.arrays import Array
from streamk.experts.error_scale import ErrorScale
from streamk.experts.expert import Expert
from streamk.experts.least_squares import LeastSquares
from streamk.experts.logarithm import Logarithm
from streamk.experts.neighbours import Neighbours
from streamk.experts.projection import Projection
from streamk.experts.simple import LastLabel, Prior
from streamk.experts.subspace import Subspace
from streamk.experts.tables import Share, Tables
from streamk.experts.values import Values
from streamk.features.columns.plain import LINEAR, PLAIN
from streamk.features.plans import VALUES
from streamk.features.sections import Sections
from streamk.losses import CODES

_PENALTY = 0.5  # of a squared coefficient of least squares, in units of one event
_LOGISTIC_PENALTY = 200.0  # a 1 is 22.6 in plain columns of 1,536 features, so 0.4 for an input itself
_FADING = 0.998  # of least squares that forget, an event
_RANK = 32
_SMOOTH = slice(
    PLAIN, PLAIN + 96
)  # the first coarse features: 64 of the Laplacian kernel, 32 of the Gaussian
RELEVANT = "first block under relevance", "second block under relevance"
_FORGETTING = "inputs and labels, forgetting"
_RETIRED_OF_CLASSES = (
    "projection, coarse, gain 1.0",
    "projection, coarse, gain 0.1",
    "projection, first block under relevance, gain 0.1",
    "projection, second block under relevance, gain 0.1",
)
_RETIRED_OF_NUMBERS = (
    "projection, fine, gain 0.3",
    "projection, coarse, gain 0.1",
    "projection, coarse and fine, gain 0.1",
    "projection, squared, coarse and fine, falling gain",
)
_SATURATED = {
    "saturated, logistic": [f"logistic, {_FORGETTING}"],
    "saturated, least squares": [f"least squares, {name}" for name in RELEVANT],
}


def experts_on(
    sections: Sections,
    target: Array | None,
    label_memory: bool = True,
    binning: bool = True,
    neighbours: bool = True,
    retired: bool = False,
    logarithm: bool = True,
) -> dict[str, Expert]:
    """Return the experts by name, grouped by update rule, with the ``retired`` ones or without them.

    Numbers have one more for their ``logarithm``.
    ``target`` are the codec's statistics of a number to predict, None for classes.
    """
    classes = target is None
    squared = CODES["class" if classes else "number", "squared"]
    loss = CODES["class", "margin"] if classes else squared
    amplitude, columns = sections.amplitude, _columns_of(sections)
    experts: dict[str, Expert] = dict(_projections(columns, classes, label_memory))
    linear, penalty = (CODES["class", "logistic"], _LOGISTIC_PENALTY) if classes else (squared, _PENALTY)
    of_inputs = "logistic" if classes else "least squares"
    for name, forgetting in (("inputs and labels", 1.0), (_FORGETTING, _FADING)):
        experts[f"{of_inputs}, {name}"] = LeastSquares(
            linear, penalty, forgetting, columns["inputs and labels"], amplitude
        )
    products, cells = sections.columns_of("products"), sections.columns_of("cells")
    if products.stop > products.start:
        experts["least squares, products of inputs"] = LeastSquares(squared, _PENALTY, _FADING, products, 1.0)
    for part, name in enumerate(RELEVANT, 1):
        experts[f"least squares, {name}"] = LeastSquares(
            squared, _PENALTY, 1.0, sections.columns_of_part(part), amplitude, watch=True
        )
    if target is not None:
        if logarithm:
            experts["least squares, logarithm"] = Logarithm(squared, _PENALTY, _FADING, amplitude, target)
        experts["subspace"] = Subspace(loss, _RANK, 1.0, 0.02, columns["coarse and fine"])
    if binning:
        tables = Tables(loss, cells, sections.plan, target)
        experts |= {"binning": tables, **{f"binning, {name}": Share(loss) for name in tables.names}}
    if binning and sections.plan.by_size:
        first, width = cells.start + sections.plan.grids, VALUES.grids
        before = len(experts) - list(experts).index(f"{of_inputs}, inputs and labels")
        experts["single values"] = Values(linear, slice(first, first + width), before, False)
        experts["whole numbers"] = Values(linear, slice(first + width, cells.stop), 1, True)
    if neighbours:
        experts["neighbours"] = Neighbours(loss, classes)
    if label_memory:
        experts["last label"] = LastLabel(loss, classes, LINEAR, amplitude)
    if classes:
        experts["prior"] = Prior(CODES["class", "logistic"])
    dropped = () if retired else _RETIRED_OF_CLASSES if classes else _RETIRED_OF_NUMBERS
    return {name: expert for name, expert in experts.items() if name not in dropped}


def rules_of(sections: Sections, target: Array | None) -> list[Expert]:
    """Return an expert of every rule, in their order, whatever the plan of the grids."""
    experts = list(experts_on(sections, target).values())
    after = 1 + next(k for k, expert in enumerate(experts) if isinstance(expert, Tables))
    loss = experts[after - 1].loss
    return [*experts[:after], Share(loss), Values(loss, slice(0, 0), 1, False), *experts[after:]]


def saturated_among(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the experts of the saturated outputs of classes (:mod:`streamk.combining.stacking`)."""
    return {name: [names.index(expert) for expert in experts] for name, experts in _SATURATED.items()}


def _columns_of(sections: Sections) -> dict[str, slice]:
    """Return columns of the map by name; those of blocks under relevance are without inputs and labels."""
    whole = sections.columns_of_part(0)
    middle = PLAIN + (whole.stop - PLAIN) // 2
    columns = {
        "coarse": slice(PLAIN, middle),
        "fine": slice(middle, whole.stop),
        "coarse and fine": slice(PLAIN, whole.stop),
        "labels, coarse and fine": slice(LINEAR, whole.stop),
        "everything": whole,
        "inputs": slice(0, LINEAR),
        "inputs and labels": slice(0, PLAIN),
    }
    for number, name in enumerate(RELEVANT, 1):
        part = sections.columns_of_part(number)
        columns[name] = slice(part.start + PLAIN, part.stop)
    return columns


def _projections(
    columns: dict[str, slice], classes: bool, label_memory: bool
) -> Iterator[tuple[str, Projection]]:
    """Yield projections with their names."""
    squared = CODES["class" if classes else "number", "squared"]
    loss = CODES["class", "margin"] if classes else squared
    gains: dict[str, tuple[float, ...]] = {"fine": (0.3,), "inputs": (0.1,)}
    if classes:
        gains |= {"coarse": (1.0, 0.1), **dict.fromkeys(RELEVANT, (1.0, 0.1))}
    else:
        gains |= {"coarse": (1.0, 0.3, 0.1), "coarse and fine": (0.3, 0.1), "everything": (0.1,)}
    if label_memory:
        gains["labels, coarse and fine"] = (0.3,)
    for name, several in gains.items():
        for gain in several:
            yield f"projection, {name}, gain {gain}", Projection(loss, False, 0.0, 0, columns[name], gain)
    if classes:
        coarse = Projection(squared, False, 0.0, 0, columns["coarse"], 0.3)
        yield "projection, squared, coarse, gain 0.3", coarse
    falling = Projection(squared, False, 0.3, None, columns["coarse and fine"])
    yield "projection, squared, coarse and fine, falling gain", falling


def error_scale(response: Array) -> Expert:
    """Return the expert for the size of errors, which comes after the experts with weights."""
    return ErrorScale(CODES["number", "squared"], _SMOOTH, response)
