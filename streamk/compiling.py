"""Compilation of functions by Numba, and the fused multiply-add for compiled code.

Here, an entry called from Python is optimised once, with everything it calls. By default, Numba optimises
every function, generates machine code for it, and optimises it again inside each of its callers; the loop
over events is a call tree of nine levels, and most of that work is unused. Instead, a
function called only by compiled code is a *part* (``@njit(**INNER)``): its code is linked into its callers
without separate machine code. A function called only by Python is an *entry* (``@njit(**ENTRY)``), cached
on disk; a function called from both (``@both()``) is compiled for each of them.

This depends on Numba internals. Versions other than ``KNOWN`` compile the same functions with the same
results in the default way, which takes twice as long at a first start.

The fused multiply-add of IEEE 754 is ``a·b + c`` with one rounding. A compiler may fuse a product and a sum
or not, so the result would depend on the compiler. The explicit operation (:func:`fma`) has one result on
every machine, and where the processor has it (every x86-64 since 2013, every 64-bit ARM) it halves the
arithmetic of a polynomial or a sum of products.
"""

# mypy: disable-error-code="no-untyped-call, misc"
from __future__ import annotations

import contextlib
import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numba
import numpy as np
from llvmlite.binding import parse_assembly
from numba import njit, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.extending import intrinsic

from streamk.arrays import Json

Compiled = Callable[..., Any]  # what compiled code calls, whose types Numba infers
KNOWN = "0.68."  # version of Numba with the expected internals
ZERO = cast(int, np.int64(0))  # functions that get the literal 0 would be compiled for it, too
_DEFAULTS: Json = Flags().values()
_LONG = 2.0  # seconds after which a compilation is logged
_MESSAGE = "compiling for up to half a minute; later starts load the result"
_LOG = logging.getLogger(__name__)


class _Flags(Flags):
    """Numba's flags; compiling a learner compares them sixty thousand times."""

    def values(self) -> Json:
        """Return the values by name, including unset ones."""
        values: Json = self._values
        return _DEFAULTS | values


class _Alone:
    """The linkable code of a part, without that of the functions it calls."""

    def __init__(self, part: _Part) -> None:
        self._part, self._reload_init = part, part._reload_init

    def _ensure_finalized(self) -> None:
        pass

    def _get_module_for_linking(self) -> object:
        return self._part._final_module


class _WithoutCode:
    """The code generator of a part, without machine code and its environment."""

    def __init__(self, codegen: object) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> object:
        return getattr(self._codegen, name)

    def set_env(self, name: str, env: object) -> None:
        """Do nothing."""


