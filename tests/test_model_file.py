"""A model file is whole or refused, small, readable by others, and replaced in one step."""

import json
import os
import stat
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

import streamk
from streamk import model_file


def learner(cls=streamk.KaczmarzClassifier, **parameters):
    made = cls(features=64, seed=3, **parameters)
    for i in range(20):
        made.learn_one({"a": float(i), "colour": "red"}, f"k{i % 2}" if made.classifies else i)
    return made


DATA = learner().to_bytes()


def test_any_safetensors_reader_can_open_it(tmp_path):
    path = tmp_path / "m.streamk"
    made = learner()
    assert made.save(path) == path.stat().st_size
    with safe_open(path, "numpy") as file:
        header = json.loads(file.metadata()["streamk"])
        assert file.get_tensor("expert0.coefficients").shape == (1, 2, 64)
    assert header["format"] == 12
    assert header["class"] == "KaczmarzClassifier"
    assert header["parameters"] == {**made._get_params(), "scales": list(made.scales)}
    assert header["labels"] == ["k0", "k1"]
    assert header["numbers"] == ["a"]
    assert header["events"] == 20


@pytest.mark.parametrize("labels", [[True, False], [1, 2], ["1", "2"]])
def test_labels_keep_their_type(labels):
    made = streamk.KaczmarzClassifier(features=32, seed=1)
    for i, label in enumerate(labels):
        made.learn_one({"a": i}, label)
    again = streamk.loads(made.to_bytes())
    assert [type(v) for v in again.labels] == [type(v) for v in made.labels]
    assert again.labels == made.labels


def test_a_boolean_that_waits_for_its_block():
    made = streamk.KaczmarzClassifier(features=32, block_size=4, seed=1)
    made.learn_one({"a": 1.0}, False)
    again = streamk.loads(made.to_bytes())
    assert again.pending == 1
    assert again.labels == [False, True]
    again.flush()
    assert again.predict_proba_one({"a": 1.0}).keys() == {False, True}


def test_numpy_parameters_are_saved():
    made = streamk.KaczmarzRegressor(features=np.int64(40), bandwidth=np.float32(2), scales=(np.float64(1),))
    assert streamk.loads(made.to_bytes()).features == 40


def test_a_learner_that_has_learned_nothing():
    again = streamk.loads(streamk.KaczmarzClassifier().to_bytes())
    assert again.predict_one({"a": 1}) is None


@given(st.integers(0, len(DATA) - 1))
def test_a_file_cut_short_is_refused(length):
    with pytest.raises(ValueError, match=r"the file \S*is|not a streamk model file"):
        streamk.loads(DATA[:length], "the file")


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_a_file_with_one_byte_altered_is_refused(at, flip):
    altered = bytearray(DATA)
    altered[at] ^= flip
    with pytest.raises(ValueError, match="the file"):
        streamk.loads(bytes(altered), "the file")


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError, match=r"not a streamk model file|damaged"):
        streamk.loads(data)


def test_bytes_added_are_refused():
    with pytest.raises(ValueError, match="the model"):
        streamk.loads(DATA + b"\0")


def tampered(**changes):
    header, arrays = model_file.unpack(DATA, "x")
    return model_file.pack({**header, **changes}, arrays)


def test_another_format_is_refused(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "FORMAT", 99)
        data = learner().to_bytes()
    with pytest.raises(ValueError, match="model format 99 and this streamk reads 9 to 12"):
        streamk.loads(data)


def test_another_class_is_refused():
    with pytest.raises(ValueError, match="'Popen', which this version of streamk does not have"):
        streamk.loads(tampered(**{"class": "Popen"}))


@pytest.mark.parametrize(
    "changes",
    [{"parameters": {"features": 64}}, {"parameters": {"scales": [1.0], "command": "ls"}}, {"numbers": 5},
     {"labels": [1, "a"]}, {"seed": "x"}, {"numbers": ["a", "b"]}, {"labels": ["a"]}],
)  # fmt: skip
def test_a_header_that_does_not_fit_is_refused(changes):
    with pytest.raises(ValueError, match="not a valid KaczmarzClassifier"):
        streamk.loads(tampered(**changes))


def with_arrays(made, header=None, **changes):
    """The bytes of a file with a valid checksum whose arrays are not what a learner would write."""
    found, arrays = model_file.unpack(made.to_bytes(), "x")
    for name, change in changes.items():
        name = name.replace("_", ".", 1) if name.startswith(("pending", "codec", "expert0")) else name
        arrays[name] = change(arrays[name].copy())
    return model_file.pack({**found, **(header or {})}, arrays)


def put(index, value):
    def change(array):
        array[index] = value
        return array

    return change


