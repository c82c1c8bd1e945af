"""Functions as strategies, by name or pickled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any

from sparklake.errors import InvalidInputError
from sparklake.strategies.decisions import Function


@dataclass(frozen=True, slots=True)
class NamedStrategy:
    """A strategy imported by each task. `target` is `module:function`."""

    name: str
    target: str

    def load(self) -> Function:
        """Import the function."""
        return imported(self.target)


@dataclass(frozen=True, slots=True)
class PickledStrategy:
    """A pickled strategy, by value if tasks cannot import it."""

    name: str
    function: Function

    def load(self) -> Function:
        """Return the function."""
        return self.function

    def __reduce__(self) -> tuple[Callable[[str, bytes], PickledStrategy], tuple[str, bytes]]:
        # Lazy import: few merges need cloudpickle.
        import cloudpickle

        return _unpacked, (self.name, cloudpickle.dumps(self.function))


FunctionStrategy = NamedStrategy | PickledStrategy


@cache
def imported(target: str) -> Function:
    """Import `module:function`, cached."""
    module, _, name = target.partition(":")
    try:
        function: Any = attrgetter(name)(import_module(module))
    except Exception as error:  # The import of a user's module may raise any error.
        raise InvalidInputError(
            f"the merge strategy {target!r} cannot be imported: {type(error).__name__}: "
            f"{error}; install its module where Python finds it, also on executors"
        ) from error
    if not callable(function):
        raise InvalidInputError(
            f"the merge strategy {target!r} is not a function, but a {type(function).__name__}"
        )
    return function  # type: ignore[no-any-return]


def _unpacked(name: str, packed: bytes) -> PickledStrategy:
    import cloudpickle

    # The bytes come from the driver of this merge, like the task itself.
    return PickledStrategy(name, cloudpickle.loads(packed))
