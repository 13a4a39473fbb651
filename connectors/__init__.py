"""Brings events in and predictions out: logs on disk, Kafka topics, and the ``streamk`` command."""
