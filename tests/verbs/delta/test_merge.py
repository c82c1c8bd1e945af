"""Delta tables that two branches wrote to, by another writer, and read by another reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from sparklake import Lake
from sparklake.documents import error_document, preview_document
from sparklake.errors import CorruptFileError, MergeConflictError, NoChangesError
from sparklake.testing.lakes import contents, memory_lake
from sparklake.testing.memory.branches import MemoryBranches
from tests.support.delta import (
    LOG,
    TABLE,
    Change,
    append,
    checked_out,
    checkpoint,
    clean_log,
    compact_log,
    compacted_name,
    delete,
    log_of,
    optimize,
)
from tests.support.delta_desks import Desk, desk_on, names, refused
from tests.support.interleaved_calls import just_before


@pytest.mark.usefixtures("healthy_at_end")
def test_appends_of_both_sides_unite(desk: Desk) -> None:
    desk.change("dev", append(3), append(4))
    desk.change("main", append(5))
    said = desk.repo.preview_merge("dev", "main")
    before = contents(desk.repo, "main")
    made = desk.repo.merge("dev", "main")
    after = contents(desk.repo, "main")
    assert desk.ids("main") == [1, 2, 3, 4, 5]
    assert log_of(desk.repo, "main") == names(0, 1, 2, 3, 4)
    assert made.metadata["sparklake.merge.tables"] == TABLE
    assert (said.merged_tables, said.unresolved, said.conflict_count) == ((TABLE,), 0, 1)
    assert preview_document(said)["merged_tables"] == [TABLE]
    new = {path: body for path, body in after.items() if path not in before}
    assert before.items() <= after.items()
    assert (said.added, said.changed, said.removed) == (len(new), 0, 0)
    assert said.added_bytes == sum(map(len, new.values()))
    assert (said.changed_bytes, said.removed_bytes) == (0, 0)


def test_as_well_on_postgres(lake: Lake, folder: Path) -> None:
    desk = desk_on(lake, folder, 2, "united")
    desk.change("dev", append(3))
    desk.change("main", append(4))
    desk.repo.merge("dev", "main", "source-wins")
    assert desk.ids("main") == [1, 2, 3, 4]


@pytest.mark.parametrize("strategy", [None, "source-wins", "dest-wins", "keep-both", "newest-wins"])
def test_no_strategy_is_asked(folder: Path, strategy: str | None) -> None:
    desk = desk_on(memory_lake(), folder, 4)
    desk.change("dev", append(3), append(4))
    desk.change("main", append(5))
    desk.repo.merge("dev", "main", strategy, rules={"**": strategy})
    assert desk.ids("main") == [1, 2, 3, 4, 5]
    assert log_of(desk.repo, "main") == names(0, 1, 2, 3, 4)


def test_branches_go_on_after_a_union(desk: Desk) -> None:
    desk.change("dev", append(3))
    desk.change("main", append(4))
    desk.repo.merge("dev", "main")
    desk.change("dev", append(5), delete("id = 3"))
    desk.change("main", append(6))
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [1, 2, 4, 5, 6]
    desk.change("dev", append(7))
    desk.repo.merge("main", "dev")
    desk.change("main", append(8))
    desk.repo.merge("dev", "main")
    assert desk.ids("dev") == [1, 2, 4, 5, 6, 7]
    assert desk.ids("main") == [1, 2, 4, 5, 6, 7, 8]


def test_other_files_change_on_both_sides(desk: Desk) -> None:
    desk.change("dev", delete("id = 1"))
    desk.change("main", delete("id = 2"), append(3))
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [3]


def test_overwrites_of_an_empty_table_are_a_conflict_whatever_they_wrote_to(desk: Desk) -> None:
    """No order of the two gives a table with the rows of both, and no file is in the way."""
    other = f"{TABLE}-parts"

    def load(ids: list[int], part: str, **more: Any) -> Change:
        def change(table: str) -> None:
            rows = pa.table(
                {"id": pa.array(ids, pa.int64()), "p": pa.array([part] * len(ids), pa.string())}
            )
            folder = table.removesuffix(TABLE) + other
            write_deltalake(folder, rows, partition_by=["p"], **more)

        return change

    def rows(table: str) -> list[int]:
        return sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist())

    whole, part = {"mode": "overwrite"}, {"mode": "overwrite", "predicate": "p = 'a'"}
    desk.change("main", load([], "none", mode="append"))
    for name, ids, value, how in (
        ("a", [1], "a", whole),
        ("b", [2], "b", whole),
        ("c", [3], "c", {"mode": "append"}),
        ("d", [4], "a", part),
        ("e", [5], "b", part | {"predicate": "p = 'b'"}),
    ):
        desk.repo.create_branch(name, "main")
        desk.change(name, load(ids, value, **how))
    said = desk.repo.preview_merge("a", "b")
    assert (said.unresolved, said.merged_tables) == (1, ())
    with refused(desk.repo, "both sides overwrote the table"):
        desk.repo.merge("a", "b")
    with refused(desk.repo, "both sides overwrote"):
        desk.repo.merge("d", "a")
    for source, dest, ids in (("c", "b", [2, 3]), ("d", "e", [4, 5]), ("c", "e", [3, 4, 5])):
        desk.repo.merge(source, dest)
        folder = checked_out(desk.repo, dest, desk.folder / "read")
        assert rows(str(folder).removesuffix(TABLE) + other) == ids


def test_the_same_file_is_a_conflict_that_names_it(desk: Desk) -> None:
    desk.change("main", append(10, 11))
    dev = desk.repo.create_branch("other", "main")
    desk.change("main", delete("id = 10"))
    desk.change("other", delete("id = 11"))
    said = desk.repo.preview_merge("other", "main")
    with refused(desk.repo, r"tables/t.*part-.*parquet.*choose a strategy") as raised:
        desk.repo.merge("other", "main", "newest-wins")
    error: Any = raised.value
    assert [row.path for row in error.conflicts] == [f"{LOG}{names(3)[0]}"]
    assert "part-" in error_document(error)["conflicts"][0]["reason"]
    assert (said.unresolved, said.conflict_count, said.merged_tables) == (1, 1, ())
    assert said.conflicts == tuple(error.conflicts)
    assert dev.head == desk.repo.branch("other").head


def test_turned_off_it_is_a_conflict_of_files(desk: Desk) -> None:
    desk.change("dev", append(3), append(4))
    desk.change("main", append(5))
    rule = {"**/_delta_log/**": "none"}
    with refused(desk.repo, "1 conflicting object") as raised:
        desk.repo.merge("dev", "main", unite_tables=False)
    assert raised.value.conflicts[0].reason is None  # type: ignore[attr-defined]
    with refused(desk.repo, "1 conflicting object"):
        desk.repo.merge("dev", "main", "source-wins", rules=rule)
    for said in (
        desk.repo.preview_merge("dev", "main", unite_tables=False),
        desk.repo.preview_merge("dev", "main", "source-wins", rules=rule),
    ):
        assert (said.unresolved, said.merged_tables) == (1, ())
    desk.repo.merge("dev", "main", "dest-wins", unite_tables=False)
    assert log_of(desk.repo, "main") == names(0, 1, 2, 3)


def test_other_conflicts_are_told_beside_those_of_logs(desk: Desk) -> None:
    for branch in ("dev", "main"):
        desk.repo.branch(branch).put("z-behind", branch.encode())
        desk.change(branch, delete("id = 1"))
    with refused(
        desk.repo,
        r"1 conflicting table \('.*'\) and 1 conflicting object \('z-behind'\)\. Delta table",
    ) as raised:
        desk.repo.merge("dev", "main")
    error: Any = raised.value
    rows = [(row.path, row.reason is None) for row in error.conflicts]
    assert rows == [(f"{LOG}{names(2)[0]}", False), ("z-behind", True)]


@pytest.mark.usefixtures("healthy_at_end")
def test_compaction_beside_an_append_and_beside_a_deletion(desk: Desk) -> None:
    desk.change("dev", optimize)
    desk.change("main", append(3))
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [1, 2, 3]
    desk.change("main", delete("id = 1"))
    other = desk.repo.create_branch("other", "main~1")
    desk.change(other.name, optimize)
    with pytest.raises(MergeConflictError, match="cannot be merged"):
        desk.repo.merge("other", "main")


def test_a_column_that_one_side_added(desk: Desk) -> None:
    more = pa.array(["x"], pa.string())
    desk.change("dev", append(3, more=more))
    desk.change("main", append(4))
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [1, 2, 3, 4]
    desk.change("main", append(5, other=more))
    desk.change("dev", append(6, third=more))
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [1, 2, 3, 4, 5, 6]
    desk.change("main", append(7, last=more))
    desk.change("dev", append(8, last=pa.array([1])))
    with pytest.raises(
        MergeConflictError, match=r"the same change on both sides, .*: the column 'last'"
    ):
        desk.repo.merge("dev", "main")


def viewed(desk: Desk, path: str) -> list[int]:
    table = QueryBuilder().register("t", DeltaTable(desk.repo.view("main", path)))
    return sorted(table.execute("SELECT id FROM t").read_all()["id"].to_pylist())


def test_tables_that_were_created_on_both_sides(desk: Desk) -> None:
    for branch, number in (("dev", 1), ("main", 2)):
        desk.change(branch, lambda table, number=number: append(number)(f"{table}2"))
    desk.repo.merge("dev", "main")
    assert viewed(desk, f"{TABLE}2") == [1, 2]
    for branch, name in (("dev", "a"), ("main", "b")):
        more = {name: [1]}
        desk.change(branch, lambda table, more=more: append(1, **more)(f"{table}3"))
    with refused(desk.repo, r"'tables/t3'.*both sides created the table, with different columns"):
        desk.repo.merge("dev", "main")
    desk.repo.merge("dev", "main", "source-wins")


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda body: body[: len(body) // 2],
        lambda _: b"PAR1" + b"\xff" * 20 + (20).to_bytes(4, "little") + b"PAR1",
    ],
    ids=["empty", "truncated", "footer"],
)
def test_an_unreadable_checkpoint_is_skipped_if_the_log_has_all_commits(
    desk: Desk, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    desk.change("main", checkpoint)
    desk.repo.branch("dev").hard_reset("main")
    desk.change("dev", delete("id = 1"))
    gone = desk.change("main", append(3))
    (path,) = (each.path for each in desk.repo.objects("main") if "checkpoint.p" in each.path)
    for branch in ("dev", "main"):
        desk.repo.branch(branch).put(path, damage(desk.repo.read_bytes(branch, path)))
        desk.repo.branch(branch).commit("damaged the checkpoint")
    desk.repo.merge("dev", "main")
    desk.main.revert(gone.id)
    assert viewed(desk, TABLE) == [2]
    assert "checkpoint.parquet cannot be read, and is skipped" in caplog.text
    # Without the commits, nothing else describes the table.
    desk.main.delete(f"{LOG}{names(0)[0]}")
    with pytest.raises(CorruptFileError, match="in the Delta log of 'tables/t' at 'main' is"):
        desk.repo.view("main", TABLE)


def test_checkpoints_of_dest_stay_and_those_of_source_go(desk: Desk) -> None:
    desk.change("dev", append(3), append(4), checkpoint)
    desk.change("main", append(5), checkpoint)
    said = desk.repo.preview_merge("dev", "main")
    before = contents(desk.repo, "main")
    desk.repo.merge("dev", "main")
    after = contents(desk.repo, "main")
    kept = {path: body for path, body in before.items() if "checkpoint" in path}
    assert {path: body for path, body in after.items() if "checkpoint" in path} == kept
    assert len(kept) == 2
    assert desk.ids("main") == [1, 2, 3, 4, 5]
    assert (said.added, said.changed) == (len(after) - len(before), 0)


@pytest.mark.usefixtures("healthy_at_end")
def test_compacted_logs_of_dest_stay_and_those_of_source_go(desk: Desk) -> None:
    """Source's have the numbers of versions that are other commits after the merge."""
    desk.change("main", compact_log(0, 1))
    desk.repo.branch("dev").hard_reset("main")
    sides = [append(3), append(4), append(5)], [append(6), append(7), append(8)]
    desk.change("dev", *sides[0], compact_log(2, 3), compact_log(3, 4))
    desk.change("main", *sides[1], compact_log(2, 3))
    compacted = {f"{LOG}{compacted_name(*each)}" for each in ((0, 1), (2, 3))}
    before = contents(desk.repo, "main")
    merged = desk.repo.merge("dev", "main")
    after = contents(desk.repo, "main")
    assert {path for path in after if "compacted" in path} == compacted
    assert {path: after[path] for path in compacted} == {path: before[path] for path in compacted}
    assert log_of(desk.repo, "main")[-4:] == names(4, 5, 6, 7)
    desk.repo.export("main", str(desk.folder / "exported"))
    for place in (desk.repo.view("main", TABLE), str(desk.folder / "exported" / TABLE)):
        table = QueryBuilder().register("t", DeltaTable(place)).execute("SELECT id FROM t")
        assert sorted(table.read_all()["id"].to_pylist()) == [*range(1, 9)]
    assert desk.ids("main") == [*range(1, 9)]
    desk.main.revert(merged.id, parent_number=1)
    assert desk.ids("main") == [1, 2, 6, 7, 8]


