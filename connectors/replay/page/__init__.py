"""The page that a replay writes: one HTML file without other files."""

from connectors.replay.page.build import Curve, page

__all__ = ["Curve", "page"]
