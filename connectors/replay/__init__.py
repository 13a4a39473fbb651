"""Replays a log: test, then train, beside contenders on the same events."""
