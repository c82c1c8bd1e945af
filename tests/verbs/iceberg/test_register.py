"""Exported tables are complete: catalogs register them, and nothing else is needed to read them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from campaigns.faults.table_writes import edit_iceberg
from sparklake import Repository
from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.iceberg.tree_table import open_iceberg
from sparklake.verbs.tables.version import open_table
from tests.support.iceberg import HandTable

TABLE, NAME = "tables/t", "glue.sales.orders"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


@pytest.mark.parametrize("version", [2, 3])
def test_an_export_needs_no_lake(repo: Repository, tmp_path: Path, version: int) -> None:
    table, main = HandTable(tmp_path / "t", version), repo.branch("main")
    table.commit(table.data("a", 1, 2, 3))
    if version == 3:
        table.commit(*table.vectors("v", {"a": [1]}))
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
    places = {each.address for each in other.objects("main")}
    assert all(each.startswith(f"file://{out}/{TABLE}/") for each in places)


def test_refused_registrations(repo: Repository, tmp_path: Path) -> None:
    table, main, out = HandTable(tmp_path / "t", 2), repo.branch("main"), str(tmp_path / "out")
    table.commit(table.data("a", 1, 2), table.position_deletes("d", ("a", 0)))
    main.import_objects(str(table.folder), TABLE)
    with pytest.raises(InvalidInputError, match="is not an export of"):
        repo.register("main", TABLE, out, NAME)
    repo.export("main", out)
    with pytest.raises(InvalidInputError, match=r"position deletes .* rewrite_data_files"):
        repo.register("main", TABLE, out, NAME)
    with pytest.raises(ObjectNotFoundError, match="no Iceberg table at 'tables/u'"):
        repo.register("main", "tables/u", out, NAME)
    with pytest.raises(InvalidInputError, match=r"write CATALOG\.DATABASE\.TABLE"):
        repo.register("main", TABLE, out, "orders")
    main.put("x", b"x")
    main.commit("later")
    with pytest.raises(InvalidInputError, match="is not an export of"):
        repo.register("main", TABLE, out, NAME)
