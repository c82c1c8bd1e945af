"""Settings after a union: schema, partition specs, sort order and properties."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sparklake.metadata.iceberg.documents import Document
from sparklake.metadata.iceberg.union.column_ids import (
    Field,
    clashing_ids,
    current_schema,
    definitions,
    numbered,
    schema_of,
)
from sparklake.metadata.iceberg.union.snapshots import UUID, IcebergCommit
from sparklake.metadata.union.conflicts import UnmergeableTableError, rewritten_without

_OF_SNAPSHOTS = (
    *("last-sequence-number", "last-updated-ms", "current-snapshot-id", "snapshots"),
    *("snapshot-log", "metadata-log", "refs", "statistics", "partition-statistics"),
    *("next-row-id", "location"),
)
_SETTLED = (
    *("last-column-id", "schemas", "current-schema-id", "schema", "partition-spec"),
    *("partition-specs", "default-spec-id", "last-partition-id", "properties", "sort-orders"),
    "default-sort-order-id",
)
_VERSION = "format-version"
_MAIN = "main"
_WIDER = {("int", "long"), ("float", "double")}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]+)\s*,\s*([0-9]+)\s*\)")


def settled(
    base: Document,
    source: Document,
    dest: Document,
    theirs: Sequence[IcebergCommit],
    ours: Sequence[IcebergCommit],
) -> Document:
    """Return dest's metadata with source's changes of settings since base.

    `theirs` are the commits of source to repeat, and `ours` those of dest.

    Raises:
        UnmergeableTableError: The settings of both sides cannot be combined.
    """
    for name in sorted(source.keys() | base.keys()):
        is_known = name in (*_OF_SNAPSHOTS, *_SETTLED, UUID, _VERSION)
        if not is_known and source.get(name) != base.get(name) != dest.get(name):
            raise UnmergeableTableError(f"both sides changed its unknown field {name!r}")
        if not is_known and source.get(name) not in (base.get(name), dest.get(name)):
            raise UnmergeableTableError(f"source changed its unknown field {name!r}")
    if _named_refs(source) != _named_refs(base):
        raise UnmergeableTableError("source changed the table's own branches or tags")
    clashing = clashing_ids(base, source, dest)
    of_files = _source_columns(source) & clashing
    if of_files:
        raise UnmergeableTableError(
            f"both sides gave the column id {min(of_files)} to different columns, and source "
            "partitions or sorts by it"
        )
    result = _upgraded(dest, max(each[_VERSION] for each in (source, dest)))
    result = _with_schema(base, source, result, theirs, ours, clashing)
    result = _with_specs(base, source, result, theirs)
    result = _with_orders(base, source, result)
    properties = _properties(base, source, dest)
    if properties == (dest.get("properties") or {}):
        return result
    return {**result, "properties": properties}


def common_start(source: Document, dest: Document) -> Document:
    """Return the metadata of the empty base of a table that both sides created.

    Raises:
        UnmergeableTableError: They created it with different columns, partitions or orders.
    """
    ours = _first_settings(dest)
    for name, each in _first_settings(source).items():
        if each != ours[name]:
            raise UnmergeableTableError(f"both sides created the table with different {name}")
    (fields, identifiers), spec, order = ours.values()
    schema = {"schema-id": 0, "fields": fields, "identifier-field-ids": identifiers}
    shared = (source.get("properties") or {}).items() & (dest.get("properties") or {}).items()
    own = {name: each for name, each in dest.items() if name not in (*_OF_SNAPSHOTS, *_SETTLED)}
    return {
        **own,
        _VERSION: min(source[_VERSION], dest[_VERSION]),
        "location": dest["location"],
        "last-column-id": max((number for number, _ in numbered(schema)), default=0),
        "schemas": [schema],
        "partition-specs": [{"spec-id": 0, "fields": spec}],
        "last-partition-id": max((each.get("field-id", 0) for each in spec), default=999),
        "sort-orders": [{"order-id": 0, "fields": order}],
        "properties": dict(shared),
    }


def _first_settings(document: Document) -> Mapping[str, Any]:
    """Return a table's first columns, partition fields and sort order."""
    schemas = document.get("schemas") or [document.get("schema") or {}]
    specs, orders = specs_of(document), _orders_of(document)
    return {
        "columns": _plain(min(schemas, key=lambda each: each.get("schema-id", 0))),
        "partition specs": specs[min(specs)],
        "sort orders": orders[min(orders)] if orders else [],
    }


