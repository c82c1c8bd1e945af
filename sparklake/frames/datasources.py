"""Versions as Spark data sources, such as `spark.read.format("sparklake.objects")`."""

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
"""A function to open a lake, by default in the home of the settings."""

Work = tuple[Body, pa.Table]
Options = Mapping[str, str]

_COMMON = {"repository", "home"}
_TRUE, _FALSE = {"true", "1"}, {"false", "0"}


class TaskPartition(InputPartition):
    """A task, as `value`."""


class TaskReader(DataSourceReader):
    def __init__(self, body: Body, tasks: list[bytes]) -> None:
        self._body = body
        self._tasks = tasks

    def __getstate__(self) -> dict[str, Any]:
        # Executors get the body and one task each.
        return {"_body": self._body, "_tasks": []}

    def partitions(self) -> list[InputPartition]:
        return [TaskPartition(each) for each in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, TaskPartition):
            task = pa.record_batch([pa.array([0]), pa.array([partition.value])], TASK_SCHEMA)
            for batch in self._body([task]):
                # Spark's DDL declares nullable columns.
                fields = [each.with_nullable(True) for each in batch.schema]
                yield pa.record_batch(batch.columns, schema=pa.schema(fields))


class LakeSource(DataSource):
    """A source planned in a process next to the driver. Its options must not contain a password."""

    opener: ClassVar[OpenLake]
    ddl: ClassVar[str]
    needs: ClassVar[frozenset[str]]
    takes: ClassVar[frozenset[str]]
    hint: ClassVar[str] = ""

    def schema(self) -> str:
        self._checked()
        return self.ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._checked()
        home = {"home": options["home"]} if options.get("home") else {}
        with type(self).opener(**home) as lake:
            body, work = self.work(lake.repository(options["repository"]), options)
        return TaskReader(body, work.column("task").to_pylist())

    def work(self, repository: Any, options: Options) -> Work:
        raise NotImplementedError

    def all_options(self) -> Options:
        """Return the options, including those from a path."""
        return dict(self.options)

    def _checked(self) -> Options:
        options, valid = self.all_options(), {*_COMMON, *self.needs, *self.takes}
        # Spark passes option names in lower case.
        for name in sorted({*options} - {each.lower() for each in valid}):
            raise InvalidInputError(
                f"{self.name()} has no option {name!r}: choose one of "
                f"{', '.join(sorted(valid))}. Set the Postgres in SPARKLAKE_DSN or a settings "
                "file, so that Spark does not show its password"
            )
        for name in sorted({"repository", *self.needs} - {*options}):
            raise InvalidInputError(f"{self.name()} needs the option {name!r}{self.hint}")
        return options


class ObjectsSource(LakeSource):
    """The objects of a ref, given by a URI or by repository, ref and prefix."""

    needs = frozenset({"ref"})
    takes = frozenset({"prefix"})
    hint = ', or a path: load("lakefs://REPOSITORY/REF/PREFIX")'

    @classmethod
    def name(cls) -> str:
        return "sparklake.objects"

    def all_options(self) -> Options:
        options = dict(self.options)
        path = options.pop("path", None)
        if path is None:
            return options
        uri = prefix_uri(path)
        from_path = {"repository": uri.repository, "ref": uri.ref, "prefix": uri.key}
        if twice := sorted(from_path.keys() & options.keys()):
            raise InvalidInputError(
                f"{self.name()} has both the path {path!r} and the option {twice[0]!r}: use one"
            )
        return {**options, **from_path}

    def work(self, repository: Any, options: Options) -> Work:
        return _shared(repository.objects(options["ref"], options.get("prefix", "")))


class DiffSource(LakeSource):
    needs = frozenset({"left", "right"})
    takes = frozenset({"prefix", "three_way", "three_dot"})

    @classmethod
    def name(cls) -> str:
        return "sparklake.diff"

    def schema(self) -> str:
        columns = super().schema()
        return THREE_WAY_DDL if _flag(self.options, "three_way") else columns

    def work(self, repository: Any, options: Options) -> Work:
        flags = {each: _flag(options, each) for each in ("three_way", "three_dot")}
        refs = options["left"], options["right"]
        return _shared(repository.diff(*refs, options.get("prefix", ""), **flags))


class LogSource(LakeSource):
    """The commits of a ref. The tasks contain them."""

    needs = frozenset({"ref"})
    takes = frozenset(
        {"path", "prefix", "limit", "first_parent", "no_merges", "author", "grep", "metadata"}
    )

    @classmethod
    def name(cls) -> str:
        return "sparklake.log"

    def work(self, repository: Any, options: Options) -> Work:
        texts = ("path", "prefix", "author", "grep")
        terms: dict[str, Any] = {each: options.get(each) for each in texts}
        key, equals, value = options.get("metadata", "").partition("=")
        terms["metadata"] = {key: value if equals else None} if key else None
        terms |= {each: _flag(options, each) for each in ("first_parent", "no_merges")}
        terms["limit"] = _number(options, "limit")
        return packed_rows, packed_tasks(repository.log(options["ref"], **terms).batches())


SOURCES = (ObjectsSource, DiffSource, LogSource)


def register_sources(spark: SparkSession, opener: OpenLake, ddls: Mapping[str, str]) -> None:
    for source in SOURCES:
        name = source.name()
        own = type(source.__name__, (source,), {"opener": staticmethod(opener), "ddl": ddls[name]})
        spark.dataSource.register(own)


def _shared(rows: Any) -> Work:
    work: Work = rows.shared(MAX_TASK_RECORDS)
    return work


def _flag(options: Options, name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in _TRUE | _FALSE:
        raise InvalidInputError(f"the option {name!r} must be true or false, not {text!r}")
    return text in _TRUE


def _number(options: Options, name: str) -> int | None:
    text = options.get(name)
    if text is not None and not (text.isascii() and text.isdecimal()):
        raise InvalidInputError(f"the option {name!r} must be a number, not {text!r}")
    return None if text is None else int(text)
