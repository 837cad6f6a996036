"""Compilation of the inner loops: by numba, cached on disk, without counting references and without the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import event

from stormpilot.model import compiling

Function = TypeVar("Function", bound=Callable[..., Any])
OPTIONS: dict[str, Any] = {"cache": True, "_nrt": False, "nogil": True}


def jit(function: Function) -> Function:
    """Compile a function that allocates nothing.

    Counting the references of the arrays in a named tuple at each access took nine tenths of the time of the search;
    what allocates nothing needs none. A cached function does not notice that one it calls in another file has changed:
    after such a change, `stormpilot planners --compile` (`make build`) compiles all of them anew. Let no two processes
    compile at the same time: numba 0.68 may keep the code of one under the types of the other. Where this user may
    write to no folder that numba knows, nothing is kept.
    """
    try:
        return cast(Function, njit(**OPTIONS)(function))
    except RuntimeError:  # numba: no locator available
        compiling.keeps_nothing()
        return cast(Function, njit(**OPTIONS | {"cache": False})(function))


class _Compilation(event.Listener):
    """Compilations of this process; what is loaded from the cache is none."""

    def on_start(self, _: event.Event) -> None:
        compiling.begins()

    def on_end(self, _: event.Event) -> None:
        compiling.ends()


class _Pass(event.Listener):
    """Passes of the compiler: a function has some dozens."""

    def on_start(self, _: event.Event) -> None:
        compiling.goes_on()

    def on_end(self, _: event.Event) -> None:
        pass


event.register("numba:compile", _Compilation())  # type: ignore[no-untyped-call]
event.register("numba:run_pass", _Pass())  # type: ignore[no-untyped-call]
