"""Model files to learners (:mod:`streamk.model_file`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamk import model_file
from streamk.exact import EXACT
from streamk.learners import LEARNERS
from streamk.learners.learner import Learner

MODEL = "model"  # name of the learner's file among the parts of a checkpoint
_CLASSES: dict[str, type[Learner]] = {**LEARNERS, **EXACT}


def load(path: str | Path) -> Learner:
    """Return the learner saved at ``path``, which may also be a checkpoint of the daemon.

    Raises
    ------
    ValueError
        If the file is not a model file, is damaged, or holds a learner that this version does not have.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import streamk, tempfile, pathlib
    >>> learner = streamk.KaczmarzRegressor(seed=1)
    >>> for i in range(100):
    ...     learner.learn_one({"x": i % 10}, (i % 10) ** 2)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "square.streamk"
    >>> size = learner.save(path)
    >>> streamk.load(path).predict_one({"x": 3}) == learner.predict_one({"x": 3})
    True
    """
    return loads(Path(path).read_bytes(), str(path))


def loads(data: bytes, source: str = "the model") -> Learner:
    """Return the learner in the bytes of a model file; ``source`` names them in errors."""
    return loads_with_extra(data, source)[0]


def loads_with_extra(data: bytes, source: str = "the model") -> tuple[Learner, Any]:
    """Return the learner in the bytes of a model file, and the ``extra`` saved with it."""
    header, arrays = model_file.unpack(data, source)
    extra = header.pop("extra", None)
    if not header and MODEL in arrays:
        return loads(arrays[MODEL].tobytes(), source), extra
    name = header.get("class")
    learner = _CLASSES.get(name) if isinstance(name, str) else None
    if learner is None:
        raise ValueError(f"{source} holds a {name!r}, which this version of streamk does not have")
    try:
        return learner._from_parts(header, arrays), extra
    except (KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
        raise ValueError(f"{source} is not a valid {name}: {error}") from None
