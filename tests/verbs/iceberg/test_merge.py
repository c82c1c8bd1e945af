"""Iceberg tables that both sides of a merge changed, written and read with pyiceberg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from campaigns.iceberg.branch_tables import TABLE, BranchTable
from sparklake import Branch, Repository
from sparklake.errors import MergeConflictError
from sparklake.metadata.iceberg.file_names import ICEBERG
from sparklake.testing.lakes import memory_lake

if TYPE_CHECKING:
    from pyiceberg.table import Table

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
BY_NAME = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))


@pytest.fixture(params=[2, 1_000], ids=["small ranges", "one range"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    lake = memory_lake()
    return lake.create_repository("lake", str(tmp_path / "namespace"), range_records=request.param)


@pytest.fixture(params=[False, True], ids=["catalog", "folder"])
def table(request: pytest.FixtureRequest, repo: Repository, tmp_path: Path) -> BranchTable:
    return BranchTable(repo, tmp_path / "t", SCHEMA, is_numbered=request.param)


def data(*ids: int, name: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [name] * len(ids)})


def append(*ids: int, name: str = "x") -> Callable[[Table], None]:
    return lambda table: table.append(data(*ids, name=name))


def delete(*ids: int) -> Callable[[Table], None]:
    return lambda table: table.delete(f"id in ({', '.join(map(str, ids))})")


def start(table: BranchTable, *changes: Callable[[Table], None]) -> tuple[Branch, Branch]:
    main = table.repo.branch("main")
    for each in changes or (append(1, 2), append(3, 4)):
        table.commit(main, each)
    return table.repo.create_branch("dev", "main"), main


def ids(table: BranchTable, ref: str) -> list[int]:
    return [row[0] for row in table.rows(ref)]


def check_names(table: BranchTable, ref: str) -> None:
    """Verify that metadata has no file of the other side, and that the view can be planned."""
    paths = {each.path for each in table.repo.objects(ref, f"{TABLE}/metadata/")}
    current = f"{TABLE}/metadata/{table.metadata_name(ref)}"
    versions = [each for each in paths if ICEBERG.find_folder(each.encode())]
    assert current in versions
    assert table.repo.view(ref, TABLE, "iceberg")


def test_appends_of_both_sides(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, append(5))
    table.commit(dev, append(6))
    table.commit(main, append(7))
    preview = table.repo.preview_merge("dev", "main")
    before = {each.path for each in table.repo.objects("main")}
    table.repo.merge("dev", "main")
    after = {each.path for each in table.repo.objects("main")}
    assert preview.merged_tables == (TABLE,)
    assert not preview.unresolved
    assert preview.added == len(after - before)
    assert ids(table, "main") == [1, 2, 3, 4, 5, 6, 7]
    check_names(table, "main")
    snapshots = table.table("main").metadata.snapshots
    assert len(snapshots) == 5
    assert len({each.snapshot_id for each in snapshots}) == 5
    assert [each.sequence_number for each in snapshots] == [1, 2, 3, 4, 5]
    origins = [each.summary and each.summary["sparklake.origin"] for each in snapshots[-2:]]
    assert origins == [str(each.snapshot_id) for each in table.table("dev").metadata.snapshots[-2:]]


def test_without_unions_changes_of_both_sides_conflict(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, append(5))
    table.commit(main, append(6))
    with pytest.raises(MergeConflictError, match="table unions are turned off"):
        table.repo.merge("dev", "main", unite_tables=False)
    table.repo.merge("dev", "main", "source-wins", unite_tables=False)
    assert ids(table, "main") == [1, 2, 3, 4, 5]


def test_a_later_merge_repeats_only_new_snapshots(table: BranchTable) -> None:
    dev, main = start(table)
    for at in range(3):
        table.commit(dev, append(10 + at))
        table.commit(main, append(20 + at))
        table.repo.merge(*(("dev", "main") if at % 2 else ("main", "dev")))
    table.repo.merge("dev", "main")
    expected = [1, 2, 3, 4, 10, 11, 12, 20, 21, 22]
    assert sorted(ids(table, "main")) == sorted(ids(table, "dev")) == expected


def test_deletes_of_different_files(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, delete(1))
    table.commit(dev, append(5))
    table.commit(main, delete(3, 4))
    table.commit(main, append(6))
    table.repo.merge("dev", "main")
    assert sorted(ids(table, "main")) == [2, 5, 6]
    check_names(table, "main")
    table.commit(main, delete(5))
    assert sorted(ids(table, "main")) == [2, 6]


def test_a_rebase_repeats_each_commit(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, append(5))
    table.commit(dev, delete(1))
    table.commit(main, delete(3))
    table.commit(main, append(7))
    dev.rebase("main")
    assert sorted(ids(table, "dev")) == [2, 4, 5, 7]
    check_names(table, "dev")
    table.commit(main, append(8))
    table.repo.merge("dev", "main")
    assert sorted(ids(table, "main")) == [2, 4, 5, 7, 8]
    table.commit(dev, delete(2))
    table.commit(main, delete(2))
    with pytest.raises(MergeConflictError, match="removed, rewrote or never had"):
        dev.rebase("main")
    assert sorted(ids(table, "dev")) == [4, 5, 7]


CONFLICTS: list[tuple[Any, Any, str]] = [
    (delete(1), delete(2), "dest removed, rewrote or never had"),
    (delete(1, 2), delete(1, 2), "dest removed, rewrote or never had"),
    (delete(1), lambda table: table.overwrite(data(9)), "dest removed, rewrote or never had"),
]


@pytest.mark.parametrize(("theirs", "ours", "reason"), CONFLICTS)
@pytest.mark.parametrize("strategy", [None, "source-wins", "dest-wins"])
def test_changes_of_one_file(
    table: BranchTable, theirs: Any, ours: Any, reason: str, strategy: str | None
) -> None:
    dev, main = start(table)
    table.commit(dev, append(5))
    table.commit(dev, theirs)
    table.commit(main, ours)
    if strategy is None:
        with pytest.raises(
            MergeConflictError, match=rf"Iceberg table 'tables/t' .*{reason}.*drops"
        ):
            table.repo.merge("dev", "main")
        assert table.repo.preview_merge("dev", "main").conflicts
        return
    winner = "dev" if strategy == "source-wins" else "main"
    expected = table.rows(winner)
    preview = table.repo.preview_merge("dev", "main", strategy=strategy)
    assert preview.table_winners == {TABLE: strategy}
    dropped = preview.dropped_commits[TABLE]
    assert dropped.side == ("dest" if strategy == "source-wins" else "source")
    commit = table.repo.merge("dev", "main", strategy=strategy)
    assert "sparklake.merge.dropped" in " ".join(commit.metadata) or dropped.commits
    assert table.rows("main") == expected
    check_names(table, "main")


def test_a_revert_below_later_commits(table: BranchTable) -> None:
    _, main = start(table)
    first = table.commit(main, append(5))
    deleted = table.commit(main, delete(1))
    table.commit(main, append(6))
    main.revert(first)
    assert sorted(ids(table, "main")) == [2, 3, 4, 6]
    main.revert(deleted)
    assert sorted(ids(table, "main")) == [1, 2, 3, 4, 6]
    check_names(table, "main")
    last = next(iter(table.repo.log("main"))).id
    main.revert(last)
    assert sorted(ids(table, "main")) == [2, 3, 4, 6]
    table.commit(main, delete(2))
    assert sorted(ids(table, "main")) == [3, 4, 6]


def test_a_revert_of_the_last_commit_restores_the_tree(table: BranchTable) -> None:
    _, main = start(table)
    before = table.rows("main")
    name = table.metadata_name("main")
    main.revert(table.commit(main, append(5)))
    assert table.rows("main") == before
    assert table.metadata_name("main") == name


def test_a_revert_of_rewritten_files(table: BranchTable) -> None:
    _, main = start(table)
    added = table.commit(main, append(5, 6))
    table.commit(main, delete(5))
    with pytest.raises(MergeConflictError, match=r"removed or rewritten since then.*source-wins"):
        main.revert(added)
    main.revert(added, strategy="source-wins")
    assert sorted(ids(table, "main")) == [1, 2, 3, 4]


def test_cherry_picks(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, append(5))
    picked = table.commit(dev, delete(1))
    table.commit(main, append(6))
    main.cherry_pick(picked)
    assert sorted(ids(table, "main")) == [2, 3, 4, 6]
    table.repo.merge("dev", "main")
    assert sorted(ids(table, "main")) == [2, 3, 4, 5, 6]


def drop_name(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column("name")


def test_rows_rewritten_after_a_drop_need_it(table: BranchTable) -> None:
    dev, main = start(table)
    drop = table.commit(dev, drop_name)
    picked = table.commit(dev, delete(1))
    table.commit(main, append(5))
    with pytest.raises(MergeConflictError, match="source rewrote rows without the column 'name'"):
        main.cherry_pick(picked)
    assert {row[1] for row in table.rows("main")} == {"x"}
    main.cherry_pick(drop)
    main.cherry_pick(picked)
    assert sorted(ids(table, "main")) == [2, 3, 4, 5]
    with pytest.raises(MergeConflictError, match="dest rewrote rows without the column 'name'"):
        dev.revert(drop)


def add_column(name: str, kind: Any = None) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        with table.update_schema() as update:
            update.add_column(name, kind or StringType())

    return change


def test_schemas(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, add_column("note"))
    table.commit(main, append(5))
    table.repo.merge("dev", "main")
    assert [each.name for each in table.table("main").schema().fields] == ["id", "name", "note"]
    assert len(table.rows("main")) == 5
    # Both sides add the column 4, and no file has it.
    table.repo.merge("main", "dev")
    table.commit(dev, add_column("theirs"))
    table.commit(main, add_column("ours"))
    table.commit(main, append(6))
    table.repo.merge("dev", "main")
    fields = {each.name: each.field_id for each in table.table("main").schema().fields}
    assert fields == {"id": 1, "name": 2, "note": 3, "ours": 4, "theirs": 5}
    check_names(table, "main")
    table.repo.merge("main", "dev")
    # Equal changes.
    table.commit(dev, add_column("equal"))
    table.commit(main, add_column("equal"))
    table.commit(dev, append(7))
    table.repo.merge("dev", "main")
    assert len(table.rows("main")) == 7


@pytest.mark.system
@pytest.mark.parametrize("upgraded", ["dev", "main"])
@pytest.mark.parametrize("when", ["before", "after", "alone"])
def test_an_upgrade_and_commits_of_the_other_side(
    repo: Repository, tmp_path: Path, upgraded: str, when: str
) -> None:
    table = BranchTable(repo, tmp_path / "t", SCHEMA, BY_NAME, version=1)
    dev, main = start(table, append(1, 2), append(3, 4, name="y"))

    def upgrade(one: Table) -> None:
        with one.transaction() as transaction:
            transaction.upgrade_table_version(2)

    mine, other = (dev, main) if upgraded == "dev" else (main, dev)
    steps = {"before": (upgrade, append(5)), "after": (append(5), upgrade), "alone": (upgrade,)}
    for each in steps[when]:
        table.commit(mine, each)
    table.commit(other, append(6, name="y"))
    table.commit(other, delete(1))
    repo.merge("dev", "main")
    merged = [2, 3, 4, *([5] if when != "alone" else []), 6]
    assert sorted(ids(table, "main")) == merged
    assert table.table("main").metadata.format_version == 2
    check_names(table, "main")
    table.commit(main, delete(3))
    table.commit(main, append(7))
    assert sorted(ids(table, "main")) == [*(each for each in merged if each != 3), 7]
    if when == "before":  # Also back, and undone.
        table.commit(dev, append(8))
        repo.merge("main", "dev")
        assert sorted(ids(table, "dev")) == [2, 4, 5, 6, 7, 8]
        check_names(table, "dev")


def test_columns_of_one_id_in_files(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, add_column("theirs"))
    table.commit(dev, append(5))
    table.commit(main, add_column("ours"))
    with pytest.raises(MergeConflictError, match=r"the column id 3 .* merge dest into source"):
        table.repo.merge("dev", "main")
    table.repo.merge("main", "dev")
    table.repo.merge("dev", "main")
    fields = {each.name: each.field_id for each in table.table("main").schema().fields}
    assert fields == {"id": 1, "name": 2, "theirs": 3, "ours": 4}
    assert len(table.rows("main")) == 5


@pytest.mark.parametrize("kind", [LongType(), None])
def test_a_type_changed_on_one_side(repo: Repository, tmp_path: Path, kind: Any) -> None:
    """What one side cannot change alone is merged after the same change on both."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "n", IntegerType()))
    table = BranchTable(repo, tmp_path / "t", schema)

    def change(one: Table) -> None:
        with one.update_schema(allow_incompatible_changes=True) as update:
            update.update_column("n", kind, required=None if kind else True)

    def rows(*ids: int) -> Callable[[Table], None]:
        def write(one: Table) -> None:
            nullable = not one.schema().find_field("n").required
            fields = [pa.field("id", pa.int64()), pa.field("n", pa.int32(), nullable=nullable)]
            one.append(pa.table([[*ids], [*ids]], schema=pa.schema(fields)))

        return write

    dev, main = start(table, rows(1))
    table.commit(dev, change)
    table.commit(main, rows(2))
    if kind is None:
        with pytest.raises(MergeConflictError, match="required there, too, or optional here"):
            repo.merge("dev", "main")
        table.commit(main, change)
        table.commit(dev, rows(3))
    repo.merge("dev", "main")
    assert ids(table, "main") == [1, 2, *([3] if kind is None else [])]
    table.commit(main, rows(4))
    assert len(table.rows("main")) == (4 if kind is None else 3)


