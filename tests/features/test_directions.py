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
    assert number_position_key(0) == 0x5692161D100B05E5


@given(st.text(), st.text(), st.text(), st.text())
def test_different_inputs_have_different_keys(a, b, c, d):
    keys = {("n", a): number_key(a), ("c", a, b): category_key(a, b), ("c", c, d): category_key(c, d)}
    assert len(set(keys.values())) == len(keys)
    assert 0 not in keys.values()


def test_where_the_name_ends_matters():
    assert category_key("a=b", "c") != category_key("a", "b=c")
