"""The choice between compiled kernels and the functions in Python that define them.

The crate in `kernels/`, built as `sparklake._kernels`, has compiled forms of the functions that
loop over records. Each function with the decorator `kernel` is the definition of one of them. It
runs without the crate, where SPARKLAKE_KERNELS is `off`, and for all input that the compiled form
declines, such as damaged bytes. So results and errors are the same everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

SETTING = "SPARKLAKE_KERNELS"
INTERFACE = 5
"""The interface of the kernels that fit. A checkout may have older ones, built before an update."""

MISSING = "installed from the wheel without kernels, or cargo was missing or failed"
COST = "reads and writes of many objects take 1.5 to 4 times as long"
REMEDY = (
    "install Rust 1.88 or later (https://rustup.rs), then sparklake again without pip's cache, or "
    "in a checkout run `make kernels`"
)


class Declined(Exception):  # noqa: N818  (a request, not a failure)
    """A request of a compiled kernel to run the definition in Python."""


@dataclass(slots=True)
class _Choice:
    """The compiled module, if there is one to use, and the reason if there is none."""

    library: Any
    is_active: bool
    reason: str


def _choice() -> _Choice:
    if os.environ.get(SETTING, "").lower() == "off":
        return _Choice(None, False, f"{SETTING} is off")
    try:
        compiled = import_module("sparklake._kernels")
    except ModuleNotFoundError:
        return _Choice(None, False, MISSING)
    except ImportError as error:
        return _Choice(None, False, f"the compiled kernels cannot be loaded: {error}")
    if compiled.INTERFACE != INTERFACE:
        return _Choice(None, False, "the compiled kernels are of other sources than this code")
    return _Choice(compiled, True, "")


_CHOSEN = _choice()
library: ModuleType | Any = _CHOSEN.library
"""The module of compiled kernels; None without one."""

_DECLINED: tuple[type[Exception], ...] = (
    (Declined, library.Declined) if library is not None else (Declined,)
)


def description() -> str:
    """Return which kernels are active; if not the compiled ones, with the reason."""
    return f"Python ({_CHOSEN.reason})" if _CHOSEN.reason else "compiled"


def advice() -> str:
    """Return the description, and what Python costs and how to get compiled kernels."""
    if not _CHOSEN.reason:
        return description()
    remedy = f"unset {SETTING}" if _CHOSEN.reason.startswith(SETTING) else REMEDY
    return f"{description()}: {COST}; {remedy}"


def is_compiled() -> bool:
    """Return whether compiled kernels are active."""
    return _CHOSEN.is_active


def kernel(compiled: Callable[P, R]) -> Callable[[Callable[P, T]], Callable[P, R | T]]:
    """Return a decorator of the definition of a compiled kernel.

    `compiled` takes the same arguments. It may raise Declined.
    """

    def decorated(definition: Callable[P, T]) -> Callable[P, R | T]:
        if library is None:
            return definition

        @wraps(definition)
        def run(*args: P.args, **kwargs: P.kwargs) -> R | T:
            if _CHOSEN.is_active:
                try:
                    return compiled(*args, **kwargs)
                except _DECLINED:
                    pass
            return definition(*args, **kwargs)

        return run

    return decorated


@contextmanager
def only_definitions() -> Iterator[None]:
    """Use no compiled kernel in a `with` block. Tests compare both ways in one process."""
    was_active = _CHOSEN.is_active
    _CHOSEN.is_active = False
    try:
        yield
    finally:
        _CHOSEN.is_active = was_active
