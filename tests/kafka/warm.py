"""Imported where processes of the nursery come from: what most of them would compile or load first."""

import streamk

learner = streamk.KaczmarzClassifier(features=64, seed=0)
for _ in range(2):
    learner.predict_proba_learn_many([{"a": 1.0, "b": 2.0}] * 3, [True, False, True])
