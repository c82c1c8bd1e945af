"""The request of a table write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from sparklake.choices import parse_choice
from sparklake.errors import InvalidInputError
from sparklake.metadata import registry
from sparklake.verbs.base.once import ResultCodec
from sparklake.verbs.tables.foreign import check_supported
from sparklake.verbs.tables.version import table_prefix

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OVERWRITES = "partitionoverwritemode"
_OVERWRITES_SETTING = "spark.sql.sources.partitionOverwriteMode"


class WriteMode(str, Enum):
    """How a write treats a table's existing objects.

    `overwrite-partitions` replaces the partitions of the new rows and keeps the others.
    """

    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite-partitions"
    ERROR_IF_EXISTS = "errorifexists"
    IGNORE = "ignore"

    @property
    def is_first(self) -> bool:
        """Whether the mode writes only to a table without objects."""
        return self in (WriteMode.ERROR_IF_EXISTS, WriteMode.IGNORE)

    @property
    def adds(self) -> bool:
        """Whether the mode adds files to the existing ones."""
        return self in (WriteMode.APPEND, WriteMode.OVERWRITE_PARTITIONS)


@dataclass(frozen=True, slots=True)
class TableWrite:
    """The result of a write. `size` is in bytes."""

    path: str
    files: int = 0
    size: int = 0


RESULT: ResultCodec[TableWrite] = ResultCodec(asdict, lambda _, stored: TableWrite(**stored))
"""The stored form of a write, for idempotency keys."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A write to a branch. `folder` is the table's folder, `options` are for Spark's writer.

    With `schema_check`, the rows must have the columns of the table's Parquet files.
    """

    branch: str
    path: str
    format: str
    mode: WriteMode
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    schema_check: bool = True
    folder: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", table_prefix(self.path))

    @property
    def merges_schema(self) -> bool:
        options = {name.lower(): str(value).lower() for name, value in self.options.items()}
        return options.get("mergeschema") == "true"


def write_request(
    rows: DataFrame,
    branch: str,
    path: str,
    table_format: str,
    mode: str,
    partition_by: Sequence[str],
    options: Mapping[str, Any],
    schema_check: bool = True,
) -> WriteRequest:
    if not hasattr(rows, "sparkSession"):
        raise InvalidInputError(f"write needs a Spark DataFrame, not {type(rows)}")
    for key in options:
        # Spark's sources ignore it silently.
        if key.lower() == "partitionby":
            raise InvalidInputError(
                f"{key} is not supported as an option of the writer: use partition_by"
            )
    check_supported(table_format)
    if isinstance(partition_by, str):
        partition_by = (partition_by,)
    write_mode, name = _mode(mode), table_format.lower()
    has_metadata = registry.find_format(name) is not None
    if write_mode is WriteMode.OVERWRITE_PARTITIONS and not partition_by and not has_metadata:
        raise InvalidInputError(
            "overwrite-partitions needs partition columns: set partition_by, or use overwrite"
        )
    may_be_dynamic = write_mode is WriteMode.OVERWRITE and (partition_by or has_metadata)
    if may_be_dynamic and _is_dynamic(rows, options):
        write_mode = WriteMode.OVERWRITE_PARTITIONS
    return WriteRequest(
        branch,
        path,
        format=name,
        mode=write_mode,
        partition_by=tuple(partition_by),
        options={key: value for key, value in options.items() if key.lower() != _OVERWRITES},
        schema_check=schema_check,
    )


def _mode(mode: str) -> WriteMode:
    name = mode.lower()
    name = {"error": "errorifexists", "default": "errorifexists"}.get(name, name)
    return parse_choice(WriteMode, name, f"{mode!r} is not a write mode: choose one of")


def _is_dynamic(rows: DataFrame, options: Mapping[str, Any]) -> bool:
    """Return whether Spark would overwrite only the partitions of the new rows."""
    values = {key.lower(): str(value) for key, value in options.items()}
    if "replacewhere" in values:
        return False
    mode = values.get(_OVERWRITES) or rows.sparkSession.conf.get(_OVERWRITES_SETTING, "static")
    return str(mode).lower() == "dynamic"