@pytest.mark.parametrize(
    "changes",
    [
        {"header": {"numbers": ["a", "b", "b"]}},
        {"header": {"numbers": "a"}},
        {"header": {"numbers": [1]}},
        {"header": {"labels": []}},
        {"pending_goal": put((0, 0), -20_000_000.0)},
        {"pending_goal": put((0, 0), 7.0)},
        {"pending_goal": put((0, 0), 0.5)},
        {"pending_goal": put((0, 0), np.nan)},
        {"pending_goal": put((1, 0), 0.0)},
        {"pending_slots": put((0, 0), 99)},
        {"pending_values": put((0, 0), np.inf)},
        {"pending_values": lambda a: a[:1]},
        {"expert0_coefficients": lambda a: a[:, :, :0]},
        {"expert0_coefficients": lambda a: a.astype(np.float64)},
        {"expert0_coefficients": put((0, 0, 0), np.inf)},
        {"expert0_clock": put(1, -1.0)},
        {"codec_statistics": lambda a: a[:0]},
        {"codec_statistics": put((0, 1), np.nan)},
        {"codec_counts": put(0, np.nan)},
        {"codec_counts": put(1, 3.0)},
        {"calibration": put(0, 11.0)},
        {"header": {"note": "an extra key"}},
        {"header": {"events": 17}},
    ],
)
def test_arrays_that_compiled_code_must_not_see(changes):
    made = learner(block_size=8)
    assert made.pending == 4
    with pytest.raises(ValueError, match="not a valid KaczmarzClassifier"):
        streamk.loads(with_arrays(made, **changes))


def test_an_extra_array_is_refused():
    found, arrays = model_file.unpack(DATA, "x")
    data = model_file.pack(found, {**arrays, "expert1.coefficients": np.zeros(3)})
    with pytest.raises(ValueError, match="parts that do not belong to it"):
        streamk.loads(data)


SLOTS = [{"slots": slots} for slots in (10**9, -1, None, 2.0)]


@pytest.mark.parametrize(
    ("directions", "header"),
    [
        *(("structured", header) for header in SLOTS),
        *(("auto", header) for header in [*SLOTS, {"directions": "dense"}, {"directions": "auto"}]),
    ],
)
def test_directions_that_do_not_fit_are_refused(directions, header):
    made = streamk.KaczmarzClassifier(features=1024, directions=directions, seed=1)
    for i in range(4):
        made.learn_one({f"x{j}": float(i * j) for j in range(40)}, bool(i % 2))
    assert streamk.loads(made.to_bytes()).to_bytes() == made.to_bytes()
    with pytest.raises(ValueError, match=r"not a valid KaczmarzClassifier: i"):
        streamk.loads(with_arrays(made, header))


def test_a_huge_model_is_refused_before_it_is_made():
    parameters = {**learner()._get_params(), "features": 10**12, "scales": [1.0]}
    with pytest.raises(ValueError, match="not a valid"):
        streamk.loads(with_arrays(learner(), {"parameters": parameters}))


def test_a_regressor_has_one_output():
    made = learner(streamk.KaczmarzRegressor)
    with pytest.raises(ValueError, match="not a valid KaczmarzRegressor"):
        streamk.loads(with_arrays(made, expert0_coefficients=lambda a: a[:, :0]))


def test_what_is_not_a_file_is_not_replaced(tmp_path):
    (tmp_path / "directory").mkdir()
    with pytest.raises(ValueError, match="not a regular file"):
        learner().save(tmp_path / "directory")


