"""Pairs of operations on empty parts of a table are united or conflict."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import permutations, product
from typing import Any

import pytest

from sparklake.metadata.delta.actions import encode_actions
from sparklake.metadata.delta.delta_commits import DeltaCommit, parse_commit
from sparklake.metadata.delta.union.log_sides import LogSide, UnionSignature
from sparklake.metadata.delta.union.unite import united
from sparklake.metadata.union.conflicts import UnmergeableTableError
from tests.support.cases import for_each
from tests.support.delta_model import PROTOCOL, add, column, metadata, remove

Actions = Sequence[dict[str, Any]]
TEXTS = metadata() | {
    "schemaString": json.dumps(
        {"fields": [column("id"), column("p", "string"), column("day", "date")]}
    )
}
NONE, PARTITION, ALL = "none", "its partition", "all"


def by(operation: str | None, *actions: Any, **info: Any) -> Actions:
    parameters = info.pop("parameters", {})
    if operation is None:
        return actions
    info = {"operation": operation, "operationParameters": parameters, **info}
    return [{"commitInfo": info}, *actions]


def write(*actions: Any, **parameters: Any) -> Actions:
    return by("WRITE", *actions, parameters=parameters)


def overwrite(*actions: Any, **parameters: Any) -> Actions:
    return write(*actions, mode="Overwrite", **parameters)


def file(path: str, partition: str = "0", **more: Any) -> dict[str, Any]:
    return {"add": {**add(path, partition)["add"], **more}}


def side(*commits: Actions, **more: Any) -> LogSide:
    numbered = (DeltaCommit(number, tuple(each)) for number, each in enumerate(commits, 1))
    return LogSide(tuple(numbered), **{"metadata": TEXTS, "protocol": PROTOCOL, **more})


def union(source: LogSide, dest: LogSide, **more: Any) -> list[Any]:
    return united(side(**more), source, dest, UnionSignature(2, "tests")).commits


def is_united(source: LogSide, dest: LogSide) -> bool:
    reason = ""
    try:
        union(source, dest)
    except UnmergeableTableError as error:
        reason = str(error)
    assert not reason or "both sides overwrote" in reason
    return not reason


# --- each operation beside each other -------------------------------------------------------------

Operation = Callable[[str], Actions]
"""Writes a file of a name, which begins with its partition."""


def of(operation: str | None, **info: Any) -> Operation:
    return lambda name: by(operation, file(name, name[0]), **info)


OPERATIONS: dict[str, tuple[str, Operation]] = {
    "append": (NONE, of("WRITE", parameters={"mode": "Append"}, isBlindAppend=True)),
    "insert from itself": (NONE, of("WRITE", parameters={"mode": "Append"}, isBlindAppend=False)),
    "write without a mode": (NONE, of("WRITE")),
    "streaming append": (NONE, of("STREAMING UPDATE", parameters={"outputMode": "Append"})),
    "COPY INTO": (NONE, of("COPY INTO")),
    "MERGE": (NONE, of("MERGE", parameters={"predicate": "[]"})),
    "UPDATE": (NONE, of("UPDATE", parameters={"predicate": "[]"})),
    "DELETE of some rows": (NONE, of("DELETE", parameters={"predicate": '["(id = 1)"]'})),
    "DELETE without a predicate": (NONE, lambda _: by("DELETE", parameters={"predicate": "[]"})),
    "TRUNCATE": (NONE, lambda _: by("TRUNCATE")),
    "OPTIMIZE": (NONE, lambda name: by("OPTIMIZE", file(name, name[0], dataChange=False))),
    "a merge of branches": (NONE, of("MERGE BRANCH", parameters={"undone": "3"})),
    "unknown blind append": (NONE, of("LOAD", isBlindAppend=True)),
    "unknown, without rows": (NONE, lambda _: by("ADD COLUMNS")),
    "overwrite": (ALL, lambda name: overwrite(file(name, name[0]))),
    "overwrite, not dynamic": (
        ALL,
        lambda name: overwrite(file(name, name[0]), isDynamicPartitionOverwrite=False),
    ),
    "dynamic overwrite": (
        PARTITION,
        lambda name: overwrite(file(name, name[0]), isDynamicPartitionOverwrite=True),
    ),
    "replaceWhere": (
        PARTITION,
        lambda name: overwrite(file(name, name[0]), predicate=f"p = '{name[0]}'"),
    ),
    "replaceWhere of another grammar": (
        ALL,
        lambda name: overwrite(file(name, name[0]), predicate=f"upper(p) = '{name[0]}'"),
    ),
    "complete stream": (ALL, of("STREAMING UPDATE", parameters={"outputMode": "Complete"})),
    "CREATE OR REPLACE TABLE AS SELECT": (ALL, of("CREATE OR REPLACE TABLE AS SELECT")),
    "REPLACE TABLE AS SELECT": (ALL, of("REPLACE TABLE AS SELECT")),
    "RESTORE": (ALL, of("RESTORE", parameters={"version": "1"})),
    "CLONE": (ALL, of("CLONE")),
    "unknown": (ALL, of("LOAD")),
    "without a recorded operation": (ALL, of("")),
    "without a commitInfo": (ALL, of(None)),
    "odd parameters": (ALL, of("LOAD", parameters="none")),
}


@for_each("one", OPERATIONS)
def test_two_overwrites_of_one_region_conflict(one: str) -> None:
    """Two overwrites conflict if each has rows in the other's region: neither can be the first."""
    ours, source = OPERATIONS[one]
    for (theirs, dest), partition in product(OPERATIONS.values(), "01"):
        actual = is_united(side(source("0-a")), side(dest(f"{partition}-b")))
        regions = {ours, theirs}
        assert actual is (NONE in regions or (PARTITION in regions and partition == "1"))


