"""Table readers at a ref, independent of sparklake and Spark."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq

from campaigns.iceberg.branch_tables import at as open_iceberg
from campaigns.tables.log_reader import Log, WrongTableError, contents_of
from campaigns.tables.operations import PART, Contents, Row, Table, in_order
from sparklake import Repository
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, current_metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATH = "tables/t"
_MEMORY = "/dev/shm"
_LOG = "_delta_log/"
_COMMIT_NAME = len(f"{_LOG}{0:020}.json")
_OWN_PROPERTIES = "campaign."


def files_of(repo: Repository, ref: str) -> dict[str, Path]:
    """Return the files of the table by their paths in it."""
    return {
        each.path.removeprefix(f"{PATH}/"): Path(urlsplit(each.address).path)
        for each in repo.objects(ref, f"{PATH}/")
    }


def read_table(repo: Repository, ref: str) -> tuple[Contents, Mapping[str, str]]:
    """Return the rows and the campaign's properties of the table, and check its metadata."""
    files = files_of(repo, ref)
    metadata = metadata_of(files)
    if any(each.startswith(_LOG) for each in files):
        if metadata is not None:
            raise WrongTableError("the tree has a log and Iceberg's metadata")
        return _read_delta(files)
    if metadata is not None:
        return _read_iceberg(str(metadata))
    return in_order(_parquet_rows(files)), {}


def metadata_of(files: Mapping[str, Path]) -> Path | None:
    """Return the file of Iceberg's current metadata."""
    names = {
        each.removeprefix(METADATA_FOLDER): each
        for each in files
        if each.startswith(METADATA_FOLDER)
    }
    name = current_metadata(names)
    return files[names[name]] if name is not None else None


def last_version(files: Mapping[str, Path]) -> int:
    """Return the last version of the Delta log."""
    return max(_commits(files))


def _commits(files: Mapping[str, Path]) -> dict[int, Path]:
    return {
        int(name[len(_LOG) :].removesuffix(".json")): file
        for name, file in files.items()
        if name.startswith(_LOG) and name.endswith(".json") and len(name) == _COMMIT_NAME
    }


def _log_of(files: Mapping[str, Path]) -> Log:
    return Log.of({version: file.read_bytes() for version, file in _commits(files).items()})


def _read_delta(files: Mapping[str, Path]) -> tuple[Contents, Mapping[str, str]]:
    log = _log_of(files)
    log.check()

    def read(path: str) -> bytes:
        if path not in files:
            raise WrongTableError(f"the tree has no {path}")
        return files[path].read_bytes()

    return contents_of(log, read), _own(log.settings)


def _read_iceberg(place: str) -> tuple[Contents, Mapping[str, str]]:
    table = open_iceberg(f"file://{place}")
    rows = table.scan().to_arrow().to_pylist()
    return in_order(map(flattened, rows)), _own(table.properties)


def _own(settings: Mapping[str, str]) -> Mapping[str, str]:
    return {name: each for name, each in settings.items() if name.startswith(_OWN_PROPERTIES)}


def _parquet_rows(files: Mapping[str, Path]) -> Iterator[Row]:
    """Yield the rows of a folder with the union of all columns, like Spark's mergeSchema."""
    rows: list[dict[str, Any]] = []
    for path, file in files.items():
        if path.endswith(".parquet"):
            parts = (each.partition("=") for each in path.split("/")[:-1])
            part = {name: int(value) for name, _, value in parts}
            rows += [
                {**{name.lower(): value for name, value in flattened(row).items()}, **part}
                for row in pq.ParquetFile(file).read().to_pylist()
            ]
    names = Counter(name for row in rows for name in row)
    if rows and PART not in min(rows, key=len):
        raise WrongTableError("some files have no partition")
    yield from ({name: row.get(name) for name in names} for row in rows)


def flattened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of structs as columns with dots."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{at}": each for at, each in value.items()}
        else:
            flat[name] = value
    return flat


def export_table(repo: Repository, ref: str, folder: Path) -> Path:
    """Link the files of the table into a folder."""
    for path, file in files_of(repo, ref).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(file, target)
    return folder


def data_files(repo: Repository, ref: str) -> Mapping[str, object]:
    """Return the data files by path, each with its deletes."""
    files = files_of(repo, ref)
    metadata = metadata_of(files)
    if metadata is not None:
        tasks = open_iceberg(f"file://{metadata}").scan().plan_files()
        return {
            each.file.file_path: {(one.file_path, one.record_count) for one in each.delete_files}
            for each in tasks
        }
    if any(each.startswith(_LOG) for each in files):
        log = _log_of(files)
        return {path: each.get("deletionVector") for path, each in log.files.items()}
    return dict.fromkeys(files)


def read_elsewhere(
    repo: Repository, ref: str, spark: SparkSession | None, table: Table
) -> Iterator[str]:
    """Compare the rows with other readers; yield the readers' names."""
    files = files_of(repo, ref)
    is_delta = any(each.startswith(_LOG) for each in files)
    is_parquet = not is_delta and metadata_of(files) is None
    readers: dict[str, Callable[[], list[dict[str, Any]] | None]] = {}
    if spark is not None and files:
        options: dict[str, Any] = {"mergeSchema": True} if is_parquet else {}
        readers["Spark"] = lambda: _collected(repo.read(ref, PATH, **options))
        if not is_parquet and not is_delta:
            view = spark.read.format("delta").load(repo.view(ref, PATH))
            readers["Spark, without Iceberg's jar"] = lambda: _collected(view)
    if is_delta:
        readers["deltalake"] = lambda: _by_deltalake(repo, ref)
    elif is_parquet and files:
        readers["DuckDB"] = lambda: _by_duckdb(repo, ref)
    for name, read in readers.items():
        rows = read()
        if rows is not None:
            _require_same(name, table, rows)
            yield name


def _collected(rows: DataFrame) -> list[dict[str, Any]]:
    return [each.asDict(recursive=True) for each in rows.collect()]


def _by_duckdb(repo: Repository, ref: str) -> list[dict[str, Any]]:
    import duckdb

    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        place = export_table(repo, ref, Path(folder))
        options = "union_by_name = true, hive_partitioning = true"
        query = f"SELECT * FROM read_parquet('{place}/**/*.parquet', {options})"
        relation = duckdb.connect().query(query)
        return relation.to_arrow_table().to_pylist() if relation else []


def _by_deltalake(repo: Repository, ref: str) -> list[dict[str, Any]] | None:
    """Return the rows, or None for a feature without support in deltalake."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaProtocolError

    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        try:
            table = DeltaTable(export_table(repo, ref, Path(folder)))
            rows: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
        except DeltaProtocolError:
            return None
        return rows


def _require_same(reader: str, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Compare the non-null values: a folder of files declares no columns."""
    one, other = (
        [tuple(each for each in row if each[1] is not None) for row in contents]
        for contents in (table.contents(), in_order(map(flattened, rows)))
    )
    if sorted(one, key=repr) != sorted(other, key=repr):
        raise WrongTableError(f"{reader}'s rows differ:\n{compared(one, other)}")


def compared(expected: Contents, contents: Contents) -> str:
    """Return the differences of rows, as lines."""
    one, other = Counter(expected), Counter(contents)
    lines = [f"  missing: {dict(each)}" for each in (one - other).elements()]
    lines += [f"  wrong:   {dict(each)}" for each in (other - one).elements()]
    return "\n".join(lines or [f"  {len(expected)} rows expected, {len(contents)} found"])
