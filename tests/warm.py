"""Imported where commands are forked from: compiled code that most of them load."""

import streamk

from . import compilation

compilation.share()
learner = streamk.KaczmarzClassifier(features=64, seed=0)
for _ in range(2):
    learner.predict_proba_learn_many([{"a": 1.0, "b": 2.0}] * 3, [True, False, True])