@pytest.mark.parametrize("where", ["base", "dest", "source"])
def test_a_log_that_was_cleaned(desk: Desk, where: str) -> None:
    """Then it is the checkpoint that says what the table is."""
    if where == "base":
        desk.change("main", checkpoint, clean_log)
        desk.repo.create_branch("other", "main")
    else:
        desk.repo.create_branch("other", "main")
    desk.change("other", append(3), *([append(7)] if where == "source" else []))
    desk.change("main", append(4), append(5))
    cleaned = {"source": "other", "dest": "main"}.get(where)
    if cleaned:
        desk.change(cleaned, checkpoint, clean_log, append(6))
    if cleaned is None:
        desk.repo.merge("other", "main")
        assert desk.ids("main") == [1, 2, 3, 4, 5]
        return
    with refused(desk.repo, "no longer has"):
        desk.repo.merge("other", "main")


def test_a_deletion_is_undone_from_a_checkpoint(desk: Desk) -> None:
    desk.change("main", checkpoint, clean_log)
    gone = desk.change("main", delete("id = 1"))
    desk.change("main", append(3))
    desk.main.revert(gone.id)
    assert desk.ids("main") == [1, 2, 3]


# --- verbs that merge, too ------------------------------------------------------------------------


@pytest.mark.usefixtures("healthy_at_end")
def test_a_revert_takes_back_what_was_appended(desk: Desk) -> None:
    """By keys it would take a commit out of the middle of the log."""
    wrong = desk.change("main", append(3), append(4))
    desk.change("main", append(5))
    (made,) = desk.main.revert(wrong.id)
    assert desk.ids("main") == [1, 2, 5]
    assert log_of(desk.repo, "main") == names(0, 1, 2, 3, 4, 5)
    assert made.metadata["sparklake.merge.tables"] == TABLE
    with pytest.raises(NoChangesError):
        desk.main.revert(wrong.id)
    desk.main.revert(made.id)
    assert desk.ids("main") == [1, 2, 3, 4, 5]


