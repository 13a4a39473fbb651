"""How functions are compiled that only compiled code calls."""

from __future__ import annotations

from typing import Any

# No way in from Python is made: for arguments that are tuples of arrays it takes as long as the function.
INNER: Any = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
