"""Arrays without reference counts, for hot loops.

Numba counts a reference, with an atomic operation of a few nanoseconds, whenever an array is taken out of a
tuple or sliced. An *unowned* array has no count: its owner keeps it alive. Arguments of a compiled function
live as long as its call. Unowned arrays have a separate type (:class:`UnownedArray`). With Numba's type,
compiled code would test at every use whether the array has an owner.

Taking fifty arrays out of a tuple takes as long as an event. So arguments that stay the same from call to
call are put behind a *handle* once (:func:`make_handle`), which is one pointer to their addresses, shapes and
numbers. Its ``value`` is the tuple, and members of a named tuple are members of the handle, too; their arrays
are unowned. A *group* (:func:`make_group`) has any number of handles of one type. Python's objects of handles
and groups keep alive what they refer to.
"""

# mypy: disable-error-code="no-untyped-call, override"
from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.pythonapi import NativeValue
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_cast,
    lower_getattr_generic,
    models,
    overload,
    register_model,
    unbox,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from streamk.compiling import INNER, Compiled
from streamk.vector.lanes import INDEX, Builder, Value, index


class UnownedArray(types.Array):
    """The type of an unowned array and of its views; copies and results of arithmetic have an owner."""

    def __init__(self, array: types.Array) -> None:
        name, readonly = f"unowned {array.name}", not array.mutable
        super().__init__(array.dtype, array.ndim, array.layout, readonly, name, array.aligned)

    def copy(self, **changes: Any) -> types.Array:
        """Return the type of an array made from this one; Numba names ``readonly`` only for new ones."""
        copied = super().copy(**changes)
        is_new = "readonly" in changes or copied.dtype != self.dtype
        return copied if is_new else UnownedArray(copied)


@register_model(UnownedArray)
class _UnownedModel(models.StructModel):
    """The members of an array, without a reference count."""

    def __init__(self, manager: object, kind: UnownedArray) -> None:
        counted = models.ArrayModel(manager, kind)
        members = [(name, counted.get_member_fe_type(name)) for name in counted._fields if name != "meminfo"]
        super().__init__(manager, kind, [("meminfo", types.voidptr), *members])


# The same array; its owner is null.
lower_cast(UnownedArray, types.Array)(lambda context, builder, before, after, value: value)


def _types_in(kind: Any) -> Sequence[types.Type]:
    """Return the types of the members of a tuple."""
    members: Sequence[types.Type] = kind.types
    return members


def _unowned_type(kind: types.Type) -> Any:
    """Return the type that :func:`unowned` gives."""
    if isinstance(kind, types.Array):
        return kind if isinstance(kind, UnownedArray) else UnownedArray(kind)
    if isinstance(kind, types.BaseTuple):
        inner = [_unowned_type(member) for member in _types_in(kind)]
        return types.BaseTuple.from_types(inner, getattr(kind, "instance_class", None))
    return kind


@intrinsic
def _unowned(typing_context, value):
    """Return the same array, or the same tuple of arrays and other values, without counts."""

    def generate(context, builder, signature, arguments):
        return _without_counts(context, builder, signature.args[0], arguments[0])

    return _unowned_type(value)(value), generate


