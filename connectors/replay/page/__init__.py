"""The page that a replay writes: one file that needs nothing else, for a person to read or mail."""

from connectors.replay.page.build import Curve, page

__all__ = ["Curve", "page"]
