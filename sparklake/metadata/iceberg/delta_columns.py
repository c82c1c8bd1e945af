"""Iceberg columns as Delta columns, mapped by field id, with statistics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import msgspec

from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.metadata.iceberg.manifests import TableFile

MAPPING = "columnMapping"
_NO_ZONE = "timestampNtz"
_MAX_DEPTH = 50
_EPOCH = date(1970, 1, 1)

_SPARK_TYPES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "string": "string",
    "binary": "binary",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
_SIZED = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)|fixed\[[0-9]{1,9}\]")
_BOUNDED = ("int", "long", "date", "string")
"""The types with bounds that Delta compares in the same way."""


@dataclass(frozen=True, slots=True)
class DeltaColumns:
    """A schema of Spark as JSON, and what a Delta table needs for it.

    `bounded` are the types of the top-level columns with comparable bounds, by field id.
    """

    schema: str
    features: Sequence[str]
    configuration: Mapping[str, str]
    bounded: Mapping[int, str]

    @staticmethod
    def of(schema: Mapping[str, Any]) -> DeltaColumns:
        """Convert a schema of Iceberg.

        Raises:
            InvalidInputError: A column has a type or a default that Delta lacks.
            CorruptFileError: The schema is damaged.
        """
        try:
            fields = _struct(schema, "", 0)
            numbers = list(_numbers(fields))
            tops = [(each["id"], each["type"]) for each in schema["fields"]]
        except (KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(f"its metadata has a damaged schema: {error!r}") from error
        if len(set(numbers)) < len(numbers):
            raise CorruptFileError("its metadata has a schema that repeats field ids")
        text = msgspec.json.encode(fields).decode()
        features = [MAPPING, *([_NO_ZONE] if '"timestamp_ntz"' in text else [])]
        configuration = {
            "delta.columnMapping.mode": "id",
            "delta.columnMapping.maxColumnId": str(max(numbers, default=0)),
        }
        bounded = {number: kind for number, kind in tops if kind in _BOUNDED}
        return DeltaColumns(text, features, configuration, bounded)

    def statistics(self, file: TableFile) -> str:
        """Return Delta's statistics of a data file, for readers to skip it.

        The bounds may be wider than the values, as those of Iceberg are.
        """
        nulls = {_name(each): file.nulls[each] for each in self.bounded if each in file.nulls}
        summary = {
            "numRecords": file.records,
            "tightBounds": False,
            "minValues": self._bounds(file.lower),
            "maxValues": self._bounds(file.upper),
            "nullCount": nulls,
        }
        return msgspec.json.encode(summary).decode()

    def _bounds(self, values: Mapping[int, bytes]) -> dict[str, int | str]:
        bounds = ((each, _bound(kind, values.get(each))) for each, kind in self.bounded.items())
        return {_name(each): value for each, value in bounds if value is not None}


def _name(number: int) -> str:
    """Return the physical name of a column.

    Spark finds columns by field id, but the types to read them as by name. No file of Iceberg has
    a column of such a name, because writers replace the hyphen.
    """
    return f"field-{number}"


def _struct(kind: Mapping[str, Any], above: str, depth: int) -> dict[str, Any]:
    if kind["type"] != "struct" or depth > _MAX_DEPTH:
        raise CorruptFileError("its metadata has a damaged schema")
    fields = [_field(each, above, depth) for each in kind["fields"]]
    names = [each["name"].lower() for each in fields]
    duplicates = sorted({each for each in names if names.count(each) > 1})
    if duplicates:
        raise InvalidInputError(
            f"its columns {', '.join(duplicates)} differ in case only, which Delta's readers do "
            "not support: rename one"
        )
    return {"type": "struct", "fields": fields}


def _field(field: Mapping[str, Any], above: str, depth: int) -> dict[str, Any]:
    name, number = field["name"], field["id"]
    if not isinstance(name, str) or not isinstance(number, int) or number < 0:
        raise CorruptFileError("its metadata has a damaged schema")
    path = f"{above}{name}"
    if field.get("initial-default") is not None:
        raise InvalidInputError(
            f"its column {path!r} has a default for older rows, which needs Iceberg's own reader"
        )
    metadata = {
        "delta.columnMapping.id": number,
        "delta.columnMapping.physicalName": _name(number),
        **({"comment": field["doc"]} if isinstance(field.get("doc"), str) else {}),
    }
    return {
        "name": name,
        "type": _type(field["type"], path, depth + 1),
        "nullable": not field["required"],
        "metadata": metadata,
    }


def _type(kind: Any, path: str, depth: int) -> Any:
    if isinstance(kind, str):
        return _primitive(kind, path)
    if kind["type"] == "list":
        element = _type(kind["element"], f"{path}.element", depth + 1)
        return {
            "type": "array",
            "elementType": element,
            "containsNull": not kind["element-required"],
        }
    if kind["type"] == "map":
        return {
            "type": "map",
            "keyType": _type(kind["key"], f"{path}.key", depth + 1),
            "valueType": _type(kind["value"], f"{path}.value", depth + 1),
            "valueContainsNull": not kind["value-required"],
        }
    return _struct(kind, f"{path}.", depth)


def _primitive(kind: str, path: str) -> str:
    if kind in _SPARK_TYPES:
        return _SPARK_TYPES[kind]
    match = _SIZED.fullmatch(kind)
    if match is None:
        raise InvalidInputError(
            f"its column {path!r} has the type {kind[:100]}, which needs Iceberg's own reader"
        )
    return f"decimal({match[1]},{match[2]})" if match[1] else "binary"


def _numbers(kind: Any) -> Iterator[int]:
    if isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield field["metadata"]["delta.columnMapping.id"]
            yield from _numbers(field["type"])
        for name in ("elementType", "keyType", "valueType"):
            yield from _numbers(kind.get(name))


def _bound(kind: str, value: bytes | None) -> int | str | None:
    """Return a comparable bound, or None. A widened column has bounds of its former type."""
    if value is None:
        return None
    try:
        if kind == "string":
            return value.decode()
        if len(value) not in (4, 8):
            return None
        number = int.from_bytes(value, "little", signed=True)
        return (_EPOCH + timedelta(number)).isoformat() if kind == "date" else number
    except (UnicodeDecodeError, OverflowError):
        return None
