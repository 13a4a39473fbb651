"""Logs on disk: to read events from, and to write predictions and dead letters to."""
