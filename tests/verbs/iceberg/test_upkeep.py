"""Collections and checks know nothing of Iceberg, and keep its tables whole."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from campaigns.faults.table_writes import edit_iceberg
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.iceberg.tree_table import open_iceberg
from sparklake.verbs.tables.version import open_table
from tests.support.iceberg import HandTable
from tests.support.lakes import assert_healthy

TABLE = "tables/t"


def test_collections_keep_what_a_ref_needs(tmp_path: Path) -> None:
    lake = memory_lake()
    repo = lake.create_repository("lake", str(tmp_path / "namespace"))
    main, table = repo.branch("main"), HandTable(tmp_path / "t", 2)
    table.commit(table.data("a", 1, 2))
    main.import_objects(str(table.folder), TABLE)
    dev = repo.create_branch("dev", "main")

    def edit(branch: str, name: str) -> Path:
        with edit_iceberg(repo, branch, TABLE) as (place, _):
            folder = tmp_path / "namespace" / place
            copy = table.continued(folder)
            copy.commit(copy.data(name, 3))
        return folder

    kept, dropped = edit("dev", "b"), edit("main", "c")
    dev.commit("edit")
    main.reset()
    assert_healthy(repo)
    repo.collect_garbage(grace=timedelta(0))
    assert {each.name for each in dropped.rglob("*") if each.is_file()} == set()
    names = {each.relative_to(kept).as_posix() for each in kept.rglob("*") if each.is_file()}
    assert {each for each in names if not each.startswith("_staged/")} == {
        "data/b",
        "metadata/2-m0.avro",
        "metadata/snap-2.avro",
    }
    assert_healthy(repo)
    iceberg = open_iceberg(open_table(repo._context, "dev", TABLE))
    assert iceberg is not None
    assert len(iceberg.live_files()) == 2
    assert (table.folder / "data/a").exists()
