"""The result of a verb, with what became of its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VerbResult(Generic[T]):
    """The result of one run of a verb.

    Attributes:
        value: What the method returns.
        changed: Whether the run changed anything. A repeated run reports that of the first run.
        repeated: Whether an earlier run with the same once key returned this result.
        stored: The recorded form of the value, if the run has a once key.
    """

    value: T
    changed: bool = True
    repeated: bool = False
    stored: Mapping[str, Any] | None = None

    def returned(self) -> T:
        """Return this result from a façade's method: the runner unwraps it for callers."""
        return cast("T", self)
