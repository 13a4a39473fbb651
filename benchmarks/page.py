"""What stands above the tables of the comparison: what was measured, and how."""

from __future__ import annotations

from cache import Result

TEXT = """\
# Streams, beside other learners

`KernelClassifier` and `KernelRegressor` with their defaults, means of three seeds, beside learners of river,
Vowpal Wabbit, scikit-learn and MOA, on the same events in the same order and in one process. Every learner
predicts an event before it learns it.{late}

```sh
{command}
```

- *Without labels*, streamk runs with `label_memory=False`. *With labels*, streamk has its memory of labels,
  and every peer gets the same columns as inputs: of classes, the last label one-hot and a decaying histogram;
  of numbers, the last two standardised targets and two running means. *The better of both* takes, for every
  learner and stream, the one that turned out better.
- No peer is shown the target of an event that it is to predict. (MOA's SOKNL looks at it where it can.)
- Peers get the inputs that they need: standardised numbers and one-hot texts for linear models, neighbours
  and random features; standardised targets for regressions other than MOA's. Their settings are the defaults,
  with the number of trees in brackets; they run once, with the seed 1.
- A peer that takes more than {budget:g} seconds on a stream is stopped there, and shown in brackets with the
  share that it did. On that stream it is neither counted nor ranked. Mean ranks are those of learners that
  finished every stream, and two that differ by more than the critical difference differ at a level of 5 %
  (Nemenyi).
- Temporal kappa is `(p - q) / (1 - q)`: `p` is the accuracy, and `q` that of saying the last label again.
- Streams that drift are river's generators. *Digits that turn* are the first 10,000 images of MNIST on 40
  principal axes, rotated by up to 180 degrees and back.
- Speed is predict and learn, after what has to be compiled is compiled, and with other work on the machine.

Versions: {versions}."""
NAMES = {"Vowpal": "Vowpal Wabbit", "MOA": "CapyMOA"}


def introduction(results: list[Result]) -> str:
    """Return the beginning of the page that shows some results."""
    peers = {(r["peer"].split(" ")[0], r["version"]) for r in results}
    versions = [
        f"{NAMES.get(name, name)} {v}" for name, v in sorted(peers) if name not in ("streamk", "last")
    ]
    delay, budget = (results[0]["delay"], max(r["budget"] for r in results)) if results else (0, 0.0)
    return TEXT.format(
        command="python benchmarks/streams.py --older" + (f" --delay {delay}" if delay else ""),
        late=f" Labels arrive {delay:,} events late; what was asked for before the first came does not count."
        if delay
        else "",
        budget=budget,
        versions=", ".join(versions) or "-",
    )
