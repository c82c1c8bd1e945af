"""Types of partition columns, inferred from folders as in Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from sparklake.delta_log.table_files import folders_of, partition_of, partition_value
from sparklake.errors import InvalidInputError

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(rf"{_DATE.pattern} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?")
_SECONDS_END = len("2000-01-01 00:00:00")
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_MAX_DIGITS = 38


@dataclass(slots=True)
class PartitionColumns:
    """The partition columns of a table. Memory does not depend on the number of folders."""

    values: dict[str, ValueType] = field(default_factory=dict)
    _example: str | None = None

    def add(self, relative: pa.Array) -> None:
        """Add the paths of files. Files with other columns are rejected."""
        for folder in folders_of(relative).dictionary.to_pylist():
            partition = partition_of(folder)
            if self._example is None:
                self._example = folder
                self.values = {name: ValueType() for name, _ in partition}
            elif [name for name, _ in partition] != list(self.values):
                raise InvalidInputError(
                    f"{folder!r} and {self._example!r} have different partition folders: "
                    "read the tables below them one by one"
                )
            for name, text in partition:
                self.values[name].add(partition_value(text))

    def add_names(self, relative: Iterable[str]) -> None:
        """Add the paths of files, one for each folder in memory."""
        folders = {each[: each.rfind("/") + 1] for each in relative}
        self.add(pa.array(sorted(folders), pa.string()))

    def types(self, *, infers: bool) -> dict[str, str]:
        return {name: each.type if infers else "string" for name, each in self.values.items()}


@dataclass(slots=True)
class ValueType:
    """The narrowest type of the added values."""

    _fitting: list[str] | None = None
    _largest: int = 0

    def add(self, value: str | None) -> None:
        if value is None:
            return
        kinds = _HOLDS if self._fitting is None else self._fitting
        self._fitting = [kind for kind in kinds if _HOLDS[kind](value)]
        if "integer" in self._fitting:
            self._largest = max(self._largest, abs(int(value)))

    @property
    def type(self) -> str:
        kind = next(iter(self._fitting or ["string"]))
        if kind != "integer" or self._largest <= _INT_MAX:
            return kind
        if self._largest <= _LONG_MAX:
            return "long"
        # Spark's decimal has at most 38 digits. Longer numbers stay text.
        digits = len(str(self._largest))
        return f"decimal({digits},0)" if digits <= _MAX_DIGITS else "string"


def _is_iso(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


_HOLDS: dict[str, Callable[[str], object]] = {
    "integer": _INTEGER.fullmatch,
    "double": _NUMBER.fullmatch,
    "date": lambda text: _DATE.fullmatch(text) and _is_iso(text),
    "timestamp": lambda text: _TIMESTAMP.fullmatch(text) and _is_iso(text[:_SECONDS_END]),
}
"""The types inferred from text, the narrowest first."""
