"""The operator that has a model for every partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connectors.daemon.learning import Learning
from connectors.daemon.limits import Limits
from connectors.daemon.operator import Processed
from connectors.daemon.telemetry import Telemetry
from connectors.decoding import Decoder
from connectors.settings import Limits as LimitSettings
from connectors.settings import Settings
from connectors.stream import Raw


class Partitioned:
    """Learns every partition by itself; what is refused is counted over all of them.

    Parameters
    ----------
    settings
        Of the daemon: all models have the same parameters and the same seed, so that they can be merged.
    decoder
        Of its events.
    telemetry
        Told of losses and of the models.
    """

    def __init__(self, settings: Settings, decoder: Decoder, telemetry: Telemetry) -> None:
        self._settings, self._decoder, self._telemetry = settings, decoder, telemetry
        self._limits = Limits(settings.limits, settings.events.target)
        self._models: dict[str, Learning] = {}

    def begin(self, partition: str, parts: Mapping[str, bytes] | None) -> None:
        """Go on with the model of a partition, or begin one.

        Raises
        ------
        ValueError
            If it is one of other settings.
        """
        model = Learning(self._settings, self._decoder, self._telemetry, self._limits, partition)
        if parts is not None:
            model.restore(parts)
        self._models[partition] = model

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Have the model of the partition predict each event, then learn it."""
        return self._models[partition].process(partition, records)

    def adjust(self, limits: LimitSettings) -> None:
        """Take limits that have changed, also for models to come."""
        self._settings = self._settings.model_copy(update={"limits": limits})
        self._limits.limits = limits
        for model in self._models.values():
            model.adjust(limits)

    def snapshot(self, partition: str) -> Mapping[str, bytes]:
        """Return the model of a partition."""
        return self._models[partition].snapshot()

    def release(self, partition: str) -> None:
        """Forget the model of a partition."""
        self._models.pop(partition, None)
        self._telemetry.forget(partition)