def _upgraded(dest: Document, version: int) -> Document:
    """Return metadata of a format version. Snapshots and manifests of earlier ones stay valid."""
    if dest[_VERSION] == version:
        return dest
    if not (dest.get("schemas") and dest.get("partition-specs")):
        raise UnmergeableTableError(
            "dest lacks the lists of its schemas and partition specs, which format version "
            f"{version} requires: upgrade dest, too"
        )
    old = ("schema", "partition-spec") if version > 1 else ()
    result = {name: each for name, each in dest.items() if name not in old}
    return {
        **result,
        _VERSION: version,
        "last-sequence-number": dest.get("last-sequence-number", 0),
    }


def _named_refs(document: Document) -> Mapping[str, Any]:
    refs = document.get("refs") or {}
    return {name: each for name, each in refs.items() if name != _MAIN}


def _properties(base: Document, source: Document, dest: Document) -> dict[str, str]:
    old, their, our = ({**(each.get("properties") or {})} for each in (base, source, dest))
    for name in sorted(old.keys() | their.keys()):
        before, after = old.get(name), their.get(name)
        if after == before or after == our.get(name):
            continue
        if our.get(name) != before:
            raise UnmergeableTableError(
                f"both sides changed the property {name!r}. Set it to the same value on both"
            )
        our[name] = after
    return {name: each for name, each in our.items() if each is not None}


# --- schemas --------------------------------------------------------------------------------------


def _plain(schema: Field) -> Any:
    return schema.get("fields"), sorted(schema.get("identifier-field-ids") or ())


def _with_schema(
    base: Document,
    source: Document,
    dest: Document,
    theirs: Sequence[IcebergCommit],
    ours: Sequence[IcebergCommit],
    clashing: set[int],
) -> Document:
    old, their, our = map(current_schema, (base, source, dest))
    if any(each.data_added for each in theirs):
        _check_fits(old, our, their, "dest")
    if any(each.data_added for each in ours):
        _check_fits(old, their, our, "source")
    for writer, side, commits, owner, other in (
        ("source", source, theirs, "dest", dest),
        ("dest", dest, ours, "source", source),
    ):
        dropped = _dropped_before(base, other) - clashing
        if dropped and _rewrites_without(side, commits, dropped):
            name, *_ = dict(numbered(current_schema(other)))[min(dropped)]
            raise rewritten_without(writer, name, owner)
    used = clashing & {number for each in theirs for number in _used(source, each)}
    if used:
        raise UnmergeableTableError(
            f"both sides gave the column id {min(used)} to different columns, and source's files "
            "have it. If dest's files do not, merge dest into source first, and then source into "
            "dest"
        )
    if _plain(their) in (_plain(old), _plain(our)):
        return dest
    last = max(dest.get("last-column-id", 0), source.get("last-column-id", 0))
    if _plain(our) == _plain(old) and not clashing:
        fields, identifiers = their["fields"], their.get("identifier-field-ids")
    else:
        fields, last = _combined(old, their, our, clashing, last)
        identifiers = our.get("identifier-field-ids")
    new = {"type": "struct", "fields": fields}
    if identifiers:
        new["identifier-field-ids"] = identifiers
    return _with_current(dest, new, last)


def _with_current(dest: Document, schema: dict[str, Any], last: int) -> Document:
    every = dest.get("schemas") or [dest["schema"]]
    match = next((each for each in every if _plain(each) == _plain(schema)), None)
    if match is None:
        number = max(each.get("schema-id", 0) for each in every) + 1
        match = {**schema, "schema-id": number}
        every = [*every, match]
    number = match.get("schema-id", 0)
    result = {**dest, "schemas": every, "current-schema-id": number, "last-column-id": last}
    return {**result, "schema": match} if "schema" in dest else result


