"""Model files: safetensors with a JSON header and a checksum; reading them runs no code.

A file holds the learner's arrays as tensors and one metadata entry, ``streamk``: a JSON object with the
format version, the class, the parameters, the seed, names, labels, counts, and the SHA-256 of the rest.
Any safetensors reader can open it. The same learner always makes the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from streamk.arrays import Arrays, Json

FORMAT, EARLIER = 12, (9, 10, 11)  # all are read
_KEY = "streamk"


class FormatError(ValueError):
    """A model file of another format; the version of streamk that wrote it can read it."""


def pack(header: Json, arrays: Arrays, version: int | None = None) -> bytes:
    """Return the bytes of a model file, of this format or of another ``version``."""
    header = {"format": version or FORMAT, **header}
    digest = _digest(header, arrays)
    text = _json({**header, "sha256": digest})
    return save_tensors({k: np.ascontiguousarray(v) for k, v in arrays.items()}, metadata={_KEY: text})


def unpack(data: bytes, source: str) -> tuple[Json, Arrays]:
    """Return the header and the arrays of a model file.

    Raises
    ------
    FormatError
        If the bytes have another format.
    ValueError
        If the bytes are not a model file, or are truncated or altered.
    """
    broken = f"{source} is damaged: "
    try:
        arrays: Arrays = load_tensors(data)
        size = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][_KEY])
        if not isinstance(header, dict):
            raise TypeError
    except (SafetensorError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"{source} is not a streamk model file, or was cut short; save the model again"
        ) from None
    except ValueError as error:
        raise ValueError(f"{broken}its header cannot be read ({error})") from None
    version = header.pop("format", None)
    if version not in (*EARLIER, FORMAT):
        raise FormatError(
            f"{source} has model format {version!r} and this streamk reads {EARLIER[0]} to {FORMAT}; "
            "load it with the version that wrote it"
        )
    digest = header.pop("sha256", None)
    if digest != _digest({"format": version, **header}, arrays) or pack(header, arrays, version) != data:
        raise ValueError(f"{broken}its checksum does not match its contents; use another copy")
    return (header, arrays) if version == FORMAT else _of_today(header, arrays, version)


def _of_today(header: Json, arrays: Arrays, version: int) -> tuple[Json, Arrays]:
    """Return parts of an earlier format as in this one: mixtures had other parameters."""
    before = header.get("parameters")
    if not isinstance(before, dict) or "label_memory" not in before:
        return header, arrays
    later: Json = {"budget": "small"} | (
        {"logarithm": False} if header.get("class") == "KernelRegressor" else {}
    )
    parameters = later | {name: value for name, value in before.items() if name != "delay"}
    if version == EARLIER[0]:
        parameters["retired"] = True
    gone = "asked", "rehearsal.ranges"
    arrays = {name: array for name, array in arrays.items() if not name.startswith(gone)}
    if "codec.memory" in arrays:  # with a row of the labels that came late
        arrays |= {"codec.memory": arrays["codec.memory"][[0, -1]], "codec.queue": arrays["codec.queue"][:1]}
    return {**header, "parameters": parameters}, arrays


def write(path: str | Path, header: Json, arrays: Arrays) -> int:
    """Write a model file atomically, and return its size in bytes.

    The bytes are written to a temporary file in the same directory, which is synchronised and renamed.
    """
    path, data = Path(path), pack(header, arrays)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file; a model cannot be written there")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)
    return len(data)


def _digest(header: Json, arrays: Arrays) -> str:
    digest = hashlib.sha256(_json(header).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _sync_directory(path: Path) -> None:
    if os.name == "nt":  # this system cannot open a directory
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
