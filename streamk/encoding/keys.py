"""Input keys, which select the directions of inputs in the feature space.

*Keyed* directions depend on the input's *name* alone. So a model does not depend on the order of names, new
names may appear at any time, and two models of one seed have the same directions for every name.

*Dense* directions depend on a number's *position*, the order of first learning (new names of one event are
sorted). So columns of numbers can be renamed without changing the model. A category has no position; its
direction depends on its name and value.

*Structured* directions depend on positions, too, and are computed by fast transforms
(:mod:`streamk.features.structured`).

*Auto* is the cheaper of keyed and structured, chosen at the first learned event
(:mod:`streamk.features.map`).

A key is 64 bits, never 0 (which marks an absent input), and above 65,536 unless it is a slot::

    number   "n" + name                  BLAKE2b of 8 bytes
    number   "p" + 8 bytes of i          dense: the i-th number, from 0
    number   i + 1                      structured: a slot
    category "c" + length of name + name + "=" + value

The slot of a category is −2³⁰ less the lowest 30 bits of the BLAKE2b of "f" + name.
"""

from __future__ import annotations

from hashlib import blake2b

from streamk.encoding.rows import CATEGORY, MOST_SLOTS

DIRECTIONS = ("keyed", "dense", "structured")
AUTO = "auto"


def number_key(name: str) -> int:
    """Return the keyed direction of a number."""
    return _digest(b"n" + name.encode("utf-8", "surrogatepass"))


def category_key(name: str, value: str) -> int:
    """Return the keyed direction of the one-hot input ``name=value``.

    The name's length is part of the digest: ``a=b`` with value ``c`` is not ``a`` with ``b=c``.
    """
    head = name.encode("utf-8", "surrogatepass")
    tail = value.encode("utf-8", "surrogatepass")
    return _digest(b"c" + len(head).to_bytes(4, "little") + head + b"=" + tail)


def category_slot(name: str) -> int:
    """Return what stands as the slot of a category: the same for all values of the field ``name``."""
    return CATEGORY - (_digest(b"f" + name.encode("utf-8", "surrogatepass")) & (2**30 - 1))


def category_tag(name: str) -> int:
    """Return the key that stands for a category with all its values: its slot, in 64 bits."""
    return category_slot(name) & (2**64 - 1)


def number_position_key(index: int) -> int:
    """Return the dense direction of the ``index``-th number."""
    return _digest(b"p" + index.to_bytes(8, "little"))


def number_slot_key(index: int) -> int:
    """Return the structured direction of the ``index``-th number."""
    return index + 1


def _digest(text: bytes) -> int:
    key = int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
    return key if key > MOST_SLOTS else key + MOST_SLOTS + 1
