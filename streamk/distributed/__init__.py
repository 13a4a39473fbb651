"""Learning on many cores and machines: models of shards of a stream, merged after every round.

In round ``r``, every shard learns its next events, starting from the merged model of round ``r - 1``; then
the models are merged in a fixed binary tree by the number of the shard:

    Mᵣ = tree(learn(Mᵣ₋₁, events of shard 0), …, learn(Mᵣ₋₁, events of shard S - 1))

Shard 0 starts alone, and the first rounds are short. Learning is a pure function of bytes, so the model does
not depend on the number of workers, on their speed, or on workers that are killed.

>>> import streamk
>>> from streamk.distributed import Rows, learn
>>> learner = streamk.KaczmarzClassifier(features=64, seed=7)
>>> shards = [
...     Rows(f"part {k}", [{"x": i % 7} for i in range(k, 400, 2)], [i % 7 > 3 for i in range(k, 400, 2)])
...     for k in range(2)
... ]
>>> trained = learn(shards, learner, round=100, engine="here")
>>> trained.learner.predict_one({"x": 6}), trained.events, [entry.events for entry in trained.curve]
(True, 400, [100, 128, 136, 36])
"""

from streamk.distributed.engines import WorkersDiedError
from streamk.distributed.learning import Advance, Round, Trained, learn
from streamk.distributed.shards import Chunk, Rows, Shard

__all__ = ["Advance", "Chunk", "Round", "Rows", "Shard", "Trained", "WorkersDiedError", "learn"]
