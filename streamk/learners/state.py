"""What a learner is between two events: a codec, a map, experts and a combiner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamk.combining.calibration import Calibration
from streamk.combining.mean import Mean
from streamk.encoding.codec import Codec
from streamk.encoding.inputs import Inputs
from streamk.encoding.labels import Labels
from streamk.encoding.pending import Pending
from streamk.encoding.scaling import horizon_of, kept_numbers
from streamk.experts.expert import Expert
from streamk.features.map import FeatureMap, largest_unscaled
from streamk.features.sections import Sections
from streamk.learners.asked import Asked
from streamk.learners.learner import Learner
from streamk.learners.stale import StaleExperts
from streamk.losses import CODES
from streamk.parameters import check_parameters, directions_of, kernels_of
from streamk.schedules import Growth

Array = NDArray[np.float64]


class LearnerState(Learner):
    """The four values of a learner, the schedule of its features and the events that wait.

    A public learner is a dataclass of parameters whose ``__post_init__`` names its experts to :meth:`_begin`.
    """

    kernel: str | tuple[str, ...]
    bandwidth: float | None
    scales: tuple[float, ...]
    features: int
    growth: str
    max_features: int
    loss: str
    regularization: float
    average: bool
    scale_inputs: bool
    directions: str
    scale_target = True  # a parameter of regressors
    _losses: ClassVar[dict[bool, tuple[str, ...]]]  # by whether it classifies

    def _check(self) -> int:
        """Check the parameters; return the code of the loss."""
        self._make_plain()
        check_parameters(self._get_params(), self._losses[self._classifies])
        return CODES["class" if self._classifies else "number", self.loss]

    def _begin(
        self,
        experts: Sequence[Expert],
        growth: Growth,
        together: int = 1,
        gathers: bool = False,
        memory: int | None = None,
        combiner: Any = None,
        label_memory: bool = False,
        delay: int = 0,
        records: bool = False,
    ) -> None:
        """Begin with what knows nothing.

        Parameters
        ----------
        experts
            At least one; those of one rule stand side by side.
        growth
            The schedule of features.
        together, gathers
            Events learned at a time, and whether they wait for one another even if it is one.
        memory
            Events after which scales forget; None never does.
        combiner
            Of their outputs; by default calibrated for the first one's loss, or their mean.
        label_memory
            Whether labels are inputs.
        delay
            How many events late they come.
        records
            Whether values of categories that were never learned are left out.
        """
        kernels = kernels_of(self.kernel)
        largest = largest_unscaled(kernels, self.bandwidth, tuple(self.scales))
        kept = kept_numbers(horizon_of(memory))
        inputs = Inputs(
            directions_of(kernels, self.directions), self.scale_inputs, largest, kept, evicts=True
        )
        self._growth, self._together, self._gathers = growth, together, gathers or together > 1
        self._experts = list(experts)
        if combiner is None:
            combiner = Calibration(experts[0].loss) if self._classifies else Mean(len(experts))
        self._combiner = combiner
        self._map: FeatureMap | None = None
        self._pending = inputs.waiting = Pending()
        labels = Labels() if self._classifies else None
        self._codec = Codec(
            inputs, labels, memory, self.scale_target, delay if label_memory else None, records
        )
        self._asked = Asked(delay) if delay else None
        self._stale: StaleExperts | None = None

    def _make_map(self, seed: int, slots: int | None) -> FeatureMap:
        made = FeatureMap(
            kernels_of(self.kernel), self.bandwidth, tuple(self.scales), self.features, seed, slots,
            self._make_sections(),
        )  # fmt: skip
        self._map = made
        if made.sections is not None:
            self._codec.inputs.sample = made.sections.sample
        return made

    def _make_sections(self) -> Sections | None:
        """Return the sections of the map, if it has several."""
        return None

    def _grow(self, outputs: int, features: int) -> None:
        """Make room for outputs and features, everywhere."""
        assert self._map is not None
        self._map.grow(features)
        self._map.follow(outputs)
        for expert in self._experts:
            before = self._map.columns - self._map.width
            expert.grow(outputs, before + self._map.features, self._map.columns)
        if self._asked is not None:
            self._asked.grow(self._live())
        if self._stale is not None:
            self._stale.grow(self._coefficients())

    def _live(self) -> list[NDArray[Any]]:
        """Return the arrays that must be known as they were, if labels come late."""
        return [*self._coefficients(), *self._combiner.live]

    def _coefficients(self) -> list[NDArray[Any]]:
        """Return the coefficients of all experts."""
        return [expert.coefficients for expert in self._experts]

    @property
    def _outputs(self) -> int:
        """Outputs that there is room for."""
        return int(self._experts[0].coefficients.shape[1])

    @property
    def feature_count(self) -> int:
        """Random features in use now: 0 before any learning, then ``features`` and more if they grow."""
        return 0 if self._map is None else self._map.features

    @property
    def pending(self) -> int:
        """Events waiting for their block to fill; always 0 for ``block_size=1``."""
        return len(self._pending)
