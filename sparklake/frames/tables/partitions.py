"""Types of partition columns, inferred from folders as in Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, time
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidInputError
from sparklake.metadata.delta.table_files import (
    NULL_PARTITION,
    Partition,
    folders_of,
    partition_below,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?P<whole>\d*)(\.(?P<part>\d*))?([eE](?P<exponent>[+-]?\d{1,10}))?")
_DOUBLE = re.compile(
    r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
    r"|0[xX]([\da-fA-F]+\.?|[\da-fA-F]*\.[\da-fA-F]+)[pP][+-]?\d+)[fFdD]?)",
    re.ASCII,
)
_DATE = r"(?P<year>\d{4}|-(?!0000)\d{4}|[+-]\d{5,7})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_MOMENTS = {
    "timestamp": re.compile(rf"{_DATE} {_TIME}(\.\d)?", re.ASCII),
    "time": re.compile(rf"{_TIME}(\.\d{{1,6}})?", re.ASCII),
}
_CONTROLS = "".join(map(chr, range(0x21)))
_INTEGERS = {"integer": 31, "long": 63}
_DIGITS = {"integer": 10, "long": 20}
_MAX_DIGITS = 38
_MAX_YEAR = 294_246
"""The last year of Spark's timestamps."""

TypeNames = Mapping[str, str]
"""The names of inferred types that differ in a session."""


def inferred_types(spark: SparkSession | None) -> TypeNames | None:
    """Return a session's names of inferred types, or Spark's own; None if it infers nothing."""
    # Lazy import: writing and the CLI must not pay for importing Spark.
    from pyspark import __version__

    version, kind = __version__, ""
    if spark is not None:
        if spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") != "true":
            return None
        version, kind = spark.version, str(spark.conf.get("spark.sql.timestampType"))
    has_time = tuple(map(int, version.split(".")[:2])) >= (4, 1)
    return {
        "time": "time(6)" if has_time else "string",
        "timestamp": "timestamp_ntz" if kind == "TIMESTAMP_NTZ" else "timestamp",
    }


@dataclass(slots=True)
class PartitionColumns:
    """The partition columns of a table. Memory does not depend on the number of folders."""

    values: dict[str, ValueType] = field(default_factory=dict)
    _example: str | None = None
    _root: str = ""
    stray: str | None = None
    """A folder that is no partition. Spark skips its files in a table without partitions."""
    _has_empty: bool = False
    """Whether the table's own folder has an empty file, beside which partitions must start."""

    def add_files(self, files: pa.RecordBatch) -> None:
        """Add files, given as FILE_SCHEMA. Those in different layouts are rejected."""
        relative = files.column("relative")
        is_empty = pc.and_(
            pc.equal(files.column("size"), 0), pc.invert(pc.match_substring(relative, "/"))
        )
        self.add(relative.filter(pc.invert(is_empty)))
        self._has_empty |= bool(pc.any(is_empty).as_py())
        if self._has_empty and self._root:
            raise self._different("")

    def add(self, relative: pa.Array) -> None:
        """Add the paths of files. Files in different layouts are rejected."""
        for folder in folders_of(relative).dictionary.to_pylist():
            root, partition = partition_below(folder)
            if folder and not partition:
                self.stray = folder
            _check_names(folder, partition)
            if self._example is None:
                self._example, self._root = folder, root
                self.values = {name: ValueType() for name, _ in partition}
            elif [name for name, _ in partition] != list(self.values) or (
                partition and root != self._root
            ):
                raise self._different(folder)
            for name, text in partition:
                self.values[name].add(text)

    def _different(self, folder: str) -> InvalidInputError:
        return InvalidInputError(
            f"{folder or './'!r} and {self._example or './'!r} have different partition folders: "
            "read the tables below them one by one, move files that do not belong to the table, or "
            "read all files with the option recursiveFileLookup=true"
        )

    def add_names(self, relative: Iterable[str]) -> None:
        """Add the paths of files, one for each folder in memory."""
        folders = {each[: each.rfind("/") + 1] for each in relative}
        self.add(pa.array(sorted(folders), pa.string()))

    def types(self, names: TypeNames | None) -> dict[str, str]:
        """Return the types of the columns, by the names of `inferred_types`."""
        return {name: each.type(names) for name, each in self.values.items()}


def _check_names(folder: str, partition: Partition) -> None:
    names = {name.lower() for name, _ in partition}
    if len(names) < len(partition) or "" in names or not all(text for _, text in partition):
        raise InvalidInputError(
            f"{folder!r} has a repeated or an empty name or value of a partition, which Spark "
            "cannot read: move its files"
        )


@dataclass(slots=True)
class ValueType:
    """The type of the added values, by Spark's rules for values of different types."""

    _kinds: set[str] = field(default_factory=set)
    _digits: int = 0

    def add(self, text: str) -> None:
        """Add a value as in the name of its folder, where characters may be escaped."""
        kind, digits = _kind(text)
        if kind not in ("", "string") and (not text.isascii() or "x" in text.lower()):
            raise InvalidInputError(
                f"{text!r} is a partition value that Spark reads as a number: rename its folder"
            )
        self._digits = max(self._digits, digits)
        if kind:
            self._kinds.add(kind)

    def type(self, names: TypeNames | None) -> str:
        if not self._kinds:
            return "void"
        if names is None:
            return "string"
        kinds = {names.get(each, each) for each in self._kinds}
        if len(kinds) == 1 and "decimal" not in kinds:
            return next(iter(kinds))
        if kinds <= {"integer", "long"}:
            return "long"
        if kinds <= {"integer", "long", "decimal"}:
            digits = max(self._digits, *(_DIGITS.get(each, 0) for each in kinds), 0)
            return f"decimal({digits},0)"
        if kinds == {"integer", "double"}:
            return "double"
        if kinds <= {"date", "timestamp", "timestamp_ntz"}:
            return names.get("timestamp", "timestamp")
        return "string"


def _kind(text: str) -> tuple[str, int]:
    """Return a value's type, "" if null, and a decimal's digits."""
    if text == NULL_PARTITION:
        return "", 0
    if _INTEGER.fullmatch(text):
        number = int(text)
        for kind, bits in _INTEGERS.items():
            if -(1 << bits) <= number < 1 << bits:
                return kind, 0
    digits = _digits(text)
    if digits:
        return "decimal", digits
    if _DOUBLE.fullmatch(text.strip(_CONTROLS)):
        return "double", 0
    for kind, pattern in _MOMENTS.items():
        if _is_valid(pattern.fullmatch(unquote(text))):
            return kind, 0
    return ("date" if _is_valid(re.fullmatch(_DATE, text, re.ASCII)) else "string"), 0


def _digits(text: str) -> int:
    """Return the digits of a whole number as a decimal, 0 for other texts and longer numbers."""
    match = _DECIMAL.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        return 0
    part = match["part"] or ""
    scale = len(part) - int(match["exponent"] or 0)
    digits = len((match["whole"] + part).lstrip("0")) or 1
    return digits - scale if scale <= 0 and digits - scale <= _MAX_DIGITS else 0


def _is_valid(match: re.Match[str] | None) -> bool:
    if match is None:
        return False
    numbers = {name: int(text) for name, text in match.groupdict().items()}
    try:
        if "year" in numbers:
            # A year of the same leap years that Python knows, too.
            date(numbers["year"] % 400 + 400, numbers["month"], numbers["day"])
        if "hour" in numbers:
            if abs(numbers.get("year", 0)) > _MAX_YEAR:
                return False
            time(numbers["hour"], numbers["minute"], numbers["second"])
    except ValueError:
        return False
    return True
