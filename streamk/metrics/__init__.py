"""Metrics: sums, windows, slices, confidence intervals, comparisons of contenders, and drift alarms."""
