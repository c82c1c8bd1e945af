"""Every conflict of Iceberg tables names ways on, and each way that it names works."""

from __future__ import annotations

import ast
import json
import re
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StructType

import sparklake
from campaigns.iceberg.branch_tables import TABLE, BranchTable, PathCatalog
from sparklake import Branch, Repository
from sparklake.errors import MergeConflictError, NoChangesError
from sparklake.metadata.iceberg.file_names import next_metadata
from sparklake.testing.lakes import memory_lake
from tests.verbs.iceberg.test_merge import SCHEMA, add_column, append, delete, start

if TYPE_CHECKING:
    from pyiceberg.table import Table

Change = Callable[["Table"], object]
MODULES = ("metadata/iceberg/union", "verbs/iceberg", "metadata/union")

DAMAGED = (
    "a manifest was not read",
    "a snapshot has several deletion vectors of a file",
    "both sides added the same files",
    "dest lacks the lists of its schemas",
    "dest removed files that source added again",
    "files to restore are already restored",
    "has the unknown operation",
    "Iceberg replaced the history of the table with merged rows",
    "it has data files in the folder of its metadata",
    "its metadata lacks the current schema",
    "its snapshots have no manifest lists",
    "neither side has a manifest list",
    "one side deleted the table's metadata",
    "the sides have different partition specs of the same id",
    "the table's metadata refers to a missing file",
)
"""Reasons that need metadata or files that no current writer makes, or that follow other checks."""

WALKED = {
    "verbs/iceberg/test_merge.py": (
        "or optional here",
        "rewrote rows without the column",
        "table unions are turned off",
        "merge dest into source",
        "removed or rewritten since then",
    ),
    "spark/iceberg/test_merges.py": ("Pick these first", "position deletes of an earlier"),
    "spark/iceberg/test_row_merges.py": (
        "files in which dest deleted",
        "files in which source deleted",
        "may have overwritten rows of",
        "row ids are different in dest",
        "without row ids, because it was upgraded",
        "without row ids, because only source",
    ),
    "metadata/iceberg/test_column_ids.py": (
        "has its former name or type",
        "the name of a column to several",
    ),
    "metadata/iceberg/test_unions.py": ("it has equality deletes",),
    "metadata/delta/test_rows.py": ("only rows can be undone", "exist twice"),
}
"""Reasons that tests of other files show, by file: each has the words of the reason."""


def set_property(value: str | None) -> Change:
    def change(table: Table) -> None:
        with table.transaction() as transaction:
            if value is None:
                transaction.remove_properties("a")
            else:
                transaction.set_properties({"a": value})

    return change


def rename(new: str, old: str = "name") -> Change:
    def change(table: Table) -> None:
        with table.update_schema() as update:
            update.rename_column(old, new)

    return change


def drop(column: str) -> Change:
    def change(table: Table) -> None:
        with table.update_schema() as update:
            update.delete_column(column)

    return change


def identify(column: str) -> Change:
    def change(table: Table) -> None:
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.update_column(column, required=True)
            update.set_identifier_fields(column)

    return change


def partition(*columns: str) -> Change:
    def change(table: Table) -> None:
        with table.update_spec() as update:
            for each in columns:
                update.add_identity(each)

    return change


def unpartition(column: str) -> Change:
    def change(table: Table) -> None:
        with table.update_spec() as update:
            update.remove_field(column)

    return change


def sort(column: str) -> Change:
    def change(table: Table) -> None:
        with table.update_sort_order() as update:
            update.asc(column, IdentityTransform(), NullOrder.NULLS_FIRST)

    return change


def edit(name: str, value: Any, **fields: Any) -> Change:
    """Change fields of the metadata, as an unknown writer does."""

    def change(table: Table) -> None:
        location = Path(table.metadata_location.removeprefix("file://"))
        document = json.loads(table.metadata.model_dump_json())
        new = value(document) if callable(value) else value
        path = location.parent / next_metadata(location.name, str(uuid.uuid4()))
        path.write_text(json.dumps({**document, name: new, **fields}))

    return change


