"""The logs of a table on three sides become one, or it is said why not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.metadata.delta.actions import FileKey, encode_actions, fields_of
from sparklake.metadata.delta.delta_commits import DeltaCommit, parse_commit
from sparklake.metadata.delta.union.log_sides import LogSide, RowClaim, UnionSignature
from sparklake.metadata.delta.union.unite import united
from sparklake.metadata.delta.vectors import new_vectors
from sparklake.metadata.union.conflicts import UnmergeableTableError
from tests.support.cases import for_each
from tests.support.delta_model import (
    PROTOCOL,
    WRITES,
    Table,
    add,
    after_writes,
    by_writer,
    column,
    first_table,
    metadata,
    remove,
)

MADE = UnionSignature(2, "tests")
writes = st.lists(st.sampled_from(sorted(WRITES)), max_size=4)


def union(base: Table, source: Table, dest: Table, since: int = 1) -> Table:
    """Return dest with the union of the logs, after checking that its commits apply."""
    sides = (each.side(since) for each in (base, source, dest))
    merged = dest.branch("merged")
    for actions in united(*sides, MADE).commits:
        body = encode_actions(actions)
        merged.take(parse_commit(len(merged.commits), body))
    return merged


def is_conflict(base: Table, source: Table, dest: Table) -> bool:
    """Tells by the tables alone whether two sides are in each other's way."""
    removed = [base.live.keys() - each.live.keys() for each in (source, dest)]
    changed = [each.metadata != base.metadata for each in (source, dest)]
    again = {path for path in base.live if path in source.restated - base.restated}
    return (
        bool(removed[0] & removed[1])
        or bool(again & (removed[1] | dest.restated))
        or (all(changed) and property_clashes(base, source, dest))
        or bool(source.applications.keys() & dest.applications.keys())
    )


def property_clashes(base: Table, source: Table, dest: Table) -> bool:
    """Return whether source sets the property from a value that dest lacks."""
    previous, final, ours = (each.metadata["configuration"] for each in (base, source, dest))
    for commit in source.commits[len(base.commits) :]:
        for fields in commit.fields("metaData"):
            step = fields["configuration"]
            if step != previous and ours not in (step, final):
                if ours != previous:
                    return True
                ours = step
            previous = step
    return False


def expected(base: Table, source: Table, dest: Table) -> dict[str, str]:
    removed = base.live.keys() - source.live.keys()
    new = {path: p for path, p in source.live.items() if path not in base.live}
    return {path: p for path, p in dest.live.items() if path not in removed} | new


def check_union(base: Table, source: Table, dest: Table) -> None:
    if is_conflict(base, source, dest):
        with pytest.raises(UnmergeableTableError):
            union(base, source, dest)
        return
    merged = union(base, source, dest)
    assert merged.live == expected(base, source, dest)
    before, theirs, ours = (each.metadata["configuration"] for each in (base, source, dest))
    settings = ours if theirs == before else theirs
    wider = max((each.metadata["schemaString"] for each in (source, dest)), key=len)
    assert merged.metadata["configuration"] == settings
    assert json.loads(merged.metadata["schemaString"]) == json.loads(wider)
    assert merged.applications == {**dest.applications, **source.applications}
    assert merged.commits[: len(dest.commits)] == dest.commits
    # What is there already is not done once more.
    assert union(base, source, merged).commits == merged.commits


@for_each("theirs", WRITES)
@for_each("ours", WRITES)
def test_each_pair_of_writes_is_united_or_conflicts(theirs: str, ours: str) -> None:
    base = first_table()
    check_union(base, after_writes(base, "source", [theirs]), after_writes(base, "dest", [ours]))


@given(writes, writes)
def test_random_writes_are_united_or_conflict(theirs: list[str], ours: list[str]) -> None:
    base = first_table()
    check_union(base, after_writes(base, "source", theirs), after_writes(base, "dest", ours))


@given(writes, writes, writes)
def test_source_can_be_merged_again_after_a_union(
    theirs: list[str], ours: list[str], later: list[str]
) -> None:
    base = first_table()
    source, dest = after_writes(base, "source", theirs), after_writes(base, "dest", ours)
    if is_conflict(base, source, dest):
        return
    merged = union(base, source, dest)
    further = after_writes(source, "further", later)
    check_once_more(source, further, merged)


@given(writes, writes, writes)
def test_dest_can_be_merged_after_it_was_a_source(
    theirs: list[str], ours: list[str], later: list[str]
) -> None:
    """After a merge of main, the branch has main's commits under other numbers."""
    first = first_table()
    branch, main = after_writes(first, "branch", theirs), after_writes(first, "main", ours)
    if is_conflict(first, main, branch):
        return
    updated = union(first, main, branch)
    check_once_more(main, updated, after_writes(main, "later", later))


