"""Streams and settings that the tests of the detector share."""

SMALL = {"false_alarms": 5e-4, "reference": 256, "window": 64, "features": 64, "seed": 7}
RARE = {**SMALL, "false_alarms": 1e-5}


def events(rng, count, shift=0.0):
    """A number that moves, numbers that do not, a string and a number that may be missing."""
    X, words = rng.normal(size=(count, 3)), rng.choice(["x", "y", "z"], size=count)
    return [
        {"a": a + shift, "b": 100.0 + 5.0 * b, "c": None if c > 1.0 else c, "word": str(w), "on": bool(b > c)}
        for (a, b, c), w in zip(X.tolist(), words, strict=True)
    ]


def alarms_of(detector, xs):
    found = []
    for i, x in enumerate(xs):
        detector.update(x)
        if detector.drift_detected:
            found.append(i)
    return found