def tag(table: Table) -> None:
    current = table.current_snapshot()
    assert current is not None
    table.manage_snapshots().create_tag(current.snapshot_id, "own").commit()


def narrowed(document: dict[str, Any]) -> list[Any]:
    """Return the schemas with a type that has other values."""
    (schema,) = document["schemas"]
    id_, name = schema["fields"]
    return [{**schema, "fields": [id_, {**name, "type": "binary"}]}]


def expire(table: Table) -> None:
    every = [each.snapshot_id for each in table.snapshots()[:-1]]
    table.maintenance.expire_snapshots().by_ids(every).commit()


def last_snapshot(document: dict[str, Any]) -> list[Any]:
    """Return the snapshots after an expiry by Java, which keeps the id of the parent."""
    return document["snapshots"][-1:]


class Refusal(NamedTuple):
    """Changes of both sides that are refused, and those of each that the message advises."""

    reason: str
    theirs: Sequence[Change]
    ours: Sequence[Change]
    advised: tuple[Sequence[Change], Sequence[Change]] | None = None
    has_rows: bool = False
    """Whether the message advises a rule `rows(KEY)`, which tests with Iceberg's jar follow."""
    code: str = ""
    """The constant words of the reason, if they are others."""


X = add_column("x")
REFUSED = [
    Refusal("dest removed, rewrote or never had", [delete(1)], [delete(2)], has_rows=True),
    Refusal(
        "changed the property 'a'. Set it to the same value on both",
        [set_property("1")],
        [set_property("2")],
        ([], [set_property("1")]),
    ),
    Refusal(
        "both sides changed the column 'name'. Make the same change on both",
        [rename("one")],
        [rename("two")],
        ([], [rename("one", "two")]),
    ),
    Refusal("changed the table's schema", [identify("id")], [X]),
    Refusal(
        "gave one name to different columns: rename one",
        [rename("x")],
        [X],
        ([], [rename("y", "x")]),
    ),
    Refusal("both sides added the column 'x'", [X], [add_column("y"), add_column("x", LongType())]),
    Refusal(
        "to different columns, and source's files",
        [X, append(5)],
        [add_column("y"), append(6)],
        has_rows=True,
    ),
    Refusal(
        "source partitions or sorts by it", [X, partition("x")], [add_column("y")], has_rows=True
    ),
    Refusal(
        "needs other ids, and is nested",
        [add_column("s", StructType(NestedField(9, "a", LongType())))],
        [add_column("y")],
        has_rows=True,
    ),
    Refusal("changed the table's partition specs", [partition("id")], [partition("name")]),
    Refusal("changed the table's sort orders", [sort("id")], [sort("name")]),
    Refusal(
        "added partition specs with the id 1",
        [partition("id")],
        [partition("name"), unpartition("name")],
        code="both sides added  with the id ",
    ),
    Refusal(
        "added a partition spec with the id 1",
        [partition("id"), append(5), unpartition("id")],
        [partition("name")],
    ),
    Refusal(
        "added a partition field with the id 1000",
        [partition("id"), partition("name")],
        [partition("name"), unpartition("name")],
    ),
    Refusal(
        "partitioned by a column that a side dropped",
        [partition("name")],
        [drop("name")],
        code="by a column that a side dropped",
    ),
    Refusal("the table's own branches or tags", [tag], [append(5)]),
    Refusal("changed its unknown field 'x'", [edit("x", 1)], [edit("x", 2)]),
    Refusal("source changed its unknown field 'x'", [edit("x", 1)], [append(5)]),
    Refusal(
        "changed its table-uuid, or is another table",
        [
            edit("snapshots", [], **{"current-snapshot-id": -1, "refs": {}, "snapshot-log": []}),
            edit("table-uuid", str(uuid.UUID(int=1))),
        ],
        [append(5)],
        code=", or is another table",
    ),
    Refusal(
        "source rewrote the table's history",
        [append(5), append(6), expire],
        [append(7)],
        has_rows=True,
    ),
    Refusal(
        "changed the type of 'name', and the other side added files. Change it there, too",
        [edit("schemas", narrowed)],
        [append(5)],
        ([], [edit("schemas", narrowed)]),
    ),
]
ELSEWHERE = "of other modules"
RESTORED = [
    Refusal(
        "it is encrypted",
        [edit("properties", {"encryption.key-id": "key"})],
        [append(5)],
        code=ELSEWHERE,
    ),
    Refusal(
        "a side expired the snapshots", [append(5), edit("snapshots", last_snapshot)], [append(7)]
    ),
]


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return memory_lake().create_repository("lake", str(tmp_path / "namespace"))


