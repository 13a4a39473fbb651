"""Events that wait for their labels: what the daemon holds of each, and how they are predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from connectors.events.learners import Model
from connectors.events.values import Fields
from connectors.operators.outputs import Prediction, most_probable
from streamk.learners.classifier import Classifier

_STORED = 20  # probabilities of an event, by which its loss is computed


class WaitingEvent(NamedTuple):
    """An event that waits.

    Attributes
    ----------
    time
        In seconds.
    weight, prediction
        Of the event, and of the model.
    others
        The predictions of challengers, by their names.
    aside
        What challengers have set aside, by their names, while the event waits on disk.
    """

    time: float
    weight: float
    prediction: Prediction
    others: Mapping[str, Prediction] = {}
    aside: Mapping[str, bytes] = {}


def ask(learner: Model, key: str, x: Fields) -> Prediction:
    """Return the prediction of an event, which then waits."""
    if isinstance(learner, Classifier):
        return cast(Prediction, learner.ask_proba_one(key, x))
    return cast(Prediction, learner.ask_one(key, x))


def shortened(prediction: Prediction) -> Prediction:
    """Return a prediction with few probabilities."""
    return dict(most_probable(prediction, _STORED)) if isinstance(prediction, dict) else prediction
