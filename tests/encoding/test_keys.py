from hypothesis import given
from hypothesis import strategies as st

from streamk.encoding.keys import (
    category_key,
    number_key,
    number_position_key,
)


def test_golden_keys():
    assert number_key("age") == 0x436D379DDEEC6B9F
    assert category_key("colour", "red") == 0xE9A0D5BFA6461A9E
    assert number_position_key(0) == 0xE1FEB07BD66832EB


def test_numbers_of_dense_directions_have_different_keys():
    keys = [number_position_key(i) for i in range(70_000)]
    assert len(set(keys)) == len(keys)
    assert min(keys) > 65_536  # what is not above is a slot
    texts = [str(i) for i in range(70_000)]
    assert not set(keys) & set(map(number_key, texts))


@given(st.text(), st.text(), st.text(), st.text())
def test_different_inputs_have_different_keys(a, b, c, d):
    keys = {("n", a): number_key(a), ("c", a, b): category_key(a, b), ("c", c, d): category_key(c, d)}
    assert len(set(keys.values())) == len(keys)
    assert 0 not in keys.values()


def test_where_the_name_ends_matters():
    assert category_key("a=b", "c") != category_key("a", "b=c")
