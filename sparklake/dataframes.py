"""Readers and writers of Spark's shape, for paths such as `lakefs://lake/main/tables/orders`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, reduce
from inspect import signature
from operator import and_, or_
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import Self

from sparklake.errors import InvalidInputError
from sparklake.extras import missing_extras
from sparklake.session import is_temporary_view, quoted
from sparklake.uri import SCHEME, RefUri, object_uri

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, DataFrameWriter, SparkSession
    from pyspark.sql.types import StructType

    from sparklake.repository import Repository
    from sparklake.sql.session import SqlSession
    from sparklake.verbs.base.context import Context
    from sparklake.verbs.tables.version import TableVersion
    from sparklake.verbs.tables.write_request import TableWrite

Path = str | Sequence[str]
Source = Path | Any
"""Paths, or an RDD or a DataFrame of lines."""

FindRepository = Callable[[str], "Repository"]
Resolve = Callable[[str], str]
"""A function from the name of a table in a session to its path, or to the name itself."""


_CHECK = "schemacheck"


def checks_schema(options: Mapping[str, Any]) -> bool:
    """Return the option `schemaCheck`, by its lower-case name."""
    return str(options.get(_CHECK, True)).lower() != "false"


def is_lake_path(path: object) -> bool:
    return isinstance(path, str) and path.startswith(("lakefs:", "lakefs+escaped:"))


def _arguments(method: Callable[..., Any], *values: Any, **options: Any) -> dict[str, Any]:
    """Return arguments by name; those of Spark's method come first."""
    own = {key: each for key, each in options.items() if key in signature(method).parameters}
    return {**signature(method).bind_partial(*values, **own).arguments, **options}


def open_sql(
    repository: FindRepository, spark: Callable[[], SparkSession], ref: RefUri | None = None
) -> SqlSession:
    with missing_extras():
        from sparklake.sql.session import SqlSession

    session = SqlSession(repository, spark)
    if ref is not None:
        session.use(ref)
    return session


