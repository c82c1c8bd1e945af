"""Other readers open Iceberg tables at refs: pyiceberg by addresses, and fsspec by keys."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from campaigns.faults.table_writes import edit_iceberg
from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.fs import SparklakeFileSystem
from sparklake.testing.lakes import memory_lake
from tests.support.iceberg import HandTable

TABLE = "tables/t"


def test_pyiceberg_and_fsspec_at_refs(tmp_path: Path) -> None:
    lake, table = memory_lake(), HandTable(tmp_path / "t", 2)
    repo = lake.create_repository("lake", str(tmp_path / "namespace"))
    main = repo.branch("main")
    table.commit(table.data("a", 1, 2))
    main.import_objects(str(table.folder), TABLE)
    repo.create_branch("dev", "main")
    with edit_iceberg(repo, "main", TABLE) as (place, _):
        copy = table.continued(tmp_path / "namespace" / place)
        copy.commit(copy.data("b", 3))
    fs = SparklakeFileSystem(lake=lake, skip_instance_cache=True)
    for ref, expected in (("main", [1, 2, 3]), ("main@", [1, 2]), ("dev", [1, 2])):
        static = StaticTable.from_metadata(repo.iceberg_metadata(ref, TABLE))
        assert sorted(static.scan().to_arrow()["id"].to_pylist()) == expected
        with fs.open(f"lakefs://lake/{ref}/{TABLE}/data/a") as file:
            ids = pq.read_table(file)["id"].to_pylist()
        assert ids == [1, 2]
        assert fs.exists(f"lakefs://lake/{ref}/{TABLE}/data/b") == (3 in expected)
    with pytest.raises(ObjectNotFoundError, match="'main' has no Iceberg table under 'tables/u'"):
        repo.iceberg_metadata("main", "tables/u")
    main.commit("edit")
    shutil.copytree(tmp_path / "t", tmp_path / "copied")
    main.import_objects(str(tmp_path / "copied"), "tables/copied")
    with pytest.raises(InvalidInputError, match="export the table, and import the export"):
        repo.iceberg_metadata("main", "tables/copied")
    table.write(properties={"schema.name-mapping.default": "[]"})
    main.import_objects(str(table.folder), "tables/mapped")
    assert repo.iceberg_metadata("main", "tables/mapped").endswith("/t/metadata/v2.metadata.json")
