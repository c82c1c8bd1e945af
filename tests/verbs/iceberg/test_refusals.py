"""Every conflict of Iceberg tables names ways on, and each way that it names works."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

import sparklake
from campaigns.iceberg.branch_tables import TABLE, BranchTable
from sparklake.errors import MergeConflictError
from sparklake.testing.lakes import memory_lake
from tests.verbs.iceberg.test_merge import SCHEMA, add_column, append, delete, start

if TYPE_CHECKING:
    from pyiceberg.table import Table

Change = Callable[["Table"], object]
MODULES = ("iceberg_metadata/union", "verbs/iceberg")

DAMAGED = (
    "a manifest was not read",
    "a snapshot has several deletion vectors of a file",
    "both sides added the same files",
    "dest removed files that source added again",
    "its metadata lacks the current schema",
    "its snapshots have no manifest lists",
    "neither side has a manifest list",
    "has the unknown operation",
    "the table's metadata refers to a missing file",
    "Iceberg replaced the history of the table with merged rows",
    "dest lacks the lists of its schemas",
)
"""Reasons that need metadata that no current writer makes."""

ELSEWHERE = (
    # Tests of other files show these. Where the metadata can be read, the same strategies lead on.
    "a side changed its ",
    "beside deletion vectors",
    "changed the type of",
    "dest has files without row ids",
    "dest removed or rewrote files in which source deleted",
    "in which dest deleted",
    "it has equality deletes",
    "one side deleted the table's metadata",
    "removed or rewritten since then",
    "files to restore are already restored",
    "source rewrote rows whose row ids",
    "Pick these first",
    "the commits to undo changed",
    "the sides have different partition specs",
    "unknown field",
    "the table is ",
    "partitions or sorts by it",
    "made  required",
    "both sides may have overwritten rows of",
    "data files in the folder of its metadata",
    "the best common ancestors disagree",
    "both sides created the table",
    "a side expired the snapshots",
    "both sides added a partition",
    "both sides added  with the id ",
    "needs other ids, and is nested",
)


def set_property(value: str) -> Change:
    def change(table: Table) -> None:
        with table.transaction() as transaction:
            transaction.set_properties({"a": value})

    return change


def rename(name: str) -> Change:
    def change(table: Table) -> None:
        with table.update_schema() as update:
            update.rename_column("name", name)

    return change


def partition(column: str) -> Change:
    def change(table: Table) -> None:
        with table.update_spec() as update:
            update.add_identity(column)

    return change


def sort(column: str) -> Change:
    def change(table: Table) -> None:
        with table.update_sort_order() as update:
            update.asc(column, IdentityTransform(), NullOrder.NULLS_FIRST)

    return change


def tag(table: Table) -> None:
    current = table.current_snapshot()
    assert current is not None
    table.manage_snapshots().create_tag(current.snapshot_id, "own").commit()


REFUSED: list[tuple[str, tuple[Change, ...], tuple[Change, ...]]] = [
    ("dest removed, rewrote or never had", (delete(1),), (delete(2),)),
    ("changed the property 'a'. Set it", (set_property("1"),), (set_property("2"),)),
    ("both sides changed the table's schema", (rename("one"),), (rename("two"),)),
    (
        "both sides added the column 'x'",
        (add_column("x"),),
        (add_column("y"), add_column("x", LongType())),
    ),
    ("to different columns", (add_column("x"), append(5)), (add_column("y"), append(6))),
    ("changed the table's partition specs", (partition("id"),), (partition("name"),)),
    ("changed the table's sort orders", (sort("id"),), (sort("name"),)),
    ("the table's own branches or tags", (tag,), (append(5),)),
]


@pytest.fixture
def table(tmp_path: Path) -> BranchTable:
    repo = memory_lake().create_repository("lake", str(tmp_path / "namespace"))
    return BranchTable(repo, tmp_path / "t", SCHEMA)


@pytest.mark.parametrize("strategy", ["source-wins", "dest-wins"])
@pytest.mark.parametrize(("reason", "theirs", "ours"), REFUSED, ids=[each[0] for each in REFUSED])
def test_a_strategy_leads_on(
    table: BranchTable,
    reason: str,
    theirs: tuple[Change, ...],
    ours: tuple[Change, ...],
    strategy: str,
) -> None:
    dev, main = start(table)
    for each in theirs:
        table.commit(dev, each)
    for each in ours:
        table.commit(main, each)
    with pytest.raises(MergeConflictError, match=f"{re.escape(reason)}.*{strategy}") as raised:
        table.repo.merge("dev", "main")
    winner = "dev" if strategy == "source-wins" else "main"
    expected = table.rows(winner)
    # Rows cannot be merged under settings that do not fit.
    assert ("rows(KEY)" in str(raised.value)) == reason.startswith("dest removed")
    table.repo.merge("dev", "main", strategy=strategy)
    assert table.rows("main") == expected
    table.commit(main, delete(3))
    assert all(row[0] != 3 for row in table.rows("main"))


def test_a_restore_leads_on_where_no_strategy_does(table: BranchTable) -> None:
    dev, main = start(table)
    with_key = {"encryption.key-id": "key"}

    def encrypt(one: Table) -> None:
        with one.transaction() as transaction:
            transaction.set_properties(with_key)

    table.commit(dev, encrypt)
    table.commit(main, append(7))
    with pytest.raises(
        MergeConflictError, match=r"encrypted.*`restore` of the table from the other"
    ):
        table.repo.merge("dev", "main")
    main.restore("dev", [f"{TABLE}/"])
    main.commit("restore")
    table.repo.merge("dev", "main")
    assert table.rows("main") == table.rows("dev")


def reasons() -> Iterator[str]:
    """Yield the longest text of each reason in the code."""
    root = Path(sparklake.__file__).parent
    for module in (each for name in MODULES for each in (root / name).glob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            is_error = isinstance(node, ast.Call) and "UnmergeableTableError" in ast.unparse(
                node.func
            )
            if is_error and node.args:
                texts = [
                    each.value
                    for each in ast.walk(node.args[0])
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                ]
                if texts:
                    yield "".join(texts)


def test_every_reason_is_walked() -> None:
    known = (*DAMAGED, *ELSEWHERE, *(reason for reason, _, _ in REFUSED))
    words = [re.sub(r"['\"].*", "", each) for each in known]
    every = list(reasons())
    assert len(every) > 30
    assert not [each for each in every if not any(word and word in each for word in words)]
