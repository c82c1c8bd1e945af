"""Three-way merges of rows, against plain dicts."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklake.errors import InvalidInputError, StrategyError
from sparklake.graveler.algebra.classify import KeyOutcome, classify
from sparklake.strategies import Rows, rows
from tests.support.strategies import take_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Row = tuple[int | None, str | None]
Table = Mapping[int, Row]

FILES = {
    "only_source": ("base", "dest"),
    "only_dest": ("base", "source"),
    "both": ("base",),
    "source": ("source",),
    "dest": ("dest",),
    "shared": ("source", "dest"),
}
"""The sides that have each set of files."""
COLUMNS = ("number", "text")
SCHEMA = pa.schema(
    [("case", pa.int32()), ("id", pa.int32()), ("number", pa.int32()), ("text", pa.string())]
)
KEY = ("case", "id")


@dataclass
class Case:
    """A base table in files of one or two rows, and the changes of two sides."""

    base: dict[int, Row] = field(default_factory=dict)
    source: dict[int, Row] = field(default_factory=dict)
    dest: dict[int, Row] = field(default_factory=dict)
    files: dict[str, list[tuple[int, Row]]] = field(
        default_factory=lambda: {each: [] for each in FILES}
    )


def random_row(chance: random.Random) -> Row:
    return chance.choice((None, 0, 1, 2)), chance.choice((None, "x", 'y"'))


def random_case(chance: random.Random) -> Case:
    case = Case()
    for first in range(0, chance.randrange(5), 2):
        file = {at: random_row(chance) for at in (first, first + 1)}
        case.base.update(file)
        touched = chance.choice([*FILES][:3])
        case.files[touched] += file.items()
        for side in ("source", "dest"):
            table = getattr(case, side)
            if touched not in (f"only_{side}", "both"):
                table.update(file)
                continue
            changed = {at: changed_row(chance, row) for at, row in file.items()}
            kept = {at: row for at, row in changed.items() if row is not None}
            table.update(kept)
            case.files[side] += kept.items()
    for side, at in product(("source", "dest"), range(4, 7)):
        if chance.random() < 0.4 and at not in getattr(case, side):
            row = random_row(chance)
            getattr(case, side)[at] = row
            case.files[side].append((at, row))
    if chance.random() < 0.3:
        row = random_row(chance)
        case.source[7] = case.dest[7] = row
        case.files["shared"].append((7, row))
    return case


def changed_row(chance: random.Random, row: Row) -> Row | None:
    other = random_row(chance)
    return chance.choice((row, other, (other[0], row[1]), (row[0], other[1]), None))


def merged_row(
    strategy: Rows, key: int, base: Row | None, source: Row | None, dest: Row | None
) -> tuple[Row | None, set[str | None]]:
    """Return the row of a merge, and its conflicting columns, None for the whole row."""
    if classified(base, source, dest) is not KeyOutcome.CONFLICT:
        return (source if classified(base, source, dest) is KeyOutcome.TAKE_SOURCE else dest), set()
    sides = {"base": base, "source": source, "dest": dest, "delete": None, "conflict": dest}
    if not strategy.columns or source is None or dest is None:
        take = decision(strategy, key, None, source, dest)
        return sides[take], {None} if take == "conflict" else set()
    cells, conflicts = [], set[str | None]()
    for at, name in enumerate(COLUMNS):
        old = (base[at],) if base else None
        outcome = classified(old, (source[at],), (dest[at],))
        take = "source" if outcome is KeyOutcome.TAKE_SOURCE else "dest"
        if outcome is KeyOutcome.CONFLICT:
            take = decision(strategy, key, name, source, dest)
        if take == "conflict":
            conflicts.add(name)
        row = sides[take]
        cells.append(row[at] if row else None)
    return (cells[0], cells[1]), conflicts


def classified(*sides: object) -> KeyOutcome:
    return classify(*(None if each is None else repr(each).encode() for each in sides))


def decision(
    strategy: Rows, key: int, column: str | None, source: Row | None, dest: Row | None
) -> str:
    name = strategy.name.partition("then=")[2].rstrip(")")
    if name in ("source-wins", "dest-wins"):
        return name.removesuffix("-wins")
    if name.startswith("newest"):
        theirs, ours = (-1 if not each or each[0] is None else each[0] for each in (source, dest))
        return "source" if theirs > ours else "dest" if ours > theirs else "conflict"
    return take_of(key, column) if name else "conflict"


STRATEGIES = [
    rows(*KEY),
    rows(*KEY, columns=True),
    rows(*KEY, then="source-wins"),
    rows(*KEY, columns=True, then="newest(number)"),
    rows(*KEY, then="tests.support.strategies:row_takes"),
    rows(*KEY, columns=True, then="tests.support.strategies:row_takes"),
]


def written(folder: Path, cases: list[Case]) -> Iterator[str]:
    for name in FILES:
        columns = [
            (at, key, *row) for at, case in enumerate(cases) for key, row in case.files[name]
        ]
        values = zip(*columns, strict=True) if columns else ((),) * 4
        arrays = [
            pa.array(list(each), kind.type) for each, kind in zip(values, SCHEMA, strict=True)
        ]
        pq.write_table(pa.table(arrays, schema=SCHEMA), folder / f"{name}.parquet")
        yield str(folder / f"{name}.parquet")


def check(spark: SparkSession, folder: Path, cases: list[Case], strategy: Rows) -> None:
    from sparklake.frames.tables.row_merge import row_merge

    files = zip(FILES.values(), written(folder, cases), strict=True)
    sides = {holders: spark.read.parquet(each) for holders, each in files}
    merge = row_merge(sides, strategy, sides["base",].schema, KEY)
    merge = replace(merge, rows=merge.rows.persist())
    found = [dict(case.dest) for case in cases]
    operations = dict.fromkeys(("insert", "update", "delete"), 0)
    for op, row in merge.changes().collect():
        operations[op] += 1
        table = found[row.case]
        assert (row.id in table) == (op != "insert"), (op, row)
        if op == "delete":
            assert table.pop(row.id) == (row.number, row.text)
        else:
            assert table.get(row.id) != (row.number, row.text)
            table[row.id] = (row.number, row.text)
    conflicts = {
        (each.key.case, each.key.id, each.column): each for each in merge.conflicts().collect()
    }
    expected = set()
    for at, case in enumerate(cases):
        wanted = {}
        for key in {*case.base, *case.source, *case.dest}:
            states = case.base.get(key), case.source.get(key), case.dest.get(key)
            row, columns = merged_row(strategy, key, *states)
            expected |= {(at, key, each) for each in columns}
            if columns:
                # A remaining conflict is no change.
                row = case.dest.get(key)
            if row is not None:
                wanted[key] = row
        assert found[at] == wanted, (strategy, case)
    assert set(conflicts) == expected
    for (at, key, column), each in conflicts.items():
        for side in ("base", "source", "dest"):
            row = getattr(cases[at], side).get(key)
            text = getattr(each, side)
            assert (text is None) == (row is None)
            if row is not None:
                named = dict(zip(COLUMNS, row, strict=True))
                shown = {"case": at, "id": key, **named} if column is None else named[column]
                assert json.loads(text) == shown
    counted = [*merge.counts().collect()]
    counts = {each.outcome: each["count"] for each in counted if each.outcome}
    assert any(each.both for each in counted) == any(map(both_changed, cases))
    whole = len({each[:2] for each in expected})
    assert counts == {name: n for name, n in {**operations, "conflict": whole}.items() if n}
    merge.rows.unpersist()


def both_changed(case: Case) -> bool:
    """Return whether both sides have new rows of one key in files of their own."""
    for key in {*case.source, *case.dest} - {7}:
        base, source, dest = (each.get(key) for each in (case.base, case.source, case.dest))
        outcome = classified(base, source, dest)
        if outcome is KeyOutcome.CONFLICT or (source == dest and source not in (base, None)):
            return True
    return False


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(each, id=each.name, marks=pytest.mark.system if at else [])
        for at, each in enumerate(STRATEGIES)
    ],
)
@pytest.mark.parametrize(
    "cases", [400, pytest.param(100_000 // len(STRATEGIES) + 1, marks=pytest.mark.exhaustive)]
)
def test_random_merges_equal_merges_of_dicts(
    spark: SparkSession, tmp_path: Path, strategy: Rows, cases: int
) -> None:
    chance = random.Random(f"{strategy.name} {cases}")
    check(spark, tmp_path, [random_case(chance) for _ in range(cases)], strategy)


def frames(spark: SparkSession, schema: str, **sets: list[tuple[Any, ...]]) -> Any:
    return {
        holders: spark.createDataFrame(sets.get(name, []), schema)
        for name, holders in FILES.items()
    }


def outcomes(spark: SparkSession, schema: str, key: str, **sets: list[tuple[Any, ...]]) -> set[Any]:
    from sparklake.frames.tables.row_merge import row_merge

    sides = frames(spark, schema, **sets)
    merge = row_merge(sides, rows(key), sides["base",].schema, (key,))
    return {tuple(each)[:2] for each in merge.counts().collect()}


def test_null_and_repeated_keys_are_reported_by_side(spark: SparkSession) -> None:
    found = outcomes(
        spark,
        "id int, a int",
        "id",
        # 1: twice in base. 2: source adds a row that a file of base, read for dest, has already.
        # 3: the same in dest. 4: unchanged.
        only_source=[(1, 0), (3, 0), (4, 0)],
        only_dest=[(1, 0), (2, 0)],
        both=[(None, 1)],
        source=[(2, 5), (4, 0)],
        dest=[(3, 5), (2, 0)],
    )
    repeated = {(f"repeated in {each}", 1) for each in ("base", "source", "dest")}
    assert found == {("null key", 1), *repeated}


@pytest.mark.system
def test_added_keys_in_unchanged_files_are_repeated(spark: SparkSession) -> None:
    from sparklake.frames.tables.row_merge import added_keys, key_ranges, row_merge, with_repeated

    schema = "k string, day date, id int, a int"
    day = [date(2026, 1, each) for each in range(10)[1:]]

    def row(key: int) -> tuple[Any, ...]:
        return f"k{key}", day[key], key, 0

    sides = frames(
        spark,
        schema,
        # 1: updated. 2 and 3: added by one side. 4: added by both. 5: in a file of both.
        both=[row(1)],
        source=[(*row(1)[:3], 1), row(2), row(4)],
        dest=[row(1), row(3), row(4)],
        shared=[row(5)],
    )
    whole = ("k", "day", "id")
    for key, unread, expected in (
        (whole, [], set()),
        (whole, [row(0)], set()),
        (whole, [row(2)], {("repeated in source", '{"k":"k2","day":"2026-01-03","id":2}')}),
        (
            ("id",),
            [row(3), row(4)],
            {("repeated in dest", '{"id":3}'), ("repeated in source", '{"id":4}')},
        ),
        (("k",), [row(5), row(1)], {("repeated in source", '{"k":"k5"}')}),
    ):
        merge = row_merge(sides, rows(*key), sides["base",].schema, key)
        added = added_keys(merge)
        ranges = [each.asDict() for each in key_ranges(merge, added).collect()]
        dest = spark.createDataFrame([row(1), row(3), row(4), row(5), *unread], schema)
        merge = with_repeated(merge, added, ranges, dest)
        found = {
            (each, key)
            for each in ("repeated in source", "repeated in dest", "repeated in base")
            for (key,) in merge.keys(each).collect()
        }
        assert found == expected, key
    none = frames(spark, schema, both=[row(1)], source=[row(1)])
    merge = row_merge(none, rows("id"), sides["base",].schema, ("id",))
    assert key_ranges(merge, added_keys(merge)).collect() == []


def test_values_are_compared_null_safely_and_exactly(spark: SparkSession) -> None:
    schema = "id int, d double, m map<string,string>, s struct<m: map<string,timestamp>>"
    nan, zero = float("nan"), -0.0
    old = [
        (1, nan, {"a": None, "b": "2"}, None),
        (2, 0.0, {"a": None}, None),
        (3, None, None, (None,)),
        (4, None, {}, None),
    ]
    new = [
        (1, nan, {"b": "2", "a": None}, None),
        (2, zero, {"a": "null"}, None),
        (3, None, None, (None,)),
        (4, None, None, None),
    ]
    found = outcomes(spark, schema, "id", both=old, source=new, dest=old)
    assert found == {("update", 2)}
    # Without maps, rows are compared as they are.
    plain = [
        ((1, nan, ("a", None)), (1, nan, ("a", None))),
        ((2, 0.0, None), (2, zero, None)),
        ((3, None, None), (3, 0.0, None)),
        ((4, 1.0, None), (4, 1.0, (None, None))),
    ]
    befores, afters = ([pair[at] for pair in plain] for at in (0, 1))
    schema = "id int, d double, s struct<t: string, b: binary>"
    found = outcomes(spark, schema, "id", both=befores, source=afters, dest=befores)
    assert found == {("update", 2)}


@pytest.mark.system
@pytest.mark.parametrize(
    ("base", "source", "dest", "merged"),
    [
        ("id int", "id int, a int", "id int, b int", "id int, b int, a int"),
        ("id int, a int", "id int", "id int, a int", "id int"),
        ("id int, a int", "id int, a bigint", "id int, a int", "id int, a bigint"),
        ("id int", "id int, a int", "id int, a int", "id int, a int"),
        ("id int, a int", "ID int, A bigint", "id int, a int", "id int, a bigint"),
        ("id int", "id int, s struct<x:int>", "id int, S struct<X:int>", "id int, S struct<X:int>"),
        ("id int", "id int, a int", "id int, a string", "base no column, source int, dest string"),
        ("id int, a int", "id int", "id int, a bigint", "a column differently.*: 'a'"),
        ("id int, a bigint", "id int, a int", "id int, a bigint", "from bigint to int"),
        ("id int, a int", "id int, a string", "id int, a int", "from int to string"),
        ("id int, a bigint", "id int, a int", "id int, a int", "id int, a int"),
        *(
            (f"id int, a {old}", f"id int, a {new}", f"id int, a {old}", f"id int, a {new}")
            for old, new in (
                ("decimal(10,2)", "decimal(14,4)"),
                ("date", "timestamp_ntz"),
                ("struct<x:int>", "struct<x:bigint,y:int>"),
                ("array<struct<x:int>>", "array<struct<x:int,y:int>>"),
                ("map<string,struct<x:int>>", "map<string,struct<x:int,y:int>>"),
            )
        ),
        (
            "id int, a struct<x:int>",
            "id int, a struct<x:int,y:int>",
            "id int, a struct<x:int,z:date>",
            "id int, a struct<x:int,z:date,y:int>",
        ),
    ],
)
def test_schemas_merge_by_column(
    spark: SparkSession, base: str, source: str, dest: str, merged: str
) -> None:
    from sparklake.frames.tables.column_names import name_rule
    from sparklake.frames.tables.row_merge import merged_schema

    schemas = [spark.createDataFrame([], each).schema for each in (base, source, dest)]
    if merged.startswith("id"):
        assert merged_schema(name_rule(spark), *schemas) == spark.createDataFrame([], merged).schema
    else:
        with pytest.raises(InvalidInputError, match=merged):
            merged_schema(name_rule(spark), *schemas)


def test_columns_that_cannot_be_keys_are_rejected_by_name(spark: SparkSession) -> None:
    from sparklake.frames.tables.row_merge import row_merge

    sides = frames(spark, "id int, m map<string,int>")
    schema = sides["base",].schema
    for key, strategy, why in (
        ((), rows(), "the table has no key"),
        (("x",), rows("x"), "no column 'x'"),
        (("m",), rows("m"), "'m' contains a map<string,int>"),
        (("id",), rows("id", then="newest(m)"), "'m' contains a map"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            row_merge(sides, strategy, schema, key)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda batch: [], "returned 0 decisions for"),
        (lambda batch: ["nobody"] * len(batch), "decided 'nobody'"),
        (lambda batch: 1 / 0, "failed: ZeroDivisionError"),
    ],
)
def test_failing_function_fails_the_merge(
    spark: SparkSession, function: Callable[..., Any], why: str
) -> None:
    from sparklake.engine.spark import errors_of_tasks
    from sparklake.frames.tables.row_merge import row_merge

    schema = "id int, a int"
    sets = {each: [(1, at), (2, at)] for at, each in enumerate(("both", "source", "dest"))}
    sides = frames(spark, schema, **sets)
    merge = row_merge(sides, rows("id", then=function), sides["base",].schema, ("id",))
    with pytest.raises(StrategyError, match=why), errors_of_tasks():
        merge.counts().collect()
