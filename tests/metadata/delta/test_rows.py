"""Row merges as commits of a log, and their effect on later unions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sparklake.metadata.delta.actions import Action, FileKey
from sparklake.metadata.delta.delta_commits import MERGED, DeltaCommit
from sparklake.metadata.delta.union.log_sides import LogSide, UnionSignature
from sparklake.metadata.delta.union.rows import (
    can_merge_rows,
    editable,
    is_merged_by_files,
    partial_log,
    restated,
    row_settings,
    touched_paths,
)
from sparklake.metadata.delta.union.schemas import same_metadata, schema_fields
from sparklake.metadata.delta.union.unite import united
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.metadata.union.file_sets import SIDES, file_sets
from tests.support.delta_model import PROTOCOL, Table, add, column, first_table, metadata, remove

MADE = UnionSignature(2, "tests")


def pair() -> tuple[Table, Table, Table]:
    """Return base and two sides with rewrites of the same file, source after an append."""
    base = first_table()
    path = min(base.live)
    source, dest = base.branch("source"), base.branch("dest")
    source.commit(add(source.fresh("0"), "0"))
    for side in (source, dest):
        side.commit(remove(path), add(side.fresh("0"), "0"))
    return base, source, dest


def sides_of(*tables: Table) -> list[LogSide]:
    return [each.side(1) for each in tables]


def merged_rows(base: Table, source: Table, dest: Table) -> Table:
    """Return dest with a commit that has the row effects of source's commits."""
    sides = sides_of(base, source, dest)
    settings = row_settings(*sides)
    merged = dest.branch("merged")
    old = dest.commits[-1].adds[0].path
    edit = [{"commitInfo": {}}, remove(old), add(merged.fresh("0"), "0")]
    actions = restated(edit, settings, sides[2], MADE)
    merged.take(DeltaCommit(len(dest.commits), actions))
    return merged


def bodies(*tables: Table) -> list[tuple[Action, ...]]:
    return united(*sides_of(*tables), MADE).commits


def test_later_commits_of_source_are_repeated_after_a_row_merge() -> None:
    base, source, dest = pair()
    merged = merged_rows(base, source, dest)
    info = merged.commits[-1].info
    assert info["operation"] == "MERGE BRANCH"
    assert info[MERGED] == [each.origin for each in source.commits[1:]]
    later = source.branch("later")
    new = later.fresh("1")
    later.commit(add(new, "1"))
    (commit,) = bodies(source, later, merged)
    assert [each["add"]["path"] for each in commit if "add" in each] == [new]
    # A rewrite of a file that dest has no more is still a conflict.
    further = later.branch("further")
    further.commit(remove(source.commits[-1].adds[0].path), add(further.fresh("0"), "0"))
    with pytest.raises(UnmergeableTableError, match="never had"):
        bodies(source, further, merged)


def test_rows_are_not_merged_twice() -> None:
    base, source, dest = pair()
    merged = merged_rows(base, source, dest)
    # A cherry-pick of source's append, and a merge of a branch that has it.
    picked = base.branch("picked")
    picked.take(source.commits[1])
    assert bodies(base, picked, merged) == []
    # The other way round, the rows would exist twice.
    with pytest.raises(UnmergeableTableError, match="exist twice"):
        bodies(base, merged, picked)
    # Back to source, whose commits are not in dest's log.
    with pytest.raises(UnmergeableTableError, match="rewrote the table's history"):
        bodies(source, merged, source.branch("again"))


def test_a_third_branch_receives_a_row_merge_once() -> None:
    base, source, dest = pair()
    merged, third = merged_rows(base, source, dest), base.branch("third")
    third.commit(add(third.fresh("1"), "1"))
    commits = bodies(base, merged, third)
    assert len(commits) == 2
    repeated = DeltaCommit(9, commits[-1])
    assert (repeated.origin, repeated.merged) == (
        merged.commits[-1].origin,
        merged.commits[-1].merged,
    )