class Chain:
    """What readers and writers of Spark's shape share: a format, options, and Spark's methods."""

    def __init__(self) -> None:
        self._format: str | None = None
        self._options: dict[str, Any] = {}

    def format(self, source: str) -> Self:
        """Set the format."""
        self._format = source
        return self

    def option(self, key: str, value: Any) -> Self:
        """Set an option, by Spark's name or this class's own."""
        return self.options(**{key: value})

    def options(self, **options: Any) -> Self:
        """Set options, by Spark's names or this class's own."""
        self._options |= {key: each for key, each in options.items() if each is not None}
        return self

    def _split_options(self, *names: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the options of these lower-case names, and the others."""
        # Spark's names of options have no case.
        own, others = dict[str, Any](), dict[str, Any]()
        for name, value in self._options.items():
            if name.lower() in names:
                own[name.lower()] = value
            else:
                others[name] = value
        return own, others

    def _path(self, path: Any) -> Any:
        return self._options.pop("path", None) if path is None else path

    def __getattr__(self, name: str) -> Any:
        """Return any other method of Spark's own reader or writer, such as `jdbc`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._plain(), name)

    def _plain(self) -> Any:
        """Return Spark's own reader or writer, with the same settings."""
        raise NotImplementedError


AnyWriter = TypeVar("AnyWriter")
_LAYOUTS = ("bucketBy", "sortBy", "clusterBy")


class WriterChain(Chain):
    """Common parts of writers: partition columns, and layouts only supported by Spark's catalog."""

    def __init__(self) -> None:
        super().__init__()
        self._partition_by: tuple[str, ...] = ()
        self._layouts: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return partial(self._lay_out, name) if name in _LAYOUTS else super().__getattr__(name)

    def _lay_out(self, name: str, *values: Any, **options: Any) -> Self:
        self._layouts.append((name, values, options))
        return self

    def _with_layouts(self, writer: AnyWriter) -> AnyWriter:
        layouts = [*self._layouts]
        if self._partition_by:
            layouts.insert(0, ("partitionBy", self._partition_by, {}))
        for name, values, options in layouts:
            writer = getattr(writer, name)(*values, **options)
        return writer

    def _check_layouts(self, path: str) -> None:
        if self._layouts:
            raise InvalidInputError(
                f"{self._layouts[0][0]} is not possible for {path!r}, which is in a lake: remove "
                "it, and use partitionBy, or repartition and sort the rows before the write"
            )

    def partitionBy(self, *cols: str | Sequence[str]) -> Self:  # noqa: N802  (Spark's own word)
        """Set the partition columns."""
        names = cols[0] if len(cols) == 1 and not isinstance(cols[0], str) else cols
        self._partition_by = tuple(map(str, names))
        return self


class LakeReader(Chain):
    """Read tables at refs, as Spark's DataFrameReader reads paths.

    Paths that do not start with `lakefs://` go to Spark's own reader, with the same options. A path
    is literal, without wildcards, and may be a folder or one file. Without a format, Delta and
    Iceberg tables are read as such, and any other as Parquet. Options are those of Spark's reader;
    `basePath` is the table of partition folders.

    Examples:
        >>> lake.read.table("lakefs://lake/v3/tables/orders").count()
        3
    """

    def __init__(
        self, repository: FindRepository, spark: SparkSession, resolve: Resolve = str
    ) -> None:
        super().__init__()
        self._repository = repository
        self._spark = spark
        self._resolve = resolve
        self._schema: StructType | str | None = None

    def schema(self, schema: StructType | str) -> Self:
        """Set the columns, as a StructType or as DDL. Folders keep their own columns."""
        self._schema = schema
        return self

    def load(
        self,
        path: Path | None = None,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        schema: StructType | str | None = None,
        **options: Any,
    ) -> DataFrame:
        """Return the rows of one or several paths."""
        self.options(**options)
        self._format, self._schema = format or self._format, schema or self._schema
        path = self._path(path)
        paths = _path_list(path)
        own = list(filter(is_lake_path, paths))
        if not own:
            unchanged: Any = path if isinstance(path, str) else paths or path
            return self._plain().load(unchanged)
        if len(own) < len(paths):
            raise InvalidInputError(
                f"{own[0]!r} is in a lake, and other paths of the same read are not: read them "
                "separately, and combine the rows with unionByName"
            )
        return self._load(own)

    def parquet(self, *paths: str, **options: Any) -> DataFrame:
        """Return the rows of Parquet files."""
        return self.load(list(paths), "parquet", **options)

    def orc(self, path: Path, *more: Any, **options: Any) -> DataFrame:
        """Return the rows of ORC files."""
        return self._read("orc", path, *more, **options)

    def csv(
        self, path: Source, schema: StructType | str | None = None, *more: Any, **options: Any
    ) -> DataFrame:
        """Return the rows of CSV files. `more` are Spark's arguments."""
        return self._read("csv", path, schema, *more, **options)

    def json(
        self, path: Source, schema: StructType | str | None = None, *more: Any, **options: Any
    ) -> DataFrame:
        """Return the rows of JSON files. `more` are Spark's arguments."""
        return self._read("json", path, schema, *more, **options)

    def xml(self, path: Source, *more: Any, **options: Any) -> DataFrame:
        """Return the rows of XML files, on Spark 4. `more` are Spark's arguments."""
        return self._read("xml", path, *more, **options)

    def text(self, paths: Path, *more: Any, **options: Any) -> DataFrame:
        """Return the lines of text files."""
        return self._read("text", paths, *more, **options)

    def _read(self, source: str, path: Any, *more: Any, **options: Any) -> DataFrame:
        method = getattr(self._plain(), source)
        arguments = _arguments(method, path, *more, **options)
        if not _path_list(path):
            # The lines themselves: an RDD or a DataFrame.
            return method(**arguments)  # type: ignore[no-any-return]
        del arguments[next(iter(arguments))]
        return self.load(path, source, **arguments)

    def table(self, name: str) -> DataFrame:
        """Return the rows of a table: a path in a lake, or a name in Spark's catalog."""
        path = self._resolve(name)
        return self._load([path]) if is_lake_path(path) else self._plain().table(path)

    def _plain(self) -> DataFrameReader:
        reader = self._spark.read.options(**self._options)
        reader = reader.format(self._format) if self._format else reader
        return reader.schema(self._schema) if self._schema else reader

    def _load(self, paths: Sequence[str]) -> DataFrame:
        from sparklake.verbs.tables.read import read_tables

        schema = self._schema
        if isinstance(schema, str):
            schema = self._spark.createDataFrame([], schema).schema
        own, options = self._split_options("basepath")
        base = own.get("basepath")
        sources = [_open(self._repository, each) for each in ([base] if base else paths)]
        tables = [table for _, table in sources]
        rows = read_tables(sources[0][0], tables, self._format, options, schema)
        return rows if base is None else rows.where(_in_folders(rows, base, paths))


def _path_list(path: Any) -> list[str]:
    if isinstance(path, str):
        return [path]
    return list(path) if isinstance(path, (list, tuple)) else []


def _open(repository: FindRepository, path: str) -> tuple[Context, TableVersion]:
    from sparklake.verbs.tables.version import open_table

    uri = object_uri(path)
    context = repository(uri.repository)._context
    return context, open_table(context, uri.ref, uri.key)


def _in_folders(rows: DataFrame, base: str, paths: Sequence[str]) -> Column:
    """Return the condition of rows to be in the given partition folders of a table."""
    from pyspark.sql.functions import lit

    from sparklake.frames.tables.row_values import column
    from sparklake.metadata.delta.table_files import partition_of, partition_value

    start = f"{str(object_uri(base)).rstrip('/')}/"
    conditions = []
    for path in paths:
        below = f"{str(object_uri(path)).rstrip('/')}/".removeprefix(start)
        folders = partition_of(below)
        if not is_lake_path(base) or below.startswith(SCHEME) or len(folders) < below.count("/"):
            raise InvalidInputError(
                f"{path!r} is not a partition folder below the basePath {base!r}: read them "
                "without basePath, or read the table and filter its rows"
            )
        same = [
            column(name).eqNullSafe(lit(partition_value(text)).cast(rows.schema[name].dataType))
            for name, text in folders
        ]
        conditions.append(reduce(and_, same, lit(True)))
    return reduce(or_, conditions)


class LakeWriter(WriterChain):
    """Write rows to tables on branches, as Spark's DataFrameWriter writes to paths.

    The files are staged on the branch: commit them with `Branch.commit`. Paths that do not start
    with `lakefs://` go to Spark's own writer, with the same options. Without a format, an existing
    table keeps its own, and a new one is Parquet. Options are those of Spark's writer, an
    idempotency key `once`, and `schemaCheck`. `bucketBy`, `sortBy` and `clusterBy` are possible
    outside of a lake only.

    Examples:
        >>> lake.write(rows).mode("append").save("lakefs://lake/dev/tables/orders").files
        1
    """

    def __init__(self, repository: FindRepository, rows: DataFrame, resolve: Resolve = str) -> None:
        super().__init__()
        self._repository = repository
        self._rows = rows
        self._resolve = resolve
        self._mode = "error"

    def mode(self, saveMode: str | None) -> Self:  # noqa: N803  (Spark's own word)
        """Set the mode: append, overwrite, overwrite-partitions, error or ignore."""
        self._mode = saveMode or self._mode
        return self

    def save(
        self,
        path: str | None = None,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        mode: str | None = None,
        partitionBy: str | Sequence[str] | None = None,  # noqa: N803  (Spark's own word)
        **options: Any,
    ) -> TableWrite | None:
        """Write the rows; return the staged files, or None outside of a lake."""
        self.mode(mode).options(**options)
        self._format = format or self._format
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        path = self._path(path)
        if path is None or not is_lake_path(path):
            self._plain().save(path)
            return None
        return self._save(path)

    def parquet(
        self, path: str, mode: str | None = None, *more: Any, **options: Any
    ) -> TableWrite | None:
        """Write Parquet files. `more` are Spark's arguments."""
        return self._write("parquet", path, mode, *more, **options)

    def orc(
        self, path: str, mode: str | None = None, *more: Any, **options: Any
    ) -> TableWrite | None:
        """Write ORC files."""
        return self._write("orc", path, mode, *more, **options)

    def csv(
        self, path: str, mode: str | None = None, *more: Any, **options: Any
    ) -> TableWrite | None:
        """Write CSV files."""
        return self._write("csv", path, mode, *more, **options)

    def json(
        self, path: str, mode: str | None = None, *more: Any, **options: Any
    ) -> TableWrite | None:
        """Write JSON files."""
        return self._write("json", path, mode, *more, **options)

    def xml(self, path: str, *more: Any, **options: Any) -> TableWrite | None:
        """Write XML files, on Spark 4."""
        return self._write("xml", path, *more, **options)

    def text(self, path: str, *more: Any, **options: Any) -> TableWrite | None:
        """Write a column of text as lines."""
        return self._write("text", path, *more, **options)

    def _write(self, source: str, *values: Any, **options: Any) -> TableWrite | None:
        arguments = _arguments(getattr(self._rows.write, source), *values, **options)
        return self.save(arguments.pop("path"), source, **arguments)

    def saveAsTable(  # noqa: N802  (Spark's own word)
        self,
        name: str,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        mode: str | None = None,
        partitionBy: str | Sequence[str] | None = None,  # noqa: N803  (Spark's own word)
        **options: Any,
    ) -> TableWrite | None:
        """Write the rows to a path in a lake, or to a table in Spark's catalog."""
        path = self._resolve(name)
        if is_lake_path(path):
            return self.save(path, format, mode, partitionBy, **options)
        self.mode(mode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        self._plain().saveAsTable(name, format, **options)
        return None

    def insertInto(  # noqa: N802  (Spark's own word)
        self,
        tableName: str,  # noqa: N803  (Spark's own word)
        overwrite: bool | None = None,
    ) -> TableWrite | None:
        """Append the rows to an existing table, or overwrite it: columns match by position."""
        if overwrite is not None:
            self.mode("overwrite" if overwrite else "append")
        path = self._resolve(tableName)
        if not is_lake_path(path):
            self._plain().insertInto(tableName, overwrite)
            return None
        from sparklake.verbs.tables.inserts import inserted_rows
        from sparklake.verbs.tables.registry import PARQUET, found_format
        from sparklake.verbs.tables.write import partition_columns

        context, table = _open(self._repository, path)
        if self._partition_by or not table.has_objects:
            raise InvalidInputError(
                f"insertInto needs an existing table and no partitionBy: write {path!r} with "
                "saveAsTable"
            )
        self._rows = inserted_rows(context, table, self._rows)
        table_format = found_format(table)
        if table_format == PARQUET:
            self._partition_by = tuple(partition_columns(table))
        self._format = self._format or table_format
        self._mode = self._mode if self._mode.lower().startswith("overwrite") else "append"
        return self._save(path)

    def _plain(self) -> DataFrameWriter:
        if "once" in map(str.lower, self._options):
            raise InvalidInputError("the option 'once' needs a path that starts with lakefs://")
        writer = self._rows.write.mode(self._mode).options(**self._options)
        writer = writer.format(self._format) if self._format else writer
        return self._with_layouts(writer)

    def _save(self, path: str) -> TableWrite:
        self._check_layouts(path)
        uri = object_uri(path)
        branch = self._repository(uri.repository).branch(uri.ref)
        own, options = self._split_options("once", _CHECK)
        return branch.write(
            self._rows,
            uri.key,
            format=self._format,
            mode=self._mode,
            partition_by=self._partition_by,
            once=own.get("once"),
            schema_check=checks_schema(own),
            **options,
        )


_OF_DELTA = ("_jsparkSession", "_jvm", "_sc")
"""Attributes of a session that DeltaTable uses."""


class LakeSession:
    """A Spark session bound to a ref: names of one part are tables at the ref first.

    Temporary views hide them from reads. Reads of a name that the ref lacks are those of Spark's
    catalog; writes always go to the ref. Everything else is that of the Spark session. Nothing is
    created per table: a name is looked up when it is used.

    Examples:
        >>> spark = lake.session("lakefs://lake/dev")
        >>> spark.ref
        'lakefs://lake/dev'
    """

    def __init__(
        self, repository: FindRepository, spark: Callable[[], SparkSession], ref: RefUri
    ) -> None:
        self._repository = repository
        self._spark = spark
        self._ref = ref

    def __repr__(self) -> str:
        return f"LakeSession({self.ref})"

    @property
    def ref(self) -> str:
        """The URI of the ref."""
        return str(self._ref)

    @property
    def read(self) -> LakeReader:
        """A reader, as `lake.read`."""
        return LakeReader(self._repository, self._spark(), self._source_of)

    def write(self, rows: DataFrame) -> LakeWriter:
        """Return a writer, as `lake.write`."""
        return LakeWriter(self._repository, rows, self._path_of)

    def table(self, name: str) -> DataFrame:
        """Return the rows of a name: a table at the ref, a temporary view, or Spark's own table."""
        return self.read.table(name)

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
        """Run a statement as `lake.sql` does after `USE` of the ref."""
        return self._sql.run_to_df(text, args)

    @cached_property
    def _sql(self) -> SqlSession:
        return open_sql(self._repository, self._spark, self._ref)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the Spark session, such as `createDataFrame`."""
        if name.startswith("_") and name not in _OF_DELTA:
            raise AttributeError(name)
        return getattr(self._spark(), name)

    def _source_of(self, name: str) -> str:
        from sparklake.verbs.tables.read import is_only_in_catalog

        path, text = self._path_of(name), name.strip("`")
        if path == name or is_temporary_view(self._spark(), text):
            return name
        context = self._repository(self._ref.repository)._context
        return quoted(text) if is_only_in_catalog(context, self._ref.ref, text) else path

    def _path_of(self, name: str) -> str:
        text = name.strip("`")
        is_path = name.startswith("`") or "." not in name
        if is_lake_path(name) or not is_path:
            return name
        return f"{self.ref}/{text}"
