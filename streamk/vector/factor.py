"""The inverse of a growing information matrix, stored as ``P = U D Uᵀ`` (Bierman 1976).

``U`` has ones on its diagonal and zeros below; ``D`` is positive and only shrinks. So ``P`` stays symmetric
and positive for any number of events, while the textbook's ``P − k kᵀ`` loses both to rounding. The columns
of ``U`` above the diagonal are stored one after the other, each padded with zeros to a multiple of 16.

``U``, the event ``x`` and the gain ``Px`` are float64, or float32 for half the memory and half the time;
``D`` and the numbers that belong to a whole column are float64. ``P`` stays positive with a rounded ``U``.

An event updates the columns one at a time, or eight at once. Column ``j`` has ``⌈j/16⌉`` vectors, so the
eight columns from ``8n + 1`` on have equally many and are adjacent in memory. An event takes two sweeps over
them: inner products with ``x``, then the update of the columns and of the gain, which stays in registers from
one column to the next. Every number goes through the same operations in the same order as with one column at
a time, so the bits are the same. The eight columns share the reads of ``x`` and the gain, and do not wait for
each other. Meanwhile the next eight columns are fetched into the first cache, since the processor's
prefetch is too late for columns as short as these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import DTypeLike

from streamk.arrays import AnyArray, Array
from streamk.compiling import INNER, Compiled, both
from streamk.vector.lanes import (
    DOUBLE,
    FLOAT,
    HERE,
    LANES,
    NARROW,
    Builder,
    Value,
    at,
    data,
    fetch,
    fma,
    fold,
    index,
    load,
    shuffle,
    spread,
    store,
    times,
    vector,
    vector_of,
    zeros_aligned,
)

BLOCK = 8


def _kind(array: types.Array) -> ir.Type:
    return FLOAT if array.dtype == types.float32 else DOUBLE


def _at_once(kind: ir.Type) -> tuple[int, int, int]:
    """Return what fits into the registers: lanes of eight sums; lanes and columns of an update.

    Of 32 registers of 512 bits, eight sums of all lanes take eight or sixteen. An update takes two spread
    numbers a column. Of 16 registers of 256 bits, eight sums have one each, and four columns eight for their
    spread numbers; these are used twice.
    """
    if HERE != NARROW:
        return LANES, LANES, BLOCK
    lanes = 8 if kind == FLOAT else 4
    return lanes, 2 * lanes, BLOCK // 2


def _wide(b: Builder, value: Value) -> Value:
    """Return a number, or a vector of numbers, in float64."""
    if isinstance(value.type, ir.VectorType):
        return value if value.type.element == DOUBLE else b.fpext(value, vector(value.type.count, DOUBLE))
    return value if value.type == DOUBLE else b.fpext(value, DOUBLE)


def _rounded(b: Builder, value: Value, kind: ir.Type) -> Value:
    """Return a float64 number in ``kind``."""
    return value if kind == DOUBLE else b.fptrunc(value, kind)


@intrinsic
def _inner_product(typing_context, factor, start, x, vectors):
    """Return ``Σ_k factor[start + k] x[k]`` over so many vectors: lane by lane in turn, then folded."""

    def generate(context, b, signature, arguments):
        column = at(b, data(context, b, signature, arguments, 0), arguments[1])
        other = data(context, b, signature, arguments, 2)
        zero = ir.Constant(vector(kind=_kind(factor)), [0.0] * LANES)
        total = cgutils.alloca_once_value(b, zero)
        with cgutils.for_range(b, arguments[3]) as loop:
            k = times(b, loop.index, LANES)
            b.store(fma(b, load(b, at(b, column, k)), load(b, at(b, other, k)), b.load(total)), total)
        return _wide(b, fold(b, b.load(total)))

    return types.float64(factor, types.intp, x, types.intp), generate


@intrinsic
def _turn_column(typing_context, factor, start, gain, vectors, back, g):
    """Turn a column ``u`` and the gain ``b`` over so many vectors: ``u ← u + b·back`` and ``b ← b + u·g``."""

    def generate(context, b, signature, arguments):
        column = at(b, data(context, b, signature, arguments, 0), arguments[1])
        gains = data(context, b, signature, arguments, 2)
        back, g = (spread(b, _rounded(b, arguments[k], _kind(factor))) for k in (4, 5))
        with cgutils.for_range(b, arguments[3]) as loop:
            k = times(b, loop.index, LANES)
            u_place, b_place = at(b, column, k), at(b, gains, k)
            u, old = load(b, u_place), load(b, b_place)
            store(b, fma(b, old, back, u), u_place)
            store(b, fma(b, u, g, old), b_place)
        return context.get_dummy_value()

    n, number = types.intp, types.float64
    return types.void(factor, n, gain, n, number, number), generate


def _inner_products(b: Builder, columns: Sequence[Value], x: Value, vectors: Value) -> Value:
    """Return a vector of the inner products of eight columns, each as of a column by itself."""
    lanes = _at_once(x.type.pointee)[0]
    zero = ir.Constant(vector(lanes, x.type.pointee), [0.0] * lanes)
    swept = []
    for lane in range(0, LANES, lanes):
        totals = [cgutils.alloca_once_value(b, zero) for _ in columns]
        with cgutils.for_range(b, vectors) as loop:
            k = b.add(times(b, loop.index, LANES), index(lane))
            other = load(b, at(b, x, k), lanes)
            for column, total in zip(columns, totals, strict=True):
                b.store(fma(b, load(b, at(b, column, k), lanes), other, b.load(total)), total)
        swept.append([b.load(total) for total in totals])
    return _folded(b, [_halved(b, list(parts)) for parts in zip(*swept, strict=True)])


def _halved(b: Builder, parts: list[Value]) -> Value:
    """Return sixteen lanes in one register, halves added."""
    if len(parts) == 1:
        half = LANES // 2
        parts = [shuffle(b, parts[0], parts[0], range(k, k + half)) for k in (0, half)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [b.fadd(low, high) for low, high in zip(parts[:half], parts[half:], strict=True)]
    return parts[0]


def _folded(b: Builder, totals: list[Value]) -> Value:
    """Return a vector of the sums of the lanes of eight vectors: of all of them, halves are added at once."""
    size = totals[0].type.count
    while size > 1:
        half, every = size // 2, range(0, 2 * totals[0].type.count, size)
        low, high = ([group + k for group in every for k in range(at, at + half)] for at in (0, half))
        pairs = list(zip(totals[::2], totals[1::2], strict=True))
        totals = [b.fadd(shuffle(b, one, two, low), shuffle(b, one, two, high)) for one, two in pairs]
        size = half
    while len(totals) > 1:
        both = range(2 * totals[0].type.count)
        totals = [shuffle(b, one, two, both) for one, two in zip(totals[::2], totals[1::2], strict=True)]
    return totals[0]


def _turn_all(
    b: Builder,
    columns: Sequence[Value],
    gains: Value,
    k: Value,
    steps: Sequence[tuple[Value, Value]],
    lanes: int,
    gain_lane: Value | None = None,
) -> None:
    """Turn lanes of adjacent columns, one after the other, and of the gain.

    ``gain_lane``, in the last lanes, is the one where the gain of the first of these columns is stored; those
    of the others come after it.
    """
    gain = load(b, at(b, gains, k), lanes)
    for c, (column, (back, g)) in enumerate(zip(columns, steps, strict=True)):
        place = at(b, column, k)
        u, g = load(b, place, lanes), spread(b, g, lanes)
        store(b, fma(b, gain, spread(b, back, lanes), u), place)
        gain = fma(b, u, g, gain)
        if gain_lane is not None:
            lane = spread(b, b.add(gain_lane, index(c)), lanes)
            gain = b.select(b.icmp_signed("==", lane, ir.Constant(lane.type, list(range(lanes)))), g, gain)
    store(b, gain, at(b, gains, k))


def _numbers(b: Builder, value: Value) -> list[Value]:
    """Return the numbers of a vector."""
    return [b.extract_element(value, ir.Constant(ir.IntType(32), c)) for c in range(value.type.count)]


@intrinsic
def _update_columns(typing_context, diagonal, factor, x, gain, j, start, vectors, left):
    """Update columns ``j … j + 7`` of so many vectors, from ``start`` on; return what is ``left`` after them.

    ``j`` is a multiple of eight, plus 1.
    """

    def generate(context, b, signature, arguments):
        variances, packed, inputs, gains = (data(context, b, signature, arguments, k) for k in range(4))
        j, start, vectors, left = arguments[4:]
        columns, apart = [at(b, packed, start)], times(b, vectors, LANES)
        for _ in range(BLOCK - 1):
            columns.append(at(b, columns[-1], apart))
        f = _wide(b, load(b, at(b, inputs, j), BLOCK))
        f = b.fadd(f, _wide(b, _inner_products(b, columns, inputs, vectors)))
        place = at(b, variances, j)
        variance = load(b, place, BLOCK)
        g = b.fmul(variance, f)
        lefts = [left]
        for product in _numbers(b, b.fmul(f, g)):
            lefts.append(b.fadd(lefts[-1], product))
        before, after = vector_of(b, lefts[:-1]), vector_of(b, lefts[1:])
        store(b, b.fmul(variance, b.fdiv(before, after)), place)
        numbers = zip(_numbers(b, b.fdiv(b.fneg(f), before)), _numbers(b, g), strict=True)
        steps = [tuple(_rounded(b, number, _kind(factor)) for number in pair) for pair in numbers]
        last = b.sub(apart, index(LANES))
        _, lanes, together = _at_once(_kind(factor))
        for c in range(0, BLOCK, together):
            group, first = slice(c, c + together), b.add(j, index(c))
            with cgutils.for_range_slice(b, index(0), last, index(lanes)) as (k, _):
                for column in columns[group]:
                    fetch(b, at(b, column, k, times(b, apart, BLOCK)), lanes)
                _turn_all(b, columns[group], gains, k, steps[group], lanes)
            _turn_all(b, columns[group], gains, last, steps[group], LANES, b.sub(first, last))
        b.store(steps[-1][1], at(b, gains, j, index(BLOCK - 1)))
        return lefts[-1]

    n, number = types.intp, types.float64
    return number(diagonal, factor, x, gain, n, n, n, number), generate


inner_product: Compiled = _inner_product
turn_column: Compiled = _turn_column
update_columns: Compiled = _update_columns


_JITTER = 1e-12  # of the trace
_STEPS, _STEP = 8, 100.0
_LEAST_NOISE, _LARGEST_NOISE = 1e-12, 1e100  # of an event with all the weight, and with next to none


def factor_size(size: int) -> int:
    """Return how many numbers the factor of so many columns has."""
    return sum(-(-j // LANES) * LANES for j in range(size))


def empty_factor(size: int, kind: DTypeLike = np.float64) -> AnyArray:
    """Return the factor of the identity, aligned: vectors are read fastest within a cache line."""
    return zeros_aligned(factor_size(size), kind)


def _columns(size: int) -> Iterator[tuple[int, slice]]:
    """Yield every column of ``U`` and its slice of the factor."""
    at = 0
    for j in range(size):
        yield j, slice(at, at + j)
        at += -(-j // LANES) * LANES


def as_matrix(factor: AnyArray, size: int) -> Array:
    """Return ``U``, ``(size, size)``."""
    upper = np.eye(size)
    for j, place in _columns(size):
        upper[:j, j] = factor[place]
    return upper


def information(diagonal: Array, factor: AnyArray) -> Array:
    """Return ``P⁻¹ = U⁻ᵀ D⁻¹ U⁻¹``."""
    from scipy.linalg import solve_triangular

    size = len(diagonal)
    inverse = solve_triangular(as_matrix(factor, size), np.eye(size), unit_diagonal=True)
    return np.asarray(inverse.T @ (inverse / diagonal[:, None]))


def of_information(matrix: Array) -> tuple[Array, Array]:
    """Return ``D`` and the columns of ``U`` of the inverse of a symmetric positive matrix.

    With ``P⁻¹ = L Lᵀ`` the upper triangle ``L⁻ᵀ`` is ``U √D``.
    """
    from scipy.linalg import solve_triangular

    size = len(matrix)
    upper = solve_triangular(np.linalg.cholesky(matrix), np.eye(size), lower=True).T
    lengths = upper.diagonal()
    factor = empty_factor(size)
    for j, place in _columns(size):
        factor[place] = upper[:j, j] / lengths[j]
    return lengths**2, factor


def is_positive(gram: Array) -> bool:
    """Return whether the lower triangle is that of a Gram matrix that can be solved for."""
    from scipy.linalg import cho_factor

    try:
        cho_factor(solvable(gram), lower=True)
    except (ValueError, np.linalg.LinAlgError):
        return False
    return bool((gram.diagonal() > 0.0).all())


def solvable(gram: Array) -> Array:
    """Return the matrix with what the rounding of its largest numbers may have taken from the smallest."""
    return gram + _JITTER * float(np.trace(gram)) * np.eye(len(gram))


def positive(matrix: Array) -> Array:
    """Return a matrix of information that has a Cholesky factor.

    It is :func:`solvable`. Where weights differ so much that rounding leaves it indefinite, more is added to
    its diagonal, in steps of a hundredfold.
    """
    definite, more = solvable(matrix), _JITTER * float(np.trace(matrix))
    for _ in range(_STEPS):
        try:
            np.linalg.cholesky(definite)
        except np.linalg.LinAlgError:
            more *= _STEP
            definite = definite + more * np.eye(len(matrix))
        else:
            break
    return definite


@njit(**INNER)
def noise_of(weight):
    """Return the variance of an event of this weight, kept where a factor can hold it."""
    return min(max(1.0 / weight, _LEAST_NOISE), _LARGEST_NOISE)


@both()
def update(diagonal, factor, x, noise, gain):
    """Add an event to the information; return ``noise + xᵀPx``.

    Parameters
    ----------
    diagonal, factor
        ``D``, float64, and ``U``; changed.
    x
        The event's features, of the type of ``U``, filled up with zeros to a multiple of 16.
    noise
        The inverse of the event's weight.
    gain
        Like ``x`` and 0; becomes ``Px``, with ``P`` as it was.
    """
    size, left, j, at = diagonal.shape[0], noise, 0, 0
    while j < size:
        vectors = (j + LANES - 1) // LANES
        if j % BLOCK == 1 and j + BLOCK <= size:  # they have equally many vectors
            left = update_columns(diagonal, factor, x, gain, j, at, vectors, left)
            j += BLOCK
            at += BLOCK * vectors * LANES
        else:
            f = x[j] + inner_product(factor, at, x, vectors)
            g = diagonal[j] * f
            before = left
            left = before + f * g
            diagonal[j] *= before / left
            turn_column(factor, at, gain, vectors, -f / before, g)
            gain[j] = g
            j += 1
            at += vectors * LANES
    return left
