"""Arrays without reference counts, for hot loops.

Numba counts a reference, with an atomic operation of some nanoseconds, whenever an array is taken out of a
tuple or sliced. An *unowned* array has no count: its owner keeps it alive. Arguments of a compiled function
live as long as its call; name what the function allocates itself (:func:`keep_alive`) after the last use of
its unowned view.

Taking fifty arrays out of a tuple takes as long as an event. So arguments that stay the same from call to
call are put behind a *handle* once (:func:`make_handle`), which is one pointer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import njit, types
from numba.core.base import BaseContext
from numba.experimental import structref
from numba.extending import intrinsic, overload

from streamk.compiling import ENTRY, INNER, Compiled
from streamk.features.lanes import Value


@intrinsic
def _unowned(typing_context, value):
    """Return the same array, or the same tuple of arrays and other values, without counts."""

    def generate(context, builder, signature, arguments):
        return _without_counts(context, builder, signature.args[0], arguments[0])

    return value(value), generate


def _without_counts(context: BaseContext, builder: ir.IRBuilder, kind: Any, value: Value) -> Value:
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
        context.nrt.incref(builder, kind, value)  # a handle among others is counted as before
    return value


@intrinsic
def _keep_alive(typing_context, value):
    """Do nothing, but let a value live until here."""
    return types.void(value), lambda context, builder, signature, arguments: context.get_dummy_value()


unowned: Compiled = _unowned
keep_alive: Compiled = _keep_alive


class _HandleType(types.StructRef):
    """The type of a handle, by the type of its tuple."""


HandleType: Any = structref.register(_HandleType)
new: Any = structref.new


class Handle(structref.StructRefProxy):
    """A tuple of arrays that compiled code takes as one argument; its maker keeps the arrays alive."""


structref.define_boxing(HandleType, Handle)


class ModelView(NamedTuple):
    """Handles for the loop over events: codec, map, experts (handles, too), combiner, tests of fields."""

    coding: object
    source: object
    features: object
    groups: object
    combiner: object
    exchanges: object


def _make_handle(value: object) -> object:
    raise NotImplementedError("for compiled code")


@overload(_make_handle, jit_options=INNER)
def _handle_of_type(value):
    if getattr(value, "instance_class", None) is ModelView:
        whole = HandleType(list(zip(value.fields, value.types, strict=True)))

        def make_whole(value):
            handle = new(whole)
            handle.coding = unowned(value.coding)
            handle.source = unowned(value.source)
            handle.features = unowned(value.features)
            handle.groups = unowned(value.groups)
            handle.combiner = unowned(value.combiner)
            handle.exchanges = unowned(value.exchanges)
            return handle

        return make_whole
    kind = HandleType([("value", value)])

    def make(value):
        handle = new(kind)
        handle.value = unowned(value)
        return handle

    return make


@njit(**ENTRY)
def make_handle(value):
    """Return a handle of a tuple: its ``value``, or the members of a :class:`ModelView`."""
    return _make_handle(value)
