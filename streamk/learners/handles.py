"""Arrays that nobody counts: what a hot loop is given, so that it need not count references.

Numba counts a reference, with an atomic operation of some nanoseconds, whenever an array is taken out of a
tuple or sliced. A *borrowed* array has no count; whoever lends it keeps it alive. Arguments of a compiled
function live as long as its call; what it allocates itself must be mentioned (:func:`keep`) after the last
use of what was borrowed.

What stays the same from call to call is *lent* once (:func:`lend`): to take fifty arrays apart takes as long
as an event, and a loan is one pointer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import njit, types
from numba.experimental import structref
from numba.extending import intrinsic, overload

from streamk.compiling import ENTRY, INNER


@intrinsic
def _borrowed(typing_context, value):
    """Return the same array, or the same tuple of arrays and other values, without counts."""

    def generate(context, builder, signature, arguments):
        return _without_counts(context, builder, signature.args[0], arguments[0])

    return value(value), generate


def _without_counts(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        array.parent = ir.Constant(array.parent.type, None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        for k, member in enumerate(members):
            inner = _without_counts(context, builder, member, builder.extract_value(value, k))
            value = builder.insert_value(value, inner, k)
    elif context.enable_nrt:
        context.nrt.incref(builder, kind, value)  # a loan among others is counted as ever
    return value


@intrinsic
def _keep(typing_context, value):
    """Do nothing, but let a value live until here."""
    return types.void(value), lambda context, builder, signature, arguments: context.get_dummy_value()


# Numba's annotations count the typing context among the arguments
borrowed: Any = _borrowed
keep: Any = _keep


class _LoanType(types.StructRef):
    """The type of a loan, by the type of what is lent."""


LoanType: Any = structref.register(_LoanType)
new: Any = structref.new


class Loan(structref.StructRefProxy):
    """A tuple of arrays that compiled code takes as one argument; its maker keeps the arrays alive."""


structref.define_boxing(LoanType, Loan)


class Whole(NamedTuple):
    """Handles for the loop over events: codec, map, experts (handles, too), combiner, tests of fields."""

    coding: Any
    source: Any
    features: Any
    groups: Any
    combiner: Any
    exchanges: Any


def _lend(value: Any) -> Any:
    raise NotImplementedError("for compiled code")


@overload(_lend, jit_options=INNER)
def _make_loan(value) -> Any:
    if getattr(value, "instance_class", None) is Whole:
        whole = LoanType(list(zip(value.fields, value.types, strict=True)))

        def make_whole(value):
            loan = new(whole)
            loan.coding = borrowed(value.coding)
            loan.source = borrowed(value.source)
            loan.features = borrowed(value.features)
            loan.groups = borrowed(value.groups)
            loan.combiner = borrowed(value.combiner)
            loan.exchanges = borrowed(value.exchanges)
            return loan

        return make_whole
    kind = LoanType([("value", value)])

    def make(value):
        loan = new(kind)
        loan.value = borrowed(value)
        return loan

    return make


@njit(**ENTRY)
def lend(value):
    """Return a loan of a tuple, whose ``value`` compiled code reads, or the members of a :class:`Whole`."""
    return _lend(value)
