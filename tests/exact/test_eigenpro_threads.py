"""The number of threads never shows in a model."""

import os
import subprocess
import sys

THREADS = """
import hashlib, numpy as np, streamk
rng = np.random.default_rng(0)
X, names = rng.normal(size=(2500, 30)), [f"x{j}" for j in range(30)]
y = (X[:, 0] > X[:, 1]).tolist()
for projection in ("exact", "inexact", "delayed"):
    learner = streamk.EigenProClassifier(
        centers=600, choose="k-means", projection=projection, epochs=2, batch=300, rank=20, seed=5
    )
    learner.fit(X, y, names=names)
    learner.learn_many(X, y, names=names)
    answers = learner.predict_proba_many(X, names=names)
    print(hashlib.sha256(learner.to_bytes() + answers.tobytes()).hexdigest())
"""


def test_threads_change_nothing():
    hashes = []
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "NUMBA_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        command = [sys.executable, "-c", THREADS]
        done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
        hashes.append(done.stdout.split())
    assert len(hashes[0]) == len(set(hashes[0])) == 3
    assert hashes[0] == hashes[1] == hashes[2]
