"""An event of least squares: columns that join, the features of variables, and their weights.

Columns of variables mostly follow one another. Sixteen that do are read and written as one vector, others one
by one, with the same operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamk.compiling import INNER
from streamk.experts import factor
from streamk.experts.expert import ITERATE, LARGEST_COEFFICIENT
from streamk.features.lanes import (
    DOUBLE,
    INDEX,
    LANES,
    Value,
    at,
    data,
    index,
    load,
    shape,
    spread,
    store,
    times,
    vector,
)

_LANE = ir.IntType(32)


@intrinsic
def _any_new(typing_context, phi, start, places, count):
    """Return whether one of ``count`` columns, a multiple of 16, is other than 0 and has no place."""

    def generate(context, b, signature, arguments):
        row = at(b, data(context, b, signature, arguments, 0), arguments[1])
        places = data(context, b, signature, arguments, 2)
        found = cgutils.alloca_once_value(b, ir.Constant(vector(kind=ir.IntType(1)), [0] * LANES))
        zero = ir.Constant(vector(), [0.0] * LANES)
        nowhere = ir.Constant(vector(kind=INDEX), [0] * LANES)
        with cgutils.for_range(b, b.ashr(arguments[3], index(4))) as loop:
            k = times(b, loop.index, LANES)
            there = b.fcmp_unordered("!=", load(b, at(b, row, k)), zero)
            place = b.load(b.bitcast(at(b, places, k), vector(kind=INDEX).as_pointer()), align=8)
            new = b.and_(there, b.icmp_signed("==", place, nowhere))
            b.store(b.or_(b.load(found), new), found)
        word = ir.IntType(LANES)
        return b.icmp_unsigned("!=", b.bitcast(b.load(found), word), word(0))

    n = types.intp
    return types.boolean(phi, n, places, n), generate


@intrinsic
def _gathered(typing_context, x, phi, start, variables, count):
    """Set ``x[j]``, float64, to ``phi[start + variables[1 + j]]``, ``count`` being a multiple of 16."""

    def generate(context, b, signature, arguments):
        out, row, variables = (data(context, b, signature, arguments, k) for k in (0, 1, 3))
        row, variables = at(b, row, arguments[2]), at(b, variables, index(1))
        with cgutils.for_range(b, b.ashr(arguments[4], index(4))) as loop:
            j = times(b, loop.index, LANES)
            columns, follow = _columns_from(b, variables, j)
            with b.if_else(follow) as (together, apart):
                with together:
                    values = load(b, at(b, row, b.load(at(b, variables, j))))
                    store(b, b.fpext(values, vector(kind=DOUBLE)), at(b, out, j))
                with apart:
                    for lane in range(LANES):
                        column = b.extract_element(columns, ir.Constant(_LANE, lane))
                        value = b.fpext(b.load(at(b, row, column)), DOUBLE)
                        b.store(value, at(b, out, j, index(lane)))
        return context.get_dummy_value()

    n = types.intp
    return types.void(x, phi, n, variables, n), generate


@intrinsic
def _moved(typing_context, weights, k, gain, length, coefficients, variables, count):
    """Add ``gain · length`` to weights of output ``k`` within their bounds, and copy them to coefficients.

    ``count`` is a multiple of 16; coefficients are the first of two or more of shape ``(outputs, columns)``.
    """

    def generate(context, b, signature, arguments):
        own, gains, out, variables = (data(context, b, signature, arguments, k) for k in (0, 2, 4, 5))
        own = at(b, own, b.mul(arguments[1], shape(context, b, signature, arguments, 0)[1]))
        out = at(b, out, b.mul(arguments[1], shape(context, b, signature, arguments, 4)[2]))
        variables, length = at(b, variables, index(1)), spread(b, arguments[3])
        low, high = (
            ir.Constant(vector(kind=DOUBLE), [end] * LANES)
            for end in (-LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
        )
        with cgutils.for_range(b, b.ashr(arguments[6], index(4))) as loop:
            j = times(b, loop.index, LANES)
            moved = b.fadd(load(b, at(b, own, j)), b.fmul(load(b, at(b, gains, j)), length))
            moved = b.select(b.fcmp_ordered(">", low, moved), low, moved)
            moved = b.select(b.fcmp_ordered("<", high, moved), high, moved)
            store(b, moved, at(b, own, j))
            rounded = b.fptrunc(moved, vector())
            columns, follow = _columns_from(b, variables, j)
            with b.if_else(follow) as (together, apart):
                with together:
                    store(b, rounded, at(b, out, b.load(at(b, variables, j))))
                with apart:
                    for lane in range(LANES):
                        place = ir.Constant(_LANE, lane)
                        b.store(
                            b.extract_element(rounded, place), at(b, out, b.extract_element(columns, place))
                        )
        return context.get_dummy_value()

    n, number = types.intp, types.float64
    return types.void(weights, n, gain, number, coefficients, variables, n), generate


def _columns_from(b: Any, variables: Value, j: Value) -> tuple[Value, Value]:
    """Return the columns of sixteen variables, and whether they follow one another."""
    columns = b.load(b.bitcast(at(b, variables, j), vector(kind=INDEX).as_pointer()), align=8)
    first = spread(b, b.load(at(b, variables, j)))
    lanes = ir.Constant(columns.type, list(range(LANES)))
    word = ir.IntType(LANES)
    other = b.bitcast(b.icmp_signed("!=", columns, b.add(first, lanes)), word)
    return columns, b.icmp_unsigned("==", other, word(0))


# Numba's annotations count the typing context among the arguments
_is_any_new: Any = _any_new
_gather: Any = _gathered
_move: Any = _moved


@njit(**INNER)
def fit_event(expert, phi, i, residual, weight, part):
    """Fit least squares to row ``i`` of ``phi``, and keep a ``part`` of the information."""
    columns, variables = expert.coefficients.shape[2], expert.variables
    start = i * phi.shape[1] + expert.first
    if columns % LANES or _is_any_new(phi, start, expert.places, columns):
        _join(expert, phi, i)
    size = variables[0]
    padded, whole = (size + LANES - 1) // LANES * LANES, size // LANES * LANES
    x, gain = np.zeros(padded), np.zeros(padded)
    _gather(x, phi, start, variables, whole)
    for j in range(whole, size):
        x[j] = phi[i, expert.first + variables[1 + j]]
    noise = factor.noise_of(weight)
    left = factor.update(expert.diagonal[:size], expert.factor, x, noise, gain)
    for k in range(residual.shape[0]):
        length = residual[k] / left
        _move(expert.weights, k, gain, length, expert.coefficients, variables, whole)
        for j in range(whole, size):
            moved = expert.weights[k, j] + gain[j] * length
            moved = min(max(moved, -LARGEST_COEFFICIENT), LARGEST_COEFFICIENT)
            expert.weights[k, j] = moved
            expert.coefficients[ITERATE, k, variables[1 + j]] = np.float32(moved)
    if part < 1.0:
        for j in range(size):
            expert.diagonal[j] = min(expert.diagonal[j] / part, expert.variance)


@njit(**INNER)
def _join(expert, phi, i):
    """Give a variable to every column that holds a number and has none."""
    variables, places = expert.variables, expert.places
    for c in range(expert.coefficients.shape[2]):
        if phi[i, expert.first + c] != 0.0 and places[c] == 0:
            variables[0] += 1
            variables[variables[0]], places[c] = c, variables[0]
            for k in range(expert.weights.shape[0]):
                expert.weights[k, variables[0] - 1] = np.float64(expert.coefficients[ITERATE, k, c])
