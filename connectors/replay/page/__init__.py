"""The page that a replay writes: one HTML file without other files."""

from connectors.replay.page.build import WindowedMetrics, page

__all__ = ["WindowedMetrics", "page"]
