import importlib
import sys

import pytest

from streamk import evaluation


def test_the_former_package_warns():
    sys.modules.pop("streamk.prequential", None)
    with pytest.warns(DeprecationWarning, match="is now streamk.evaluation"):
        former = importlib.import_module("streamk.prequential")
    assert former.replay is evaluation.replay
