"""Replays of a log: test, then train, for several contenders on the same events."""
