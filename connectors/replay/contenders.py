"""Events as river's models take them."""

from __future__ import annotations

from typing import Any

from streamk.encoding.fields import Event


def present(x: Event) -> dict[Any, Any]:
    """Return an event as river's linear models take it: no missing fields, booleans as numbers."""
    return {k: int(v) if isinstance(v, bool) else v for k, v in x.items() if v is not None}