def check_once_more(base: Table, source: Table, dest: Table) -> None:
    """Check a union of sides with the same commits under different numbers."""
    added = {path for path in source.live if path not in base.live}
    removed = base.live.keys() - source.live.keys()
    try:
        merged = union(base, source, dest)
    except UnmergeableTableError:
        # Only for a reason: without a change on one side, there is none.
        assert source.commits != base.commits
        assert (
            removed - dest.live.keys()
            or added & dest.live.keys()
            or source.metadata != base.metadata
            or dest.metadata != base.metadata
            or source.applications
            or source.restated
        )
        return
    assert added <= merged.live.keys()
    assert not removed & merged.live.keys()
    assert merged.live.keys() == (dest.live.keys() | added) - removed


@given(writes, writes, writes)
def test_a_commit_is_picked_onto_another_table(
    before: list[str], picked: list[str], ours: list[str]
) -> None:
    """The parent of the commit is not an ancestor of dest."""
    first = first_table()
    base, dest = after_writes(first, "branch", before), after_writes(first, "main", ours)
    source = after_writes(base, "picked", picked)
    check_once_more(base, source, dest)


@given(writes, writes)
def test_random_writes_are_undone(done: list[str], later: list[str]) -> None:
    before = first_table()
    base = after_writes(before, "done", done)
    dest = after_writes(base, "dest", later)
    added = base.live.keys() - before.live.keys()
    removed = before.live.keys() - base.live.keys()
    overwritten = added - dest.live.keys()
    moved_on = dest.commits != base.commits
    if overwritten or (moved_on and any(map(is_altering, done))):
        if base.commits != before.commits:
            with pytest.raises(UnmergeableTableError):
                union(base, before, dest)
        return
    merged = union(base, before, dest)
    assert merged.live.keys() == (dest.live.keys() - added) | removed
    if not moved_on:
        assert merged.metadata == before.metadata
        assert all(merged.description(path) == before.description(path) for path in before.live)
    assert union(base, before, merged).commits == merged.commits
    # Once it is undone, it may be done again.
    if "stream" in {*done} & {*later}:
        return
    try:
        again = union(before, base, merged)
    except UnmergeableTableError:
        # What was restated was restated or removed since.
        assert base.restated & before.live.keys()
        assert moved_on
        return
    assert again.live.keys() == dest.live.keys()


def is_altering(write: str) -> bool:
    return write.startswith(("add column", "property"))


# --- errors and origins ---------------------------------------------------------------------------


def side(*commits: Sequence[dict[str, Any]], **more: Any) -> LogSide:
    numbered = (DeltaCommit(number, by_writer(each)) for number, each in enumerate(commits, 1))
    return LogSide(tuple(numbered), **{"metadata": metadata(), "protocol": PROTOCOL, **more})


def united_sides(base: LogSide, source: LogSide, dest: LogSide) -> list[Any]:
    return united(base, source, dest, MADE).commits


def test_conflicting_files_are_reported() -> None:
    both = [remove("p=0/a%20b.parquet"), remove("p=0/c.parquet")]
    with pytest.raises(
        UnmergeableTableError, match=r"removed.*: p=0/a b.parquet, p=0/c.parquet"
    ) as raised:
        united_sides(side(), side([*both, remove("mine")]), side([*both, add("x", "0")]))
    assert raised.value.files == ["p=0/a b.parquet", "p=0/c.parquet"]


def test_two_deletion_vectors_of_one_file_conflict() -> None:
    def deleted(path: str, vector: str) -> list[dict[str, Any]]:
        marked: dict[str, Any] = {**add(path, "0")["add"]}
        marked["deletionVector"] = {"storageType": "u", "pathOrInlineDv": vector, "offset": 1}
        return [dict(remove(path)), {"add": marked}]

    with pytest.raises(UnmergeableTableError, match=r"removed or rewrote files.*: a"):
        united_sides(side(), side(deleted("a", "one")), side(deleted("a", "other")))
    (commit,) = united_sides(side(), side(deleted("a", "one")), side(deleted("b", "other")))
    assert commit[1:] == tuple(deleted("a", "one"))


def test_each_commit_keeps_its_changes_and_origin() -> None:
    feed = {"cdc": {"path": "_change_data/x", "partitionValues": {}, "size": 1}}
    info = {"commitInfo": {"operation": "UPDATE", "isBlindAppend": False}}
    theirs = [info, feed, dict(remove("a")), dict(add("b", "0", changes=False))]
    (commit,) = united_sides(side(), side(theirs), side([dict(add("c", "0"))]))
    info = commit[0]["commitInfo"]
    assert commit[1:] == tuple(theirs[1:])
    assert info["operationParameters"] == {"operation": "UPDATE", "version": "1"}
    assert (info["operation"], info["isBlindAppend"]) == ("MERGE BRANCH", False)


