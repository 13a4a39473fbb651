"""Declared state: what is written can be read, whatever the numbers; what is read is possible."""

import numpy as np
import pytest

import streamk
from streamk.learners.streaming import StreamingLearner
from streamk.state import FINITE, MEAN, Field, Stateful


class Toy(Stateful):
    """Two arrays, and entries in use of a third."""

    def __init__(self, rows=2):
        self.means, self.sums = np.zeros((2, 3)), np.zeros((rows, 4), dtype=np.float32)
        self.names = np.array([1, 0, 0, 0], dtype=np.uint64)

    def fields(self):
        yield Field("toy.names", "names", counted=1, possible=lambda names: len({*names}) == len(names))
        yield Field("toy.means", "means", (0.0, -1.0, -FINITE), (1.0, 1.0, FINITE), merge=MEAN, live=True)
        yield Field("sums", "sums", -1e30, 1e300, used="used", default=0.0, by_output=True)


def filled():
    toy = Toy()
    toy.names[:3] = 3, 7, 5
    toy.means[:] = [[0.25, -1.0, 1e300], [1.0, 0.5, -0.0]]
    toy.sums[1, 2] = 4.0
    return toy


def same(one, other):
    ours, theirs = one.state_dict(), other.state_dict()
    assert list(ours) == list(theirs)
    return all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


def test_what_is_stored_is_what_is_in_use():
    arrays = filled().state_dict()
    assert list(arrays) == ["toy.names", "toy.means", "sums", "used"]
    assert arrays["toy.names"].tolist() == [7, 5]
    assert arrays["sums"].tolist() == [[0.0], [4.0]]
    assert arrays["used"].tolist() == [2]
    assert list(Toy().state_dict()) == ["toy.names", "toy.means"]


def test_what_is_written_is_read():
    toy, again = filled(), filled()
    again.sums[:], again.names[:] = 9.0, 1
    again.load_state_dict(toy.state_dict())
    assert same(toy, again)
    assert again.names.tolist() == [3, 7, 5, 1]
    assert again.sums[1].tolist() == [0.0, 0.0, 4.0, 0.0]
    toy.load_state_dict(Toy().state_dict())
    assert same(toy, Toy())
    assert not toy.sums.any()
    assert toy.names[0] == 1


def test_numbers_are_clipped_when_they_are_written():
    toy, again = filled(), Toy()
    toy.means[:] = [[np.nan, -2.0, np.inf], [2.0, np.nan, -np.inf]]
    toy.sums[0, :3] = np.inf, np.nan, -np.inf
    again.load_state_dict(toy.state_dict())
    assert again.means.tolist() == [[0.0, -1.0, FINITE], [1.0, 0.0, -FINITE]]
    assert again.sums[0].tolist() == [np.finfo(np.float32).max, 0.0, np.float32(-1e30), 0.0]  # rounded bounds
    assert np.isnan(toy.means[0, 0])  # the array is as it was
    toy.sums[:] = np.nan  # is 0 when it is clipped, as in a new learner
    assert "sums" not in toy.state_dict()
    whole = Field("clock", "counters", 0.0, 9.0, whole=True)
    assert whole.stored(np.array([0.4, np.nan, 10.0]))["clock"].tolist() == [0.0, 0.0, 9.0]
    numbers = np.array([0.0, 9.0])
    assert whole.stored(numbers)["clock"] is not None
    assert np.shares_memory(whole.stored(numbers)["clock"], numbers)  # nothing is copied in bounds


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("toy.means", (0, 0), 1.5), ("toy.means", (0, 1), -1.5), ("toy.means", (1, 2), np.inf),
        ("toy.means", (1, 0), np.nan), ("sums", (0, 0), np.inf), ("sums", (1, 0), -1e31), ("toy.names", 0, 5),
        ("sums", (0, 0), np.nan),
    ],
)  # fmt: skip
def test_impossible_numbers_are_refused(name, place, value):
    arrays = {key: array.copy() for key, array in filled().state_dict().items()}
    arrays[name][place] = value
    with pytest.raises(ValueError, match=rf"its {name.removeprefix('toy.')} are impossible"):
        Toy().load_state_dict(arrays)


@pytest.mark.parametrize(
    "change",
    [
        {"toy.means": np.zeros((2, 2))}, {"toy.means": np.zeros((2, 3), dtype=np.float32)},
        {"used": np.array([4], dtype=np.int32)}, {"used": np.array([-1], dtype=np.int32)},
        {"used": np.array([2], dtype=np.int64)}, {"toy.names": np.arange(4, dtype=np.uint64)},
        {"toy.names": np.array([7, 5])}, {"sums": np.zeros((2, 2), dtype=np.float32)},
    ],
)  # fmt: skip
def test_arrays_of_other_kinds_are_refused(change):
    with pytest.raises(ValueError, match=r"its .* are"):
        Toy().load_state_dict(filled().state_dict() | change)


