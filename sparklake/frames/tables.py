"""A table from the very files that a version holds: nothing is listed, nothing is copied."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import dropwhile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from sparklake.errors import InvalidInputError, MissingFileError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# What Spark says, less the state of SQL and a server's stack.
_GONE = re.compile(r"\[PATH_NOT_FOUND\] (.*?)\.?(?: SQLSTATE|\n|$)")
_GLOB = re.compile(r"([{}\[\]*?\\])")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(rf"{_DATE.pattern} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?")
_SECONDS_END = len("2000-01-01 00:00:00")
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_MAX_DIGITS = 38
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"


@dataclass(frozen=True, slots=True)
class TableFile:
    """Is a data file: where it lies, and its path below the table's folder."""

    uri: str
    relative: str

    @property
    def is_hidden(self) -> bool:
        """Tells whether Spark would pass it over: a marker, a log, or something temporary."""
        return any(
            part.startswith(".") or (part.startswith("_") and "=" not in part)
            for part in self.relative.split("/")
        )

    @property
    def partition(self) -> tuple[tuple[str, str], ...]:
        """Returns the names and values in its folders: `p=1/q=2/file` has (p, 1) and (q, 2)."""
        folders = (folder.partition("=") for folder in self.relative.split("/")[:-1])
        return tuple((unquote(name), value) for name, equals, value in folders if name and equals)

    @property
    def root(self) -> str | None:
        """Returns the place from which Spark finds the partition of the file; None if none does."""
        *folders, _ = self.relative.split("/")
        below = list(dropwhile(lambda folder: "=" not in folder, folders))
        if not self.uri.endswith(f"/{self.relative}") or not all("=" in each for each in below):
            return None
        return self.uri.removesuffix(self.relative)


def read_files(
    spark: SparkSession, files: Sequence[TableFile], table_format: str, options: Mapping[str, Any]
) -> DataFrame:
    """Returns the rows of some files, with the columns that their folders say.

    Raises MissingFileError for a file that is gone.
    """

    def load(some: Iterable[TableFile], schema: StructType | None, **more: str) -> DataFrame:
        reader = spark.read.format(table_format).options(**{**options, **more})
        reader = reader.schema(schema) if schema is not None else reader
        return reader.load([_GLOB.sub(r"\\\1", each.uri) for each in some])

    with _missing_files():
        rows = load(files, None)
        written = rows.schema
    types = _partition_types(files, infers=spark.conf.get(_INFERENCE) == "true")
    if not types:
        return rows
    # One schema for all: Spark would infer the type of a partition column root by root. Where a
    # file has such a column too, the folder is right.
    schema = StructType([each for each in written.fields if each.name not in types])
    for name, kind in types.items():
        schema = schema.add(name, kind)
    parts = []
    for root, partition, some in _scans(files):
        if root:
            parts.append(load(some, schema, basePath=root))
        else:
            values = {name: _literal(value, types[name]) for name, value in partition}
            parts.append(load(some, written).withColumns(values).select(schema.names))
    return _union(parts)


def _scans(
    files: Sequence[TableFile],
) -> Iterator[tuple[str | None, tuple[tuple[str, str], ...], list[TableFile]]]:
    """Yields files that one scan can read: those of a root, or, if these are fewer, a partition."""
    roots, partitions = {each.root for each in files}, {each.partition for each in files}
    by_root = len(roots) <= len(partitions)
    groups: dict[Hashable, list[TableFile]] = {}
    for each in files:
        groups.setdefault((by_root and each.root) or each.partition, []).append(each)
    for some in groups.values():
        yield some[0].root if by_root else None, some[0].partition, some


@contextmanager
def _missing_files() -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        gone = _GONE.match(str(error).lstrip())
        if gone is None:
            raise
        raise MissingFileError(
            f"a data file of the table is gone: {gone[1]}. It was moved or deleted outside of the "
            "lake; restore it there, or commit its removal"
        ) from error


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    """Returns the rows of all parts; halves, so that a table of many writes makes no deep plan."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return _union(parts[:middle]).unionByName(_union(parts[middle:]))


def _partition_types(files: Sequence[TableFile], *, infers: bool) -> dict[str, str]:
    """Returns partition columns and their types; raises InvalidInputError where files differ."""
    names = [name for name, _ in files[0].partition]
    values: dict[str, set[str]] = {name: set() for name in names}
    for each in files:
        if [name for name, _ in each.partition] != names:
            raise InvalidInputError(
                f"{each.relative!r} and {files[0].relative!r} have different partition folders: "
                "read the tables below them one by one"
            )
        for name, value in each.partition:
            values[name].add(value)
    if not infers:
        return dict.fromkeys(names, "string")
    return {
        name: partition_type({unquote(each) for each in found - {NULL_PARTITION}})
        for name, found in values.items()
    }


def partition_type(values: set[str]) -> str:
    """Returns the narrowest type that holds all values, as Spark infers it for one directory."""
    for kind, holds in (
        (_integer_type(values), _is_integer),
        ("double", lambda text: bool(_NUMBER.fullmatch(text))),
        ("date", _is_date),
        ("timestamp", _is_timestamp),
    ):
        if values and all(holds(each) for each in values):
            return kind
    return "string"


def _integer_type(values: set[str]) -> str:
    integers = [abs(int(each)) for each in values if _is_integer(each)]
    largest = max(integers, default=0)
    if largest <= _INT_MAX:
        return "integer"
    if largest <= _LONG_MAX:
        return "long"
    # Of more digits than Spark can count, all are kept, as text.
    digits = len(str(largest))
    return f"decimal({digits},0)" if digits <= _MAX_DIGITS else "string"


def _is_integer(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text))


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


def _literal(value: str, kind: str) -> Column:
    return lit(None if value == NULL_PARTITION else unquote(value)).cast(kind)
