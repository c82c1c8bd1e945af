"""The choice between compiled kernels and the functions in Python that define them.

The package sparklake-kernels, which the extra `fast` requires, has compiled forms of the functions
that loop over records. Each function with the decorator `kernel` is the definition of one of them.
It runs where the package is missing, where SPARKLAKE_KERNELS is `off`, and for all input that the
compiled form declines, such as damaged bytes. So results and errors are the same everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

SETTING = "SPARKLAKE_KERNELS"
VERSION = "0.1."
"""The beginning of the versions of sparklake-kernels that fit."""

INTERFACE = 3
"""The interface of the kernels that fit. In a checkout, one version may have several."""


class Declined(Exception):  # noqa: N818  (a request, not a failure)
    """A request of a compiled kernel to run the definition in Python."""


@dataclass(slots=True)
class _Choice:
    """The compiled package, if there is one to use, and the reason if there is none."""

    library: Any
    is_active: bool
    reason: str


def _choice() -> _Choice:
    if os.environ.get(SETTING, "").lower() == "off":
        return _Choice(None, False, f"{SETTING} is off")
    try:
        import sparklake_kernels
    except ImportError:
        return _Choice(None, False, "sparklake-kernels is not installed")
    version = sparklake_kernels.__version__
    if not version.startswith(VERSION):
        return _Choice(None, False, f"sparklake-kernels {version} is another version")
    if getattr(sparklake_kernels, "INTERFACE", 1) != INTERFACE:
        return _Choice(None, False, f"sparklake-kernels {version} has another interface")
    return _Choice(sparklake_kernels, True, f"sparklake-kernels {version}")


_CHOSEN = _choice()
library: ModuleType | Any = _CHOSEN.library
"""The module of compiled kernels; None without one."""

_DECLINED: tuple[type[Exception], ...] = (
    (Declined, library.Declined) if library is not None else (Declined,)
)


def description() -> str:
    """Return which kernels are active, and why, in a few words."""
    return f"{'compiled' if _CHOSEN.is_active else 'Python'} ({_CHOSEN.reason})"


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
