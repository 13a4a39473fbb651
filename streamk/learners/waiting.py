"""Events that wait for their labels, and what a learner saw when it predicted them.

Where labels come late, an event must be learned as it was predicted: with the labels that had come by then,
and with the outputs that the experts had. By the time of its label they have learned the events around it,
and a combiner that learned from present outputs would trust them far too much. So an event that waits holds
the label memory, the outputs of all experts and the weights of the combiner at the time of its prediction.

At most 65,536 events wait, fewer if all that would take more than 64 MB; one more takes the place of the
oldest, which is then not learned. Who has more of them sets the oldest aside, and takes each back before its
label is learned.

When a block of features restarts, the outputs that are held say nothing about it. Each event then gets those
of another one, so that the combiner trusts the block again only after the block has predicted well.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np

from streamk import model_file
from streamk.arrays import AnyArray, Array, Arrays, Floats, Json, padded, typed
from streamk.encoding.calendar_inputs import with_calendar
from streamk.encoding.fields import Event, kind_of_value, named
from streamk.encoding.inputs import Inputs
from streamk.encoding.label_history import COLUMNS, NOW
from streamk.encoding.labels import plain
from streamk.experts.expert import FINAL
from streamk.state import Field, Live

_WEIGHTS = "weights"
_MOST, _LEAST, _BYTES = 2**16, 2**8, 2**26
_NAME, _ASIDE = "waiting.events", "waiting.aside"


class Seen(NamedTuple):
    """What a learner saw.

    Attributes
    ----------
    memory
        The label memory, ``(columns,)``.
    outputs
        Of all experts, ``(E, K)``.
    answers
        Predictions by the combiner and by that of stale experts, ``(2, K)``; zeros if labels are prompt.
    weights
        Arrays of the combiner.
    """

    memory: Array
    outputs: Floats
    answers: Array
    weights: Sequence[AnyArray]


class Held(NamedTuple):
    """An event that waits: its number among those that did, how many had been learned, and what was seen."""

    number: int
    x: Event
    events: int
    seen: Seen | None


@dataclass
class Aside:
    """Counts of events that wait elsewhere.

    Attributes
    ----------
    count
        How many there are.
    events, since
        The largest number of events that had been learned when one of them was predicted, and how many of
        them were predicted then.
    restarted
        By expert, how many events had been learned when it restarted last.
    total
        How many events had ever waited when this was stored, from which their numbers count.
    """

    count: int = 0
    events: int = 0
    since: int = 0
    restarted: dict[int, int] = field(default_factory=dict)
    total: int = 0

    def add(self, events: int) -> None:
        """Count one that was predicted after so many events."""
        self.count += 1
        self.since = self.since + 1 if events == self.events else 1 if events > self.events else self.since
        self.events = max(self.events, events)

    def remove(self, events: int) -> None:
        """Count one less."""
        self.count -= 1
        self.since -= events == self.events
        if not self.count:
            self.events = self.since = 0
            self.restarted.clear()


class Waiting:
    """The events that wait for their labels, by key.

    Attributes
    ----------
    count
        How many events came so far.
    held
        Those that wait, the oldest first.
    most
        How many may wait.
    aside
        Counts of those that wait elsewhere.
    """

    def __init__(self) -> None:
        self.count, self.most = 0, _MOST
        self.held: dict[Hashable, Held] = {}
        self.aside = Aside()

    def __len__(self) -> int:
        return len(self.held)

    def check(self, key: Hashable) -> None:
        """Raise a ValueError if an event cannot wait under this key."""
        if type(key) not in (str, int):
            raise ValueError(f"the key is {key!r}; it must be a string or a whole number")
        if key in self.held:
            raise ValueError(f"an event of key {key!r} waits for its label already; use another key")

    def hold(self, key: Hashable, x: Event, events: int, seen: Seen | None) -> None:
        """Hold an event, in the place of the oldest if there are too many."""
        size = 0 if seen is None else seen.outputs.nbytes + seen.memory.nbytes
        self.most = min(max(_BYTES // max(size, 1), _LEAST), _MOST)
        if len(self.held) >= self.most:
            del self.held[next(iter(self.held))]
        self.held[key] = Held(self.count, dict(x), events, seen)
        self.count += 1

    def of(self, key: Hashable) -> Held:
        """Return the event of a key; a KeyError if none waits."""
        try:
            return self.held[key]
        except (KeyError, TypeError):
            raise KeyError(
                f"no event of key {key!r} waits for a label: it never waited, its label has come, "
                f"or {_MOST:,} events and more came after it"
            ) from None

    def lateness(self, held: Held) -> int:
        """Return how many events came after this one."""
        return self.count - 1 - held.number

    def waiting_since(self, events: int) -> int:
        """Return how many events that wait came after so many had been learned."""
        elsewhere = self.aside.since if self.aside.events == events else 0
        return elsewhere + sum(held.events == events for held in self.held.values())

    def set_aside(self, key: Hashable, scaled: bool) -> bytes:
        """Return what waits under a key as bytes, and hold it no more."""
        held = self.of(key)
        text = json.dumps(_plain(held.x, scaled))  # in the order of its fields
        arrays: Arrays = {"x": np.frombuffer(text.encode(), dtype=np.uint8)}
        if held.seen is not None:
            memory, outputs, answers, weights = held.seen
            arrays |= {"memory": memory, "outputs": outputs, "answers": answers}
            arrays |= {f"{_WEIGHTS}{k}": array for k, array in enumerate(weights)}
        header = {"number": held.number, "events": held.events}
        del self.held[key]
        self.aside.add(held.events)
        return model_file.pack(header, arrays)

    def take_back(self, key: Hashable, data: bytes, experts: int, live: Live) -> None:
        """Hold again what was set aside; experts that have restarted since had no outputs.

        ``live`` are the arrays of the combiner.
        """
        self.check(key)
        header, arrays = model_file.unpack(data, f"the event of key {key!r}")
        seen, events = None, header["events"]
        if "outputs" in arrays:
            weights = [arrays[f"{_WEIGHTS}{k}"] for k in range(len(live))]
            outputs = arrays["outputs"]
            if len(outputs) != experts or any(
                one.shape != array.shape for one, (_, array) in zip(weights, live, strict=True)
            ):
                raise ValueError(f"the event of key {key!r} was set aside by another learner")
            outputs[[k for k, at in self.aside.restarted.items() if at >= events]] = 0.0
            seen = Seen(arrays["memory"], outputs, arrays["answers"], weights)
        self.held[key] = Held(header["number"], json.loads(arrays["x"].tobytes()), events, seen)
        self.aside.remove(events)

    def forget_aside(self) -> None:
        """Count no events that wait elsewhere any more."""
        self.aside = Aside()

    def exchange(self, experts: list[int], events: int) -> None:
        """Let each event have the outputs that these experts, which restart, had for another one."""
        if self.aside.count:
            self.aside.restarted |= dict.fromkeys(experts, events)
        every = [held.seen.outputs for held in self.held.values() if held.seen is not None]
        copies, half = [outputs[experts].copy() for outputs in every], len(every) // 2
        for outputs, other in zip(every, copies[half:] + copies[:half], strict=True):
            outputs[experts] = 0.0
            both = min(outputs.shape[1], other.shape[1])
            outputs[experts, :both] = other[:, :both]

    def parts(self, live: Live, scaled: bool) -> Arrays:
        """Return the arrays to store in a model file, none if no event waits."""
        arrays: Arrays = {}
        if self.aside.count:
            aside = {**asdict(self.aside), "total": self.count}
            arrays[_ASIDE] = np.frombuffer(json.dumps(aside).encode(), dtype=np.uint8)
        if not self.held:
            return arrays
        held = dict(sorted(self.held.items(), key=lambda each: each[1].number))  # some were taken back
        seen = [each.seen for each in held.values() if each.seen is not None]
        # the combiner changes with every event that is learned, and not between them
        weights = {each.events: each.seen.weights for each in held.values() if each.seen is not None}
        events = [
            [key, self.count - number, _plain(x, scaled), learned, one is not None]
            for key, (number, x, learned, one) in held.items()
        ]
        text = json.dumps(events, separators=(",", ":"))
        arrays[_NAME] = np.frombuffer(text.encode(), dtype=np.uint8)
        if seen:
            outputs = max(one.outputs.shape[1] for one in seen)
            shape = (seen[0].outputs.shape[0], outputs)
            arrays["waiting.memory"] = np.array([one.memory for one in seen])
            arrays["waiting.outputs"] = np.array([padded(one.outputs, shape) for one in seen])
            arrays["waiting.answers"] = np.array([padded(one.answers, (2, outputs)) for one in seen])
            for k, (part, _) in enumerate(live):
                arrays |= _copied(part, k).stored(np.array([one[k] for one in weights.values()]))
        return arrays

    def load(
        self, arrays: Arrays, inputs: Inputs, live: Live, shape: tuple[int, int], events: int, memory: int
    ) -> None:
        """Load the arrays of a model file; raise a ValueError if they are impossible.

        ``shape`` is that of outputs, ``(E, K)``; ``events`` were learned; ``memory`` is the number of columns
        of labels.
        """
        if _ASIDE in arrays:
            self.aside = _aside_of(arrays[_ASIDE], shape[0])
            self.count, self.aside.total = self.aside.total, 0
        if _NAME not in arrays:
            return
        seen, weights = [], []
        if "waiting.outputs" in arrays:
            held = arrays["waiting.outputs"]
            count = len(held)
            whole = count, shape[0], min(held.shape[2], shape[1])
            outputs = typed(arrays, "waiting.outputs", np.float32, whole)
            answers = typed(arrays, "waiting.answers", np.float64, (count, 2, whole[2]))
            labels = typed(arrays, "waiting.memory", np.float64, (count, memory))
            if not all(np.isfinite(array).all() for array in (outputs, answers, labels)):
                raise ValueError("what its waiting events saw is impossible")
            for k, (part, array) in enumerate(live):
                copies = np.array([array] * len(arrays[f"waiting.weights{k}"]))
                _copied(part, k).load(arrays, copies)
                weights.append(copies)
            combiners = list(zip(*weights, strict=True))
            seen = [(labels[i].copy(), outputs[i].copy(), answers[i].copy()) for i in range(count)]
        try:
            rows, at = json.loads(arrays[_NAME].tobytes()), iter(seen)
            self.count = self.count or rows[0][1]
            after = dict.fromkeys(learned for *_, learned, is_seen in rows if is_seen)
            places = {learned: place for place, learned in enumerate(after)}
            for key, age, x, learned, is_seen in rows:
                inputs.check(x)
                self.check(key)
                one = Seen(*next(at), combiners[places[learned]]) if is_seen else None
                self.held[key] = Held(self.count - age, x, learned, one)
            numbers = [-1, *(held.number for held in self.held.values()), self.count]
            possible = all(a < b for a, b in itertools.pairwise(numbers)) and next(at, None) is None
            possible = possible and all(0 <= held.events <= events for held in self.held.values())
        except (TypeError, ValueError, LookupError, StopIteration, UnboundLocalError):
            possible = False
        if not possible:
            raise ValueError("its events that wait for labels are impossible")


def _aside_of(stored: AnyArray, experts: int) -> Aside:
    """Return what a model file stores of events that wait elsewhere."""
    try:
        aside = Aside(**json.loads(stored.tobytes()))
        aside.restarted = {int(k): at for k, at in aside.restarted.items()}
        numbers = [aside.count, aside.events, aside.since, aside.total, *aside.restarted.values()]
        possible = all(type(number) is int and number >= 0 for number in numbers)
        possible = possible and all(0 <= k < experts for k in aside.restarted)
    except (TypeError, ValueError, AttributeError):
        possible = False
    if not possible:
        raise ValueError("its counts of events that wait elsewhere are impossible")
    return aside


def _copied(part: Field, number: int) -> Field:
    return part.copied(f"waiting.weights{number}", f"waiting.used{number}")


def _plain(x: Event, scaled: bool) -> Json:
    """Return an event of values that JSON has, which is encoded alike."""
    fields = with_calendar(named(x), scaled)
    return {name: _plain_value(value) for name, value in fields.items()}


def _plain_value(value: object) -> object:
    known = plain(value)
    if known is None or isinstance(known, (bool, int, str, float)):
        return known
    return None if kind_of_value(known) == "missing" else float(known)


class AtPrediction:
    """The arrays of the compiled loop for an event that is learned as it was predicted.

    Attributes
    ----------
    memory
        The label memory of the event.
    outputs
        Of all experts, ``(E, 2, K)``.
    weights
        The arrays of the combiner.
    is_learned
        Whether the next event is learned as it was predicted.
    """

    def __init__(self) -> None:
        self.memory: Array = np.zeros((0, COLUMNS))
        self.outputs: Floats = np.zeros((0, 2, 0), dtype=np.float32)
        self.weights: list[AnyArray] = []
        self._live: list[AnyArray] = []
        self.is_learned = False
        self._copies: tuple[int, list[AnyArray]] | None = None

    def snapshot(self, events: int) -> list[AnyArray]:
        """Return copies of the arrays of the combiner after so many events, made once."""
        if self._copies is None or self._copies[0] != events:
            self._copies = events, [array.copy() for array in self._live]
        return self._copies[1]

    def begin(self, seen: Seen | None) -> None:
        """Let the next event be learned as it was predicted, if what was seen is held."""
        if seen is None:
            return
        self.is_learned = True
        if len(self.memory):
            self.memory[NOW] = seen.memory
        self.outputs[:, FINAL] = padded(seen.outputs, (len(self.outputs), self.outputs.shape[2]))
        for array, then in zip(self.weights, seen.weights, strict=True):
            array[:] = then

    def end(self) -> None:
        """Let the next event be learned by what is seen now."""
        self.is_learned = False

    def grow(self, experts: int, outputs: int, memory: Array, live: Live) -> None:
        """Resize for so many experts and outputs, the label memory and the arrays of the combiner."""
        self.memory = np.zeros_like(memory)
        self.outputs = padded(self.outputs, (experts, 2, outputs))
        self._live = [array for _, array in live]
        self.weights = [array.copy() for array in self._live]
