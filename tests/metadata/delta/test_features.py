"""Unions of tables with Delta features in the schema, in properties and in files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any

import pytest

from sparklake.metadata.delta.actions import FileKey, fields_of
from sparklake.metadata.delta.delta_commits import DeltaCommit
from sparklake.metadata.delta.features import FEATURES
from sparklake.metadata.delta.union.liveness import live_after
from sparklake.metadata.delta.union.log_sides import LogSide, UnionSignature
from sparklake.metadata.delta.union.rows import row_settings
from sparklake.metadata.delta.union.unite import united
from sparklake.metadata.union.conflicts import UnmergeableTableError
from tests.support.cases import for_each

Fields = Mapping[str, Any]
Actions = Sequence[Mapping[str, Any]]
TIME = 1_000
FEATURES_USED = ("columnMapping", "rowTracking", "identityColumns", "inCommitTimestamp")


def column(name: str, number: int = 0, kind: Any = "integer", **notes: Any) -> dict[str, Any]:
    """Return a column as Delta writes it, with column mapping if it has a number."""
    if number:
        mapping = {"id": number, "physicalName": notes.pop("file_name", f"col-{number}")}
        notes |= {f"delta.columnMapping.{key}": value for key, value in mapping.items()}
    return {"name": name, "type": kind, "nullable": True, "metadata": notes}


def table(*columns: Fields, mode: str = "name", **settings: str) -> dict[str, Any]:
    numbers = [each["metadata"].get("delta.columnMapping.id", 0) for each in columns]
    if any(numbers):
        settings = {"columnMapping.mode": mode, "columnMapping.maxColumnId": str(max(numbers))} | {
            key.replace("_", "."): value for key, value in settings.items()
        }
    return {
        "id": "one table",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": {f"delta.{key}": value for key, value in settings.items()},
    }


def add(path: str, rows: int = 1, **fields: Any) -> dict[str, Any]:
    stats = json.dumps({"numRecords": rows})
    return {"add": {"path": path, "partitionValues": {}, "stats": stats, "size": 1} | fields}


def remove(path: str, **fields: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True} | fields}


def ids(base: int, version: int) -> dict[str, int]:
    return {"baseRowId": base, "defaultRowCommitVersion": version}


def settings(metadata: Fields) -> dict[str, Any]:
    return {"metaData": metadata}


def side(start: Fields, *commits: Actions, features: Sequence[str] = FEATURES_USED) -> LogSide:
    """Return a side with a first commit, and the given ones after it."""
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": [*features]}
    parent = DeltaCommit(
        0, ({"commitInfo": {"operation": "CREATE TABLE"}}, add("old", 10, **ids(0, 0)))
    )
    own = [
        DeltaCommit(at, ({"commitInfo": {"operation": "WRITE", "timestamp": at}}, *each))
        for at, each in enumerate(commits, 1)
    ]
    actions = [action for each in own for action in each.actions]
    live = live_after([each.actions for each in (parent, *own)], {})
    tracked = [{"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}'}]
    tracked += fields_of(actions, "domainMetadata")

    def find_adds(paths: Set[str]) -> dict[FileKey, Fields]:
        return {key: each for key, each in live.items() if key.path in paths}

    return LogSide(
        tuple(own),
        [start, *fields_of(actions, "metaData")][-1],
        [protocol, *fields_of(actions, "protocol")][-1],
        find_adds=find_adds,
        find_domain=lambda _: tracked[-1],
        start=lambda: {"metaData": start, "protocol": protocol},
        parent=lambda: parent,
    )


def union(start: Fields, source: Sequence[Actions], dest: Sequence[Actions]) -> list[Actions]:
    """Return the commits added to dest, without their commitInfo."""
    sides = (side(start, *each) for each in ((), source, dest))
    return [each[1:] for each in united(*sides, UnionSignature(TIME, "tests")).commits]


def refused(start: Fields, source: Sequence[Actions], dest: Sequence[Actions], words: str) -> None:
    with pytest.raises(UnmergeableTableError, match=words):
        union(start, source, dest)


# --- column mapping -------------------------------------------------------------------------------

A, B, C = column("a", 1), column("b", 2), column("c", 3)
MAPPED = table(A, B)
NEW = [add("new", **ids(10, 1))]
RENAMED = table({**A, "name": "z"}, B)
NESTED = column("s", 3, {"type": "struct", "fields": [column("x", 4), column("y", 5)]})


@pytest.mark.parametrize(
    "changed",
    [
        RENAMED,
        table(B),
        table(B, column("a", 3)),
        table(A, B, C),
        table(A, B, NESTED),
        table(A, {**B, "metadata": {**B["metadata"], "CURRENT_DEFAULT": "7"}}),
        table(A, {**B, "metadata": {**B["metadata"], "comment": "the second"}}),
    ],
)
def test_files_fit_changed_columns_with_equal_ids(changed: Fields) -> None:
    (commit,) = union(MAPPED, [NEW], [[settings(changed)]])
    assert next(iter(fields_of(commit, "add")))["path"] == "new"
    (commit,) = union(MAPPED, [[settings(changed)]], [NEW])
    assert commit == (settings(changed),)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (table({**A, "type": "string"}, B), r"'a' \(its type\)"),
        (table({**A, "nullable": False}, B), r"'a' \(it became NOT NULL\)"),
        (table(A, B, mode="id"), "changed the column mapping from name to id"),
        (table(column("a"), column("b")), "changed the column mapping from name to none"),
        (table(A, B, enableIcebergCompatV2="true"), "delta.enableIcebergCompatV2"),
    ],
)
def test_files_that_do_not_fit_changed_columns_conflict(changed: Fields, words: str) -> None:
    refused(MAPPED, [NEW], [[settings(changed)]], words)
    refused(MAPPED, [[settings(changed)]], [NEW], words)


def test_struct_fields_are_matched_by_id() -> None:
    def struct(*fields: Fields) -> dict[str, Any]:
        return table(A, column("s", 2, {"type": "struct", "fields": fields}))

    x, y = column("x", 3), column("y", 4)
    for after in (struct({**x, "name": "other"}, y), struct(y), struct(x, y, column("z", 5))):
        assert union(struct(x, y), [NEW], [[settings(after)]])
    refused(struct(x), [NEW], [[settings(struct({**x, "type": "string"}))]], "its type")
    plain = [table(column("s", 0, {"type": "struct", "fields": [column(n)]})) for n in "xy"]
    refused(plain[0], [NEW], [[settings(plain[1])]], "its type")


def test_rewritten_rows_never_replace_those_with_a_dropped_column() -> None:
    drop, rewrite = [settings(table(A))], [remove("old"), *NEW]
    picked = [side(MAPPED, drop), side(MAPPED, drop, rewrite), side(MAPPED)]
    with pytest.raises(UnmergeableTableError, match="source rewrote rows without the column 'b'"):
        united(*picked, UnionSignature(TIME, "tests"))
    with pytest.raises(UnmergeableTableError, match="source rewrote rows without the column 'b'"):
        row_settings(*picked)
    with pytest.raises(UnmergeableTableError, match="dest rewrote rows without the column 'b'"):
        row_settings(picked[0], picked[2], picked[1])
    appended = [side(MAPPED, drop), side(MAPPED, drop, NEW), side(MAPPED)]
    assert united(*appended, UnionSignature(TIME, "tests")).commits
    # Files from before the divergence lack a column that dest added since then.
    alone, other = table(A), column("other", 2, file_name="other")
    more = [settings(table(A, other))]
    dest = side(alone, [settings(MAPPED)])
    sides = [side(alone, more, drop), side(alone, more, drop, rewrite), dest]
    assert united(*sides, UnionSignature(TIME, "tests")).commits


def test_files_fit_a_table_with_new_column_mapping() -> None:
    plain = table(column("a"))
    mapped = table(column("a", 1, file_name="a"))
    assert union(plain, [NEW], [[settings(mapped)]])
    assert union(plain, [[settings(mapped)]], [NEW])


def test_new_columns_of_both_sides_have_different_ids() -> None:
    ours, theirs = column("mine", 3, file_name="m"), {**NESTED, "name": "theirs"}
    (commit,) = union(
        MAPPED, [[settings(table(A, B, theirs))]], [[settings(table(A, B, ours))], NEW]
    )
    (metadata,) = fields_of(commit, "metaData")
    *_, mine, new = json.loads(metadata["schemaString"])["fields"]
    numbers = [new, *new["type"]["fields"]]
    assert mine == ours
    assert [each["metadata"]["delta.columnMapping.id"] for each in numbers] == [4, 5, 6]
    assert new["metadata"]["delta.columnMapping.physicalName"] == "col-3"
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "6"


@pytest.mark.parametrize(
    ("source", "dest", "words"),
    [
        (
            [[settings(table(A, B, C))], NEW],
            [[settings(table(A, B, column("C", 3, "long", file_name="other")))]],
            "both sides added one column differently.*: 'c'",
        ),
        (
            [[settings(table(A, B, C))], NEW],
            [[settings(table(A, B, column("c", 3, file_name="other"))), add("mine")]],
            "same column under two ids, .* Rename it on one side, merge, copy .*: 'c'",
        ),
        (
            [[settings(RENAMED)]],
            [[settings(table({**A, "name": "y"}, B))]],
            "Make the same change on both sides, .*: the column 'y'",
        ),
        (
            [[settings(RENAMED)]],
            [[settings(table(A, {**B, "name": "Z"}))]],
            "different columns the same name.*: 'z'",
        ),
        (
            [[settings(table(A, B, isolationLevel="Serializable"))]],
            [[settings(table(A, B, isolationLevel="WriteSerializable"))]],
            "Make the same change on both sides, .*: the property delta.isolationLevel",
        ),
        (
            [[settings(RENAMED)]],
            [[settings(table(A, B, constraints_x="a > 0"))]],
            "an expression that the other side added. Drop .*: 'a' in a > 0",
        ),
        (
            [[settings(table(B))]],
            [[{"domainMetadata": {"domain": "delta.clustering", "configuration": '["col-1"]'}}]],
            "source dropped the column 'a', and the other side changed a domain",
        ),
    ],
)
def test_incompatible_changes_of_both_sides_conflict(
    source: Sequence[Actions], dest: Sequence[Actions], words: str
) -> None:
    refused(MAPPED, source, dest, words)


BY_ID = table(A, B, mode="id")
"""The same table, whose readers match columns by id."""


def test_new_columns_with_one_id_are_renumbered_in_name_mode() -> None:
    theirs, ours = ([[settings(table(A, B, each)), *NEW]] for each in (C, column("d", 3)))
    ours[0] = [settings(table(A, B, column("d", 3, file_name="d"))), add("mine", **ids(10, 1))]
    (commit,) = union(MAPPED, theirs, ours)
    fields = fields_in(commit)
    assert [each["name"] for each in fields] == ["a", "b", "d", "c"]
    assert [each["metadata"]["delta.columnMapping.id"] for each in fields] == [1, 2, 3, 4]
    by_id = [
        [[settings(table(A, B, each, mode="id")), *NEW]]
        for each in (C, column("d", 3, file_name="d"))
    ]
    refused(BY_ID, *by_id, "added columns with one id, .* rows.KEY")


def fields_in(commit: Actions) -> list[Any]:
    (metadata,) = fields_of(commit, "metaData")
    return list(json.loads(metadata["schemaString"])["fields"])


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("files", ["none", "source", "dest"])
def test_the_same_new_column_on_both_sides_is_added_once(mode: str, files: str) -> None:
    theirs, ours = column("c", 3, file_name="theirs"), column("c", 3, file_name="ours")
    source, dest = (
        [settings(table(A, B, each, mode=mode)), *(NEW if files == name else [])]
        for name, each in (("source", theirs), ("dest", ours))
    )
    result = union(table(A, B, mode=mode), [source], [dest])
    if files == "source":
        *_, new = fields_in(result[0])
        assert new["metadata"]["delta.columnMapping.physicalName"] == "theirs"
        assert new["metadata"]["delta.columnMapping.id"] == (3 if mode == "id" else 4)
    else:
        assert result == [()]


def test_changes_of_different_columns_properties_and_fields_are_combined() -> None:
    x, y, z = column("x", 4), column("y", 5), column("z", 5)

    def struct(*fields: Fields, **more: Any) -> dict[str, Any]:
        nested = column("s", 3, {"type": "struct", "fields": fields})
        return table({**A, **more.pop("first", {})}, B, nested, **more)

    theirs = struct(x, y, isolationLevel="Serializable", columnMapping_maxColumnId="5")
    z["metadata"]["delta.columnMapping.physicalName"] = "other"
    ours = struct(x, z, first={"name": "key"}, x="1", columnMapping_maxColumnId="5")
    (commit,) = union(
        struct(x, columnMapping_maxColumnId="4"), [[settings(theirs)]], [[settings(ours)], NEW]
    )
    first, _, nested = fields_in(commit)
    assert first["name"] == "key"
    assert [each["name"] for each in nested["type"]["fields"]] == ["x", "z", "y"]
    numbers = [each["metadata"]["delta.columnMapping.id"] for each in nested["type"]["fields"]]
    assert numbers == [4, 5, 6]
    (metadata,) = fields_of(commit, "metaData")
    configuration = metadata["configuration"]
    assert configuration["delta.isolationLevel"] == "Serializable"
    assert (configuration["delta.x"], configuration["delta.columnMapping.maxColumnId"]) == (
        "1",
        "6",
    )


def test_a_new_column_is_combined_with_another_change() -> None:
    changed = {**table({**A, "name": "z"}, B, isolationLevel="Serializable")}
    (commit,) = union(MAPPED, [[settings(table(A, B, C)), *NEW]], [[settings(changed)]])
    (metadata,) = fields_of(commit, "metaData")
    names = [each["name"] for each in json.loads(metadata["schemaString"])["fields"]]
    assert names == ["z", "b", "c"]
    assert metadata["configuration"]["delta.isolationLevel"] == "Serializable"


@pytest.mark.parametrize("replaced", [table(column("a", 3)), table(B)])
def test_rows_without_their_column_in_a_replaced_table_conflict(replaced: Fields) -> None:
    parameters = {"mode": '"Overwrite"', "partitionBy": "[]"}
    info = {"commitInfo": {"operation": "WRITE", "operationParameters": parameters}}
    overwrite = [info, settings(replaced), remove("old"), add("only")]
    words = "overwrote rows and dropped or changed the column 'a'"
    refused(MAPPED, [overwrite], [NEW], words)
    refused(MAPPED, [NEW], [overwrite], words)
    assert union(MAPPED, [overwrite], [[{"txn": {"appId": "x", "version": 1}}]])


def test_the_maximum_column_id_never_decreases() -> None:
    dropped = table(A, B, **{"columnMapping.maxColumnId": "9"})
    (commit,) = union(MAPPED, [[settings(dropped)]], [[settings(RENAMED)]])
    (metadata,) = fields_of(commit, "metaData")
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "9"
    assert metadata["schemaString"] == RENAMED["schemaString"]


# --- type widening --------------------------------------------------------------------------------


def widened(*changes: tuple[str, str], **more: Any) -> dict[str, Any]:
    notes = [{"fromType": old, "toType": new, **more} for old, new in changes]
    return {"delta.typeChanges": notes}


@pytest.mark.parametrize(
    ("before", "after", "together"),
    [
        (column("v"), column("v", 0, "long", **widened(("integer", "long"))), True),
        (
            column("v", 0, "short"),
            column("v", 0, "long", **widened(("short", "integer"), ("integer", "long"))),
            True,
        ),
        (column("v"), column("v", 0, "long"), False),
        (column("v", 0, "string"), column("v", 0, "long", **widened(("integer", "long"))), False),
        (
            column("v", 0, {"type": "array", "elementType": "integer", "containsNull": True}),
            column(
                "v",
                0,
                {"type": "array", "elementType": "long", "containsNull": True},
                **widened(("integer", "long"), fieldPath="element"),
            ),
            True,
        ),
    ],
)
def test_narrow_files_fit_a_widened_type(before: Fields, after: Fields, together: bool) -> None:
    for source, dest in (([NEW], [[settings(table(after))]]), ([[settings(table(after))]], [NEW])):
        if together:
            assert union(table(before), source, dest)
        else:
            refused(table(before), source, dest, "its type")


# --- row tracking ---------------------------------------------------------------------------------

TRACKED = table(column("a"), enableRowTracking="true")


def domain(highest: int) -> dict[str, Any]:
    text = f'{{"rowIdHighWaterMark":{highest},"domainName":"delta.rowTracking"}}'
    return {
        "domainMetadata": {"domain": "delta.rowTracking", "configuration": text, "removed": False}
    }


OURS = [add("ours", 5, **ids(10, 1)), domain(14)]


def test_new_files_have_fresh_row_ids_and_commit_versions() -> None:
    first = [add("s1", 3, **ids(10, 1)), add("s2", 2, **ids(13, 1)), domain(14)]
    restated = [add("s1", 3, dataChange=False, tags={}, **ids(10, 1))]
    deleted = [remove("s2", **ids(13, 1))]
    commits = union(TRACKED, [first, restated, deleted], [OURS])
    assert commits[0] == (add("s1", 3, **ids(15, 2)), add("s2", 2, **ids(18, 2)), domain(19))
    assert commits[1] == (add("s1", 3, dataChange=False, tags={}, **ids(15, 2)),)
    assert commits[2] == (remove("s2", **ids(18, 2)),)


def test_base_files_keep_their_row_ids() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1}
    marked = [remove("old", **ids(0, 0)), add("old", 10, deletionVector=vector, **ids(0, 0))]
    (commit,) = union(TRACKED, [[*marked, add("s", 1, **ids(10, 1)), domain(10)]], [OURS])
    assert commit == (*marked, add("s", 1, **ids(15, 2)), domain(15))


def test_rows_copied_from_new_files_of_source_conflict() -> None:
    source = [
        [add("s", 3, **ids(10, 1)), domain(12)],
        [remove("s", **ids(10, 1)), add("copied", 3, **ids(13, 2)), domain(15)],
    ]
    refused(TRACKED, source, [OURS], "row ids are different in dest.*: s")
    # If row tracking was not enabled, no row id was copied.
    assert union(table(column("a")), source, [OURS])


def test_files_without_a_row_count_have_no_row_ids() -> None:
    refused(TRACKED, [[add("s", stats="{}")]], [OURS], "the number of rows.*: s")


def test_newly_enabled_row_tracking_conflicts_with_files_without_row_ids() -> None:
    enabled = [settings(TRACKED)]
    refused(table(column("a")), [enabled], [[add("ours", 5)]], "added files without row ids: ours")
    assert union(table(column("a")), [enabled], [OURS])


# --- identity columns -----------------------------------------------------------------------------


def generated(mark: int | None, step: int = 1, *more: Fields) -> dict[str, Any]:
    notes: dict[str, Any] = {"delta.identity.start": 1, "delta.identity.step": step}
    if mark is not None:
        notes["delta.identity.highWaterMark"] = mark
    return table(column("id", 0, "long", **notes), *more)


@pytest.mark.parametrize("step", [1, -1])
def test_identity_values_generated_on_both_sides_conflict(step: int) -> None:
    wrote = [[settings(generated(step * n, step)), add(f"f{n}")] for n in (5, 4)]
    words = (
        "both sides generated values of the identity column 'id', source up to 5 and dest up to 4"
    )
    refused(generated(3 * step, step), [wrote[0]], [wrote[1]], words)
    refused(generated(None, step), [wrote[0]], [wrote[1]], words)


@pytest.mark.parametrize("step", [1, -1])
def test_the_high_water_mark_follows_the_generating_side(step: int) -> None:
    before, after = generated(3 * step, step), generated(5 * step, step)
    wider = generated(3 * step, step, column("more"))
    wrote = [settings(after), add("new")]
    (commit,) = union(before, [wrote], [[settings(wider)]])
    (metadata,) = fields_of(commit, "metaData")
    assert json.loads(metadata["schemaString"])["fields"] == [
        *json.loads(after["schemaString"])["fields"],
        column("more"),
    ]
    (commit,) = union(before, [[settings(wider)]], [wrote])
    (metadata,) = fields_of(commit, "metaData")
    assert json.loads(metadata["schemaString"]) == json.loads(
        generated(5 * step, step, column("more"))["schemaString"]
    )
    refused(before, [[settings(generated(1 * step, step))]], [NEW], "source set back")


# --- in-commit timestamps -------------------------------------------------------------------------


def test_in_commit_timestamps_increase() -> None:
    start = table(column("a"), enableInCommitTimestamps="true")
    sides = [side(start), side(start, [add("s1")], [add("s2")])]
    ours = side(start, [add("ours")])
    info = {"commitInfo": {"operation": "WRITE", "inCommitTimestamp": TIME + 50}}
    ours = LogSide((DeltaCommit(1, (info, add("ours"))),), start, ours.protocol, start=ours.start)
    commits = united(*sides, ours, UnionSignature(TIME, "tests")).commits
    assert [each[0]["commitInfo"]["inCommitTimestamp"] for each in commits] == [
        TIME + 51,
        TIME + 52,
    ]


def test_newly_enabled_timestamps_start_at_their_commit_in_dest() -> None:
    name = "inCommitTimestampEnablement"
    enabled = table(
        column("a"),
        enableInCommitTimestamps="true",
        **{f"{name}Version": "1", f"{name}Timestamp": "1"},
    )
    (commit,) = union(table(column("a")), [[settings(enabled)]], [[add("x")], [add("y")]])
    (metadata,) = fields_of(commit, "metaData")
    assert metadata["configuration"][f"delta.{name}Version"] == "3"
    assert metadata["configuration"][f"delta.{name}Timestamp"] == str(TIME)


# --- undo -----------------------------------------------------------------------------------------


def undo(start: Fields, done: Actions, later: Sequence[Actions]) -> Actions:
    sides = (side(start, done), side(start), side(start, done, *later))
    (commit,) = united(*sides, UnionSignature(TIME, "tests")).commits
    return commit[1:]


def test_an_undo_keeps_high_water_marks() -> None:
    done = [settings(generated(5)), add("new")]
    actions = undo(generated(3), done, [])
    assert [*fields_of(actions, "metaData")] == []
    assert [each["path"] for each in fields_of(actions, "remove")] == ["new"]
    assert undo(generated(3), done, [[settings(generated(7)), add("later")]])
    actions = undo(MAPPED, [settings(table(A, B, C))], [])
    (metadata,) = fields_of(actions, "metaData")
    assert metadata == {
        **MAPPED,
        "configuration": {**MAPPED["configuration"], "delta.columnMapping.maxColumnId": "3"},
    }


def test_an_undo_restores_row_ids() -> None:
    done = [remove("old", **ids(0, 0)), add("new", 9, **ids(10, 1)), domain(18)]
    actions = undo(TRACKED, done, [[add("later", 1, **ids(19, 2)), domain(19)]])
    (removed,), (restored,) = fields_of(actions, "remove"), fields_of(actions, "add")
    assert (removed["baseRowId"], removed["defaultRowCommitVersion"]) == (10, 1)
    assert (restored["baseRowId"], restored["defaultRowCommitVersion"]) == (0, 0)
    assert not [*fields_of(actions, "domainMetadata")]


# --- the table of features ------------------------------------------------------------------------


@for_each("name", [*FEATURES, "no such feature"])
def test_each_feature_is_merged_or_rejected_by_name(name: str) -> None:
    start = table(column("a"))
    sides = [side(start, *each, features=[name]) for each in ((), [[add("s")]], [[add("d")]])]
    reason = FEATURES.get(name, "does not know it")
    if reason is None:
        assert united(*sides, UnionSignature(TIME, "tests")).commits
    else:
        with pytest.raises(UnmergeableTableError, match=f"{name} .*{reason[:20]}"):
            united(*sides, UnionSignature(TIME, "tests"))
