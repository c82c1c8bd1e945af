"""Unions of Iceberg snapshots, compared with dictionaries from files to deleted rows."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sparklake.errors import InvalidInputError
from sparklake.metadata.iceberg.documents import decode_document
from sparklake.metadata.iceberg.entries import Entry, ManifestList
from sparklake.metadata.iceberg.manifests import Content, TableFile
from sparklake.metadata.iceberg.union.continuation import IcebergSignature
from sparklake.metadata.iceberg.union.overwrites import check_overwrites
from sparklake.metadata.iceberg.union.snapshots import IcebergCommit, Table, commits_apart
from sparklake.metadata.iceberg.union.unite import UnitedTable, united
from sparklake.metadata.union.conflicts import UnmergeableTableError
from tests.support.iceberg import HandTable, manifest, manifest_list

SCHEMA = {"type": "struct", "schema-id": 0, "fields": []}


@dataclass
class Side:
    """A table on a branch. Each manifest has one file, so a removal drops its manifest."""

    files: HandTable
    version: int
    name: str
    bodies: dict[str, bytes]
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    manifests: dict[str, dict[str, Any]] = field(default_factory=dict)
    next_row: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    """Manifest entries by the name of their file."""

    def fork(self, name: str) -> Side:
        manifests, snapshots = dict(self.manifests), list(self.snapshots)
        rows, more = self.next_row, dict(self.more)
        return Side(self.files, self.version, name, self.bodies, snapshots, manifests, rows, more)

    def commit(
        self,
        added: Mapping[str, Mapping[str, Any]] = {},
        removed: Sequence[str] = (),
        operation: str = "append",
        **summary: str,
    ) -> None:
        sequence = len(self.snapshots) + 1
        number = sequence + 1000 * sum(self.name.encode())
        for each in removed:
            del self.manifests[each]
        for name, file in added.items():
            body = manifest(self.version, [file], snapshot=number)
            path = f"{self.files.location}/metadata/{self.name}-{sequence}-{len(self.bodies)}.avro"
            self.bodies[path] = body
            is_data = not file.get("content")
            self.manifests[name] = {
                "manifest_path": path,
                "manifest_length": len(body),
                "partition_spec_id": 0,
                "added_snapshot_id": number,
                "content": 0 if is_data else 1,
                "sequence_number": sequence if self.version > 1 else 0,
                "added_files_count": 1,
                "added_rows_count": file["record_count"],
                "first_row_id": self.next_row if is_data and self.version > 2 else None,
            }
            self.next_row += file["record_count"] if is_data else 0
        path = f"{self.files.location}/metadata/snap-{number}.avro"
        self.bodies[path] = manifest_list(self.version, [*self.manifests.values()])
        parent = {"parent-snapshot-id": self.snapshots[-1]["snapshot-id"]} if self.snapshots else {}
        self.snapshots.append(
            {
                "snapshot-id": number,
                **parent,
                "sequence-number": sequence,
                "timestamp-ms": sequence,
                "manifest-list": path,
                "schema-id": 0,
                "summary": {"operation": operation, "total-equality-deletes": "0", **summary},
            }
        )

    def table(self) -> Table:
        document = {
            "format-version": self.version,
            "table-uuid": "u",
            "location": self.files.location,
            "last-column-id": 0,
            "current-schema-id": 0,
            "schemas": [SCHEMA],
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "sort-orders": [],
            "snapshots": self.snapshots,
            "current-snapshot-id": self.snapshots[-1]["snapshot-id"] if self.snapshots else None,
            "last-sequence-number": len(self.snapshots),
            "next-row-id": self.next_row,
            **self.more,
        }
        return Table(document, self.read)

    def read(self, path: str) -> bytes:
        if path in self.bodies:
            return self.bodies[path]
        return (self.files.folder / path.removeprefix(f"{self.files.location}/")).read_bytes()


@pytest.fixture
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Side:
    version = getattr(request, "param", 2)
    return Side(HandTable(tmp_path / "t", version), version, "b", {})


def unite(base: Side, source: Side, dest: Side) -> tuple[Table, UnitedTable]:
    tables = [each.table() for each in (base, source, dest)]
    bodies = dest.bodies
    signature = IcebergSignature(
        timestamp=10,
        token=f"token{len(bodies)}",
        place=lambda name: f"new/{name}",
        metadata_path="old",
        names=["00001-x.metadata.json", "version-hint.text"],
    )
    result = united(*tables, commits_apart(*tables), signature)
    if not result.files:
        return tables[2], result
    bodies.update((f"new/{name}", body) for name, body in result.files.items())
    (name,) = (each for each in result.files if each.endswith(".metadata.json"))
    assert result.files["metadata/version-hint.text"] == b"2"
    return Table(decode_document(result.files[name]), dest.read), result


def live(table: Table) -> dict[str, list[int]]:
    """Return the live data files, each with its deleted rows."""
    current = table.list_of(table.lineage[-1] if table.lineage else None)
    files: dict[str, list[int]] = {}
    entries = [
        each
        for one in (current.entries.values() if current else ())
        for each in table.manifest(one).live
    ]
    for each in entries:
        if each.file.content is Content.DATA:
            assert each.file.path not in files
            files[each.file.path] = []
    vectors = [each.file.target for each in entries if each.file.is_vector]
    assert len({*vectors}) == len(vectors)
    sequence = {each.file.path: each.file.sequence_number for each in entries}
    for each in entries:
        if each.file.content is not Content.DATA:
            for path, rows in table.deleted_rows(each).items():
                if path in files:
                    assert sequence[path] <= each.file.sequence_number
                    files[path] += rows.tolist()
    return {re.sub(r".*/", "", path): sorted({*rows}) for path, rows in files.items()}


def row_ids(table: Table) -> dict[str, int | None]:
    current = table.list_of(table.lineage[-1])
    assert current is not None
    entries = (each for one in current.entries.values() for each in table.manifest(one).live)
    return {
        re.sub(r".*/", "", each.file.path): each.first_row_id
        for each in entries
        if each.file.content is Content.DATA
    }


def deletes(side: Side, rows: Mapping[str, Sequence[int]]) -> dict[str, dict[str, Any]]:
    """Write position deletes, or from version 3 on vectors, by name."""
    name = f"{side.name}-{len(side.bodies)}-{len(side.snapshots)}"
    if side.version > 2:
        files = side.files.vectors(f"{name}.puffin", rows)
        return {f"dv {path}": each for path, each in zip(rows, files, strict=True)}
    pairs = [(path, row) for path, some in rows.items() for row in some]
    return {name: side.files.position_deletes(name, *pairs)}


ALL = pytest.mark.parametrize("base", [1, 2, 3], indirect=True)
WITH_DELETES = pytest.mark.parametrize("base", [2, 3], indirect=True)


def start(base: Side, *names: str) -> tuple[Side, Side]:
    for name in names:
        base.commit({name: base.files.data(name, *range(10))})
    return base.fork("s"), base.fork("d")


def data(side: Side, *names: str) -> dict[str, dict[str, Any]]:
    return {name: side.files.data(name, *range(10)) for name in names}


@ALL
def test_appends_are_united_with_a_compaction(base: Side) -> None:
    source, dest = start(base, "a", "b")
    source.commit(data(source, "c"), ["a", "b"], "replace")
    dest.commit(data(dest, "d"))
    table, result = unite(base, source, dest)
    assert live(table) == {"c": [], "d": []}
    assert [each.rpartition("/")[2] for each in result.needed] == ["c"]
    if base.version > 2:
        assert row_ids(table) == {"d": 20, "c": 30}
        assert table.document["next-row-id"] == 40
        assert table.lineage[-1]["first-row-id"] == 30
        assert table.lineage[-1]["added-rows"] == 10
    if base.version > 1:
        assert [each["sequence-number"] for each in table.lineage] == [1, 2, 3, 4]
        assert table.document["last-sequence-number"] == 4
    assert table.document["metadata-log"][-1]["metadata-file"] == "old"


@WITH_DELETES
def test_deletes_are_united_with_appends(base: Side) -> None:
    source, dest = start(base, "a", "b")
    source.commit(data(source, "c"))
    source.commit(deletes(source, {"a": [1, 2], "c": [3]}), operation="delete")
    dest.commit(data(dest, "d"))
    assert live(unite(base, source, dest)[0]) == {"a": [1, 2], "b": [], "c": [3], "d": []}


@pytest.mark.parametrize("base", [3], indirect=True)
def test_vectors_replaced_on_both_sides_are_united(base: Side) -> None:
    base.commit(data(base, "a"))
    base.commit(deletes(base, {"a": [3]}), operation="delete")
    source, dest = base.fork("s"), base.fork("d")
    source.commit(deletes(source, {"a": [2, 3]}), ["dv a"], operation="delete")
    dest.commit(deletes(dest, {"a": [1, 3]}), ["dv a"], operation="delete")
    assert live(unite(base, source, dest)[0]) == {"a": [1, 2, 3]}
    dest.commit(deletes(dest, {"a": [1, 2, 3]}), ["dv a"], operation="delete")
    refused(source, dest, base, "the same rows.*position 2")
    dest.commit(data(dest, "b"), ["a", "dv a"], "replace")
    refused(source, dest, base, "dest removed or rewrote files in which source deleted")


@pytest.mark.parametrize("base", [3], indirect=True)
@pytest.mark.parametrize("before", [[], [1]])
def test_picked_deletes_follow_other_deletes_in_the_file(base: Side, before: list[int]) -> None:
    base.commit(data(base, "a"))
    old = ["dv a"] if before else []
    if before:
        base.commit(deletes(base, {"a": before}), operation="delete")
    dest, parent = base.fork("d"), base.fork("p")
    parent.commit(deletes(parent, {"a": [*before, 3]}), old, operation="delete")
    picked = parent.fork("s")
    rows = {"a": [*before, 3, 5]}
    picked.commit({**deletes(picked, rows), **data(picked, "c")}, ["dv a"], operation="overwrite")
    assert live(unite(parent, picked, dest)[0]) == {"a": [*before, 5], "c": []}
    dest.commit(deletes(dest, {"a": [*before, 7]}), old, operation="delete")
    assert live(unite(parent, picked, dest)[0]) == {"a": [*before, 5, 7], "c": []}
    dest.commit(deletes(dest, {"a": [*before, 5, 7]}), ["dv a"], operation="delete")
    refused(picked, dest, parent, "the same rows.*position 5")


@WITH_DELETES
def test_deletes_of_different_rows_in_one_file_are_united(base: Side) -> None:
    source, dest = start(base, "a")
    source.commit({**deletes(source, {"a": [1, 2]}), **data(source, "c")}, operation="overwrite")
    dest.commit(deletes(dest, {"a": [5]}), operation="delete")
    table, result = unite(base, source, dest)
    assert live(table) == {"a": [1, 2, 5], "c": []}
    assert any(each.endswith(".puffin") for each in result.files) == (base.version > 2)


def replace_deletes(side: Side, old: Sequence[str], rows: Mapping[str, Sequence[int]]) -> str:
    """Delete rows like Spark, which rewrites the deletes of a file with more rows."""
    [(name, file)] = deletes(side, rows).items()
    side.commit({name: file}, old, "delete")
    return name


def test_position_deletes_replaced_on_both_sides_are_united(base: Side) -> None:
    base.commit(data(base, "a"))
    old = replace_deletes(base, [], {"a": [3]})
    source, dest = base.fork("s"), base.fork("d")
    theirs = replace_deletes(source, [old], {"a": [2, 3]})
    replace_deletes(dest, [old], {"a": [1, 3]})
    table, _ = unite(base, source, dest)
    assert live(table) == {"a": [1, 2, 3]}
    replace_deletes(source, [theirs], {"a": [2, 3, 5]})
    merged, _ = unite(base, source, dest)
    assert live(merged) == {"a": [1, 2, 3, 5]}
    # A revert of one side's deletes retains the row that both have.
    undone, _ = unite(source, base, _as_side(dest, merged))
    assert live(undone) == {"a": [1, 3]}
    undone, _ = unite(dest, base, _as_side(dest, table))
    assert live(undone) == {"a": [2, 3]}
    source.commit(data(source, "c"), ["a"], "replace")
    refused(source, dest, base, "files in which dest deleted, updated or restored rows")


@pytest.mark.parametrize(
    ("theirs", "ours", "reason"),
    [
        ([2, 3, 5], [1, 2, 3], "the same rows: .*/a at position 2"),
        ([2], [1, 3], "dest removed, rewrote or never had"),
        ([2, 3], [1], "dest removed, rewrote or never had"),
    ],
)
def test_conflicting_position_deletes_are_rejected(
    base: Side, theirs: list[int], ours: list[int], reason: str
) -> None:
    base.commit(data(base, "a"))
    old = replace_deletes(base, [], {"a": [3]})
    source, dest = base.fork("s"), base.fork("d")
    replace_deletes(source, [old], {"a": theirs})
    replace_deletes(dest, [old], {"a": ours})
    refused(source, dest, base, reason)


def test_restored_rows_beside_replaced_deletes_conflict(base: Side) -> None:
    base.commit(data(base, "a"))
    old = replace_deletes(base, [], {"a": [3]})
    source, dest = base.fork("s"), base.fork("d")
    theirs = replace_deletes(source, [old], {"a": [2, 3]})
    replace_deletes(dest, [old], {"a": [1, 3]})
    replace_deletes(source, [theirs], {"a": [2]})
    refused(source, dest, base, "source restored rows of files in which dest deleted rows")


@WITH_DELETES
def test_deletes_of_one_row_conflict(base: Side) -> None:
    source, dest = start(base, "a")
    source.commit(deletes(source, {"a": [1, 2]}), operation="delete")
    dest.commit(deletes(dest, {"a": [2]}), operation="delete")
    with pytest.raises(UnmergeableTableError, match=r"the same rows: .*/a at position 2"):
        unite(base, source, dest)


@WITH_DELETES
@pytest.mark.parametrize("is_source", [False, True])
def test_deletes_in_a_rewritten_file_conflict(base: Side, is_source: bool) -> None:
    source, dest = start(base, "a")
    one, other = (source, dest) if is_source else (dest, source)
    one.commit(deletes(one, {"a": [1]}), operation="delete")
    other.commit(data(other, "c"), ["a"], "replace")
    with pytest.raises(UnmergeableTableError, match=r"(rewrote files in which|dest removed)"):
        unite(base, source, dest)


@WITH_DELETES
def test_rewrites_after_missing_deletes_conflict(base: Side) -> None:
    """A cherry-pick repeats the last snapshot only."""
    source, dest = start(base, "a")
    source.commit(deletes(source, {"a": [1]}), operation="delete")
    before = source.fork("s")
    source.commit(data(source, "c"), ["a", "dv a"] if base.version > 2 else ["a"], "replace")
    refused(source, dest, before, "after changes that dest lacks|never had")


def test_dropped_deletes_of_rewritten_files_conflict(base: Side) -> None:
    base.commit(data(base, "a"))
    [(name, file)] = deletes(base, {"a": [1]}).items()
    base.commit({name: file}, operation="delete")
    source, dest = base.fork("s"), base.fork("d")
    source.commit(data(source, "c"), ["a"], "replace")
    before = source.fork("s")
    source.commit(removed=[name], operation="replace")
    refused(source, dest, before, "dropped their deletes, after changes that dest lacks")
    assert live(unite(base, source, dest)[0]) == {"c": []}


def test_a_rewrite_is_undone_with_its_earlier_deletes(base: Side) -> None:
    base.commit(data(base, "a"))
    [(name, file)] = deletes(base, {"a": [1]}).items()
    base.commit({name: file}, operation="delete")
    parent = base.fork("p")
    base.commit(data(base, "c"), ["a"], "replace")
    dest = base.fork("d")
    dest.commit(data(dest, "d"))
    assert live(unite(base, parent, dest)[0]) == {"a": [1], "d": []}
    dest.commit(removed=[name], operation="replace")
    refused(parent, dest, base, "files in which dest deleted, updated or restored rows")


@ALL
def test_one_file_removed_on_both_sides_conflicts(base: Side) -> None:
    source, dest = start(base, "a", "b")
    source.commit(removed=["a"], operation="delete")
    dest.commit(removed=["a"], operation="delete")
    with pytest.raises(UnmergeableTableError, match="dest removed, rewrote or never had"):
        unite(base, source, dest)


@pytest.mark.parametrize("base", [3], indirect=True)
def test_rewritten_rows_with_other_ids_conflict(base: Side) -> None:
    source, dest = start(base, "a")
    source.commit(data(source, "c"))
    source.commit(data(source, "e"), ["c"], "overwrite")
    assert live(unite(base, source, dest)[0]) == {"a": [], "e": []}
    dest.commit(data(dest, "d"))
    with pytest.raises(UnmergeableTableError, match="row ids are different in dest"):
        unite(base, source, dest)


OVERWRITES = [
    ({}, {}, "rows of the table"),
    ({"replace-partitions": "true"}, {}, "may have overwritten rows"),
    ({"replace-partitions": "true"}, {"replace-partitions": "true"}, "rows of the table"),
]


@pytest.mark.parametrize(("theirs", "ours", "reason"), OVERWRITES)
def test_two_overwrites_of_an_empty_table_conflict(
    base: Side, theirs: dict[str, str], ours: dict[str, str], reason: str
) -> None:
    source, dest = start(base)
    source.commit(data(source, "c"), operation="overwrite", **theirs)
    dest.commit(data(dest, "d"), operation="overwrite", **ours)
    with pytest.raises(UnmergeableTableError, match=reason):
        unite(base, source, dest)


PLACES = [
    ((0, "a"), (0, "b"), None),
    ((0, "a"), (0, "a"), "the same partitions"),
    # Without fields, or with void ones, files of all partition specs are replaced.
    ((1,), (0, "a"), "the same partitions"),
    ((0, "a"), (1, None), "the same partitions"),
    ((0, "a"), (1, "b", 7), "the same partitions"),
    ((1,), (2, None), "the table"),
]


@pytest.mark.parametrize(("theirs", "ours", "reason"), PLACES)
def test_replaced_partitions_conflict_if_they_overlap(
    theirs: tuple[Any, ...], ours: tuple[Any, ...], reason: str | None
) -> None:
    source, dest = replaced(*theirs), replaced(*ours)
    with nullcontext() if reason is None else pytest.raises(UnmergeableTableError, match=reason):
        check_overwrites(NO_TABLE, [source], NO_TABLE, [dest])


NO_TABLE: Any = None


def replaced(spec: int, *partition: Any) -> IcebergCommit:
    file = TableFile(Content.DATA, "f", "parquet", spec, partition, 1, 1, 1, {}, {}, {})
    entry = Entry({}, file, "m")
    summary = {"operation": "overwrite", "replace-partitions": "true"}
    return IcebergCommit({"summary": summary}, {entry.key: entry}, {}, frozenset())


def test_rewrites_of_different_files_are_united(base: Side) -> None:
    source, dest = start(base, "a", "b")
    source.commit(data(source, "c"), ["a"], "overwrite")
    dest.commit(data(dest, "d"), ["b"], "overwrite")
    assert live(unite(base, source, dest)[0]) == {"c": [], "d": []}


def refused(source: Side, dest: Side, base: Side, reason: str) -> None:
    with pytest.raises(UnmergeableTableError, match=reason):
        unite(base, source, dest)


def test_unsupported_changes_are_rejected(base: Side) -> None:
    source, dest = start(base, "a")
    dest.commit(data(dest, "d"))
    unknown, equality = source.fork("u"), source.fork("e")
    unknown.commit(data(unknown, "x"), operation="sort")
    refused(unknown, dest, base, "unknown operation 'sort'")
    file = {**source.files.data("eq", 1), "content": 2}
    equality.commit({"eq": file})
    refused(equality, dest, base, "it has equality deletes")
    source.commit(data(source, "c"))
    for more, reason in (
        ({"table-uuid": "other"}, "changed its table-uuid"),
        ({"later": 1}, "unknown field 'later'"),
        ({"refs": {"audit": {"snapshot-id": 1, "type": "tag"}}}, "own branches or tags"),
        (
            {
                "default-sort-order-id": 1,
                "sort-orders": [{"order-id": 1, "fields": [{"source-id": 9}]}],
            },
            "sorted by a column",
        ),
    ):
        other = source.fork("o")
        other.more = more
        refused(other, dest, base, reason)


def test_encrypted_files_are_rejected(base: Side) -> None:
    source, dest = start(base, "a")
    dest.commit(data(dest, "d"))
    source.commit({"c": {**source.files.data("c", 1), "key_metadata": b"key"}})
    with pytest.raises(InvalidInputError, match="encrypted"):
        unite(base, source, dest)


COLUMNS = [{"id": each, "name": f"c{each}", "required": False, "type": "long"} for each in (1, 2)]


def arranged(what: str, *columns: int, number: int = 1) -> dict[str, Any]:
    """Return settings of a table partitioned or sorted by the given columns."""
    settings: dict[str, Any] = {
        "schemas": [{"type": "struct", "schema-id": 0, "fields": COLUMNS}],
        "last-column-id": 2,
    }
    if columns and what == "sort orders":
        fields = [{"source-id": each, "transform": "identity"} for each in columns]
        settings |= {"sort-orders": [{"order-id": number, "fields": fields}]}
        settings |= {"default-sort-order-id": number}
    elif columns:
        fields = [
            {"source-id": each, "field-id": 999 + each, "name": f"c{each}", "transform": "identity"}
            for each in columns
        ]
        specs = [{"spec-id": 0, "fields": []}, {"spec-id": number, "fields": fields}]
        settings |= {"partition-specs": specs, "default-spec-id": number}
        settings |= {"last-partition-id": 999 + max(columns)}
    return settings


@pytest.mark.parametrize("what", ["sort orders", "partition specs"])
def test_sort_orders_and_partition_specs_are_merged(base: Side, what: str) -> None:
    base.more = arranged(what)
    source, dest = start(base, "a")
    source.commit(data(source, "c"))
    dest.commit(data(dest, "d"))
    names = {
        "sort orders": ("sort-orders", "default-sort-order-id"),
        "partition specs": ("partition-specs", "default-spec-id"),
    }[what]

    def settings(theirs: dict[str, Any], ours: dict[str, Any]) -> list[Any]:
        source.more, dest.more = theirs, ours
        table, _ = unite(base, source.fork("s"), dest.fork("d"))
        return [table.document.get(each) for each in names]

    changed = arranged(what, 1)
    expected = [changed[each] for each in names]
    assert settings(changed, base.more) == expected
    assert settings(base.more, changed) == expected
    assert settings(changed, changed) == expected
    # The number is the table's own.
    assert settings(arranged(what, 1, number=2), changed) == expected
    source.more, dest.more = changed, arranged(what, 2)
    refused(source, dest, base, f"both sides changed the table's {what}")


@ALL
def test_an_overwrite_is_undone(base: Side) -> None:
    parent, _ = start(base, "a", "b")
    base.commit(data(base, "c"), ["a"], "overwrite")
    dest = base.fork("d")
    dest.commit(data(dest, "d"))
    table, result = unite(base, parent, dest)
    assert live(table) == {"a": [], "b": [], "d": []}
    assert [each.rpartition("/")[2] for each in result.needed] == ["a"]
    if base.version > 2:
        assert row_ids(table)["a"] == 0


@WITH_DELETES
def test_deletes_are_undone(base: Side) -> None:
    parent, _ = start(base, "a", "b")
    base.commit(deletes(base, {"a": [1, 2]}), operation="delete")
    dest = base.fork("d")
    dest.commit(data(dest, "d"))
    assert live(unite(base, parent, dest)[0]) == {"a": [], "b": [], "d": []}
    if base.version > 2:
        dest.commit(deletes(dest, {"a": [1, 2, 5]}), ["dv a"], "delete")
    else:
        dest.commit(deletes(dest, {"a": [5]}), operation="delete")
    assert live(unite(base, parent, dest)[0]) == {"a": [5], "b": [], "d": []}
    dest.commit(data(dest, "e"), ["a", "dv a"] if base.version > 2 else ["a"], "replace")
    refused(parent, dest, base, "removed or rewr")


Model = dict[str, set[int]]


def change(side: Side, model: Model, rng: random.Random, at: int) -> None:
    """Change a table and its model: a dictionary of files and their deleted rows."""
    name, kind = f"{side.name}{at}", rng.choice(["append", "delete", "rewrite", "drop"])
    files = sorted(model)
    if kind == "append" or not files:
        side.commit(data(side, name))
        model[name] = set()
        return
    old = rng.choice(files)
    vector = [f"dv {old}"] if f"dv {old}" in side.manifests else []
    if kind == "delete":
        rows = {*rng.sample(range(10), rng.randint(1, 3))} - model[old]
        if side.version == 1 or not rows:
            return
        # Spark replaces the position deletes of a file, other engines add to them.
        replaced = _deletes_of(side, old) if rng.random() < 0.7 else []
        all_rows = model[old] | rows if vector or replaced else rows
        model[old] = model[old] | rows
        file = deletes(side, {old: sorted(all_rows)})
        side.commit(
            file
            if vector or side.version > 2
            else {f"pd {old} {each}": file[each] for each in file},
            vector or replaced,
            "delete",
        )
    elif kind == "rewrite":
        side.commit(data(side, name), [old, *vector], "replace")
        del model[old]
        model[name] = set()
    else:
        side.commit(removed=[old, *vector], operation="delete")
        del model[old]


def _deletes_of(side: Side, name: str) -> list[str]:
    return [each for each in side.manifests if each.startswith(f"pd {name} ")]


def expected(base: Model, source: Model, dest: Model) -> Model | None:
    """Return the union of three models by file, or None if both sides changed one."""
    result: Model = {}
    for name in base.keys() | source.keys() | dest.keys():
        old, their, our = (each.get(name) for each in (base, source, dest))
        if name in base and (their is None or our is None):
            if (their if our is None else our) != old:
                return None
            continue
        start, theirs, ours = (each or set() for each in (old, their, our))
        if (theirs - start) & (ours - start):
            return None
        result[name] = theirs | ours
    return result


@pytest.mark.parametrize("base", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("seed", range(40))
def test_random_histories_match_the_model(base: Side, seed: int) -> None:
    rng = random.Random(seed)
    start(base, "a", "b", "c", "e")
    model: Model = {each: set() for each in base.manifests}
    for at in range(rng.randint(0, 3)):
        change(base, model, rng, at)
    source, dest = base.fork("s"), base.fork("d")
    models = [{name: {*rows} for name, rows in model.items()} for _ in range(3)]
    for at in range(rng.randint(1, 4)):
        change(source, models[1], rng, at)
    for at in range(rng.randint(1, 4)):
        change(dest, models[2], rng, at)
    model_after = expected(*models)
    if model_after is None:
        refused(source, dest, base, "files|rows")
        return
    try:
        table, result = unite(base, source, dest)
    except UnmergeableTableError:
        assert base.version > 2
        refused(source, dest, base, "source rewrote rows whose row ids are different in dest")
        return
    assert {name: {*rows} for name, rows in live(table).items()} == model_after
    again, nothing = unite(base, source, _as_side(dest, table)) if result.files else (table, result)
    assert not nothing.files
    assert live(again) == live(table)


def _as_side(dest: Side, table: Table) -> Side:
    other = dest.fork("m")
    other.more = dict(table.document)
    return other


def test_a_new_manifest_list_is_readable(base: Side) -> None:
    source, dest = start(base, "a")
    source.commit(data(source, "c"))
    dest.commit(data(dest, "d"))
    table, _ = unite(base, source, dest)
    current = ManifestList.of(table.find(table.lineage[-1]["manifest-list"]))
    assert current.avro.header["parent-snapshot-id"].decode() == str(
        table.lineage[-2]["snapshot-id"]
    )
    new = next(iter(current.entries.values()))
    assert (new[504], new[505], new[512], new[515], new[516]) == (1, 0, 10, 3, 3)


def column(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": "long"}


def with_schemas(side: Side, *schemas: Sequence[dict[str, Any]]) -> None:
    numbered = [
        {"type": "struct", "schema-id": at, "fields": list(each)} for at, each in enumerate(schemas)
    ]
    ids = [each["id"] for one in schemas for each in one]
    side.more |= {"schemas": numbered, "current-schema-id": len(schemas) - 1}
    side.more["last-column-id"] = max(ids)


def test_a_column_renumbered_by_an_earlier_merge_conflicts(base: Side) -> None:
    key, x, y = column(1, "id"), column(2, "x"), column(2, "y")
    with_schemas(base, [key])
    source, dest = start(base, "a")
    with_schemas(source, [key], [key, x])
    with_schemas(dest, [key], [key, y])
    dest.commit(data(dest, "d"))
    dest.snapshots[-1]["schema-id"] = 1
    table, _ = unite(base, source, dest)
    assert table.document["schemas"][-1]["fields"] == [key, y, {**x, "id": 3}]
    before, merged = source.fork("s"), _as_side(dest, table)
    source.commit(data(source, "c"))
    source.snapshots[-1]["schema-id"] = 1
    refused(source, merged, before, "column id 2 to different columns, and source's files have it")
    refused(merged, source, before, "column id 2 to different columns, and source's files have it")
