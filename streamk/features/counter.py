"""Counter-based bits: every random number of a model is a pure function of its seed and its address.

The address of a random number is a 64-bit *stream key* and a 32-bit counter. Nothing is drawn in sequence, so
numbers can be generated in any order, on any thread. The functions below are specified to the bit and pinned
by golden values in ``tests/features/test_counter.py``: model files hold seeds only, so changing one constant
would change every saved model.

Specification (all arithmetic modulo 2**64 or 2**32)::

    mix64(x)         : x ^= x >> 30; x *= 0xbf58476d1ce4e5b9
                       x ^= x >> 27; x *= 0x94d049bb133111eb;  x ^ (x >> 31)
    block_key(s, b)  : mix64(s + (b + 1) * 0x9e3779b97f4a7c15)
    stream_key(B, k) : mix64(B ^ k)
    bits32(S, i)     : x = i * 0x9e3779b9 + lo(S);   mix32((x ^ (x >> 16) ^ hi(S)))
    mix32(x)         : x *= 0x21f0aaad; x ^= x >> 15; x *= 0xd35a2d97; x ^ (x >> 15)

``mix64`` is the finaliser of SplitMix64 (Steele, Lea and Flood 2014), which makes streams of different
keys unrelated; the constants of ``mix32`` come from an exhaustive bias search (Wellons 2018) and decorrelate
counters within a stream. ``bits32`` uses no 64-bit product, so a compiler can run eight or sixteen counters
at once.

Random orders and positions are pure functions of a seed, too.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Array, Places
from streamk.compiling import ENTRY

GOLDEN64 = 0x9E3779B97F4A7C15
MASK64 = (1 << 64) - 1


@njit(cache=True, inline="always", error_model="numpy")
def mix64(x):
    """Return the SplitMix64 finaliser of one ``uint64``: a bijection of 64-bit words."""
    x = np.uint64(x)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, inline="always", error_model="numpy")
def stream_key(block_key, input_key):
    """Return the key of the stream that belongs to one feature block and one input."""
    return mix64(np.uint64(block_key) ^ np.uint64(input_key))


@njit(cache=True, inline="always", error_model="numpy")
def bits32(low, high, i):
    """Return 32 random bits of counter ``i`` in the stream with key ``(high << 32) | low``."""
    x = np.uint32(np.uint32(np.uint32(i) * np.uint32(0x9E3779B9)) + low)
    x = np.uint32((x ^ (x >> np.uint32(16)) ^ high) * np.uint32(0x21F0AAAD))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0xD35A2D97))
    return np.uint32(x ^ (x >> np.uint32(15)))


@njit(**ENTRY)
def fill_bits(key, out):
    """Fill ``out`` (``uint32``) with the words of counters ``0, 1, …`` of one stream."""
    low = np.uint32(key & np.uint64(0xFFFFFFFF))
    high = np.uint32(key >> np.uint64(32))
    for i in range(out.shape[0]):
        out[i] = bits32(low, high, np.uint32(i))


@njit(**ENTRY)
def _block_keys(seed, count):
    keys = np.empty(count, dtype=np.uint64)
    for b in range(count):
        keys[b] = mix64(seed + np.uint64(b + 1) * np.uint64(GOLDEN64))
    return keys


def block_keys(seed: int, count: int) -> NDArray[np.uint64]:
    """Return the keys of feature blocks ``0 … count − 1`` of a seed, shape ``(count,)``."""
    keys: NDArray[np.uint64] = _block_keys(np.uint64(seed & MASK64), count)
    return keys


def mix64_int(x: int) -> int:
    """Return :func:`mix64` of a Python integer, without calling compiled code."""
    x &= MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def uniforms(key: int, count: int) -> Array:
    """Return ``count`` uniform numbers of one stream, strictly inside (0, 1), as ``float64``.

    Counter ``i`` gives ``(bits32 + ½) · 2⁻³²``.
    """
    words = np.empty(count, dtype=np.uint32)
    fill_bits(np.uint64(key), words)
    return (words.astype(np.float64) + 0.5) * 2.0**-32


_WORDS = 2  # of 32 bits, a random number


def uniform_doubles(seed: int, stream: int, count: int) -> Array:
    """Return ``count`` numbers in ``[0, 1)``, of 53 random bits each, of one stream of a seed."""
    words = np.empty(_WORDS * count, dtype=np.uint32)
    fill_bits(np.uint64(mix64_int(seed + (stream + 1) * GOLDEN64)), words)  # the key of one block
    high, low = words.reshape(-1, _WORDS).T.astype(np.uint64)
    return ((high << np.uint64(21)) + (low >> np.uint64(11))) * 2.0**-53


def permutation(seed: int, stream: int, count: int) -> Places:
    """Return a random order of ``0 … count − 1``."""
    return np.argsort(uniform_doubles(seed, stream, count), kind="stable")
