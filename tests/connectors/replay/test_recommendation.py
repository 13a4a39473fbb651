"""The sentence that says which contender to use, from what was measured."""

import pytest

from connectors.replay.report import recommendation
from streamk.evaluation import ModelAdapter, Results
from streamk.evaluation.contest import Contest


class Fixed(ModelAdapter):
    """It predicts the target, but for one event in so many, at a cost."""

    def __init__(self, wrong):
        self.wrong, self.count = wrong, 0

    def predict(self, x):
        self.count += 1
        return {("v" if x["y"] == "u" else "u") if self.count % self.wrong == 0 else x["y"]: 1.0}

    def learn(self, x, y):
        pass


def results_of(seconds, count=3000, **wrong):
    """Results of contenders that took so many seconds for all their events."""
    events = [({"y": "uv"[k % 2]}, "uv"[k % 2]) for k in range(count)]
    contest = Contest({name: Fixed(each) for name, each in wrong.items()}, "classification")
    contest.take([x for x, _ in events], [y for _, y in events])
    for name, spent in seconds.items():
        contest.standings[name].seconds = spent
    return Results(contest)


@pytest.mark.parametrize(
    ("seconds", "wrong", "sentence"),
    [
        ({"a": 4.0, "b": 1.0}, {"a": 50, "b": 3}, "Use a: its error is 31.3 points below that of b (95 % "),
        (
            {"a": 4.0, "b": 1.0},
            {"a": 51, "b": 50},
            "Use b: there is no clear winner on accuracy, where a is ahead (95 % ",
        ),
        (
            {"a": 1.0, "b": 4.0},
            {"a": 51, "b": 50},
            "Use a: there is no clear winner on accuracy, where it is ahead of b (95 % ",
        ),
        ({"a": 1.0}, {"a": 50}, "Use a: no other contender is left"),
    ],
)
def test_error_and_cost_are_weighed(seconds, wrong, sentence):
    assert recommendation(results_of(seconds, **wrong)).startswith(sentence)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"a": 20, "b": 8}, "Use a: there is no clear winner on accuracy, where it is ahead of b (95 % "),
        ({"a": 20, "b": 15}, "Use b: there is no clear winner on accuracy, where a is ahead (95 % "),
    ],
)
def test_few_events_do_not_make_a_cheap_contender_of_many_errors_equal(wrong, sentence):
    assert recommendation(results_of({"a": 4.0, "b": 1.0}, count=60, **wrong)).startswith(sentence)


def test_the_cost_is_a_multiple_of_the_next_best():
    found = recommendation(results_of({"a": 4.0, "b": 1.0, "c": 1.0}, a=50, b=3, c=2))
    assert "for 4 times its time" in found
