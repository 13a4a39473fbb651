"""Arrays without reference counts, for hot loops.

Numba counts a reference, with an atomic operation of some nanoseconds, whenever an array is taken out of a
tuple or sliced. An *unowned* array has no count: its owner keeps it alive. Arguments of a compiled function
live as long as its call; name what the function allocates itself (:func:`keep_alive`) after the last use of
its unowned view. Unowned arrays have a type of their own (:class:`UnownedArray`). With Numba's type, compiled
code would test at every use whether the array has an owner.

Taking fifty arrays out of a tuple takes as long as an event. So arguments that stay the same from call to
call are put behind a *handle* once (:func:`make_handle`), which is one pointer. Its ``value`` is the tuple,
and members of a named tuple are members of the handle, too. They are unowned, but a handle owns the handles
among them. An unowned handle has no count either.
"""

# mypy: disable-error-code="no-untyped-call, override"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, typeof, types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing.templates import AttributeTemplate
from numba.experimental import structref
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_cast,
    lower_getattr_generic,
    models,
    overload,
    register_model,
)

from streamk.compiling import ENTRY, INNER, Compiled
from streamk.features.lanes import Value


class UnownedArray(types.Array):
    """The type of an unowned array and of its views; copies and results of arithmetic have an owner."""

    def __init__(self, array: types.Array) -> None:
        name, readonly = f"unowned {array.name}", not array.mutable
        super().__init__(array.dtype, array.ndim, array.layout, readonly, name, array.aligned)

    def copy(self, **changes: Any) -> types.Array:
        """Return the type of an array made from this one; Numba names ``readonly`` only for new ones."""
        found = super().copy(**changes)
        is_new = "readonly" in changes or found.dtype != self.dtype
        return found if is_new else UnownedArray(found)


@register_model(UnownedArray)
class _UnownedModel(models.StructModel):
    """The members of an array, without a reference count."""

    def __init__(self, manager: object, kind: UnownedArray) -> None:
        counted = models.ArrayModel(manager, kind)
        members = [(name, counted.get_member_fe_type(name)) for name in counted._fields if name != "meminfo"]
        super().__init__(manager, kind, [("meminfo", types.voidptr), *members])


# The same array; its owner is null.
lower_cast(UnownedArray, types.Array)(lambda context, builder, before, after, value: value)


class _HandleType(types.StructRef):
    """The type of a handle, by the type of its tuple."""


HandleType: Any = structref.register(_HandleType)
new: Any = structref.new


class UnownedHandle(types.Type):
    """The type of an unowned handle: a pointer to ``value`` and ``owned``."""

    def __init__(self, handle: types.StructRef) -> None:
        super().__init__(f"unowned {handle.name}")
        self.members, self.field_dict = handle.get_data_type(), handle.field_dict
        self.fields = getattr(self.field_dict["value"], "fields", ())


@register_model(UnownedHandle)
class _UnownedHandleModel(models.OpaqueModel):
    """A pointer."""


@infer_getattr
class _Members(AttributeTemplate):
    """The types of the members of an unowned handle."""

    key = UnownedHandle

    def generic_resolve(self, kind: UnownedHandle, name: str) -> types.Type | None:
        """Return the type of a member."""
        if name in kind.field_dict:
            found: types.Type = kind.field_dict[name]
            return found
        return kind.field_dict["value"][kind.fields.index(name)] if name in kind.fields else None


def _member(
    context: BaseContext, builder: ir.IRBuilder, kind: UnownedHandle, value: Value, name: str
) -> Value:
    """Return a member of an unowned handle; it is unowned, too."""
    place = context.data_model_manager[kind.members].get_value_type().as_pointer()
    members = cgutils.create_struct_proxy(kind.members)(context, builder, ref=builder.bitcast(value, place))
    if name in kind.field_dict:
        found: Value = getattr(members, name)
        return found
    record = members._get_ptr_by_name("value")
    return builder.load(cgutils.gep_inbounds(builder, record, 0, kind.fields.index(name)))


lower_getattr_generic(UnownedHandle)(_member)


