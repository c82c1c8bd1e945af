"""pandas, polars, duckdb and pyarrow write tables to a branch and read them at any ref."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import EntryPoint
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import fsspec
import msgspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from campaigns.postgres import fresh_database
from sparklake import Lake, Repository
from sparklake.fs import SparklakeFileSystem
from sparklake.stores.objects.s3.client import s3_client
from sparklake.testing.lakes import memory_lake
from sparklake.testing.s3_server import fresh_bucket
from tests.support.lakes import paths
from tests.support.recorded_reads import recorded_parts

TABLE = pa.table({"id": [1, 2, 3], "day": ["a", "b c", "é"], "x": [0.5, None, 1.5]})


@pytest.fixture
def arrow(fs: SparklakeFileSystem) -> pa.fs.PyFileSystem:
    return pa.fs.PyFileSystem(pa.fs.FSSpecHandler(fs))


@pytest.fixture
def options(lake: Lake) -> dict[str, Any]:
    return {"lake": lake}


def test_pandas_reads_and_writes_tables(repo: Repository, options: dict[str, Any]) -> None:
    frame = TABLE.to_pandas()
    path = "lakefs://repo/main/t/a b%.parquet"
    frame.to_parquet(path, storage_options=options)
    frame.to_csv("lakefs://repo/main/t.csv", index=False, storage_options=options)
    frame.to_json("lakefs://repo/main/t.json", orient="records", storage_options=options)
    repo.branch("main").commit("first")
    frame.iloc[:1].to_parquet(path, storage_options=options)
    actual = pd.read_parquet(path.replace("main", "main@"), storage_options=options)
    pd.testing.assert_frame_equal(actual, frame)
    assert len(pd.read_parquet(path, columns=["id"], storage_options=options)) == 1
    actual = pd.read_csv("lakefs://repo/main/t.csv", storage_options=options)
    pd.testing.assert_frame_equal(actual, frame)
    actual = pd.read_json("lakefs://repo/main/t.json", storage_options=options)
    pd.testing.assert_frame_equal(actual, frame)


def test_pandas_reads_and_writes_partitions(repo: Repository, options: dict[str, Any]) -> None:
    frame = TABLE.to_pandas()
    frame.to_parquet("lakefs://repo/main/t", partition_cols=["day"], storage_options=options)
    folders = {path.rpartition("/")[0] for path in paths(repo, "main")}
    assert folders == {"t/day=a", "t/day=b%20c", "t/day=%C3%A9"}
    actual = pd.read_parquet("lakefs://repo/main/t", storage_options=options).sort_values("id")
    assert actual["day"].astype(str).tolist() == ["a", "b c", "é"]
    assert actual["id"].tolist() == [1, 2, 3]


def test_pyarrow_reads_and_writes_datasets(repo: Repository, arrow: pa.fs.PyFileSystem) -> None:
    schema = pa.schema([TABLE.schema.field("day")])
    parts = ds.partitioning(schema, flavor="hive")
    for number in range(2):
        ds.write_dataset(
            TABLE,
            "repo/main/t",
            filesystem=arrow,
            format="parquet",
            partitioning=parts,
            basename_template=f"{number}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
        )
    repo.branch("main").commit("twice")
    dataset = ds.dataset("repo/main~0/t", filesystem=arrow, partitioning=parts)
    assert len(dataset.files) == 6
    assert dataset.to_table(filter=ds.field("day") == "b c")["id"].to_pylist() == [2, 2]
    ds.write_dataset(
        TABLE.slice(0, 1),
        "repo/main/t",
        filesystem=arrow,
        format="parquet",
        partitioning=parts,
        existing_data_behavior="delete_matching",
    )
    dataset = ds.dataset("repo/main/t", filesystem=arrow, partitioning=parts)
    assert dataset.count_rows() == 5
    arrow.delete_dir("repo/main/t/day=a")
    assert ds.dataset("repo/main/t", filesystem=arrow, partitioning=parts).count_rows() == 4
    arrow.move("repo/main/t", "repo/main/moved")
    arrow.copy_file("repo/main/moved/day=b%20c/0-0.parquet", "repo/main/copy")
    assert pq.read_table("repo/main/copy", filesystem=arrow).num_rows == 1
    infos = arrow.get_file_info(pa.fs.FileSelector("repo/main", recursive=False))
    assert {each.path: each.is_file for each in infos} == {
        "repo/main/copy": True,
        "repo/main/moved": False,
    }
    missing, file = arrow.get_file_info(["repo/main/gone", "repo/main/copy"])
    assert missing.type == pa.fs.FileType.NotFound
    assert (file.size, file.mtime) == (
        repo.stat("main", "copy").size,
        arrow.handler.fs.modified("repo/main/copy"),
    )
    with arrow.open_output_stream("repo/main/t.csv") as stream:
        pyarrow.csv.write_csv(TABLE, stream)
    with arrow.open_input_stream("repo/main/t.csv") as stream:
        assert pyarrow.csv.read_csv(stream).equals(TABLE)


def test_polars_reads_and_writes_tables(
    repo: Repository, fs: SparklakeFileSystem, arrow: pa.fs.PyFileSystem
) -> None:
    frame = pl.from_arrow(TABLE)
    assert isinstance(frame, pl.DataFrame)
    with fs.open("lakefs://repo/main/t/1.parquet", "wb") as file:
        frame.write_parquet(file)
    with fs.open("lakefs://repo/main/t/1.parquet") as file:
        assert pl.read_parquet(file, columns=["id"])["id"].to_list() == [1, 2, 3]
    scan = pl.scan_pyarrow_dataset(ds.dataset("repo/main/t", filesystem=arrow))
    assert scan.filter(pl.col("id") > 2).collect()["day"].to_list() == ["é"]
    with fs.open("repo/main/t.csv", "wb") as file:
        frame.write_csv(file)
    with fs.open("repo/main/t.csv") as file:
        assert pl.read_csv(file).equals(frame)


def test_duckdb_reads_and_writes_tables(repo: Repository, fs: SparklakeFileSystem) -> None:
    with duckdb.connect() as database:
        database.register_filesystem(fs)
        source = TABLE
        assert source.num_rows == 3
        database.execute("COPY (FROM source) TO 'lakefs://repo/main/t/1.parquet'")
        database.execute("COPY (FROM source) TO 'lakefs://repo/main/t/2 é.parquet'")
        assert paths(repo, "main") == ["t/1.parquet", "t/2 é.parquet"]
        result = database.execute(
            "SELECT sum(id), count(*) FROM 'lakefs://repo/main/t/*.parquet'"
        ).fetchall()
        assert result == [(12, 6)]
        repo.branch("main").commit("two")
        fs.rm("repo/main/t/1.parquet")
        for ref, count in (("main", 3), ("main@", 6)):
            query = f"SELECT count(*) FROM read_parquet('lakefs://repo/{ref}/t/*')"
            assert database.execute(query).fetchall() == [(count,)]
        database.execute("COPY (FROM source) TO 'lakefs://repo/main/t.csv'")
        result = database.execute("SELECT day FROM 'lakefs://repo/main/t.csv'").fetchall()
        assert result == [("a",), ("b c",), ("é",)]


# --- partial reads --------------------------------------------------------------------------------

_ROWS = 400_000
_GROUPS = 20


def wide(path: Path) -> int:
    """Write a wide table of 8 columns, and return its size."""
    numbers = pa.array(range(_ROWS), pa.int64())
    columns = {f"c{number}": numbers for number in range(8)}
    pq.write_table(
        pa.table(columns), path, _ROWS // _GROUPS, use_dictionary=False, compression="none"
    )
    return path.stat().st_size


def test_a_column_is_read_without_the_others(
    repo: Repository, fs: SparklakeFileSystem, tmp_path: Path, options: dict[str, Any]
) -> None:
    size = wide(tmp_path / "wide.parquet")
    assert size > 24 << 20
    repo.branch("main").put_file("wide.parquet", tmp_path / "wide.parquet")
    with recorded_parts() as parts:
        column = pd.read_parquet(
            "lakefs://repo/main/wide.parquet", columns=["c3"], storage_options=options
        )["c3"]
    assert column.tolist() == list(range(_ROWS))
    # A column of all groups is an eighth.
    assert sum(parts) < size // 6
    with recorded_parts() as parts, fs.open("repo/main/wide.parquet") as file:
        assert pq.read_table(file, columns=["c3"], pre_buffer=False)["c3"][7].as_py() == 7
    assert sum(parts) < size // 6
    with recorded_parts() as parts, repo.open("main", "wide.parquet") as file:
        assert pq.ParquetFile(file).read_row_group(3, ["c0"])["c0"][0].as_py() == 60_000
    assert sum(parts) < size // 16


def test_a_bucket_gets_range_requests(s3_env: dict[str, str], tmp_path: Path) -> None:
    size = wide(tmp_path / "wide.parquet")
    lake = memory_lake()
    repo = lake.create_repository("repo", f"s3://{fresh_bucket(s3_env)}/lake")
    fs = SparklakeFileSystem(lake=lake, skip_instance_cache=True)
    fs.put(str(tmp_path / "wide.parquet"), "repo/main/wide.parquet")
    ranges: list[str] = []
    client = s3_client()
    get_object = client.get_object

    def noting(**target: str) -> Any:
        ranges.append(target.get("Range", "all"))
        return get_object(**target)

    with mock.patch.object(client, "get_object", noting), fs.open("repo/main/wide.parquet") as file:
        table = pq.read_table(file, columns=["c3"], pre_buffer=False)
    assert table["c3"][7].as_py() == 7
    assert "all" not in ranges
    spans = [each.removeprefix("bytes=").split("-") for each in ranges]
    assert sum(int(last) - int(first) + 1 for first, last in spans) < size // 6
    with repo.open("main", "wide.parquet") as file:
        assert file.seek(size - 4) == size - 4
        assert file.read() == b"PAR1"


def test_fsspec_finds_the_protocol() -> None:
    project = msgspec.toml.decode((Path(__file__).parents[2] / "pyproject.toml").read_bytes())
    ((name, value),) = project["project"]["entry-points"]["fsspec.specs"].items()
    assert EntryPoint(name, value, "fsspec.specs").load() is SparklakeFileSystem
    assert name == SparklakeFileSystem.protocol


# --- by options -----------------------------------------------------------------------------------


def test_a_lake_is_opened_by_its_options(
    server_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_database(server_dsn) as dsn:
        monkeypatch.setenv("SPARKLAKE_HOME", str(tmp_path / "home"))
        options = {"dsn": dsn, "engine": "local"}
        fs = fsspec.filesystem("lakefs", **options)
        repo = fs.lake.create_repository("repo", str(tmp_path / "namespace"))
        TABLE.to_pandas().to_parquet("lakefs://repo/main/t.parquet", storage_options=options)
        again = pickle.loads(pickle.dumps(fs))
        assert again.lake is fs.lake
        assert again.find("repo") == ["repo/main/t.parquet"]
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            assert pool.submit(again.find, "repo").result() == ["repo/main/t.parquet"]
            pool.submit(again.pipe, {"repo/main/there": b"1"}).result()
        assert fs.cat_file("repo/main/there") == b"1"
        monkeypatch.setenv("SPARKLAKE_DSN", dsn)
        with fsspec.open("lakefs://repo/main/t.parquet") as file:
            assert pq.read_table(file).equals(TABLE, check_metadata=False)
        assert repo.branch("main").is_dirty
        SparklakeFileSystem.clear_instance_cache()
        fs.lake.close()
