"""The types of partition columns, inferred from folders as Spark infers them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from sparklake.delta_log.table_files import folders_of, partition_of, partition_value
from sparklake.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(rf"{_DATE.pattern} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?")
_SECONDS_END = len("2000-01-01 00:00:00")
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_MAX_DIGITS = 38


@dataclass(slots=True)
class PartitionColumns:
    """The partition columns of a table, with their types inferred from folders.

    Memory does not depend on the number of folders.
    """

    values: dict[str, ValueType] = field(default_factory=dict)
    _example: str | None = None

    def add(self, relative: pa.Array) -> None:
        """Add the paths of files; raise InvalidInputError if their columns differ."""
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

    def types(self, *, infers: bool) -> dict[str, str]:
        """Return the names of the columns with their types, as DDL."""
        return {name: found.type if infers else "string" for name, found in self.values.items()}


def partition_type(values: Iterable[str | None]) -> str:
    """Return the narrowest type that fits all values."""
    found = ValueType()
    for each in values:
        found.add(each)
    return found.type


@dataclass(slots=True)
class ValueType:
    """The narrowest type of the added values, which are not kept."""

    _fitting: list[str] | None = None
    _largest: int = 0

    def add(self, value: str | None) -> None:
        """Add a value."""
        if value is None:
            return
        kinds = _HOLDS if self._fitting is None else self._fitting
        self._fitting = [kind for kind in kinds if _HOLDS[kind](value)]
        if "integer" in self._fitting:
            self._largest = max(self._largest, abs(int(value)))

    @property
    def type(self) -> str:
        """The type, as DDL."""
        kind = next(iter(self._fitting or ["string"]))
        return _integer_type(self._largest) if kind == "integer" else kind


def _integer_type(largest: int) -> str:
    if largest <= _INT_MAX:
        return "integer"
    if largest <= _LONG_MAX:
        return "long"
    # Spark's decimal has at most 38 digits. Longer numbers stay text.
    digits = len(str(largest))
    return f"decimal({digits},0)" if digits <= _MAX_DIGITS else "string"


def _is_integer(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text))


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text))


def _is_date(text: str) -> bool:
    return bool(_DATE.fullmatch(text)) and _is_iso(text)


def _is_timestamp(text: str) -> bool:
    return bool(_TIMESTAMP.fullmatch(text)) and _is_iso(text[:_SECONDS_END])


def _is_iso(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


_HOLDS = {
    "integer": _is_integer,
    "double": _is_number,
    "date": _is_date,
    "timestamp": _is_timestamp,
}
"""The types that are inferred from text, the narrowest first."""
