"""Lists of JSON are bags: a value that is absent is zero, and how often one is there counts."""

import json

import numpy as np
import pytest

import streamk
from connectors.events.decoding import EventFormat
from connectors.events.schema import flat
from streamk.encoding import names

WORDS = ["red", *(f"word {k}" for k in range(12))]
COUNT, LEARNED = 3000, 1000


def decoded(rows, **format):
    decode = EventFormat("y", **format).decoder("json")
    return [decode(json.dumps(row).encode()).fields for row in rows]


def bags(share, seed, most):
    """Return bags, numbers and labels; these depend on how often a bag has "red", between 0 and ``most``."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, most + 1, COUNT) * (rng.random(COUNT) < share)
    others = rng.integers(1, len(WORDS), (COUNT, 3)).tolist()
    z = rng.normal(size=COUNT)
    tags = [["red"] * n + [WORDS[k] for k in more] for n, more in zip(counts.tolist(), others, strict=True)]
    labels = 4.0 * (counts > most // 2) - 2.0 + z + rng.normal(size=COUNT) > 0.0
    return tags, z.tolist(), labels.tolist()


def log_loss(events, labels):
    learner = streamk.KernelClassifier(features=768, seed=0)
    found = learner.predict_proba_learn_many(events, labels)
    pairs = list(zip(found, labels, strict=True))[LEARNED:]
    return -float(np.mean([np.log(max(p[y], 1e-6)) for p, y in pairs]))


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("share", [0.95, 0.5, 0.05])
def test_a_bag_is_learned_as_well_as_columns_for_every_value(share, most):
    tags, z, labels = bags(share, 1, most)
    events = decoded([{"tags": bag, "z": value} for bag, value in zip(tags, z, strict=True)])
    columns = [
        {"z": value, **{word: str(bag.count(word)) for word in WORDS}}
        for bag, value in zip(tags, z, strict=True)
    ]
    without = [{"z": value} for value in z]
    loss, given = log_loss(events, labels), log_loss(columns, labels)
    assert loss < 1.05 * given
    assert loss < 0.95 * log_loss(without, labels)


def test_an_input_of_a_bag_is_one_wherever_it_is_present():
    fields = flat({"tags": [word for k, word in enumerate("abcdefgh", 1) for _ in range(k)]})
    assert set(fields.values()) == {1.0}
    steps = {word: [n for n in range(2, 9) if f"tags.{word}.>={n}" in fields] for word in "abcdefgh"}
    assert steps == {
        "a": [], "b": [2], "c": [2, 3], "d": [2, 3, 4], "e": [2, 3, 4], "f": [2, 3, 4, 6],
        "g": [2, 3, 4, 6], "h": [2, 3, 4, 6, 8],
    }  # fmt: skip


def test_a_field_of_the_name_of_a_value_counts():
    assert flat({"tags": ["x", "x"], "tags.x": "own"}) == {"tags.x": "own", "tags.x.>=2": 1.0}


def test_ignored_values_are_ignored_however_often_they_come():
    rows = [{"tags": ["x", "x", "z"], "y": 1}]
    assert decoded(rows, ignore=["tags.x"]) == [{"tags.z": 1.0}]
    assert decoded(rows, features=["tags.x"]) == [{"tags.x": 1.0, "tags.x.>=2": 1.0}]


def test_renamed_values_keep_their_counts_and_are_absent_where_they_are_not_in_the_bag():
    rows = [{"tags": ["x", "x"], "y": 1}, {"tags": ["z"], "y": 1}]
    assert decoded(rows, features={"red": "tags.x"}) == [{"red": 1.0, "red.>=2": 1.0}, {}]


def test_more_values_than_a_learner_holds_leave_it_bounded(monkeypatch):
    monkeypatch.setattr(names, "MOST_NAMES", 300)
    learner = streamk.KernelRegressor(features=768, seed=0)
    rows = [{"tags": ["always", f"a {k}", f"b {k}", f"b {k}"], "y": k % 2} for k in range(1500)]
    sizes = []
    for start in range(0, 1500, 500):
        part = rows[start : start + 500]
        learner.learn_many(decoded(part), [row["y"] for row in part])
        sizes.append(len(learner.to_bytes()))
    assert len(learner.number_names) <= 300
    assert "tags.always" in learner.number_names
    assert sizes[2] < 1.1 * sizes[1]