@pytest.mark.parametrize("value", [0.5, -1.0, 10.0, np.nan])
def test_counters_are_whole(value):
    into = np.zeros(2)
    field = Field("clock", "counters", 0.0, 9.0, whole=True)
    field.load({"clock": np.array([3.0, 9.0])}, into)
    assert into.tolist() == [3.0, 9.0]
    with pytest.raises(ValueError, match="its counters are impossible"):
        field.load({"clock": np.array([3.0, value])}, into)


def test_few_used_places_are_named():
    field = Field("a", "numbers", used="used", few=0.5)
    few, many = np.array([[1.0, 0.0, 0.0, -0.0]]), np.array([[1.0, 2.0, 3.0, 0.0]])
    assert field.stored(few)["used"].tolist() == [0, 3]  # −0 is not 0: its bits would be lost
    assert list(field.stored(many)) == ["a"]
    into = np.ones((1, 4))
    field.load(field.stored(few), into)
    assert into.tobytes() == few.tobytes()
    field.load(field.stored(many), into)
    assert into.tobytes() == many.tobytes()


def test_outputs_and_means_follow_from_the_declaration():
    one, two, merged = filled(), filled(), Toy()
    two.means[:] = 0.0
    merged.average([one, two], [0.75, 0.25])
    np.testing.assert_array_equal(merged.means, 0.75 * one.means)
    assert not merged.sums.any()
    one.fit_outputs(5)
    assert one.sums.shape == (5, 4)
    assert one.sums[1, 2] == 4.0
    assert [(field.name, array.shape) for field, array in one.live] == [("toy.means", (2, 3))]


def test_copies_are_stored_with_their_field():
    field = filled().live[0][0].copied("copies", "places")
    copies = np.zeros((2, 2, 3))
    copies[1, 0] = 0.5, -3.0, 0.0
    stored = field.stored(copies)
    assert stored["places"].tolist() == [0, 1]
    assert stored["copies"][1, 0].tolist() == [0.5, -1.0]


def learned(cls):
    """A learner after some events, by a pass that opens blocks, copies coefficients and fills samples."""
    rng = np.random.default_rng(3)
    learner = cls(seed=3)
    xs = [{"a": a, "b": b, "c": "xyz"[k % 3]} for k, (a, b) in enumerate(rng.normal(size=(300, 2)))]
    ys = [x["a"] + 2.0 * (x["c"] == "x") for x in xs]
    learner.learn_many(xs, [str(y > 0.7) for y in ys] if learner.classifies else ys)
    learner.flush()
    return learner


def declared(state):
    """Yield every field of a state and of its parts, with its array."""
    for field in state.fields():
        if isinstance(field, Stateful):
            yield from declared(field)
        else:
            yield field, field.of(state)


CLASSES = [
    cls
    for name in sorted(streamk.__all__)
    if isinstance(cls := getattr(streamk, name), type) and issubclass(cls, StreamingLearner)
]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_field_at_its_bounds_is_written_and_read(cls):
    """Also beyond them: what is written is within bounds, can be read, and is then written again alike."""
    learner = learned(cls)
    states = [learner._codec, learner._combiner, *learner._experts]
    if learner._map.sections is not None:
        states.append(learner._map.sections)
    tried = 0
    for state in states:
        for field, array in list(declared(state)):
            if field.least is None or field.possible is not None or field.counted is not None:
                continue  # conditions beyond bounds hold by the rule that writes the array
            before = array.copy()
            for value in (field.least, field.most, np.nan, -np.inf, np.inf):
                if array.dtype.kind != "f" and not np.isfinite(value).all():
                    continue
                with np.errstate(over="ignore"):
                    (array[field.part].T if field.by_row else array[field.part])[...] = value
                for name, stored in field.stored(array).items():
                    assert np.isfinite(stored).all(), name
                into = np.array(before)
                field.load(field.stored(array), into)
                again = field.stored(into)
                assert all(again[k].tobytes() == v.tobytes() for k, v in field.stored(array).items())
                tried += 1
            array[...] = before
    assert tried > 10
    data = learner.to_bytes()
    assert streamk.loads(data).to_bytes() == data


@pytest.mark.parametrize("cls", [streamk.KernelClassifier, streamk.KernelRegressor])
def test_a_model_with_extreme_numbers_is_written_and_read(cls):
    learner = learned(cls)
    for expert in learner._experts:
        if expert.rule in ("projection", "tables", "subspace"):
            expert.coefficients[:] = np.nan
        expert.clock[:] = 2.0**60
    learner._combiner.losses[:] = np.inf
    learner._combiner.error[:] = np.nan
    sections = learner._map.sections
    sections.moments[:] = -np.inf
    sections.gaps[:], sections.cross.sums[0, 0, 0] = np.nan, np.nan
    if learner._combiner.intervals is not None:
        learner._combiner.intervals.offsets[:] = np.inf
    data = learner.to_bytes()
    again = streamk.loads(data)
    assert again.to_bytes() == data
    assert np.isfinite(again._combiner.losses).all()
