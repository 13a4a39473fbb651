"""Brings events in and predictions out: logs on disk, and the ``streamk`` command."""
