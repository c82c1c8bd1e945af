"""Exported tables are complete: catalogs register them, and nothing else is needed to read them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from campaigns.faults.table_writes import edit_iceberg
from sparklake import Repository
from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.metadata.iceberg.avro import AvroFile
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.iceberg.tree_table import open_iceberg
from sparklake.verbs.tables.version import open_table
from tests.support.iceberg import DELETE_COLUMNS, HandTable

TABLE, NAME = "tables/t", "glue.sales.orders"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


@pytest.mark.parametrize("version", [2, 3])
def test_an_export_needs_no_lake(repo: Repository, tmp_path: Path, version: int) -> None:
    table, main = HandTable(tmp_path / "t", version), repo.branch("main")
    table.commit(table.data("a", 1, 2, 3))
    in_position_deletes = [table.position_deletes("d", ("a", 1))]
    table.commit(*(in_position_deletes if version == 2 else table.vectors("v", {"a": [1]})))
    table.write(properties={"write.data.path": table.location})
    main.import_objects(str(table.folder), TABLE)
    with edit_iceberg(repo, "main", TABLE) as (place, _):
        copy = table.continued(Path(repo.info.storage_namespace.removeprefix("file://")) / place)
        copy.commit(copy.data("b", 4))
    main.commit("edit")
    out = tmp_path / "out"
    repo.export("main", str(out))
    result = repo.register("main", TABLE, str(out), NAME)
    assert result == repo.register("main", TABLE, str(out), NAME)
    assert result.metadata.startswith(f"file://{out}/tables/t/metadata/registered/")
    assert result.statement == (
        "CALL glue.system.register_table(table => 'sales.orders', "
        f"metadata_file => '{result.metadata}')"
    )
    repo.export("main", str(out), incremental=True)
    for each in (tmp_path / "t", tmp_path / "namespace"):
        shutil.rmtree(each)
    other = memory_lake().create_repository("other", str(tmp_path / "other"))
    other.branch("main").import_objects(result.metadata, TABLE)
    iceberg = open_iceberg(open_table(other._context, "main", TABLE))
    assert iceberg is not None
    assert (iceberg.metadata.location, iceberg.metadata.properties) == (f"file://{out}/{TABLE}", {})
    live = {each.file.path.rpartition("/")[2]: each for each in iceberg.live_files()}
    assert {name: each.file.records for name, each in live.items()} == {"a": 3, "b": 1}
    assert (live["a"].vector is not None) == (version == 3)
    assert version == 3 or [*live["a"].rows] == [1]
    places = {each.address for each in other.objects("main")}
    assert all(each.startswith(f"file://{out}/{TABLE}/") for each in places)


def test_moved_position_deletes(repo: Repository, tmp_path: Path) -> None:
    """The rows, the field ids, the size, the bounds and the target belong to the moved file."""
    table, main, out = HandTable(tmp_path / "t", 3), repo.branch("main"), str(tmp_path / "out")
    target = f"{table.location}/data/b"
    deletes = {**table.position_deletes("d", ("b", 1), ("a", 0)), "referenced_data_file": target}
    table.commit(table.data("a", 1, 2), table.data("b", 3, 4), deletes)
    main.import_objects(str(table.folder), TABLE)
    repo.export("main", out)
    registered = repo.register("main", TABLE, out, NAME).metadata.rpartition("/")[0]
    folder = Path(registered.removeprefix("file://"))
    (entry,) = AvroFile.of((folder / "metadata/1-m1.avro").read_bytes()).records()
    moved, places = folder / "data/d", [f"file://{out}/{TABLE}/data/{each}" for each in "ab"]
    lower, upper = ([*entry[2][number].items()] for number in (125, 128))
    assert lower == [(DELETE_COLUMNS[0], places[0].encode())]
    assert upper == [(DELETE_COLUMNS[0], places[1].encode())]
    assert (entry[2][100], entry[2][143]) == (f"{registered}/data/d", places[1])
    assert entry[2][104] == moved.stat().st_size
    rows = pq.read_table(moved)
    assert rows.to_pydict() == {"file_path": places, "pos": [0, 1]}
    fields = [each.metadata[b"PARQUET:field_id"] for each in rows.schema]
    assert fields == [str(each).encode() for each in DELETE_COLUMNS]


def test_refused_registrations(repo: Repository, tmp_path: Path) -> None:
    table, main, out = HandTable(tmp_path / "t", 2), repo.branch("main"), str(tmp_path / "out")
    in_orc = {**table.position_deletes("d", ("a", 0)), "file_format": "ORC"}
    table.commit(table.data("a", 1, 2), in_orc)
    main.import_objects(str(table.folder), TABLE)
    with pytest.raises(InvalidInputError, match="is not an export of"):
        repo.register("main", TABLE, out, NAME)
    repo.export("main", out)
    with pytest.raises(InvalidInputError, match=r"position deletes of the format 'orc'"):
        repo.register("main", TABLE, out, NAME)
    with pytest.raises(ObjectNotFoundError, match="no Iceberg table at 'tables/u'"):
        repo.register("main", "tables/u", out, NAME)
    with pytest.raises(InvalidInputError, match=r"write CATALOG\.DATABASE\.TABLE"):
        repo.register("main", TABLE, out, "orders")
    main.put("x", b"x")
    main.commit("later")
    with pytest.raises(InvalidInputError, match="is not an export of"):
        repo.register("main", TABLE, out, NAME)
