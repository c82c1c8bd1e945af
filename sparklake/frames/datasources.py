"""Versions as Spark data sources.

An example is `spark.read.format("sparklake.objects")`. Spark plans such a read in a Python process
next to the driver. That process opens the lake and returns the plan's tasks. Executors run the same
body as every engine. Spark shows the options of a read and ships the source to executors, so
neither ever has a password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from sparklake.engine.base import MAX_TASK_RECORDS, Body
from sparklake.engine.spark import packed_tasks
from sparklake.errors import InvalidInputError
from sparklake.rows.diffs import THREE_WAY_DDL
from sparklake.udfs.tasks import TASK_SCHEMA, packed_rows
from sparklake.uri import prefix_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

OpenLake = Callable[..., AbstractContextManager[Any]]
"""A function that opens a lake, in `home` if it is given."""

Work = tuple[Body, pa.Table]
Options = Mapping[str, str]

_COMMON = {"repository", "home"}
_TRUE, _FALSE = {"true", "1"}, {"false", "0"}


class TaskPartition(InputPartition):
    def __init__(self, task: bytes) -> None:
        super().__init__(task)


class TaskReader(DataSourceReader):
    """A reader of a body's output over the work of its tasks."""

    def __init__(self, body: Body, tasks: list[bytes]) -> None:
        self._body = body
        self._tasks = tasks

    def __getstate__(self) -> dict[str, Any]:
        # Executors get the body only. Each gets its own task.
        return {"_body": self._body, "_tasks": []}

    def partitions(self) -> list[InputPartition]:
        return [TaskPartition(each) for each in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the body's output for a task, or nothing for a partition without a task."""
        if isinstance(partition, TaskPartition):
            task = pa.record_batch([pa.array([0]), pa.array([partition.value])], TASK_SCHEMA)
            yield from map(_as_declared, self._body([task]))


class LakeSource(DataSource):
    """The base class of the sources."""

    opener: ClassVar[OpenLake]
    ddl: ClassVar[str]
    needs: ClassVar[frozenset[str]]
    takes: ClassVar[frozenset[str]]
    hint: ClassVar[str] = ""

    def schema(self) -> str:
        self._checked()
        return self.ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        given = self._checked()
        home = {"home": given["home"]} if given.get("home") else {}
        with type(self).opener(**home) as lake:
            body, work = self.work(lake.repository(given["repository"]), given)
        return TaskReader(body, work.column("task").to_pylist())

    def work(self, repository: Any, given: Options) -> Work:
        """Return the body and the tasks for the given options."""
        raise NotImplementedError

    def named(self) -> Options:
        """Return the options, including those from a path."""
        return dict(self.options)

    def _checked(self) -> Options:
        """Return the options, without unknown or missing ones."""
        named = self.named()
        given, known = {*named}, {*_COMMON, *self.needs, *self.takes}
        # Spark passes option names in lower case.
        for name in sorted(given - {each.lower() for each in known}):
            raise InvalidInputError(
                f"{self.name()} has no option {name!r}: choose one of "
                f"{', '.join(sorted(known))}. Set the Postgres in SPARKLAKE_DSN or a settings "
                "file, so that Spark does not show its password"
            )
        for name in sorted({"repository", *self.needs} - given):
            raise InvalidInputError(f"{self.name()} needs the option {name!r}{self.hint}")
        return named


class ObjectsSource(LakeSource):
    """The objects of a ref, given by a URI or by repository, ref and prefix."""

    needs = frozenset({"ref"})
    takes = frozenset({"prefix"})
    hint = ', or a path: load("lakefs://REPOSITORY/REF/PREFIX")'

    @classmethod
    def name(cls) -> str:
        return "sparklake.objects"

    def named(self) -> Options:
        given = dict(self.options)
        path = given.pop("path", None)
        if path is None:
            return given
        uri = prefix_uri(path)
        named = {"repository": uri.repository, "ref": uri.ref, "prefix": uri.key}
        if twice := sorted(named.keys() & given.keys()):
            raise InvalidInputError(
                f"{self.name()} has both the path {path!r} and the option {twice[0]!r}: use one"
            )
        return {**given, **named}

    def work(self, repository: Any, given: Options) -> Work:
        rows = repository.objects(given["ref"], given.get("prefix", ""))
        return _shared(rows)


class DiffSource(LakeSource):
    """The differences between two refs."""

    needs = frozenset({"left", "right"})
    takes = frozenset({"prefix", "three_way", "three_dot"})

    @classmethod
    def name(cls) -> str:
        return "sparklake.diff"

    def schema(self) -> str:
        """Return the columns as DDL, with the sides of a three-way diff."""
        columns = super().schema()
        return THREE_WAY_DDL if _flag(self.options, "three_way") else columns

    def work(self, repository: Any, given: Options) -> Work:
        flags = {each: _flag(given, each) for each in ("three_way", "three_dot")}
        rows = repository.diff(given["left"], given["right"], given.get("prefix", ""), **flags)
        return _shared(rows)


class LogSource(LakeSource):
    """The commits of a ref. The tasks contain them."""

    needs = frozenset({"ref"})
    takes = frozenset({"path", "prefix", "limit", "first_parent", "no_merges"})

    @classmethod
    def name(cls) -> str:
        return "sparklake.log"

    def work(self, repository: Any, given: Options) -> Work:
        asked: dict[str, Any] = {each: given.get(each) for each in ("path", "prefix")}
        asked |= {each: _flag(given, each) for each in ("first_parent", "no_merges")}
        asked["limit"] = _number(given, "limit")
        return packed_rows, packed_tasks(repository.log(given["ref"], **asked).batches())


SOURCES = (ObjectsSource, DiffSource, LogSource)


def register_sources(spark: SparkSession, opener: OpenLake, ddls: Mapping[str, str]) -> None:
    for source in SOURCES:
        name = source.name()
        own = type(source.__name__, (source,), {"opener": staticmethod(opener), "ddl": ddls[name]})
        spark.dataSource.register(own)


def _as_declared(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with nullable columns, as Spark's DDL declares them."""
    fields = [each.with_nullable(True) for each in batch.schema]
    return pa.record_batch(batch.columns, schema=pa.schema(fields))


def _shared(rows: Any) -> Work:
    work: Work = rows.shared(MAX_TASK_RECORDS)
    return work


def _flag(given: Options, name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in _TRUE | _FALSE:
        raise InvalidInputError(f"the option {name!r} must be true or false, not {text!r}")
    return text in _TRUE


def _number(given: Options, name: str) -> int | None:
    text = given.get(name)
    if text is not None and not (text.isascii() and text.isdecimal()):
        raise InvalidInputError(f"the option {name!r} must be a number, not {text!r}")
    return None if text is None else int(text)