def test_commits_merged_by_rows_are_not_undone_by_files() -> None:
    base, source, dest = pair()
    merged, before = merged_rows(base, source, dest), base.branch("before")
    with pytest.raises(UnmergeableTableError, match="only rows can be undone"):
        bodies(source, before, merged)
    # The merge itself is undone as any other commit.
    (undo,) = bodies(merged, dest, merged)
    assert sum("add" in each or "remove" in each for each in undo) == 2


def test_only_changed_files_are_read_and_edited() -> None:
    base, source, dest = pair()
    sides = sides_of(base, source, dest)
    assert touched_paths(sides) == {
        key.path for each in (source, dest) for key in FilesOf(each).since
    }
    files = [{FileKey(path): {"path": path} for path in each.live} for each in (base, source, dest)]
    sets = file_sets(dict(zip(SIDES, files, strict=True)))
    counts = {holders: len(each) for holders, each in sets.items()}
    assert counts == {("base",): 1, ("source",): 2, ("dest",): 1}
    # Of the files that only source changed, dest's live ones; and all of dest's new ones.
    assert [each["path"] for each in editable(files[2], files[:2])] == [
        each.path for each in sets["dest",]
    ]
    plain, marked = ({FileKey("f", each): {"path": "f"}} for each in ("", "u|v|1"))
    sets = file_sets(dict(zip(SIDES, (plain, marked, plain), strict=True)))
    assert sets == {("base", "dest"): plain, ("source",): marked, ("base",): {}, ("dest",): {}}


def test_a_union_of_files_is_distinguished_from_a_row_merge() -> None:
    def files(*names: str) -> dict[FileKey, dict[str, str]]:
        keys = (FileKey(*each.split("|")) for each in names)
        return {key: {"path": key.path} for key in keys}

    base, source, dest = files("a", "b"), files("a|1", "b", "new"), files("a|2")
    assert is_merged_by_files(base, source, dest, files("a|3", "new"))
    assert not is_merged_by_files(base, source, dest, files("a|3"))
    assert not is_merged_by_files(base, source, dest, files("a|3", "b", "new"))
    assert not is_merged_by_files(base, source, dest, files("new"))
    # Dest has source's file from a cherry-pick, and rewrote it.
    assert not is_merged_by_files(base, files("a", "b", "new"), files("a", "b"), files("a", "b"))


class FilesOf:
    def __init__(self, table: Table) -> None:
        commits = table.commits[1:]
        self.since = [key for each in commits for key in (*each.adds, *each.removes)]


def test_settings_of_one_side_are_merged_and_conflicts_rejected() -> None:
    base, source, dest = pair()
    source.commit({"metaData": metadata(column("more"))}, {"txn": {"appId": "a", "version": 3}})
    domain = {"domain": "mine", "configuration": "{}", "removed": False}
    source.commit({"domainMetadata": domain}, {"domainMetadata": {"domain": "delta.rowTracking"}})
    settings = row_settings(*sides_of(base, source, dest))
    assert [min(each) for each in settings.actions] == ["metaData", "txn", "domainMetadata"]
    assert settings.metadata == metadata(column("more"))
    dest.commit({"metaData": metadata(column("other"))})
    both = row_settings(*sides_of(base, source, dest))
    assert same_metadata(both.metadata, metadata(column("other"), column("more")))
    dest.commit({"metaData": metadata(column("more", "string"))})
    with pytest.raises(
        UnmergeableTableError, match=r"the same change on both .*: the column 'more'"
    ):
        row_settings(*sides_of(base, source, dest))
    base, source, dest = pair()
    for side in (source, dest):
        side.commit({"txn": {"appId": "a", "version": 3}})
    with pytest.raises(UnmergeableTableError, match="same streaming application"):
        row_settings(*sides_of(base, source, dest))


