"""Three-way merges of rows by key, from the rows of the changed files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from operator import and_, or_
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructField,
    StructType,
)

from sparklake.engine.spark import reported
from sparklake.errors import InvalidInputError
from sparklake.frames.tables.column_names import NameRule, name_rule, spelled
from sparklake.frames.tables.row_values import (
    column,
    comparable,
    converted,
    find_common_type,
    holds_map,
    is_wider,
    no_row,
    row_struct,
)
from sparklake.graveler.algebra.classify import KeyOutcome, Strategy, outcome_of
from sparklake.metadata.union.file_sets import BASE, DEST, SIDES, SOURCE, Holders, bases_of
from sparklake.strategies.row_decisions import row_decisions
from sparklake.strategies.row_strategy import Newest, Rows, Then

OP, ROW = "op", "row"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
OPERATIONS = (INSERT, DELETE, UPDATE)
"""The operations in the order of `RowCounts`."""

CONFLICT, NULL_KEY, REPEATED = "conflict", "null key", "repeated in "

KEY, COLUMN, OUTCOME, CELLS, DECISIONS, MERGED, BOTH = (
    *("key", "column", "outcome", "cells", "decisions", "merged", "both"),
)

RowSides: TypeAlias = Mapping[Holders, DataFrame]
"""The rows of the files that a side of a merge changed since base, by the sides that have them.