def _combined(
    old: Field, their: Field, our: Field, clashing: set[int], last: int
) -> tuple[list[Field], int]:
    """Return dest's columns with source's changes of columns, and its new columns."""
    ids = {number for number, _ in numbered(old)}
    added = [each for each in their["fields"] if each["id"] not in ids]
    identifiers = (_plain({**each, "fields": ()}) for each in (their, old))
    if next(identifiers) != next(identifiers) or any(each["required"] for each in added):
        raise UnmergeableTableError("both sides changed the table's schema")
    fields = _changed_fields(old, their, our)
    names = {each["name"].lower(): each for each in fields}
    if len(names) < len(fields):
        raise UnmergeableTableError("both sides gave one name to different columns: rename one")
    renamed = {each["id"]: each for each in fields if each["id"] not in clashing}
    for each in added:
        present = names.get(each["name"].lower()) or renamed.get(each["id"])
        if present == each:
            continue
        if present is not None and not (
            each["id"] in clashing and {**present, "id": each["id"]} == each
        ):
            raise UnmergeableTableError(f"both sides added the column {each['name']!r}")
        if present is None:
            if clashing & {number for number, _ in numbered({"fields": [each]})}:
                if not isinstance(each["type"], str):
                    raise UnmergeableTableError(
                        f"source's column {each['name']!r} needs other ids, and is nested"
                    )
                last += 1
                each = {**each, "id": last}
            fields.append(each)
    return fields, last


def _changed_fields(old: Field, their: Field, our: Field) -> list[Field]:
    """Return dest's columns with source's changes of those of base."""
    before, after, current = (
        {each["id"]: each for each in side["fields"]} for side in (old, their, our)
    )
    for at, each in before.items():
        if after.get(at) not in (each, current.get(at)) and current.get(at) != each:
            raise UnmergeableTableError(
                f"both sides changed the column {each['name']!r}. Make the same change on both"
            )
    fields = {at: after.get(at) if each == before.get(at) else each for at, each in current.items()}
    return [each for each in fields.values() if each is not None]


def _used(document: Document, commit: IcebergCommit) -> set[int]:
    """Return the ids of columns in a commit's new files, at most."""
    if not commit.data_added:
        return set()
    schema = schema_of(document, commit.snapshot.get("schema-id"))
    if schema is None:
        return set(range(document.get("last-column-id", 0) + 1))
    return {number for number, _ in numbered(schema)}


def _dropped_before(base: Document, side: Document) -> set[int]:
    """Return the ids of a side's columns that base had in an earlier schema."""
    present = dict(numbered(current_schema(base)))
    columns = {number for number, _ in numbered(current_schema(side))}
    return (columns & definitions(base).keys()) - present.keys()


def _rewrites_without(
    document: Document, commits: Sequence[IcebergCommit], columns: set[int]
) -> bool:
    """Return whether commits replaced rows by others that lack some columns."""
    schemas = [
        schema_of(document, each.snapshot.get("schema-id")) or {}
        for each in commits
        if each.data_added
    ]
    deletes = any(each.removed or len(each.data_added) < len(each.added) for each in commits)
    return deletes and any(
        not columns.issubset(number for number, _ in numbered(each)) for each in schemas
    )


def _check_fits(before: Field, after: Field, other: Field, changer: str) -> None:
    """Reject a changed schema if files of the other side may not fit, unless it has the change."""
    old, same = dict(numbered(before)), dict(numbered(other))
    for number, (name, kind, required) in numbered(after):
        if same.get(number) == (name, kind, required):
            continue
        _, kind_before, was_required = old.get(number, (name, kind, False))
        if kind != kind_before and not _is_wider(kind_before, kind):
            raise UnmergeableTableError(
                f"{changer} changed the type of {name!r}, and the other side added files. Change "
                "it there, too"
            )
        if required and not was_required:
            raise UnmergeableTableError(
                f"{changer} made {name!r} required, and the other side added files. Make it "
                "required there, too, or optional here"
            )


def _is_wider(before: str, after: str) -> bool:
    if (before, after) in _WIDER:
        return True
    old, new = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    return bool(old and new and old[2] == new[2] and int(old[1]) <= int(new[1]))