def test_the_file_on_disk_is_the_old_or_the_new(tmp_path, monkeypatch):
    path = tmp_path / "m.streamk"
    learner().save(path)
    before = path.read_bytes()

    def crash(_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", crash)
        with pytest.raises(OSError, match="no space"):
            learner(average=True).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.streamk"]


def test_the_file_has_the_usual_permissions(tmp_path):
    path, usual = tmp_path / "m.streamk", tmp_path / "usual"
    learner().save(path)
    usual.write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        streamk.load(tmp_path / "none")


def test_ten_classes_over_4096_features_fit_in_200_kilobytes():
    made = streamk.KaczmarzClassifier(features=4096, seed=1)
    rng = np.random.default_rng(0)
    names = [f"pixel {j}" for j in range(64)]
    made.learn_many(rng.normal(size=(50, 64)), [i % 10 for i in range(50)], names=names)
    beside = len(json.dumps(names)) + made._codec.inputs.statistics.nbytes
    assert len(made.to_bytes()) - beside <= 200_000


def test_saving_does_not_disturb_learning():
    one, two = learner(), learner()
    two.to_bytes()
    for made in (one, two):
        made.learn_one({"a": 3.0}, "k1")
    assert one.to_bytes() == two.to_bytes()


def test_models_of_format_9_are_read():
    learner = streamk.KernelRegressor(features=768, budget="small", retired=True, logarithm=False, seed=1)
    learner.learn_many([{"a": i % 7, "b": i * 5 % 11} for i in range(90)], [i % 7 for i in range(90)])
    assert learner._stale is not None
    header, arrays = learner._to_parts()
    for later in ("retired", "budget", "logarithm"):
        del header["parameters"][later]
    data = model_file.pack(header, arrays, 9)
    assert b'\\"format\\":9' in data
    again = streamk.loads(data)
    assert again.to_bytes() == learner.to_bytes()
    assert again.predict_one({"a": 3, "b": 4}) == learner.predict_one({"a": 3, "b": 4})
    assert again.retired
    with pytest.raises(ValueError, match="checksum"):
        streamk.loads(data[:-1] + bytes([data[-1] ^ 1]))


def before_format_11(learner):
    """Header and arrays as format 10 had them: an expert for each kind of coefficients of cells."""
    header, arrays = learner._to_parts()
    del header["parameters"]["budget"]
    header["parameters"].pop("logarithm", None)
    k = next(k for k, expert in enumerate(learner._experts) if expert.rule == "tables")
    table, stale = learner._experts[k].coefficients, learner._stale.arrays[k]
    outputs = learner._outputs
    kinds = 1 if learner.classifies else 2
    for name in ("coefficients", "used", "clock"):
        clock = arrays.pop(f"expert{k}.{name}", None)
    for kind in range(kinds):
        arrays[f"expert{k + kind}.clock"] = clock
        for (values, used), rows in {
            (f"expert{k + kind}.coefficients", f"expert{k + kind}.used"): table,
            (f"stale.values{k + kind}", f"stale.used{k + kind}"): stale,
        }.items():
            if learner.classifies and outputs == 2:
                whole = np.array([rows[:, 1], -rows[:, 1]])[None]
            else:
                whole = np.array([rows[:, 1 + kinds * output + kind] for output in range(outputs)])[None]
            places = np.flatnonzero(whole.view(np.uint32).any(axis=(0, 1))).astype(np.int32)
            arrays[values], arrays[used] = whole[:, :, places], places
        met = np.flatnonzero(table[:, 0]).astype(np.int32)
        arrays[f"expert{k + kind}.counts"] = table[met, 0]
        arrays[f"expert{k + kind}.met"] = met
    return header, arrays


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_models_of_format_10_are_read(classes):
    cls = streamk.KernelClassifier if classes else partial(streamk.KernelRegressor, logarithm=False)
    learner = cls(features=768, budget="small", seed=1)
    rows = [{"a": i % 7, "b": i * 5 % 11} for i in range(90)]
    learner.learn_many(rows, [i % (classes or 7) for i in range(90)])
    again = streamk.loads(model_file.pack(*before_format_11(learner), 10))
    assert again.to_bytes() == learner.to_bytes()
    for made in (again, learner):
        made.learn_many(rows[:50], [i % (classes or 5) for i in range(50)])
    assert again.to_bytes() == learner.to_bytes()
    assert again.budget == "small"


@pytest.mark.parametrize(
    "change",
    [
        {"met": [-1]},
        {"met": [8192]},
        {"used": [5, 4]},
        {"counts": [np.nan]},
        {"counts": [-1.0]},
        {"values": [np.inf]},
    ],
)
def test_impossible_tables_of_format_10_are_refused(change):
    learner = streamk.KernelRegressor(features=768, budget="small", logarithm=False, seed=1)
    learner.learn_many([{"a": i % 7} for i in range(90)], [i % 7 for i in range(90)])
    header, arrays = before_format_11(learner)
    for name, value in change.items():
        k = next(key for key in arrays if key.endswith(".met")).split(".")[0]
        key = f"{k}.{'coefficients' if name == 'values' else name}"
        arrays[key] = arrays[key].copy()
        arrays[key].flat[: len(value)] = value
    with pytest.raises(ValueError, match=r"impossible|do not belong"):
        streamk.loads(model_file.pack(header, arrays, 10))


def test_models_of_format_11_are_read():
    rows = [{"a": i % 7, "b": i * 5 % 11} for i in range(90)]
    for learner in (streamk.KernelRegressor(logarithm=False, seed=1), streamk.KernelClassifier(seed=1)):
        learner.learn_many(rows, [i % 5 for i in range(90)])
        header, arrays = learner._to_parts()
        header["parameters"].pop("logarithm", None)
        again = streamk.loads(model_file.pack(header, arrays, 11))
        for made in (again, learner):
            made.learn_many(rows[:50], [i % 5 for i in range(50)])
        assert again.to_bytes() == learner.to_bytes()


@pytest.mark.parametrize("version", [8, 13])
def test_models_of_other_formats_are_refused(version):
    header, arrays = learner()._to_parts()
    with pytest.raises(
        model_file.FormatError, match=f"model format {version} and this streamk reads 9 to 12"
    ):
        streamk.loads(model_file.pack(header, arrays, version))


@pytest.mark.parametrize("cls", [streamk.KernelClassifier, streamk.KernelRegressor])
def test_retired_experts_are_only_in_learners_that_ask_for_them(cls):
    now, before = ([row["expert"] for row in cls(retired=r).summary()["experts"]] for r in (False, True))
    assert [name for name in before if name in now] == now
    gone = set(before) - set(now)
    assert len(gone) == 4
    assert all(name.startswith("projection, ") for name in gone)
    with pytest.raises(ValueError, match="retired=1: retired must be True or False"):
        cls(retired=1)