NEW = [dict(add("new", "0"))]


def created(table: dict[str, Any], *more: Sequence[dict[str, Any]], file: str = "new") -> LogSide:
    """Return a table that one side created by an overwrite, with its own file."""
    info = {"operation": "WRITE", "operationParameters": {"mode": "Overwrite"}}
    first = [
        {"commitInfo": info},
        {"protocol": PROTOCOL},
        {"metaData": table},
        dict(add(file, "0")),
    ]
    numbered = (DeltaCommit(at, by_writer(each)) for at, each in enumerate((first, *more)))
    return LogSide(tuple(numbered), table, PROTOCOL)


def test_a_table_created_on_both_sides_has_the_rows_of_both() -> None:
    theirs = created(metadata(a="1", b="2") | {"id": "theirs", "createdTime": 2}, [add("a", "1")])
    ours = created(metadata(a="1", c="3") | {"id": "ours", "createdTime": 3}, file="ours")
    first, second = united_sides(LogSide(), theirs, ours)
    (settled,) = fields_of(first, "metaData")
    assert (settled["id"], settled["createdTime"]) == ("ours", 3)
    assert settled["configuration"] == {"a": "1", "b": "2", "c": "3"}
    assert [each["path"] for each in fields_of([*first, *second], "add")] == ["new", "a"]
    assert not {"protocol"} & {kind for each in first for kind in each}
    # It is an append: a later merge must not take it for an overwrite.
    assert "mode" not in first[0]["commitInfo"]["operationParameters"]


OTHER = metadata() | {"id": "another"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (metadata(column("x", nullable=False)), "'x', which is NOT NULL"),
        (metadata(column("x", metadata={"delta.generationExpression": "id"})), "generated"),
        (metadata(column("x", metadata={"delta.invariants": "x > 3"})), "or constrained"),
        (metadata() | {"schemaString": '{"fields": []}'}, "dropped the column 'id'"),
        (metadata() | {"partitionColumns": []}, "partitionColumns"),
        (OTHER, "replaced the table"),
        (metadata(**{"delta.enableIcebergCompatV2": "true"}), "delta.enableIcebergCompatV2"),
    ],
)
def test_files_must_fit_a_changed_table(changed: dict[str, Any], words: str) -> None:
    altered = [{"metaData": changed}]
    for source, dest in (
        (side(altered, metadata=changed), side(NEW)),
        (side(NEW), side(altered, metadata=changed)),
    ):
        with pytest.raises(UnmergeableTableError, match=words):
            united_sides(side(), source, dest)
    # Where nothing else was after_writes, there is nothing that would not fit.
    (commit,) = united_sides(
        side(), side(altered, metadata=changed), side([{"txn": {"appId": "x"}}])
    )
    assert commit[1:] == tuple(altered)


def test_constraints_of_one_side_are_checked_for_new_rows_of_the_other() -> None:
    name, text = "delta.constraints.small", "id < 3"
    changed = metadata(**{name: text})
    ruled = side([{"metaData": changed}], metadata=changed)
    for source, dest, changer in ((ruled, side(NEW), "source"), (side(NEW), ruled, "dest")):
        (claim,) = united(side(), source, dest, MADE).row_claims
        assert (claim.changer, claim.constraints, claim.paths) == (changer, {name: text}, {"new"})
        assert claim.metadata == changed
    # Rows that only leave, and rows of a side with the same rule, satisfy it.
    alike = side(NEW, [{"metaData": changed}], metadata=changed)
    removal = side([dict(remove("old"))])
    for source, dest in ((ruled, alike), (alike, ruled), (ruled, removal), (removal, ruled)):
        assert not united(side(), source, dest, MADE).row_claims


def test_constraints_are_checked_for_restored_rows() -> None:
    changed = metadata(**{"delta.constraints.small": "id < 3"})
    (old,), (more,) = (new_vectors([np.array(each, np.uint64)])[0] for each in ([1, 2], [1, 2, 3]))
    marked = {**add("old", "0")["add"], "deletionVector": old}
    ruled = side([{"metaData": changed}], metadata=changed)
    ruled = replace(ruled, find_adds=lambda _: {FileKey.of(marked): marked})

    def claims(vector: Mapping[str, Any] | None) -> tuple[RowClaim, ...]:
        was = remove("old")["remove"] | {"deletionVector": old}
        now = {**marked, "deletionVector": vector}
        return united(side(), side([{"remove": was}, {"add": now}]), ruled, MADE).row_claims

    (fewer,) = new_vectors([np.array([1], np.uint64)])[0]
    assert [each.paths for each in claims(fewer)] == [{"old"}]
    # Of the remaining rows, the other side has all.
    assert not claims(more)