def test_a_revert_of_what_was_rewritten_since_is_a_conflict(desk: Desk) -> None:
    wrong = desk.change("main", append(3))
    desk.change("main", optimize)
    with refused(desk.repo, "removed or rewritten since then: part-"):
        desk.main.revert(wrong.id)


def test_a_commit_is_picked_whose_parent_is_not_there(desk: Desk) -> None:
    """By keys it would leave a hole in the log."""
    desk.change("dev", append(3))
    picked = desk.change("dev", append(4))
    desk.main.put("other", b"1")
    desk.main.commit("so that it is no fast forward")
    desk.main.cherry_pick(picked.id)
    assert (desk.ids("main"), log_of(desk.repo, "main")) == ([1, 2, 4], names(0, 1, 2))
    with pytest.raises(NoChangesError):
        desk.main.cherry_pick(picked.id)
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [1, 2, 3, 4]


def test_a_picked_deletion_of_what_is_not_there_is_a_conflict(desk: Desk) -> None:
    desk.change("dev", append(3))
    picked = desk.change("dev", delete("id = 3"))
    desk.change("main", append(4))
    with refused(desk.repo, "never had: part-"):
        desk.main.cherry_pick(picked.id)


@pytest.mark.usefixtures("healthy_at_end")
def test_a_rebase_makes_each_commit_once_more(desk: Desk) -> None:
    desk.change("dev", append(3))
    desk.change("dev", delete("id = 3"), append(4))
    desk.change("main", append(5), append(6))
    made = desk.repo.branch("dev").rebase("main")
    assert [desk.ids(each.id) for each in made] == [[1, 2, 3, 5, 6], [1, 2, 4, 5, 6]]
    assert log_of(desk.repo, "dev") == names(*range(7))