@pytest.fixture
def table(repo: Repository, tmp_path: Path) -> BranchTable:
    return BranchTable(repo, tmp_path / "t", SCHEMA)


def diverge(table: BranchTable, refusal: Refusal) -> tuple[Branch, Branch]:
    dev, main = start(table)
    for branch, changes in ((dev, refusal.theirs), (main, refusal.ours)):
        for each in changes:
            table.commit(branch, each)
    return dev, main


def check_strategies(table: BranchTable, source: str = "dev", dest: str = "main") -> None:
    """Take one side of the table, and change it further."""
    for strategy, winner in (("source-wins", source), ("dest-wins", dest)):
        branch = table.repo.create_branch(strategy, dest)
        expected = table.rows(winner)
        table.repo.merge(source, branch.name, strategy=strategy)
        assert table.rows(branch.name) == expected
        with warnings.catch_warnings():
            # An empty table has no such row.
            warnings.simplefilter("ignore")
            table.commit(branch, delete(3))
        assert all(row[0] != 3 for row in table.rows(branch.name))


@pytest.mark.parametrize("refusal", REFUSED, ids=[each.reason for each in REFUSED])
def test_advice_leads_on(table: BranchTable, refusal: Refusal) -> None:
    dev, main = diverge(table, refusal)
    reason = f"{re.escape(refusal.reason)}.*source-wins drops .*dest-wins drops"
    with pytest.raises(MergeConflictError, match=reason) as raised:
        table.repo.merge("dev", "main")
    assert ("rows(KEY)" in str(raised.value)) == refusal.has_rows
    check_strategies(table)
    if refusal.advised is not None:
        for branch, changes in zip((dev, main), refusal.advised, strict=True):
            for each in changes:
                table.commit(branch, each)
        before = {row[0] for ref in ("dev", "main") for row in table.rows(ref)}
        table.repo.merge("dev", "main")
        assert {row[0] for row in table.rows("main")} == before


@pytest.mark.parametrize("refusal", RESTORED, ids=[each.reason for each in RESTORED])
def test_a_restore_leads_on_where_no_strategy_does(table: BranchTable, refusal: Refusal) -> None:
    _, main = diverge(table, refusal)
    reason = f"{re.escape(refusal.reason)}.*`restore` of the table from the other"
    with pytest.raises(MergeConflictError, match=reason):
        table.repo.merge("dev", "main")
    main.restore("dev", [f"{TABLE}/"])
    main.commit("restore")
    table.repo.merge("dev", "main")
    assert table.rows("main") == table.rows("dev")


def test_merge_bases_that_disagree_on_a_change(table: BranchTable) -> None:
    dev, main = start(table)
    table.commit(dev, set_property("1"))
    table.commit(main, append(5))
    for name, first, second in (("x", "dev", "main"), ("y", "main", "dev")):
        table.repo.create_branch(name, first)
        table.repo.merge(second, name)
    table.commit(table.repo.branch("x"), set_property(None))
    table.commit(table.repo.branch("y"), append(6))
    reason = "the merge bases disagree on the table and its merge.*source-wins"
    with pytest.raises(MergeConflictError, match=reason):
        table.repo.merge("x", "y")
    check_strategies(table, "x", "y")