Each file occurs once. Deletion vectors apply, and a file with another vector is another file. The
columns are those of `merged_schema`.
"""

_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True)
class RowMerge:
    """The merged rows of a table, as lazy DataFrames.

    `rows` has one row per key with a change, a conflict or an invalid key, or a row that `both`
    sides changed in files of their own. Persist it for several jobs.
    """

    rows: DataFrame
    schema: StructType
    key: Sequence[str]
    sides: RowSides

    def counts(self) -> DataFrame:
        """Count the rows by `outcome`: an operation, a conflict or an invalid key.

        The outcome is null without a change. `both` reports rows that both sides changed.
        """
        return self.rows.groupBy(OUTCOME).agg(F.count("*").alias("count"), F.max(BOTH).alias(BOTH))

    def keys(self, outcome: str) -> DataFrame:
        """Return the keys with an outcome as JSON, in the column `key`."""
        chosen = self.rows.where(F.col(OUTCOME) == outcome)
        return chosen.select(F.to_json(KEY, _JSON).alias(KEY))

    def changes(self) -> DataFrame:
        """Return the changes to dest: `op`, and the new `row`, or the old one of a deletion."""
        changed = self.rows.where(F.col(OUTCOME).isin(INSERT, UPDATE, DELETE))
        row = F.when(F.col(OUTCOME) == DELETE, F.col(DEST)).otherwise(F.col(MERGED))
        return changed.select(F.col(OUTCOME).alias(OP), row.alias(ROW))

    def conflicts(self) -> DataFrame:
        """Return the conflicts: `key`, `column`, and the values as JSON.

        `column` is null for a whole row. `base`, `source` and `dest` are null without a row.
        """
        remaining = self.rows.where(F.col(OUTCOME) == CONFLICT)
        pairs = F.explode(F.arrays_zip(CELLS, DECISIONS)).alias("pair")
        cells = remaining.select(KEY, *SIDES, pairs).where(F.col("pair.decisions") == CONFLICT)
        cells = cells.select(KEY, F.col("pair.cells").alias(COLUMN), *SIDES)
        values = [_json_value(self.schema, side).alias(side) for side in SIDES]
        return cells.select(KEY, COLUMN, *values)


def merged_schema(
    rule: NameRule, base: StructType, source: StructType, dest: StructType
) -> StructType:
    """Merge the columns of a table, in the order and spelling of dest.

    A column dropped by one side is dropped. A type changed by one side must be wider.

    Raises:
        InvalidInputError: The changes of the sides cannot be combined.
    """
    fields = []
    types = [
        {rule(each.name): each.dataType for each in side.fields} for side in (base, source, dest)
    ]
    spellings = {rule(name): name for side in (base, source, dest) for name in side.names}
    for key in dict.fromkeys(map(rule, (*dest.names, *source.names, *base.names))):
        name = spellings[key]
        old, theirs, ours = (side.get(key) for side in types)
        texts = [rule(kind.simpleString()) if kind else None for kind in (old, theirs, ours)]
        outcome = outcome_of(texts[1] == texts[2], texts[1] == texts[0], texts[2] == texts[0])
        common = ours and theirs and find_common_type(ours, theirs, rule)
        if outcome is KeyOutcome.CONFLICT and not common:
            kinds = ", ".join(
                f"{side} {text or 'no column'}" for side, text in zip(SIDES, texts, strict=True)
            )
            raise InvalidInputError(
                "both sides changed a column differently. Give it the same type on both sides, or "
                f"take one side with source-wins or dest-wins: {name!r} is {kinds}"
            )
        kind = theirs if outcome is KeyOutcome.TAKE_SOURCE else ours
        if kind is None:
            continue
        kind = common if outcome is KeyOutcome.CONFLICT and common else kind
        text = rule(kind.simpleString())
        # Base is only compared, so a change on both sides needs to keep no values.
        narrow = {
            each
            for each in (theirs, ours)
            if each and rule(each.simpleString()) != text and not is_wider(kind, each)
        }
        if narrow:
            raise InvalidInputError(
                "a side changed the type of a column, which does not keep all values. Make the "
                "same change on both sides, or take one side with source-wins or dest-wins: "
                f"{name!r} from {', '.join(each.simpleString() for each in narrow)} to {text}"
            )
        fields.append(StructField(name, kind, True))
    return StructType(fields)


def aligned(rows: DataFrame, schema: StructType) -> DataFrame:
    """Select the columns of a merged schema, with their types. Missing ones are null."""
    rule = name_rule(rows.sparkSession)
    types = {rule(each.name): each.dataType for each in rows.schema.fields}
    return rows.select(
        *(
            (
                converted(column(each.name), types[rule(each.name)], each.dataType, rule)
                if rule(each.name) in types
                else F.lit(None).cast(each.dataType)
            ).alias(each.name)
            for each in schema.fields
        )
    )


def checked_key(schema: StructType, key: Sequence[str], rule: NameRule) -> list[str]:
    """Return a key as the schema spells it, if it can identify rows.

    Raises:
        InvalidInputError: A column is missing, repeated or has no comparable type.
    """
    if not key:
        raise InvalidInputError(
            "the table has no key: list its columns, as in rows(order_id), or set the property "
            "sparklake.key of a Delta or Iceberg table"
        )
    names = [_checked_column(schema, name, rule) for name in key]
    if len({*names}) < len(names):
        raise InvalidInputError(f"list each key column of rows once: {', '.join(key)}")
    return names


def row_merge(sides: RowSides, rows: Rows, schema: StructType, key: Sequence[str]) -> RowMerge:
    """Merge rows by key. The key columns replace those of the strategy.

    Keys are verified in the given rows only: see `with_repeated`.
    """
    rule = name_rule(sides[BASE,].sparkSession)
    key = checked_key(schema, key, rule)
    if isinstance(rows.then, Newest):
        _checked_column(schema, rows.then.column, rule)
    changed = _changed(_states(sides, schema, key), schema)
    compared = _with_cells(changed, schema, columns=rows.columns)
    merged = _with_merged(_decided(compared, rows.then), schema, columns=rows.columns)
    outcome = F.coalesce(_unmerged(), _operation(schema))
    result = _apart(merged.withColumn(OUTCOME, outcome))
    result = result.where(F.col(OUTCOME).isNotNull() | F.col(BOTH))
    columns = (KEY, OUTCOME, *SIDES, CELLS, DECISIONS, MERGED, BOTH)
    result = result.select(*columns)
    return RowMerge(result, schema, key, sides)


def _apart(rows: DataFrame) -> DataFrame:
    """Keep Spark from inlining the columns into a filter, once for each reference."""
    row = F.struct(*map(column, rows.columns))
    return rows.select(F.explode(F.array(row)).alias(ROW)).select(f"{ROW}.*")


def _unmerged() -> Column:
    """Return the outcome of an invalid key or a remaining conflict, otherwise null."""
    is_left = F.array_contains(DECISIONS, CONFLICT)
    return F.when(F.col("problem").isNotNull(), F.col("problem")).when(is_left, CONFLICT)


def _checked_column(schema: StructType, name: str, rule: NameRule) -> str:
    name = spelled(name, schema.names, rule)
    kind = schema[name].dataType
    if holds_map(kind) or "variant" in kind.simpleString():
        raise InvalidInputError(
            f"{name!r} contains a {kind.simpleString()}, whose values have no order: choose "
            "another column"
        )
    return name


def _counted(sides: RowSides, schema: StructType, key: Sequence[str], *firsts: Column) -> DataFrame:
    """Return the keys in the given columns, and how many rows of each every side has."""
    tagged = [
        aligned(rows, schema).select(
            F.lit("+".join(holders)).alias("files"), row_struct(schema).alias(ROW)
        )
        for holders, rows in sides.items()
    ]
    rows = reduce(DataFrame.unionAll, tagged)
    # The struct has the names of the columns, so they cannot clash.
    fields = [F.col(ROW).getField(name).alias(f"key {at}") for at, name in enumerate(key)]
    names = (*bases_of(sides), SOURCE, DEST)
    counts = [F.count(F.when(_has(each), 1)).alias(f"count {each}") for each in names]
    return rows.groupBy(*fields).agg(*counts, *firsts)


def _has(*names: str) -> Column:
    """Return whether sides have the file of a row."""
    holders = F.split("files", r"\+")
    return reduce(and_, (F.array_contains(holders, each) for each in names))


def _states(sides: RowSides, schema: StructType, key: Sequence[str]) -> DataFrame:
    """Return the row of each key in base, source and dest, and invalid keys.

    A key on which several merge bases disagree is `disputed`, and has no row in base. It is
    `shared` if both sides have it in the same file.
    """
    bases = bases_of(sides)
    firsts = [
        F.first(F.when(_has(side), F.col(ROW)), ignorenulls=True).alias(side)
        for side in (*bases, SOURCE, DEST)
    ]
    shared = F.coalesce(F.max(_has(SOURCE, DEST)), F.lit(False)).alias("shared")
    grouped = _counted(sides, schema, key, *firsts, shared)
    keys = [F.col(f"key {at}") for at in range(len(key))]
    is_null = reduce(or_, (each.isNull() for each in keys))
    problem = F.when(is_null, NULL_KEY)
    for side in (*bases, SOURCE, DEST):
        name = BASE if side in bases else side
        problem = problem.when(F.col(f"count {side}") > 1, REPEATED + name)
    named = [each.alias(name) for each, name in zip(keys, key, strict=True)]
    agree = reduce(and_, (_is_same(schema, BASE, each) for each in bases[1:]), F.lit(True))
    base = F.when(agree, F.col(BASE)).alias(BASE)
    return grouped.select(
        F.struct(*named).alias(KEY),
        problem.alias("problem"),
        *(base, SOURCE, DEST, "shared", (~agree).alias("disputed")),
    )


def added_keys(merge: RowMerge) -> DataFrame:
    """Return the keys added by a side, as far as the files show.

    Only key columns are read. Each has a struct of its columns, the number of dest's rows, and the
    side.
    """
    counted = _counted(merge.sides, _key_columns(merge), merge.key)
    keys = [F.col(f"key {at}") for at in range(len(merge.key))]
    added = reduce(and_, (F.col(f"count {each}") == 0 for each in bases_of(merge.sides)))
    valid = reduce(and_, (each.isNotNull() for each in keys))
    side = F.when(F.col(f"count {SOURCE}") > 0, SOURCE).otherwise(DEST)
    return counted.where(added & valid).select(*keys, f"count {DEST}", side.alias("side"))


_KEY_RANGES = 16
_RANGED = (IntegralType, DecimalType, DateType)


def _key_columns(merge: RowMerge) -> StructType:
    return StructType([merge.schema[name] for name in merge.key])


def key_ranges(merge: RowMerge, added: DataFrame) -> DataFrame:
    """Return the minima and maxima of key ranges as text, at most 16; empty without a key.

    Types with ambiguous texts are left out.
    """
    ranged = [at for at, each in enumerate(_key_columns(merge).fields) if _is_ranged(each)]
    if not ranged:
        return added.limit(1).select(F.lit(True).alias("any"))
    columns = [F.col(f"key {at}") for at in ranged]
    limits = (
        limit(column).cast("string").alias(f"{name} {at}")
        for at, column in zip(ranged, columns, strict=True)
        for name, limit in (("min", F.min), ("max", F.max))
    )
    parts = added.repartitionByRange(_KEY_RANGES, *columns)
    return parts.groupBy(F.spark_partition_id()).agg(*limits)


def _is_ranged(field: StructField) -> bool:
    kind = field.dataType
    return isinstance(kind, _RANGED) or kind.simpleString() == StringType().simpleString()


def with_repeated(
    merge: RowMerge, added: DataFrame, ranges: Sequence[Mapping[str, str]], dest: DataFrame
) -> RowMerge:
    """Mark added keys as invalid if unchanged files of dest contain them.

    The ranges are those of `key_ranges`, for Spark to skip files.
    """
    columns = _key_columns(merge)
    near = [_within(each, columns) for each in ranges]
    keys = [f"key {at}" for at in range(len(merge.key))]
    rows = aligned(dest, columns).where(reduce(or_, near)).toDF(*(f"dest {each}" for each in keys))
    matches = (F.col(each).eqNullSafe(F.col(f"dest {each}")) for each in keys)
    joined = rows.join(added, on=reduce(and_, matches), how="inner")
    counts = joined.groupBy(*keys, f"count {DEST}", "side").count()
    repeated = counts.where(F.col("count") > F.col(f"count {DEST}"))
    named = (F.col(each).alias(name) for each, name in zip(keys, merge.key, strict=True))
    invalid = repeated.select(
        F.struct(*named).alias(KEY),
        F.concat(F.lit(REPEATED), "side").alias(OUTCOME),
        F.lit(True).alias(BOTH),
    )
    return replace(merge, rows=merge.rows.unionByName(invalid, allowMissingColumns=True))


def _within(limits: Mapping[str, str], columns: StructType) -> Column:
    conditions = [
        column(each.name).between(
            *(F.lit(limits[f"{name} {at}"]).cast(each.dataType) for name in ("min", "max"))
        )
        for at, each in enumerate(columns.fields)
        if _is_ranged(each)
    ]
    return reduce(and_, conditions, F.lit(True))


def _changed(states: DataFrame, schema: StructType) -> DataFrame:
    """Add the outcome of each row. Rows that need no change are dropped."""
    same, conflict = KeyOutcome.SAME.value, KeyOutcome.CONFLICT.value
    outcome = _outcome(_is_same(schema, *pair) for pair in _PAIRS)
    disputed = F.col("disputed") & (outcome != same)
    rows = states.withColumn(OUTCOME, F.when(disputed, conflict).otherwise(outcome))
    # Equal rows of both sides in files of their own would exist twice in a union of files.
    is_new = F.col(SOURCE).isNotNull() & ~_is_same(schema, SOURCE, BASE) & ~F.col("shared")
    both = (F.col(OUTCOME) == conflict) | ((F.col(OUTCOME) == same) & is_new)
    rows = rows.withColumn(BOTH, both)
    unchanged = F.col(OUTCOME).isin(same, KeyOutcome.TAKE_DEST.value) & ~F.col(BOTH)
    return rows.where(F.col("problem").isNotNull() | ~unchanged)


def _with_cells(changed: DataFrame, schema: StructType, *, columns: bool) -> DataFrame:
    """Add the cells in conflict, null for a whole row.

    With `columns`, the outcome of each cell is added, null for a whole row.
    """
    is_conflict = F.col("problem").isNull() & (F.col(OUTCOME) == KeyOutcome.CONFLICT.value)
    cells = whole = F.array(F.lit(None).cast("string"))
    if columns:
        both = F.col(SOURCE).isNotNull() & F.col(DEST).isNotNull()
        outcomes = F.array(*(_cell_outcome(schema, name) for name in schema.names))
        changed = changed.withColumn(_OUTCOMES, F.when(is_conflict & both, outcomes))
        conflict = KeyOutcome.CONFLICT.value
        names = F.transform(
            _names(schema), lambda name, at: F.when(F.get(_OUTCOMES, at) == conflict, name)
        )
        cells = F.when(F.col(_OUTCOMES).isNull(), whole).otherwise(
            F.filter(names, lambda name: name.isNotNull())
        )
    return changed.withColumn(CELLS, F.when(is_conflict, cells))


_OUTCOMES, _TAKES = "outcomes", "takes"
_NAMES = ArrayType(StringType())
_PAIRS = ((SOURCE, DEST), (SOURCE, BASE), (DEST, BASE))
"""The sides that `outcome_of` compares, in its order."""


def _names(schema: StructType) -> Column:
    return F.array(*map(F.lit, schema.names))


def _is_same(schema: StructType, one: str, other: str) -> Column:
    """Compare the rows of two sides. Missing rows are equal."""
    values = (comparable(F.col(side), schema, schema) for side in (one, other))
    return next(values).eqNullSafe(next(values))


def _cell_outcome(schema: StructType, name: str) -> Column:
    """Return the merge outcome for one column of a row."""
    kind, base = schema[name].dataType, F.col(BASE).isNotNull()
    cell = {side: comparable(F.col(side).getField(name), kind, kind) for side in SIDES}
    flags = (cell[one].eqNullSafe(cell[other]) for one, other in _PAIRS)
    return _outcome((next(flags), next(flags) & base, next(flags) & base))


def _outcome(flags: Iterable[Column]) -> Column:
    """Look up the outcome of a row or cell from the flags of `outcome_of`."""
    cases = product((True, False), repeat=len(_PAIRS))
    outcomes = F.array(*(F.lit(outcome_of(*case).value) for case in cases))
    at = reduce(lambda at, flag: at * 2 + (~flag).cast("int"), flags, F.lit(0))
    return F.get(outcomes, at)


def _decided(compared: DataFrame, then: Then) -> DataFrame:
    """Add one decision for each cell of `cells`."""
    if then is None or isinstance(then, Strategy | Newest):
        take = _take(then)
        return compared.withColumn(DECISIONS, F.transform(CELLS, lambda _: take))
    # The nullability of columns does not matter: the rows are the same.
    fields = [StructField(each.name, each.dataType, True) for each in compared.schema.fields]
    schema = StructType([*fields, StructField(DECISIONS, _NAMES, True)])
    body = partial(reported, partial(row_decisions, then, SIDES))
    decided = compared.where(F.col(CELLS).isNotNull()).mapInArrow(body, schema)
    none = F.lit(None).cast(_NAMES).alias(DECISIONS)
    return compared.where(F.col(CELLS).isNull()).select("*", none).unionAll(decided)


def _take(then: Strategy | Newest | None) -> Column:
    if then is None:
        return F.lit(CONFLICT)
    if isinstance(then, Strategy):
        return F.lit(SOURCE if then is Strategy.SOURCE_WINS else DEST)
    theirs, ours = (F.col(side).getField(then.column) for side in (SOURCE, DEST))
    return (
        F.when(theirs.isNotNull() & (ours.isNull() | (theirs > ours)), SOURCE)
        .when(ours.isNotNull() & (theirs.isNull() | (ours > theirs)), DEST)
        .otherwise(CONFLICT)
    )


def _with_merged(decided: DataFrame, schema: StructType, *, columns: bool) -> DataFrame:
    """Add the merged row, null for none. A remaining conflict keeps dest's values."""
    decision = F.get(DECISIONS, F.lit(0))
    merged = (
        F.when(decision == SOURCE, F.col(SOURCE))
        .when(decision == BASE, F.col(BASE))
        .when(decision == DELETE, no_row(schema))
        .otherwise(F.col(DEST))
    )
    if columns:
        decided = decided.withColumn(_TAKES, F.transform(_names(schema), _take_of_cell))
        cells = F.struct(*(_cell(at, name) for at, name in enumerate(schema.names)))
        merged = F.when(F.col(_OUTCOMES).isNull(), merged).otherwise(cells)
    return decided.withColumn(
        MERGED, F.when(F.col(CELLS).isNull(), F.col(SOURCE)).otherwise(merged)
    )