def test_properties(table: BranchTable) -> None:
    def set_to(**values: str) -> Callable[[Table], None]:
        def change(table: Table) -> None:
            with table.transaction() as transaction:
                transaction.set_properties(values)

        return change

    dev, main = start(table)
    table.commit(dev, set_to(a="1", b="2"))
    table.commit(main, set_to(b="2", c="3"))
    table.repo.merge("dev", "main")
    assert {"a": "1", "b": "2", "c": "3"}.items() <= table.table("main").properties.items()
    table.commit(dev, set_to(a="4"))
    table.commit(main, set_to(a="5"))
    with pytest.raises(MergeConflictError, match=r"property 'a'. Set it to the same value on both"):
        table.repo.merge("dev", "main")
    table.commit(dev, set_to(a="5"))
    table.repo.merge("dev", "main")
    assert table.table("main").properties["a"] == "5"


def test_partitions(repo: Repository, tmp_path: Path) -> None:
    table = BranchTable(repo, tmp_path / "t", SCHEMA, BY_NAME)
    dev, main = start(table, append(1, name="a"), append(2, name="b"))
    table.commit(dev, lambda each: each.delete("name = 'a'"))
    table.commit(dev, append(3, name="c"))
    table.commit(main, append(4, name="a"))
    table.commit(main, lambda each: each.delete("name = 'b'"))
    repo.merge("dev", "main")
    assert table.rows("main") == [(3, "c"), (4, "a")]
    snapshot = table.table("main").current_snapshot()
    assert snapshot is not None
    # Readers prune manifests by the bounds of partitions.
    bounds = [
        [(each.lower_bound, each.upper_bound) for each in one.partitions or ()]
        for one in snapshot.manifests(table.table("main").io)
    ]
    assert [(b"c", b"c")] in bounds
    assert all(bounds)
    assert table.table("main").scan("name = 'c'").to_arrow().num_rows == 1

    def add_field(table: Table) -> None:
        with table.update_spec() as update:
            update.add_identity("id")

    table.commit(dev, add_field)
    table.commit(dev, append(7, name="d"))
    table.commit(main, append(8, name="e"))
    repo.merge("dev", "main")
    assert sorted(ids(table, "main")) == [3, 4, 7, 8]
    assert len(table.table("main").spec().fields) == 2
    check_names(table, "main")