def test_dropped_columns_are_rejected_but_renamed_ones_are_not() -> None:
    tables = pair()
    mapped = metadata(**{"delta.columnMapping.mode": "name"})
    fields = json.loads(mapped["schemaString"])["fields"]
    for at, each in enumerate(fields, 1):
        notes = {"delta.columnMapping.physicalName": f"col-{at}", "delta.columnMapping.id": at}
        each["metadata"] = notes
    renamed = [{**fields[0], "name": "key"}, *fields[1:]]
    dropped = fields[1:]

    def with_columns(some: list[Any]) -> dict[str, Any]:
        return {**mapped, "schemaString": json.dumps({"type": "struct", "fields": some})}

    def sides_with(columns: list[Any], place: int) -> list[LogSide]:
        sides = [replace(each, metadata=with_columns(fields)) for each in sides_of(*tables)]
        side = sides[place]
        change = DeltaCommit(len(tables[place].commits), ({"metaData": with_columns(columns)},))
        sides[place] = replace(
            side,
            commits=(*side.commits, change),
            metadata=with_columns(columns),
            start=lambda: {"metaData": with_columns(fields)},
        )
        return sides

    for place in (1, 2):
        sides = sides_with(dropped, place)
        words = "dropped the column 'id'.*: revert that commit, merge, and repeat"
        with pytest.raises(UnmergeableTableError, match=words):
            row_settings(*sides)
        assert not can_merge_rows(sides)
        settings = row_settings(*sides_with(renamed, place))
        assert next(each["name"] for each in schema_fields(settings.metadata)) == "key"


def test_identity_columns_are_rejected_with_a_workaround() -> None:
    sides = sides_of(*pair())
    table = metadata(column("number", metadata={"delta.identity.start": 1}))
    words = "identity column 'number' .*: take one side with source-wins or dest-wins"
    with pytest.raises(UnmergeableTableError, match=words):
        row_settings(*(replace(each, metadata=table) for each in sides))


def test_a_private_table_contains_only_the_given_files() -> None:
    base, source, dest = pair()
    settings = row_settings(*sides_of(base, source, dest))
    properties = {"delta.autoOptimize.autoCompact": "true", "delta.appendOnly": "false"}
    changed = {**settings.metadata, "configuration": properties}
    protocol = {**PROTOCOL, "writerFeatures": ["domainMetadata"]}
    domain = {"domain": "delta.clustering", "configuration": "{}", "removed": False}
    side = replace(sides_of(dest)[0], find_domain={domain["domain"]: domain}.get)
    log = partial_log(
        replace(settings, metadata=changed, protocol=protocol), side, [{"path": "f"}], 5
    )
    assert log[0]["commitInfo"]["inCommitTimestamp"] == 5
    assert log[1:] == [
        {"protocol": protocol},
        {"metaData": {**changed, "configuration": {"delta.appendOnly": "false"}}},
        {"domainMetadata": domain},
        {"add": {"path": "f", "dataChange": False}},
    ]


def test_an_edit_is_restated_for_the_whole_log() -> None:
    base, source, dest = pair()
    sides = sides_of(base, source, dest)
    settings = row_settings(*sides)
    edit: list[Action] = [
        {"commitInfo": {"operationMetrics": {"numOutputRows": "1"}}},
        {"domainMetadata": {"domain": "delta.clustering", "configuration": "{}"}},
        {"add": {"path": "f"}},
        {"cdc": {"path": "c"}},
    ]
    info, *files = restated(edit, settings, sides[2], MADE)
    assert info["commitInfo"]["operationMetrics"] == {"numOutputRows": "1"}
    parameters = {"operation": "MERGE", "version": str(len(dest.commits))}
    assert info["commitInfo"]["operationParameters"] == parameters
    assert files == edit[2:]
    with pytest.raises(UnmergeableTableError, match="unexpected 'metaData'"):
        restated([*edit, {"metaData": {}}], settings, sides[2], MADE)