def _without_counts(context: BaseContext, builder: Builder, kind: types.Type, value: Value) -> Value:
    if isinstance(kind, types.Array) and not isinstance(kind, UnownedArray):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        array.parent = ir.Constant(array.parent.type, None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        items = []
        for k, member in enumerate(_types_in(kind)):
            inner = _without_counts(context, builder, member, builder.extract_value(value, k))
            items.append(inner)
        return context.make_tuple(builder, _unowned_type(kind), items)
    return value


unowned: Compiled = _unowned


class _Pointer(types.Type):
    """The type of a pointer to words of eight bytes."""


class HandleType(_Pointer):
    """The type of a handle, by the type of its value.

    The words are those of the members of the value, in order: the address of an array, its shape and its
    strides in bytes; the address of a handle or group; or a number.
    """

    def __init__(self, value: Any) -> None:
        super().__init__(f"handle of {value.name}")
        self.value, self.fields = value, getattr(value, "fields", ())
        self.instance_class = getattr(value, "instance_class", None)


class GroupType(_Pointer):
    """The type of a group, by the type of its handles; the words are their number and their addresses."""

    def __init__(self, handle: HandleType) -> None:
        super().__init__(f"group of {handle.name}")
        self.handle = handle


@register_model(HandleType)
@register_model(GroupType)
class _PointerModel(models.OpaqueModel):
    """A pointer."""


@infer_getattr
class _Members(AttributeTemplate):
    """The types of the members of a handle."""

    key = HandleType

    def generic_resolve(self, kind: HandleType, name: str) -> types.Type | None:
        """Return the type of a member."""
        if name == "value":
            whole: types.Type = kind.value
            return whole
        return kind.value[kind.fields.index(name)] if name in kind.fields else None


def _codes(kinds: Iterable[types.Type]) -> Iterator[str]:
    """Yield, for each word of values, the code that the module ``struct`` has for it."""
    for kind in kinds:
        if isinstance(kind, types.Array):
            yield from ["q"] * (1 + 2 * kind.ndim)
        elif isinstance(kind, types.BaseTuple):
            yield from _codes(_types_in(kind))
        elif not isinstance(kind, types.NoneType):
            yield {types.float64: "d", types.float32: "f4x"}.get(kind, "q")


def _words_of(kinds: Iterable[types.Type]) -> int:
    """Return how many words values have."""
    return len(list(_codes(kinds)))


def _member(context: BaseContext, builder: Builder, kind: HandleType, value: Value, name: str) -> Value:
    """Return a member of a handle."""
    if name == "value":
        return _loaded(context, builder, kind.value, value, 0)
    place, members = kind.fields.index(name), _types_in(kind.value)
    return _loaded(context, builder, members[place], value, _words_of(members[:place]))


lower_getattr_generic(HandleType)(_member)


def _loaded(context: BaseContext, builder: Builder, kind: types.Type, pointer: Value, first: int) -> Value:
    """Return the value of a type whose words start at word ``first`` from a pointer."""
    if isinstance(kind, types.Array):
        address, *sizes = (_word(builder, pointer, index(first + k)) for k in range(1 + 2 * kind.ndim))
        array = context.make_array(kind)(context, builder)
        size = index(as_dtype(kind.dtype).itemsize)
        where = builder.inttoptr(address, array.data.type)
        populate_array(array, where, sizes[: kind.ndim], sizes[kind.ndim :], size, None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        items = []
        for member in _types_in(kind):
            items.append(_loaded(context, builder, member, pointer, first))
            first += _words_of([member])
        return context.make_tuple(builder, kind, items)
    if isinstance(kind, types.NoneType):
        return context.get_dummy_value()
    model = context.data_model_manager[kind]
    return model.from_data(builder, _word(builder, pointer, index(first), model.get_data_type()))


def _word(builder: Builder, pointer: Value, k: Value, kind: ir.Type = INDEX) -> Value:
    """Return word ``k`` from a pointer, or what it starts with; words never change."""
    place = builder.gep(builder.bitcast(pointer, INDEX.as_pointer()), [k], inbounds=True)
    word = builder.load(builder.bitcast(place, kind.as_pointer()))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@intrinsic
def _count_handles(typing_context, group):
    """Return the number of handles."""

    def generate(context, builder, signature, arguments):
        return _word(builder, arguments[0], index(0))

    return types.int64(group), generate


@intrinsic
def _handle_at(typing_context, group, g):
    """Return handle ``g``."""

    def generate(context, builder, signature, arguments):
        address = _word(builder, arguments[0], builder.add(arguments[1], index(1)))
        return builder.inttoptr(address, cgutils.voidptr_t)

    return group.handle(group, types.int64), generate


_number: Compiled = _count_handles
_handle: Compiled = _handle_at


@overload(len, jit_options=INNER)
def _len(group):
    if isinstance(group, GroupType):
        return lambda group: _number(group)
    return None


@overload(operator.getitem, jit_options=INNER)
def _getitem(group, g):
    if isinstance(group, GroupType):
        return lambda group, g: _handle(group, g)
    return None


class Handle:
    """A pointer that compiled code takes as one argument; it keeps alive what it refers to.

    Parameters
    ----------
    kind
        Its type.
    words
        What it points to, eight bytes each.
    referred
        What their addresses refer to.
    """

    __slots__ = ("_numba_type_", "_words", "address", "referred")

    def __init__(self, kind: types.Type, words: bytes, referred: object) -> None:
        self._numba_type_, self.referred = kind, referred
        self._words = np.frombuffer(words, dtype=np.int64)
        self.address: int = self._words.__array_interface__["data"][0]


def _pointer(kind: types.Type, handle: Value, c: Any) -> NativeValue:
    """Return what compiled code gets of a Python object, by the context ``c``."""
    address = c.pyapi.object_getattr_string(handle, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer)


unbox(HandleType)(_pointer)
unbox(GroupType)(_pointer)

_known: dict[object, tuple[HandleType, GroupType, Struct]] = {}  # by kind of value
_OWNS_DATA = 4  # among the flags of a NumPy array


def make_handle(value: tuple[object, ...]) -> Handle:
    """Return a handle of a tuple of arrays, numbers, handles, groups, None and such tuples."""
    words: list[object] = []
    kind, _, form = _types_of(value, words)
    return Handle(kind, form.pack(*words), value)


def make_group(example: tuple[object, ...], handles: Sequence[Handle]) -> Handle:
    """Return a group of handles of values like ``example``, from which an empty group has its type."""
    member, kind, _ = _types_of(example, [])
    for handle in handles:
        if handle._numba_type_ != member:
            raise TypeError(f"a group of {member} cannot have a {handle._numba_type_}")
    words = len(handles), *(handle.address for handle in handles)
    return Handle(kind, Struct(f"{len(words)}q").pack(*words), handles)


def _types_of(value: tuple[object, ...], words: list[object]) -> tuple[HandleType, GroupType, Struct]:
    """Return the types of a handle and of a group, and the form of the words, which are added.

    Numba takes milliseconds to find the type of a tuple of records.
    """
    kind = _kind_of(value, words)
    if kind not in _known:
        handle_type = HandleType(_unowned_type(typeof(value)))
        _known[kind] = handle_type, GroupType(handle_type), Struct("".join(_codes([handle_type.value])))
    return _known[kind]


def _kind_of(value: tuple[object, ...], words: list[object]) -> object:
    """Return what determines the type that a value has in compiled code, and add its words.

    Integers are below 2**63.
    """
    kinds: list[object] = [type(value)]
    for member in value:
        if isinstance(member, np.ndarray):
            kinds.append((member.dtype, member.ndim, member.flags.num & ~_OWNS_DATA))
            words.append(member.__array_interface__["data"][0])
            words += member.shape
            words += member.strides
        elif isinstance(member, tuple):
            kinds.append(_kind_of(member, words))
        elif isinstance(member, Handle):
            kinds.append(member._numba_type_)
            words.append(member.address)
        else:
            kinds.append(type(member))
            if member is not None:
                words.append(member)
    return tuple(kinds)
