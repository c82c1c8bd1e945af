"""Collections and checks know nothing of Iceberg, and keep its tables whole."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from campaigns.faults.table_writes import edit_iceberg
from campaigns.iceberg.branch_tables import BranchTable
from sparklake import Repository
from sparklake.errors import MissingFileError
from sparklake.testing.lakes import memory_lake
from sparklake.verbs.iceberg.tree_table import open_iceberg
from sparklake.verbs.tables.version import open_table
from tests.support.iceberg import HandTable
from tests.support.lakes import assert_healthy
from tests.verbs.iceberg.test_merge import SCHEMA, append, delete, start

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


def files_of(repo: Repository, ref: str) -> list[str]:
    iceberg = open_iceberg(open_table(repo._context, ref, TABLE))
    assert iceberg is not None
    return sorted(iceberg.path(each.file.path) for each in iceberg.live_files())


def test_a_merged_table_is_collected_dumped_restored_and_purged(tmp_path: Path) -> None:
    lake, namespace = memory_lake(), tmp_path / "namespace"
    repo = lake.create_repository("lake", str(namespace))
    table = BranchTable(repo, tmp_path / "t", SCHEMA)
    dev, main = start(table)
    table.commit(dev, append(5))
    table.commit(main, delete(1))
    repo.merge("dev", "main")
    repo.delete_branch("dev")
    files = files_of(repo, "main")
    repo.collect_garbage(grace=timedelta(0))
    assert_healthy(repo)
    assert files_of(repo, "main") == files
    repo.dump_refs()
    restored = memory_lake().restore_repository("copy", str(namespace))
    assert_healthy(restored)
    assert files_of(restored, "main") == files
    assert restored.view("main", TABLE)
    # A purge leaves metadata alone, so reads name the missing file.
    repo.purge(files[:1], commit=True)
    with pytest.raises(MissingFileError, match=files[0]):
        repo.view("main", TABLE)
