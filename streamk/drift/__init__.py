"""Drift: when events are no longer what they were."""

from streamk.drift.two_sample import KernelTwoSample

__all__ = ["KernelTwoSample"]
