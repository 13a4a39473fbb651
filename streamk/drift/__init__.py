"""Drift detection: changes in the distribution of events."""

from streamk.drift.two_sample import KernelTwoSample

__all__ = ["KernelTwoSample"]