def test_tables_that_both_sides_created(repo: Repository, tmp_path: Path) -> None:
    """Equal ones are united; others are restored from one side."""
    main = repo.branch("main")
    main.put("x", b"x")
    main.commit("no table yet")
    repo.create_branch("empty", "main")
    table = BranchTable(repo, tmp_path / "t", SCHEMA)
    for name, columns in (("dev", SCHEMA), ("other", Schema(*SCHEMA.fields[:1]))):
        branch = repo.create_branch(name, "empty")
        metadata = new_table_metadata(
            columns, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"file://{tmp_path / 't'}"
        )
        before = table._files()
        PathCatalog.put(metadata, None)
        table._stage(branch, before)
        branch.commit("create")
    table.commit(repo.branch("dev"), append(1))
    table.commit(repo.branch("dev"), delete(1))
    table.commit(repo.branch("dev"), append(2))
    table.commit(main, append(3))
    repo.merge("dev", "main")
    assert [row[0] for row in table.rows("main")] == [2, 3]
    table.commit(main, delete(2))
    table.commit(repo.branch("dev"), append(4))
    repo.merge("dev", "main")
    assert [row[0] for row in table.rows("main")] == [3, 4]
    with pytest.raises(MergeConflictError, match=r"with different columns.*`restore`"):
        repo.merge("other", "main")
    main.restore("other", [f"{TABLE}/"])
    main.commit("restore")
    repo.merge("other", "main")
    assert table.rows("main") == []


def test_reverts_of_settings_below_later_changes(table: BranchTable) -> None:
    _, main = start(table)
    changed = table.commit(main, lambda each: (set_property("1")(each), append(5)(each)))
    table.commit(main, append(6))
    with pytest.raises(MergeConflictError, match="the commits to undo changed") as raised:
        main.revert(changed)
    assert "source-wins" in str(raised.value)
    with pytest.raises(NoChangesError):
        main.revert(changed, strategy="dest-wins")
    main.revert(changed, strategy="source-wins")
    assert [row[0] for row in table.rows("main")] == [1, 2, 3, 4]


def reasons() -> Iterator[str]:
    """Yield the constant words of each reason in the code."""
    root = Path(sparklake.__file__).parent
    for module in (each for name in MODULES for each in (root / name).glob("*.py")):
        tree = ast.parse(module.read_text())
        named = {
            target.id: each.value
            for each in tree.body
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            is_error = isinstance(node, ast.Call) and "UnmergeableTableError" in ast.unparse(
                node.func
            )
            if not (is_error and node.args):
                continue
            reason = node.args[0]
            if isinstance(reason, ast.Name):
                reason = named.get(reason.id, reason)
            texts = [each.value for each in ast.walk(reason) if isinstance(each, ast.Constant)]
            words = "".join(each for each in texts if isinstance(each, str))
            if words:
                yield words


def test_every_reason_is_walked() -> None:
    here = [each.code or each.reason for each in (*REFUSED, *RESTORED) if each.code != ELSEWHERE]
    here += ["created the table with different", "to undo changed", "the merge bases disagree on"]
    elsewhere = [each for some in WALKED.values() for each in some]
    # The names and numbers in a reason are no constants.
    words = [re.sub(r"['\"].*| [0-9]+", "", each) for each in (*here, *elsewhere, *DAMAGED)]
    every = list(reasons())
    assert len(every) > 30
    assert not [each for each in every if not any(word in each for word in words)]
    assert not [word for word in words if not any(word in each for each in every)]
    tests = Path(__file__).parents[2]
    for name, some in WALKED.items():
        text = (tests / name).read_text()
        assert not [each for each in some if each.replace("  ", " ") not in text], name