def test_a_branch_of_a_head_that_was_reverted_leaves_no_hole(desk: Desk) -> None:
    wrong = desk.change("main", append(3))
    desk.repo.create_branch("other", "main")
    desk.change("other", append(4))
    desk.main.revert(wrong.id)
    assert (desk.ids("main"), log_of(desk.repo, "main")) == ([1, 2], names(0, 1, 2, 3))
    said = desk.repo.preview_merge("other", "main")
    before = contents(desk.repo, "main")
    desk.repo.merge("other", "main")
    assert (desk.ids("main"), log_of(desk.repo, "main")) == ([1, 2, 4], names(0, 1, 2, 3, 4))
    assert said.added == len(contents(desk.repo, "main")) - len(before)


# --- parts of a repository ------------------------------------------------------------------------


def test_a_table_is_merged_by_its_path(desk: Desk) -> None:
    desk.change("dev", append(3))
    desk.change("main", append(4))
    with refused(desk.repo, "files required by the table.*part-"):
        desk.repo.merge("dev", "main", paths=[LOG])
    with refused(desk.repo, "only a part of its log"):
        desk.repo.merge("dev", "main", paths=[f"{LOG}{names(2)[0]}"])
    said = desk.repo.preview_merge("dev", "main", paths=[LOG])
    assert (said.unresolved, said.merged_tables) == (1, ())
    desk.repo.merge("dev", "main", paths=[f"{TABLE}/"])
    assert desk.ids("main") == [1, 2, 3, 4]
    desk.change("dev", append(5))
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [1, 2, 3, 4, 5]


