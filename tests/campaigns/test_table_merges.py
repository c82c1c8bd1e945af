"""The table-merge campaign: its oracle, and a sample of the kinds without Spark."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from campaigns.faults.rounds import Options
from campaigns.tables.choices import Choices, Layout
from campaigns.tables.disjoint import are_disjoint, share_files
from campaigns.tables.keyed import RowMerge, merged_settings
from campaigns.tables.log_reader import WrongTableError
from campaigns.tables.merges import CONFLICTS, MERGED, REFUSED, Outcome, _compare, campaign, rounds
from campaigns.tables.operations import (
    DELTA,
    EMPTY,
    AddCheck,
    AddColumn,
    Condition,
    Delete,
    Insert,
    Operation,
    Row,
    Table,
    Target,
    Update,
)
from campaigns.tables.ports import KINDS
from campaigns.tables.reasons import REASONS, UnknownReasonError, reason_of
from tests.campaigns.test_campaigns import SEED, check, share_of
from tests.support.cases import for_each

PYTHON_KINDS = tuple(name for name, kind in KINDS.items() if kind.is_python)
BASE = {1: {"a": 1, "b": 1}, 2: {"a": 1, "b": 1}, 3: {"a": 1, "b": 1}}
SOURCE = {1: {"a": 2, "b": 1}, 2: {"a": 2, "b": 1}, 4: {"a": 5, "b": 5}}
DEST = {1: {"a": 1, "b": 2}, 2: {"a": 3, "b": 1}, 3: {"a": 1, "b": 3}, 4: {"a": 5, "b": 5}}


@pytest.mark.parametrize(
    ("columns", "winner", "rows", "conflicts"),
    [
        (False, None, {4: {"a": 5, "b": 5}}, {1, 2, 3}),
        (True, None, {1: {"a": 2, "b": 2}, 4: {"a": 5, "b": 5}}, {2, 3}),
        (True, "source", {1: {"a": 2, "b": 2}, 2: {"a": 2, "b": 1}, 4: {"a": 5, "b": 5}}, set()),
        (False, "source", SOURCE, set()),
        (False, "dest", DEST, set()),
    ],
)
def test_rows_are_merged_by_key(
    columns: bool, winner: str | None, rows: dict[int, object], conflicts: set[int]
) -> None:
    merge = RowMerge.of(BASE, SOURCE, DEST, columns=columns, winner=winner)
    merged = {key: row for key, row in merge.rows.items() if key not in merge.conflicts}
    assert (merged, merge.conflicts) == (rows, conflicts)


def test_settings_are_merged_by_name() -> None:
    base = {"a": "a", "b": "b"}
    assert merged_settings(base, {"a": "x", "b": "b"}, {"a": "a", "c": "c"}) == {"a": "x", "c": "c"}
    assert merged_settings(base, {"a": "x"}, {"a": "y", "b": "b"}) is None


def row(row_id: int, part: int = 0) -> Row:
    return {"id": row_id, "p": part, "v": 1, "w": 1, "s": "x", "n.a": row_id}


def table_after(table: Table, *operations: Operation) -> Table:
    for each in operations:
        table = each.apply(table)
    return table


def test_disjoint_changes_are_recognized() -> None:
    base = table_after(EMPTY, Insert(1, (row(1), row(2))))
    first = table_after(base, Update(2, Condition("id", (1,)), {"v": 2}))
    second = table_after(base, Delete(3, Condition("id", (2,))), AddColumn(4, "c4"))
    third = table_after(base, Insert(5, (row(3),)), AddColumn(6, "c4"))
    assert are_disjoint(base, first, second)
    assert not are_disjoint(base, first, first)
    assert not are_disjoint(base, second, third)
    assert not are_disjoint(base, table_after(base, AddCheck(7, 3)), third)
    files = {"a": None, "b": None}
    rewritten, deleted = {"b": None, "c": None}, {"a": "vector", "b": None}
    assert share_files(files, rewritten, deleted)
    assert share_files(files, rewritten, {"b": None})
    assert not share_files(files, deleted, {"a": "other vector", "b": None})
    assert not share_files(files, rewritten, {"a": None, "b": "vector"})


def test_queries_build_structs() -> None:
    table = table_after(EMPTY, AddColumn(2, "n.b"), AddColumn(3, "c"))
    query = Target(table, DELTA, False, files=2).query([{**row(7), "n.b": "x"}])
    assert "named_struct('a', CAST(col6 AS BIGINT), 'b', CAST(col7 AS STRING)) AS n" in query
    assert query.endswith("FROM VALUES (7, 0, 1, 1, 'x', 7, 'x', NULL)")


def test_different_layouts_must_agree() -> None:
    merged, other = Outcome(MERGED, [(("id", 1),)]), Outcome(MERGED, [(("id", 2),)])
    refused, conflicts = Outcome(REFUSED), Outcome(CONFLICTS, keys=frozenset({1}))
    _compare(merged, merged, "key")
    _compare(merged, refused, "files")
    for one, second, rule in (
        (merged, other, "files"),
        (merged, refused, "key"),
        (conflicts, refused, "key"),
        (conflicts, Outcome(CONFLICTS, keys=frozenset({2})), "key"),
    ):
        with pytest.raises(WrongTableError, match="layouts differ"):
            _compare(one, second, rule)


def test_an_unknown_reason_is_rejected() -> None:
    assert reason_of("both sides overwrote the table") in REASONS
    with pytest.raises(UnknownReasonError):
        reason_of("because")


@for_each("name", KINDS)
def test_histories_are_repeatable_and_change_something(name: str) -> None:
    kind = KINDS[name]
    one, other = (Choices(Random("a"), kind.operations, kind.formats).history(6) for _ in range(2))
    assert [[str(each.operation) for step in side for each in step] for side in one.sides] == [
        [str(each.operation) for step in side for each in step] for side in other.sides
    ]
    assert all(type(each.operation) in kind.operations for side in one.sides for each in side[0])
    layout = Layout("a", True, "1")
    assert {layout.target(EMPTY, DELTA, at).files for at in range(50)} == {1, 2, 5, 20}


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize(
    "name",
    [PYTHON_KINDS[0], *(pytest.param(each, marks=pytest.mark.system) for each in PYTHON_KINDS[1:])],
)
def test_a_few_merge_rounds_match_the_oracle(name: str, tmp_path: Path) -> None:
    figures, _ = campaign(Options(4, SEED, verbs=(name,)), tmp_path, None)
    check(figures, 4)


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("name", PYTHON_KINDS)
def test_many_merge_rounds_match_the_oracle(name: str, tmp_path: Path) -> None:
    count = share_of(600)
    figures, _ = campaign(Options(count, SEED, verbs=(name,)), tmp_path, None)
    check(figures, count)


def test_round_names_are_unique() -> None:
    names = [*rounds(Options(80, 1, verbs=("delta plain",)))]
    assert len(names) == len({*names}) == 80
    assert names[:4] == [
        f"delta plain:0:0-1:{each}" for each in ("files:a", "files:b", "key:a", "key:b")
    ]
    assert {name.split(":")[1] for name in names} == {"0"}
