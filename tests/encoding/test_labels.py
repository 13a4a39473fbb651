import numpy as np
import pytest

from streamk.encoding.labels import Labels


def learned(*values):
    labels = Labels()
    labels.register(labels.check_many(values, [True] * len(values)))
    return labels


def test_labels_are_numbered_in_order():
    assert learned("b", "a", "b").values == ["b", "a"]
    assert learned(3, 1, 2).codes == {3: 0, 1: 1, 2: 2}


def test_a_boolean_brings_the_other():
    assert learned(True).values == [False, True]
    assert learned(True).least == 2
    assert learned("x").least == 0


def test_numpy_scalars_are_plain():
    checked = Labels().check_many([np.int64(1), np.int8(2)], [True, True])
    assert checked == [1, 2]
    assert {type(v) for v in checked} == {int}
    assert type(Labels().check(np.bool_(True))) is bool
    assert type(Labels().check(np.str_("a"))) is str


@pytest.mark.parametrize("label", [None, 1.5, float("nan"), float("inf"), b"x", [1], (1, 2), np.float32(0.5)])
def test_what_is_not_a_label(label):
    with pytest.raises(ValueError, match="a class label must be"):
        Labels().check(label)


def test_fractions_name_regression():
    with pytest.raises(ValueError, match=r"the label is 1\.5 \(float\); .*; for numbers, use regression"):
        Labels().check(1.5)
    with pytest.raises(ValueError, match=r"string$"):
        Labels().check(float("nan"))


def test_floats_that_are_whole_numbers_are_integers():
    labels = Labels()
    checked = labels.check_many([0.0, 1, np.float32(2), -0.0], [True] * 4)
    assert checked == [0, 1, 2, 0]
    assert {type(label) for label in checked} == {int}
    labels.register(checked)
    assert labels.values == [0, 1, 2]
    assert labels.check(1.0) == 1
    with pytest.raises(ValueError, match=r"row 1: the label is 0\.5"):
        labels.check_many([1.0, 0.5], [True, True])


@pytest.mark.parametrize(
    ("first", "second"), [(True, 1), (True, 1.0), ("1", 1.0), (1, True), ("1", 1), (0, False), (1, "a")]
)
def test_another_type_is_refused(first, second):
    labels = learned(first)
    with pytest.raises(ValueError, match="keeps one type of label"):
        labels.check(second)
    with pytest.raises(ValueError, match="row 1: the label is"):
        labels.check_many([first, second], [True, True])
    with pytest.raises(ValueError, match="row 1: the label is"):
        Labels().check_many([first, second], [True, True])


def test_a_label_that_is_not_learned_decides_no_type():
    assert Labels().check_many(["x", 1], [False, True]) == ["x", 1]