@for_each("name", OPERATIONS)
def test_a_repeated_commit_overwrites_the_same_region(name: str) -> None:
    """The log belongs to a branch with merges of a third one, even repeated merges."""
    region, write_file = OPERATIONS[name]
    commits = [write_file("0-a")]
    for _ in range(2):
        commits_after = union(side(*commits), side(write(file("1-x", "1"), mode="Append")))
        commits = [parse_commit(1, encode_actions(each)).actions for each in commits_after]  # type: ignore[misc]
    for partition in "01":
        everything = overwrite(file(f"{partition}-b", partition), isDynamicPartitionOverwrite=False)
        actual = is_united(side(*commits), side(everything))
        assert actual is (region == NONE or (region == PARTITION and partition == "1"))


# --- full or dynamic, by the files that stayed ----------------------------------------------------


def test_an_older_dynamic_overwrite_is_recognized_by_remaining_files() -> None:
    """Older versions of Delta do not say whether they replaced all or single partitions."""
    first = {"had_file_beside": lambda paths: "first" not in paths}
    empty: dict[str, Any] = {"had_file_beside": lambda paths: False}

    def load(name: str, *more: Any, read: int | None = 0) -> Actions:
        info = {"commitInfo": {**overwrite()[0]["commitInfo"], "readVersion": read}}
        return [info, file(name, name[0]), *more]

    one, other = load("0-a"), load("1-b")
    assert is_united(side(one, **first), side(other, **first))
    assert is_united(side(load("0-a", remove("second")), **first), side(other, **first))
    assert not is_united(side(one, **empty), side(other, **empty))
    # One of them replaced all, and may have been the first.
    assert is_united(side(load("0-a", remove("first")), **first), side(other, **first))
    assert not is_united(side(load("0-a", remove("first")), **first), side(load("0-b"), **first))
    # What came between is no sign: a full overwrite leaves alone what its writer has not seen.
    for late in (load("0-a", read=None), load("0-a", read=-1)):
        assert not is_united(side(late, **first), side(load("1-b", read=None), **first))
    appended = write(file("3-x", "3"), mode="Append")
    assert is_united(side(appended, load("0-a", read=1), **empty), side(other, **first))
    overwrite_of_all = load("0-a", remove("3-x"), read=1)
    assert not is_united(
        side(appended, overwrite_of_all, **empty), side(load("1-b", read=None), **empty)
    )
    # A table without partitions is replaced as a whole.
    flat = {**first, "metadata": TEXTS | {"partitionColumns": []}}
    with pytest.raises(UnmergeableTableError, match="both sides overwrote the table"):
        united(side(**flat), side(one, **flat), side(other, **flat), UnionSignature(2, "t"))