def test_selected_paths_of_a_table(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, append(5))
    dev.put("other/x", b"x")
    dev.commit("another path")
    table.commit(main, append(6))
    with pytest.raises(MergeConflictError, match="include only a part of the table"):
        table.repo.merge("dev", "main", paths=[f"{TABLE}/metadata/"])
    table.repo.merge("dev", "main", paths=["other/"])
    assert ids(table, "main") == [1, 2, 3, 4, 6]
    table.repo.merge("dev", "main", paths=[f"{TABLE}/"])
    assert ids(table, "main") == [1, 2, 3, 4, 5, 6]


def test_a_side_without_the_table(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, append(5))
    main.delete_prefix(f"{TABLE}/")
    main.commit("remove")
    with pytest.raises(MergeConflictError, match=r"dest deleted it.*source-wins"):
        table.repo.merge("dev", "main")
    table.repo.merge("dev", "main", strategy="source-wins")
    assert ids(table, "main") == [1, 2, 3, 4, 5]


def test_cost_follows_the_change(table: BranchTable, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparklake.metadata.iceberg.union.snapshots import Table as Side

    many = [append(100 + at) for at in range(8)]
    dev, main = start(table, *many)
    table.commit(dev, delete(101))
    table.commit(main, append(5))
    read = []
    manifest = Side.manifest
    monkeypatch.setattr(
        Side, "manifest", lambda self, each: read.append(each[500]) or manifest(self, each)
    )
    table.repo.merge("dev", "main")
    assert len({*read}) <= 4
    assert len(table.rows("main")) == 8


def test_an_encrypted_table(table: BranchTable) -> None:
    dev, main = start(table)

    def encrypt(one: Table) -> None:
        with one.transaction() as transaction:
            transaction.set_properties({"encryption.key-id": "key"})

    table.commit(dev, encrypt)
    table.commit(main, append(7))
    with pytest.raises(MergeConflictError, match="it is encrypted"):
        table.repo.merge("dev", "main")