def test_an_undone_deletion_may_violate_a_later_constraint() -> None:
    one, two = new_vectors([np.array(each, np.uint64) for each in ([1], [1, 2])])[0]
    plain = add("old", "0")["add"] | {"stats": '{"numRecords": 9}'}
    first, second = ({**plain, "deletionVector": each} for each in (one, two))
    removed = [remove("old")["remove"], remove("old")["remove"] | {"deletionVector": one}]
    deleted = [{"remove": removed[0]}, {"add": first}]
    again = [{"remove": removed[1]}, {"add": second}]
    changed = metadata(**{"delta.constraints.small": "id < 3"})
    before = side(find_adds=lambda _: {FileKey.of(plain): plain})
    for then in (metadata(), changed):
        dest = side(deleted, again, [{"metaData": then}], metadata=then)
        dest = replace(dest, find_adds=lambda _: {FileKey.of(second): second})
        if then != changed:
            (undone,) = united_sides(side(deleted), before, dest)
            assert [*fields_of(undone, "add")]
            continue
        with pytest.raises(UnmergeableTableError, match="restored rows may violate"):
            united_sides(side(deleted), before, dest)


def test_equal_table_changes_are_made_once() -> None:
    wider = metadata(column("more"))
    altered = side([{"metaData": wider}, *NEW], metadata=wider)
    (commit,) = united_sides(side(), altered, side([{"metaData": wider}], metadata=wider))
    assert commit[1:] == tuple(NEW)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}},
            r"protocol \(4, 7\), .* later",
        ),
        *(
            ({"protocol": {**PROTOCOL, "minWriterVersion": 7, "writerFeatures": [name]}}, name)
            for name in ("typeWidening-preview", "catalogManaged", "no such feature")
        ),
        (
            {"protocol": {**PROTOCOL, "minWriterVersion": 7, "writerFeatures": ["collations"]}},
            "drop it with ALTER TABLE ... DROP FEATURE",
        ),
        ({"metadata": metadata(**{"delta.rowTrackingSuspended": "true"})}, "resume it with"),
        ({"metadata": metadata() | {"schemaString": "{"}}, "not the JSON"),
    ],
)
def test_unknown_features_are_rejected(more: dict[str, Any], words: str) -> None:
    same = side(**more)
    for source, dest in ((side(NEW, **more), same), (same, side(NEW, **more))):
        with pytest.raises(UnmergeableTableError, match=words):
            united_sides(same, source, dest)


def test_unused_features_do_not_block_a_union() -> None:
    features = ["columnMapping", "deletionVectors", "identityColumns", "inCommitTimestamp"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": features}
    settings = metadata(**{"delta.columnMapping.mode": "none"})
    more = {"protocol": protocol, "metadata": settings}
    assert united_sides(side(**more), side(NEW, **more), side([add("x", "0")], **more))


def test_files_that_need_a_newer_protocol_conflict() -> None:
    upgraded = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    there, here = side(protocol=upgraded), side([{"txn": {"appId": "x"}}])
    with pytest.raises(UnmergeableTableError, match="lower minReaderVersion"):
        united_sides(there, side(NEW, protocol=upgraded), here)


@pytest.mark.parametrize(
    ("base", "source", "dest", "words"),
    [
        (LogSide(), created(metadata()), created(metadata(column("x"))), "different columns"),
        (
            LogSide(),
            created(metadata()),
            created(metadata() | {"partitionColumns": []}),
            "different partition columns",
        ),
        (side(), LogSide(), side(NEW), "deleted the table's log"),
        (side(), side(NEW), LogSide(), "deleted the table's log"),
        (side(NEW), side([dict(add("b", "0"))]), side(), "rewrote the table's history"),
        (
            side(),
            side([{"domainMetadata": {"domain": "d"}}]),
            side([{"domainMetadata": {"domain": "d", "removed": True}}]),
            "same domain, 'd'",
        ),
        (
            side([{"metaData": metadata(a="b")}]),
            side(),
            side([{"metaData": metadata(a="b")}], NEW),
            "changed the table's metaData",
        ),
    ],
)
def test_other_conflicts_are_rejected(
    base: LogSide, source: LogSide, dest: LogSide, words: str
) -> None:
    with pytest.raises(UnmergeableTableError, match=words):
        united_sides(base, source, dest)


@pytest.mark.parametrize(
    ("body", "words"), [(b"{", "not JSON"), (b'{"new": 1}', "'new'"), (b"1", "not a JSON object")]
)
def test_an_invalid_commit_is_rejected(body: bytes, words: str) -> None:
    with pytest.raises(UnmergeableTableError, match=words):
        parse_commit(3, body)
