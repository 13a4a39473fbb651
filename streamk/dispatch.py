"""Dispatch: compiled functions with an implementation for each type of record.

Compiled code calls a function with a record, a named tuple or a handle of one, as first argument; its type
selects the implementation. Each type's file registers one with :func:`implements`, so that callers name
none of them. :func:`over` and :func:`over_groups` call such a function for every record of a tuple; Numba
compiles one call, or one loop, for each type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from numba.extending import overload

from streamk.compiling import INNER, Compiled

_Register = Callable[[Compiled], Compiled]
_IMPLEMENTED: set[tuple[object, object]] = set()  # functions with types of records


def implements(function: Compiled, *records: type) -> _Register:
    """Return a decorator: a compiled function that implements ``function`` for these types of records."""
    _IMPLEMENTED.update((function, record) for record in records)
    return _registers(function, lambda record: record in records)


def default(function: Compiled) -> _Register:
    """Return a decorator: a compiled function that implements ``function`` for all other records."""
    return _registers(function, lambda record: (function, record) not in _IMPLEMENTED)


def _registers(function: Compiled, applies: Callable[[object], bool]) -> _Register:
    def register(implementation: Compiled) -> Compiled:
        @wraps(implementation)  # Numba compares the names of arguments
        def choose(record, *others):
            return implementation if applies(record.instance_class) else None

        overload(function, jit_options=INNER)(choose)
        return implementation

    return register


def over(function: Compiled) -> Compiled:
    """Return a compiled function of a tuple of records and other arguments: ``function`` of each record."""

    def every(*arguments: object) -> None:
        raise NotImplementedError("for compiled code")

    @overload(every, jit_options=INNER)
    def choose(records, *others):
        if not len(records):
            return lambda records, *others: None

        def each(records, *others):
            function(records[0], *others)
            every(records[1:], *others)

        return each

    return every


def over_groups(function: Compiled) -> Compiled:
    """Return a compiled function of a tuple of groups, a number and other arguments.

    It calls ``function`` with every record, the number plus the record's place, and the others.
    """

    def every(*arguments: object) -> None:
        raise NotImplementedError("for compiled code")

    @overload(every, jit_options=INNER)
    def choose(groups, e, *others):
        if not len(groups):
            return lambda groups, e, *others: None

        def each(groups, e, *others):
            group = groups[0]
            for g in range(len(group)):
                function(group[g], e + g, *others)
            every(groups[1:], e + len(group), *others)

        return each

    return every