def test_the_error_for_two_overwrites_reports_the_one_in_source() -> None:
    whole, unknown = overwrite(file("0-a")), by("FROBNICATE", file("0-b"))
    with pytest.raises(UnmergeableTableError, match=r"overwrote the table$"):
        union(side(whole), side(unknown))
    with pytest.raises(UnmergeableTableError, match="may have done so, 'FROBNICATE'"):
        union(side(unknown), side(whole))


# --- several commits ------------------------------------------------------------------------------


def dynamic(name: str, *more: Any) -> Actions:
    return overwrite(file(name, name[0]), *more, isDynamicPartitionOverwrite=True)


def append(name: str) -> Actions:
    return write(file(name, name[0]), mode="Append")


def outcome(commits: Sequence[Actions], before: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the live files after commits in the given order."""
    live = set(before)
    for actions in commits:
        parameters = actions[0]["commitInfo"]["operationParameters"]
        if parameters["mode"] == "Overwrite":
            new = {each["add"]["path"][0] for each in actions if "add" in each}
            whole = "isDynamicPartitionOverwrite" not in parameters
            live = {path for path in live if not whole and path[0] not in new}
        live |= {each["add"]["path"] for each in actions if "add" in each}
    return frozenset(live)


def orders(source: Sequence[Actions], dest: Sequence[Actions]) -> set[frozenset[str]]:
    """Return the possible tables after the commits of both sides, in any order."""
    places = [("s", at) for at in range(len(source))] + [("d", at) for at in range(len(dest))]
    tables = set()
    for each in permutations(places):
        if all(
            [at for s, at in each if s == name] == sorted(at for s, at in each if s == name)
            for name in "sd"
        ):
            tables.add(outcome([(source if s == "s" else dest)[at] for s, at in each]))
    return tables


KINDS: dict[str, Callable[[str], Actions]] = {
    "append": append,
    "dynamic": dynamic,
    "full": lambda name: overwrite(file(name, name[0])),
}
STEPS = [(kind, partition) for kind in KINDS for partition in "01"]


def with_removes(name: str, steps: Sequence[tuple[str, str]]) -> list[Actions]:
    """Return the commits of one side on an empty table, with removes of its own files."""
    commits: list[Actions] = []
    live: frozenset[str] = frozenset()
    for at, (kind, partition) in enumerate(steps):
        actions = KINDS[kind](f"{partition}-{name}{at}")
        after = outcome([actions], live)
        commits.append([*actions, *map(remove, sorted(live - after))])  # type: ignore[list-item]
        live = after
    return commits


@pytest.mark.parametrize("first", STEPS)
def test_a_union_equals_some_order_of_the_commits(first: tuple[str, str]) -> None:
    """All pairs of two commits per side, on an empty table, are united if they have an order."""
    for second in STEPS:
        source = with_removes("s", [first, second])
        for third, fourth in product(STEPS, STEPS):
            dest = with_removes("d", [third, fourth])
            live = outcome(source) | outcome(dest)
            assert is_united(side(*source), side(*dest)) is (live in orders(source, dest))


# --- rows of a predicate --------------------------------------------------------------------------


def replace(predicate: str, *actions: Any) -> Actions:
    return overwrite(*actions, predicate=predicate)


def ids(path: str, low: Any, high: Any, name: str = "id") -> dict[str, Any]:
    stats = {"numRecords": 1, "minValues": {name: low}, "maxValues": {name: high}}
    return file(path, stats=json.dumps(stats))


def in_partition(partition: str | None) -> dict[str, Any]:
    return file(f"{partition}-file", partitionValues={"p": partition})


@for_each(
    ("one", "ours", "other", "theirs", "together"),
    [
        ("p = 'a'", in_partition("a"), "p = 'b'", in_partition("b"), True),
        ("`P`=='a'", in_partition("a"), "(p = 'b')", in_partition("b"), True),
        ("(p <=> 'a')", in_partition("a"), "(p <=> 'b')", in_partition("b"), True),
        ("p = 'a'", in_partition("a"), "p >= 'a'", in_partition("a1"), True),
        ("p = 'a'", in_partition("a"), "p >= 'a'", in_partition("a"), False),
        ("p in ('a', 'b')", in_partition("b"), "p IN ('c')", in_partition("c"), True),
        ("p in ('a', 'c')", in_partition("a"), "p IN ('c', 'a')", in_partition("c"), False),
        (
            "p between 'a' and 'b'",
            in_partition("b"),
            "p > 'b' AND p < 'd'",
            in_partition("c"),
            True,
        ),
        ("p = 'a' or p = 'b'", in_partition("a"), "p = 'c' or p = 'd'", in_partition("c"), False),
        ("p = 'a''b'", in_partition("ab"), "p = 'b''c'", in_partition("bc"), False),
        (r"p = 'a\'b'", in_partition("ab"), r"p = 'b\'c'", in_partition("bc"), False),
        ("p <> 'b'", in_partition("a"), "p <> 'a'", in_partition("b"), False),
        ("not p = 'b'", in_partition("a"), "not p = 'a'", in_partition("b"), False),
        ("t.p = 'a'", in_partition("a"), "t.p = 'b'", in_partition("b"), False),
        ("p = 1", in_partition("1"), "p = 2", in_partition("02"), False),
        ("p = 'a'", in_partition(None), "p = 'b'", in_partition(None), False),
        ("p = 'a' extra", in_partition("a"), "p = 'b' extra", in_partition("b"), False),
        ("", in_partition("a"), "true", in_partition("b"), False),
        ("id < 5", ids("a", 1, 4), "id >= 5", ids("b", 5, 9), True),
        ("id < 5", ids("a", 1, 4), "id >= 4", ids("b", 5, 9), True),
        ("id <= 5", ids("a", 1, 5), "id >= 5", ids("b", 5, 9), False),
        ("id = -5", ids("a", -5, -5), "id = 5", ids("b", 5, 5), True),
        ("id < 5", file("a"), "id >= 5", file("b"), False),
        ("id < 5", file("a", stats="{"), "id >= 5", file("b", stats="[]"), False),
        ("id < 5", ids("a", 1, True), "id >= 5", ids("b", "5", 9), True),
        ("(id < 5L)", ids("a", 1, 4), "((id >= 5L) AND (id IN (5L, 7L)))", ids("b", 5, 9), True),
        ("id < 5.5", ids("a", 1, 4), "id > 5.5", ids("b", 6, 9), False),
        ("id < '5'", ids("a", 1, 4), "id >= '5'", ids("b", 5, 9), False),
        ("id - 5 < 1", ids("a", 1, 4), "id - 5 >= 1", ids("b", 6, 9), False),
        (
            "day < '2024-02-01'",
            ids("a", "2024-01-01", "2024-01-31", "day"),
            "day >= DATE '2024-02-01'",
            ids("b", "2024-02-01", "2024-02-29", "day"),
            True,
        ),
        (
            "day < '2024-2-1'",
            ids("a", "2024-01-01", "2024-01-31", "day"),
            "day >= '2024-2-1'",
            ids("b", "2024-02-01", "2024-02-29", "day"),
            False,
        ),
        ("gone < 5", ids("a", 1, 4, "gone"), "gone >= 5", ids("b", 5, 9, "gone"), False),
    ],
)
def test_overwrites_of_disjoint_predicates_are_united(
    one: str, ours: dict[str, Any], other: str, theirs: dict[str, Any], together: bool
) -> None:
    source, dest = side(replace(one, ours)), side(replace(other, theirs))
    assert is_united(source, dest) is together
    assert is_united(dest, source) is together