def _unowned_type(kind: types.Type) -> Any:
    """Return the type that :func:`unowned` gives."""
    if isinstance(kind, types.StructRef):
        return UnownedHandle(kind)
    if isinstance(kind, types.Array):
        return kind if isinstance(kind, UnownedArray) else UnownedArray(kind)
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        inner = [_unowned_type(member) for member in members]
        return types.BaseTuple.from_types(inner, getattr(kind, "instance_class", None))
    return kind


@intrinsic
def _unowned(typing_context, value):
    """Return the same array, or the same tuple of arrays and other values, without counts."""

    def generate(context, builder, signature, arguments):
        return _without_counts(context, builder, signature.args[0], arguments[0])

    return _unowned_type(value)(value), generate


def _without_counts(context: BaseContext, builder: ir.IRBuilder, kind: Any, value: Value) -> Value:
    if isinstance(kind, (UnownedArray, UnownedHandle)):
        return value
    if isinstance(kind, types.StructRef):
        handle = cgutils.create_struct_proxy(kind)(context, builder, value=value)
        return context.nrt.meminfo_data(builder, handle.meminfo)
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        array.parent = ir.Constant(array.parent.type, None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        items = []
        for k, member in enumerate(members):
            inner = _without_counts(context, builder, member, builder.extract_value(value, k))
            items.append(inner)
        return context.make_tuple(builder, _unowned_type(kind), items)
    return value


@intrinsic
def _keep_alive(typing_context, value):
    """Do nothing, but let a value live until here."""
    return types.void(value), lambda context, builder, signature, arguments: context.get_dummy_value()


unowned: Compiled = _unowned
keep_alive: Compiled = _keep_alive


class Handle(structref.StructRefProxy):
    """A tuple of arrays that compiled code takes as one argument; its maker keeps the arrays alive."""

    _type: types.Type


structref.define_boxing(HandleType, Handle)


class ModelView(NamedTuple):
    """Parameters of the loop over events: codec, map, handles of experts, combiner, tests of fields."""

    coding: object
    source: object
    features: object
    groups: object
    combiner: object
    exchanges: object


def _handles_among(kind: types.Type, places: tuple[int, ...] = ()) -> list[tuple[types.Type, Any]]:
    """Return the types of the handles among the members of a type, at any depth, and their places."""
    if isinstance(kind, types.StructRef):
        return [(kind, places)]
    members: Any = kind if isinstance(kind, types.BaseTuple) else ()
    return [found for k, member in enumerate(members) for found in _handles_among(member, (*places, k))]


@intrinsic
def _owned(typing_context, value):
    """Return a tuple of the handles among the members of a value."""

    def generate(context, builder, signature, arguments):
        handles = []
        for kind, places in _handles_among(value):
            handles.append(builder.extract_value(arguments[0], places))
            context.nrt.incref(builder, kind, handles[-1])
        return context.make_tuple(builder, signature.return_type, handles)

    return types.Tuple([kind for kind, _ in _handles_among(value)])(value), generate


owned: Compiled = _owned


def _make_handle(value: object) -> object:
    raise NotImplementedError("for compiled code")


@overload(_make_handle, jit_options=INNER)
def _handle_of_type(value):
    handles = types.Tuple([kind for kind, _ in _handles_among(value)])
    kind = HandleType([("value", _unowned_type(value)), ("owned", handles)])

    def make(value):
        handle = new(kind)
        handle.value = unowned(value)
        handle.owned = owned(value)
        return handle

    return make


@njit(**ENTRY)
def _compiled(value):
    return _make_handle(value)


_OWNS_DATA = 4  # among the flags of a NumPy array
_entries: dict[object, Compiled] = {}


def make_handle(value: object) -> Handle:
    """Return a handle of a tuple.

    Numba takes milliseconds to find the type of a tuple of records, so its function is called at the entry
    point for tuples of the same kind.
    """
    kind = _kind_of(value)
    if kind not in _entries:
        _compiled(value)
        _entries[kind] = _compiled.overloads[(typeof(value),)].entry_point
    made: Handle = _entries[kind](value)
    return made


def _kind_of(value: object) -> object:
    """Return what determines the type that a value has in compiled code; integers are below 2**63."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num & ~_OWNS_DATA
    if isinstance(value, tuple):
        return type(value), *map(_kind_of, value)
    return value._type if isinstance(value, Handle) else type(value)
