"""The introduction of the comparison's page: learners, streams and method."""

from __future__ import annotations

from cache import Result

TEXT = """\
# Comparison on streams

`KernelClassifier` and `KernelRegressor` with their defaults, means of three seeds, compared with learners
of river, Vowpal Wabbit, scikit-learn and MOA, on the same events in the same order and in one process.
Every learner predicts an event before it learns the event.{late}

```sh
{command}
```

- **Label memory**: *without labels*, streamk runs with `label_memory=False`. *With labels*, streamk has its
  label memory, and every peer gets the same columns as inputs: for classification, the last label one-hot
  and a decaying histogram; for regression, the last two standardised targets and two running means. *The
  better of both* is the better result of each learner on each stream.
- **Fairness**: no peer gets the target of an event before it predicts the event. (MOA's SOKNL reads it
  where it can.)
- **Inputs of peers**: standardised numbers and one-hot strings for linear models, neighbours and random
  features; standardised targets for regressions other than MOA's.
- **Settings of peers**: the defaults, with the number of trees in parentheses; one run, with seed 1.
- **Time limit**: a peer stops after {budget:g} seconds on a stream. Its result is then in parentheses, with
  the share of the stream, and is neither counted nor ranked.
- **Ranks**: mean ranks are those of learners that finished every stream. A difference larger than the
  critical difference is significant at a level of 5 % (Nemenyi).
- **Temporal kappa** is `(p - q) / (1 - q)`: `p` is the accuracy, and `q` that of predicting the last label.
- **Streams with drift** are river's generators. *Digits that turn* are the first 10,000 images of MNIST on
  40 principal axes, rotated by up to 180 degrees and back.
- **Speed** is that of predicting and learning, after compilation, with other work on the machine.

Versions: {versions}."""
NAMES = {"Vowpal": "Vowpal Wabbit", "MOA": "CapyMOA"}


def introduction(results: list[Result]) -> str:
    """Return the introduction of the page for these results."""
    peers = {(r["peer"].split(" ")[0], r["version"]) for r in results}
    versions = [
        f"{NAMES.get(name, name)} {v}" for name, v in sorted(peers) if name not in ("streamk", "last")
    ]
    delay, budget = (results[0]["delay"], max(r["budget"] for r in results)) if results else (0, 0.0)
    return TEXT.format(
        command="python benchmarks/streams.py --older" + (f" --delay {delay}" if delay else ""),
        late=f" Labels arrive {delay:,} events late; predictions before the first label do not count."
        if delay
        else "",
        budget=budget,
        versions=", ".join(versions) or "-",
    )
