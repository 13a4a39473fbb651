"""Learners from names and texts, as settings and the command give them."""

import inspect

import pytest

from connectors.events.learners import LEARNERS, build, parameter_names, read_parameter
from connectors.settings.tables import LearnerSection


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096", 4096), ("0.5", 0.5), ("true", True), ("False", False), ("none", None),
        ("2,1,0.5", (2, 1, 0.5)), ("margin", "margin"), ("1e-3", 1e-3), ("", ""), ("a b", "a b"),
        ("[1, 2]", [1, 2]), ("matern:2.5", "matern:2.5"), ("laplace,gaussian", ("laplace", "gaussian")),
        ("laplace, matern:2.5,", ("laplace", "matern:2.5")), ("1,x", (1, "x")),
    ],
)  # fmt: skip
def test_how_parameters_are_read(text, value):
    found = read_parameter(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", LEARNERS)
def test_every_parameter_may_be_a_text(name, task):
    """A learner is told of its parameters by their defaults alone, so new ones need no line here."""
    cls = LEARNERS[name][task]
    defaults = {key: p.default for key, p in inspect.signature(cls).parameters.items()}
    texts = {
        key: ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for key, value in defaults.items()
    }
    assert build(name, task, texts)._get_params() == defaults
    assert set(defaults) <= set(parameter_names(name))


def test_one_scale_is_a_tuple():
    for one in ("2", 2, [2], (2,)):
        assert build("kaczmarz", "regression", {"scales": one}).scales == (2,)
        assert LearnerSection(name="kaczmarz", parameters={"scales": one}).build().scales == (2,)


def test_several_kernels_reach_the_learner_as_a_tuple(monkeypatch):
    class Several:
        def __init__(self, kernel: str | tuple[str, ...] = "gaussian", scale_target: bool = True) -> None:
            self.given = kernel, scale_target

    monkeypatch.setitem(LEARNERS, "several", {"regression": Several})
    given = {"kernel": "laplace,gaussian", "scale_target": "false"}
    assert build("several", "regression", given).given == (("laplace", "gaussian"), False)
    assert build("several", "regression", {"kernel": "matern:2.5"}).given == ("matern:2.5", True)
    assert build("several", "regression", {"kernel": ["laplace"]}).given == (("laplace",), True)


@pytest.mark.parametrize(
    ("name", "task", "parameters", "message"),
    [
        ("forest", "regression", {}, "learner forest: no such learner; use kernel, kaczmarz, doubly"),
        ("kaczmarz", "ranking", {}, "task ranking: no such task; use classification or regression"),
        (
            "kaczmarz",
            "regression",
            {"width": 1},
            "parameters.width: KaczmarzRegressor has no such parameter; did you mean bandwidth",
        ),
        ("kaczmarz", "regression", {"scales": "x"}, "scales='x': scales must be a tuple"),
    ],
)
def test_what_is_refused(name, task, parameters, message):
    with pytest.raises(ValueError, match=message):
        build(name, task, parameters)
