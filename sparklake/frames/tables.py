"""A table from the very files that a version holds: nothing is listed, nothing is copied."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from sparklake.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Key = TypeVar("Key", bound=Hashable)

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_GLOB = re.compile(r"([{}\[\]*?\\])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1


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
        return tuple((name, value) for name, equals, value in folders if equals)

    @property
    def root(self) -> str | None:
        """Returns the place from which its relative path leads to it; None if none does."""
        if not self.uri.endswith(f"/{self.relative}"):
            return None
        return self.uri.removesuffix(self.relative)


def read_files(
    spark: SparkSession, files: Sequence[TableFile], table_format: str, options: Mapping[str, Any]
) -> DataFrame:
    """Returns the rows of some files, with the columns that their folders say."""

    def load(some: Iterable[TableFile], schema: StructType | None, **more: str) -> DataFrame:
        reader = spark.read.format(table_format).options(**{**options, **more})
        reader = reader.schema(schema) if schema is not None else reader
        return reader.load([_GLOB.sub(r"\\\1", each.uri) for each in some])

    rows = load(files, None)
    types = _partition_types(files)
    if not types:
        return rows
    # One schema for all: Spark would infer the type of a partition column root by root.
    schema = StructType(list(rows.schema.fields))
    for name, kind in types.items():
        schema = schema.add(name, kind)
    parts = []
    for root, below in _grouped(files, lambda each: each.root or ""):
        if root:
            parts.append(load(below, schema, basePath=root))
            continue
        for partition, some in _grouped(below, lambda each: each.partition):
            values = {name: _literal(value, types[name]) for name, value in partition}
            parts.append(load(some, rows.schema).withColumns(values))
    return reduce(lambda one, other: one.unionByName(other), parts)


def _partition_types(files: Sequence[TableFile]) -> dict[str, str]:
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
    return {name: _type_of(found - {NULL_PARTITION}) for name, found in values.items()}


def _type_of(values: set[str]) -> str:
    """Returns the narrowest type that holds all values, as Spark infers it."""
    for kind, holds in (
        ("integer", lambda text: abs(int(text)) <= _INT_MAX),
        ("long", lambda text: abs(int(text)) <= _LONG_MAX),
        ("double", lambda text: bool(_NUMBER.fullmatch(text))),
        ("date", lambda text: bool(date.fromisoformat(text))),
    ):
        if values and all(_holds(holds, unquote(value)) for value in values):
            return kind
    return "string"


def _holds(test: Callable[[str], bool], text: str) -> bool:
    try:
        return test(text)
    except ValueError:
        return False


def _literal(value: str, kind: str) -> Column:
    return lit(None if value == NULL_PARTITION else unquote(value)).cast(kind)


def _grouped(
    files: Iterable[TableFile], key: Callable[[TableFile], Key]
) -> Iterator[tuple[Key, list[TableFile]]]:
    groups: dict[Key, list[TableFile]] = {}
    for each in files:
        groups.setdefault(key(each), []).append(each)
    yield from groups.items()