# --- partition specs and sort orders --------------------------------------------------------------


def _with_specs(
    base: Document, source: Document, dest: Document, theirs: Sequence[IcebergCommit]
) -> Document:
    old, their, our = map(specs_of, (base, source, dest))
    used = {
        entry.file.spec_id
        for each in theirs
        for entry in (*each.added.values(), *each.removed.values())
    }
    number = _default(base, source, dest, "default-spec-id", "partition specs", (old, their, our))
    copied = {
        each: their[each] for each in sorted({*used, number}) if each in their and each not in our
    }
    for each in used & our.keys():
        if their[each] != our[each]:
            raise UnmergeableTableError(f"both sides added a partition spec with the id {each}")
    present_fields = {each.get("field-id"): each for fields in our.values() for each in fields}
    for field in (each for fields in copied.values() for each in fields):
        if present_fields.setdefault(field.get("field-id"), field) != field:
            raise UnmergeableTableError(
                f"both sides added a partition field with the id {field.get('field-id')}"
            )
    _check_columns({**our, **copied}.get(number, ()), dest, "partitioned")
    if not copied and number == dest.get("default-spec-id", 0):
        return dest
    specs = [*(dest.get("partition-specs") or ())]
    specs += [each for each in source["partition-specs"] if each["spec-id"] in copied]
    last = max(each.get("last-partition-id", 999) for each in (source, dest))
    result = {**dest, "partition-specs": specs, "default-spec-id": number}
    result["last-partition-id"] = last
    return {**result, "partition-spec": their[number]} if "partition-spec" in dest else result


def specs_of(document: Document) -> dict[int, Sequence[Field]]:
    every = document.get("partition-specs")
    if every is None:
        return {0: document.get("partition-spec") or []}
    return {each["spec-id"]: each["fields"] for each in every}


def _orders_of(document: Document) -> dict[int, Sequence[Field]]:
    return {each["order-id"]: each["fields"] for each in document.get("sort-orders") or ()}


def _default(
    base: Document,
    source: Document,
    dest: Document,
    name: str,
    what: str,
    values: Sequence[Mapping[int, Any]],
) -> int:
    """Return the id of the default after a change by one side, or by both to an equal value."""
    numbers = [each.get(name, 0) for each in (base, source, dest)]
    old, their, our = (each.get(number) for each, number in zip(values, numbers, strict=True))
    if their in (old, our):
        return int(numbers[2])
    if our != old:
        raise UnmergeableTableError(f"both sides changed the table's {what}")
    if numbers[1] in values[2] and values[2][numbers[1]] != their:
        raise UnmergeableTableError(f"both sides added {what} with the id {numbers[1]}")
    return int(numbers[1])


def _with_orders(base: Document, source: Document, dest: Document) -> Document:
    orders = [_orders_of(each) for each in (base, source, dest)]
    number = _default(base, source, dest, "default-sort-order-id", "sort orders", orders)
    fields = orders[2].get(number, orders[1].get(number, ()))
    _check_columns(fields, dest, "sorted")
    if number == dest.get("default-sort-order-id", 0):
        return dest
    every = [*(dest.get("sort-orders") or ())]
    if number not in orders[2]:
        every += [each for each in source["sort-orders"] if each["order-id"] == number]
    return {**dest, "sort-orders": every, "default-sort-order-id": number}


def _source_columns(document: Document) -> set[int]:
    specs = [*(document.get("partition-specs") or ()), *(document.get("sort-orders") or ())]
    fields = [field for each in specs for field in each["fields"]]
    fields += document.get("partition-spec") or ()
    return {number for each in fields for number in each.get("source-ids") or [each["source-id"]]}


def _check_columns(fields: Sequence[Field], document: Document, how: str) -> None:
    """Reject a spec or an order by a dropped column."""
    columns = {number for number, _ in numbered(current_schema(document))}
    for each in fields:
        numbers = each.get("source-ids") or [each.get("source-id")]
        # Dropped partition fields stay in tables of version 1.
        if each.get("transform") != "void" and not columns.issuperset(numbers):
            raise UnmergeableTableError(f"the table is {how} by a column that a side dropped")