def test_several_bases_with_the_same_union_are_merged(desk: Desk) -> None:
    desk.change("dev", append(3))
    desk.change("main", append(4))
    (main, dev) = (desk.repo.branch(name).head.id for name in ("main", "dev"))
    desk.repo.merge(dev, "main")
    desk.repo.merge(main, "dev")
    desk.change("dev", append(5))
    desk.change("main", append(6))
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [1, 2, 3, 4, 5, 6]


def test_a_merge_that_loses_a_race_unites_with_what_came(desk: Desk) -> None:
    desk.change("dev", append(3))
    desk.change("main", append(4))

    def meanwhile() -> None:
        desk.change("main", append(5))

    with just_before(MemoryBranches, "move", meanwhile):
        desk.repo.merge("dev", "main")
    assert desk.ids("main") == [1, 2, 3, 4, 5]
    assert log_of(desk.repo, "main") == names(0, 1, 2, 3, 4)


def test_one_side_alone_is_merged_as_it_is(desk: Desk) -> None:
    desk.change("dev", append(3), checkpoint)
    desk.main.put("a-before", b"2")
    desk.main.commit("something else")
    made = desk.repo.merge("dev", "main")
    assert "sparklake.merge.tables" not in made.metadata
    assert log_of(desk.repo, "main") == log_of(desk.repo, "dev")
    assert desk.ids("main") == [1, 2, 3]
