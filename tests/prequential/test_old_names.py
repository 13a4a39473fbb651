import pytest

from streamk import prequential


@pytest.mark.parametrize(("old", "new"), [("ByTime", "DelayByTime"), ("Subject", "ModelAdapter")])
def test_old_names_work_with_a_warning(old, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        assert getattr(prequential, old) is getattr(prequential, new)


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'ByMagic'"):
        _ = prequential.ByMagic