def _take_of_cell(name: Column, at: Column) -> Column:
    found = F.call_function("array_position", F.col(CELLS), name).cast("int") - 1
    is_taken = F.get(_OUTCOMES, at) == KeyOutcome.TAKE_SOURCE.value
    return F.coalesce(F.get(DECISIONS, found), F.when(is_taken, SOURCE).otherwise(DEST))


def _cell(at: int, name: str) -> Column:
    take = F.get(_TAKES, F.lit(at))
    base, theirs, ours = (F.col(side).getField(name) for side in SIDES)
    return F.when(take == SOURCE, theirs).when(take == BASE, base).otherwise(ours).alias(name)


def _operation(schema: StructType) -> Column:
    """Return the change from dest to the merged row, or null if they are equal."""
    has_old, has_new = (F.col(each).isNotNull() for each in (DEST, MERGED))
    same = _is_same(schema, DEST, MERGED)
    return (
        F.when(~has_old & has_new, INSERT)
        .when(has_old & ~has_new, DELETE)
        .when(has_old & has_new & ~same, UPDATE)
    )


def _json_value(schema: StructType, side: str) -> Column:
    whole = F.to_json(side, _JSON)
    prefix = '{"v":'
    value = F.when(F.col(COLUMN).isNull(), whole)
    for name in schema.names:
        # A JSON object with one field, because to_json accepts no single values.
        cell = F.to_json(F.struct(F.col(side).getField(name).alias("v")), _JSON)
        text = cell.substr(F.lit(len(prefix) + 1), F.length(cell) - len(prefix) - 1)
        value = value.when(F.col(COLUMN) == name, F.when(F.col(side).isNotNull(), text))
    return value


def of_tables(tables: Sequence[tuple[str, DataFrame]]) -> DataFrame:
    """Return the conflicts of several tables, with the name of the table and the key as JSON."""
    named = [
        rows.select(F.lit(name).alias("table"), F.to_json(KEY, _JSON).alias(KEY), COLUMN, *SIDES)
        for name, rows in tables
    ]
    return reduce(DataFrame.unionAll, named)


def applied(rows: DataFrame, merge: RowMerge) -> DataFrame:
    """Apply the changes of a merge to rows of dest, which must have all changed keys."""
    changes, names = merge.changes(), merge.schema.names
    keys = [F.col(ROW).getField(name).alias(f"key {at}") for at, name in enumerate(merge.key)]
    matches = (column(name).eqNullSafe(F.col(f"key {at}")) for at, name in enumerate(merge.key))
    on = reduce(and_, matches)
    unchanged = aligned(rows, merge.schema).join(changes.select(*keys), on, how="left_anti")
    fields = (F.col(ROW).getField(name).alias(name) for name in names)
    return unchanged.unionAll(changes.where(F.col(OP) != DELETE).select(*fields))
