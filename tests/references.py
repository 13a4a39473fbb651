"""Slow and obvious versions of what the package computes, for tests."""

import math


class Scale:
    """Mean and deviation of the values so far, but for the farthest, none moving the variance by much."""

    def __init__(self, values=(), weights=None):
        self.count, self.mean, self.squares, self.held = 0, 0.0, 0.0, None
        for k, value in enumerate(values):
            self.add(value, 1.0 if weights is None else weights[k])

    def add(self, value, weight=1.0):
        if self.count == 0:
            self.count, self.mean = 1, value
        elif self.held is None:
            self.held = value
        elif self.count == 1:
            three = sorted([self.mean, self.held, value])
            if three[1] - three[0] > three[2] - three[1]:
                self.held, pair = three[0], three[1:]
            else:
                self.held, pair = three[2], three[:2]
            self.count, self.mean = 2, sum(pair) / 2
            self.squares = sum((v - self.mean) ** 2 for v in pair)
        else:
            if abs(value - self.mean) > abs(self.held - self.mean):
                value, self.held = self.held, value
            distance = value - self.mean
            most = math.sqrt(max(16.0, self.count / 2.0) * self.squares / self.count)
            if self.squares > 0.0 and abs(distance) > most:
                distance = math.copysign(most, distance)
            weight = min(weight, self.count)
            self.count += weight
            self.squares += weight * distance**2 * (self.count - weight) / self.count
            self.mean += weight * distance / self.count

    @property
    def spread(self):
        return math.sqrt(self.squares / self.count) if self.count > 1 else 0.0

    def standardise(self, value, clip=6.0):
        return min(max((value - self.mean) / self.spread, -clip), clip) if self.spread else 0.0


def late_loop(predict, learn, pairs, delay):
    """The definition of late labels: event t is predicted once events 0 to t - delay - 1 are learned.

    Returns the predictions; in the end, all is learned.
    """
    predictions = []
    for t in range(len(pairs) + delay):
        if t < len(pairs):
            predictions.append(predict(pairs[t][0]))
        if 0 <= t - delay < len(pairs):
            learn(*pairs[t - delay])
    return predictions