class _Part(JITCodeLibrary):
    """The code of a part: separately optimised functions, without machine code."""

    _stands_alone = False

    def __init__(self, codegen: object, name: str) -> None:
        super().__init__(codegen, name)
        self._alone = _Alone(self)

    @property
    def codegen(self) -> object:
        return _WithoutCode(self._codegen)

    def finalize(self) -> None:
        """Prepare the code for linking, possibly several times."""
        self._raise_if_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "external":
                function.linkage = "linkonce_odr"
                if self._stands_alone:
                    function.add_function_attribute("noinline")
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is none."""
        self._ensure_finalized()
        return 0

    def _get_module_for_linking(self) -> object:
        """Return the code with that of all its callees, for a caller that is no entry."""
        self._ensure_finalized()
        if self._shared_module is None:
            whole = self._final_module.clone()
            for library in _in_order([self])[1:]:
                whole.link_in(library._get_module_for_linking(), preserve=True)
            self._shared_module = whole
        return self._shared_module


class _CalledPart(_Part):
    """The code of a part that is never inlined."""

    _stands_alone = True


def _in_order(libraries: Sequence[object]) -> list[Any]:
    """Return libraries and their callees, callers first: LLVM drops functions without a caller so far."""
    seen, ordered = set(), []

    def visit(library: object) -> None:
        if library not in seen:
            seen.add(library)
            if isinstance(library, _Part):
                for called in library._linking_libraries:
                    visit(called)
            ordered.append(library._alone if isinstance(library, _Part) else library)

    for library in libraries:
        visit(library)
    return ordered[::-1]


class _Entry(JITCodeLibrary):
    """The code of an entry, which includes every part once."""

    def __init__(self, codegen: object, name: str) -> None:
        super().__init__(codegen, name)
        self.enable_object_caching()

    def finalize(self) -> None:
        """Generate machine code for the entry and all its callees."""
        self._linking_libraries = _in_order(self._linking_libraries)
        super().finalize()

    def _get_module_for_linking(self) -> object:
        """Reject compiled callers."""
        raise TypeError(f"compiled code calls the entry {self.name}; decorate it with @both()")

    def serialize_using_object_code(self) -> object:
        """Return machine code and its names for the cache; code for callers is twice as large."""
        self._ensure_finalized()
        defined = (function for function in self._final_module.functions if not function.is_declaration)
        names = (function.name for function in defined if function.linkage.name == "external")
        bodies = (f'define void @"{name}"() {{ call void @llvm.trap() unreachable }}\n' for name in names)
        stubs = parse_assembly("declare void @llvm.trap()\n" + "".join(bodies))
        return self.name, "object", (self._get_compiled_object(), stubs.as_bitcode())


def _report() -> None:
    """Log a long compilation, or print it if no log shows it and none was set up for the library."""
    if _LOG.hasHandlers() and _LOG.isEnabledFor(logging.INFO):
        _LOG.info(_MESSAGE)
    elif sys.stderr is not None and logging.getLogger("streamk").level == logging.NOTSET:
        print(f"streamk: {_MESSAGE}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _logged_if_long() -> Iterator[None]:
    """Report a compilation while users wait for it."""
    timer = threading.Timer(_LONG, _report)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Collect no garbage; a compilation makes millions of objects that stay, and would take a tenth more."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class _Pipeline(Compiler):
    _library: type

    def compile_extra(self, func: Compiled) -> object:
        state = self.state
        state.flags = _Flags(state.flags)
        state.library = self._library(state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class _Parts(_Pipeline):
    _library = _Part


class _CalledParts(_Pipeline):
    _library = _CalledPart


class _Entries(_Pipeline):
    _library = _Entry

    def compile_extra(self, func: Compiled) -> object:
        with _logged_if_long(), _without_collection():
            return super().compile_extra(func)


_ANY: Json = {"error_model": "numpy", "no_cfunc_wrapper": True}
# No Python wrapper: for arguments that are tuples of arrays it takes as long to compile as the function.
INNER: Any = _ANY | {"no_cpython_wrapper": True}
ENTRY: Any = _ANY | {"cache": True}
if numba.__version__.startswith(KNOWN):
    CALLED = INNER | {"pipeline_class": _CalledParts}
    INNER, ENTRY = INNER | {"pipeline_class": _Parts}, ENTRY | {"pipeline_class": _Entries}
else:
    CALLED = INNER = INNER | {"cache": True}


class Both:
    """A function that Python and compiled code call."""

    def __init__(self, function: Compiled, **options: Any) -> None:
        self.__doc__, self.__wrapped__ = function.__doc__, function
        self._entry, self._part = njit(**ENTRY, **options)(function), njit(**INNER)(function)

    def __call__(self, *arguments: object) -> object:
        """Call it from Python."""
        return self._entry(*arguments)

    @property
    def _numba_type_(self) -> object:
        return self._part._numba_type_  # the function that compiled code calls


def both(**options: object) -> Callable[[Compiled], Compiled]:
    """Return a decorator of functions that Python and compiled code call."""
    return lambda function: Both(function, **options)


@intrinsic
def _fma(typing_context, a, b, c):
    """Return ``a·b + c`` of three float32 numbers, rounded once."""
    return types.float32(types.float32, types.float32, types.float32), _generate


def _generate(context, builder, signature, arguments):
    return builder.fma(*arguments)


fma: Compiled = _fma  # Numba's annotations count the typing context among the arguments
