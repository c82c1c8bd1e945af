"""dbt on a branch: `python -m sparklake.dbt run`, with the method `session` of dbt-spark.

The schema of a target is `lakefs.REPOSITORY.BRANCH`, or a folder below it. Statements run as
`lake.sql`, except for those on schemas.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sparklake.errors import InvalidInputError, MissingDependencyError
from sparklake.lake import Lake, connect
from sparklake.session import spark_session
from sparklake.verbs.tables.registry import found_format
from sparklake.verbs.tables.version import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_ON_SCHEMAS = re.compile(r"(show databases|(create|drop) schema if (not )?exists lakefs\..*)", re.I)
_SHOW_TABLES = re.compile(r"show table extended in (lakefs\.\S+) like '\*'", re.I)
# dbt compares a snapshot with a view of its query, and drops it afterwards.
_STAGING = re.compile(r"lakefs\.\S+?\.(\w+__dbt_tmp)\b", re.I)
_STAGING_VIEW = re.compile(r"create or replace view (?=\w+__dbt_tmp\s)", re.I)
_VIEW = re.compile(r"create or replace view (\S+) .*", re.I)
_NAME = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


class _LakeSql:
    """A Spark session for dbt-spark, which only calls `sql`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def sql(self, text: str) -> DataFrame:
        words = " ".join(_COMMENT.sub("", text).split())
        if _ON_SCHEMAS.fullmatch(words):
            # A schema is a folder: it exists with its tables.
            return spark_session().createDataFrame([], "namespace string")
        text = _STAGING_VIEW.sub("create or replace temporary view ", _STAGING.sub(r"\1", text))
        if (view := _VIEW.fullmatch(words)) and not _STAGING.fullmatch(view[1]):
            raise InvalidInputError(
                f"{view[1]} cannot be a view, as a lake has only tables: set materialized to "
                "table, or to ephemeral for a model that only other models read"
            )
        match = _SHOW_TABLES.fullmatch(words)
        return self._tables(match[1]) if match else self._lake.sql(text)

    def _tables(self, schema: str) -> DataFrame:
        """Return the rows of SHOW TABLE EXTENDED for a schema."""
        rows = [
            (schema, name, False, f"Type: MANAGED\nProvider: {provider}\n")
            for name, provider in self._names(schema)
        ]
        columns = "namespace string, tableName string, isTemporary boolean, information string"
        return spark_session().createDataFrame(rows, columns)

    def _names(self, schema: str) -> Iterator[tuple[str, str]]:
        names = [quoted.replace("``", "`") or plain for quoted, plain in _NAME.findall(schema)]
        if len(names) < 3:
            raise InvalidInputError(
                f"{schema!r} is not the schema of a branch: set `schema` of the target to "
                "lakefs.REPOSITORY.BRANCH, or to a folder below it"
            )
        _, repository, ref, *folders = names
        repo, folder = self._lake.repository(repository), "".join(f"{each}/" for each in folders)
        for each in repo.folder(ref, folder):
            if each.path.endswith("/"):
                table = open_table(repo._context, ref, each.path)
                yield each.path[len(folder) : -1], found_format(table)


def _literal(value: object) -> str:
    """Return a value of a seed as a literal. dbt-spark's has no null and no quotes in texts."""
    if value is None:
        return "NULL"
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class _Builder:
    """A builder of the given session."""

    def __init__(self, session: _LakeSql) -> None:
        self._session = session

    def enableHiveSupport(self) -> _Builder:  # noqa: N802  (Spark's name)
        return self

    def config(self, *_: Any) -> _Builder:
        return self

    def getOrCreate(self) -> _LakeSql:  # noqa: N802  (Spark's name)
        return self._session


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of dbt, and return its exit code."""
    try:
        import dbt.adapters.spark.session as dbt_session
        from dbt.cli.main import dbtRunner
    except ImportError as error:
        raise MissingDependencyError(
            f"dbt cannot be imported ({error}): pip install 'sparklake[dbt]'"
        ) from error
    with connect() as lake:
        dbt_session.SparkSession = SimpleNamespace(builder=_Builder(_LakeSql(lake)))
        dbt_session.SessionConnectionWrapper._fix_binding = staticmethod(_literal)
        outcome = dbtRunner().invoke([*(sys.argv[1:] if arguments is None else arguments)])
    if outcome.exception is not None:
        return 2
    return 0 if outcome.success else 1


if __name__ == "__main__":
    sys.exit(main())
