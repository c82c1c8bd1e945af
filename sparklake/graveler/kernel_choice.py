"""Whether compiled kernels are active. It imports no Arrow, because `--version` reports it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

SETTING = "SPARKLAKE_KERNELS"
INTERFACE = 10
"""The required interface of the kernels. A checkout may have older ones, built before an update."""

MISSING = "installed from the wheel without kernels, or cargo was missing or failed"
COST = "reads and writes of many objects take 1.5 to 4 times as long"
REMEDY = (
    "install Rust 1.85 or later (Debian 13: apt install cargo), then sparklake again without "
    "pip's cache, or in a checkout run `make kernels`"
)


@dataclass(slots=True)
class Choice:
    """The compiled module if it can be used, otherwise None and the reason."""

    library: Any
    is_active: bool
    reason: str


def _choice() -> Choice:
    if os.environ.get(SETTING, "").lower() == "off":
        return Choice(None, False, f"{SETTING} is off")
    try:
        library = import_module("sparklake._kernels")
    except ModuleNotFoundError:
        return Choice(None, False, MISSING)
    except ImportError as error:
        return Choice(None, False, f"the compiled kernels cannot be loaded: {error}")
    if library.INTERFACE != INTERFACE:
        return Choice(
            None, False, "the compiled kernels were built from different sources than this code"
        )
    return Choice(library, True, "")


CHOICE = _choice()


def description() -> str:
    """Describe the active kernels, and why the compiled ones are not used."""
    return f"Python ({CHOICE.reason})" if CHOICE.reason else "compiled"


def advice() -> str:
    """Return the description, the cost of pure Python, and how to get compiled kernels."""
    if not CHOICE.reason:
        return description()
    remedy = f"unset {SETTING}" if CHOICE.reason.startswith(SETTING) else REMEDY
    return f"{description()}: {COST}; {remedy}"


def is_compiled() -> bool:
    return CHOICE.is_active


@contextmanager
def only_definitions() -> Iterator[None]:
    """Disable the compiled kernels in a `with` block. Tests compare both in one process."""
    was_active = CHOICE.is_active
    CHOICE.is_active = False
    try:
        yield
    finally:
        CHOICE.is_active = was_active
