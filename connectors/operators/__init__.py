"""Operators of the daemon: what processes records between source and sinks."""
