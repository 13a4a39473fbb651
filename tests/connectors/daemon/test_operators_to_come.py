"""Other operators fit the session as it is: late labels, a challenger, and a model for every partition.

They are small, but they are what the session must be able to carry: state beside the model, outputs of other
kinds, and parts that belong to partitions.
"""

import json

import pytest

import streamk
from connectors.contract.records import PREDICTIONS, Output, Processed, Tally
from streamk.learners.loading import loads

from .world import World


def event(offset):
    """Return the event that the played broker has at an offset."""
    return {"a": offset * 7919 % 13 / 13, "b": offset % 3}, offset * 31 % 4 > 1


class LateLabels:
    """Events come in ``p-0`` and are kept; labels come in ``p-1`` and find them by their offset."""

    def __init__(self):
        self.model, self.kept, self.early = streamk.KaczmarzClassifier(features=8, seed=1), {}, {}

    def process(self, partition, records):
        outputs = []
        for raw in records:
            if partition == "p-0":
                outputs.append(Output(PREDICTIONS, partition, raw, b"{}"))
                self.kept[raw.offset] = event(raw.offset)[0]
            else:
                self.early[raw.offset] = event(raw.offset)[1]
            if raw.offset in self.kept and raw.offset in self.early:
                self.model.learn_one(self.kept.pop(raw.offset), self.early.pop(raw.offset))
        return Processed(outputs, Tally(len(records)), len(records))

    def snapshot(self):
        waiting = json.dumps([list(self.kept.items()), list(self.early.items())])
        return {"model": self.model.to_bytes(), "waiting": waiting.encode()}

    def restore(self, parts):
        self.model = loads(parts["model"])
        self.kept, self.early = (dict(pairs) for pairs in json.loads(parts["waiting"]))


class Challenged:
    """Two models learn; the champion's predictions go out, and those of the other beside them."""

    names = "champion", "challenger"

    def __init__(self):
        self.models = {
            "champion": streamk.KaczmarzClassifier(features=8, seed=1),
            "challenger": streamk.KaczmarzRegressor(features=8, seed=2),
        }

    def process(self, partition, records):
        outputs = []
        for raw in records:
            x, y = event(raw.offset)
            for kind, name in ((PREDICTIONS, "champion"), ("shadow", "challenger")):
                answer = self.models[name].predict_one(x)
                outputs.append(Output(kind, partition, raw, json.dumps(answer).encode()))
                self.models[name].learn_one(x, y if name == "champion" else float(y))
        return Processed(outputs, Tally(len(records)), len(records))

    def snapshot(self):
        return {name: model.to_bytes() for name, model in self.models.items()}

    def restore(self, parts):
        self.models = {name: loads(parts[name]) for name in self.names}


class PerPartition:
    """Every partition has a model of its own."""

    def __init__(self):
        self.models = {}

    def process(self, partition, records):
        model = self.models.setdefault(partition, streamk.KaczmarzClassifier(features=8, seed=1))
        for raw in records:
            model.learn_one(*event(raw.offset))
        snapshots = [Output("snapshots", partition, records[-1], model.to_bytes())] if records else []
        return Processed(snapshots, Tally(len(records)), len(records))

    def snapshot(self):
        return {partition: model.to_bytes() for partition, model in self.models.items()}

    def restore(self, parts):
        self.models = {partition: loads(part) for partition, part in parts.items()}


def undisturbed(operator, end):
    """Return the parts after all records, one after the other, partition by turns."""
    from connectors.contract.records import Raw

    for start in range(0, end, 5):
        for partition in ("p-0", "p-1"):
            records = [Raw(k, b"") for k in range(start, start + 5) if k % 11 != 10]
            operator.process(partition, records)
    return operator.snapshot()


@pytest.mark.parametrize("k", range(0, 40, 3))
@pytest.mark.parametrize("operator", [LateLabels, Challenged, PerPartition])
def test_their_state_is_stored_in_checkpoints(operator, k, monkeypatch):
    """A crash before the k-th effect, and what is left is what an undisturbed run leaves."""
    monkeypatch.setattr("tests.connectors.daemon.world.Remembering", operator)
    world = World(("a",), ("p-0", "p-1"))
    world.broker.wanted = {"p-0": "a", "p-1": "a"}
    member = world.members["a"]
    member.until_crash = k
    for _ in range(60):
        world.take("step", "a")
    world.take("save", "a")
    assert member.session is not None
    assert member.session.positions == {"p-0": 60, "p-1": 60}
    found, expected = member.operator.snapshot(), undisturbed(operator(), 60)
    assert found.keys() == expected.keys()
    if operator is not Challenged:  # whose model depends on the order of the two partitions
        assert found == expected
    emitted = [offset for partition, offset in world.broker.outputs if partition == "p-0"]
    if operator is LateLabels:
        assert sorted(emitted) == [offset for offset in range(60) if offset % 11 != 10]
    if operator is Challenged:
        assert len(emitted) == 2 * len(set(emitted))
