"""Column ids, assigned independently by each merge side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

from sparklake.metadata.iceberg.documents import Document
from sparklake.metadata.union.conflicts import UnmergeableTableError

Field = Mapping[str, Any]

ColumnIds: TypeAlias = Mapping[int, int]
"""The ids of a side's columns with those that replace them. Ids that stay are left out."""

_SETTINGS = ("schemas", "schema", "partition-specs", "partition-spec", "sort-orders")
_IDS = ("id", "element-id", "key-id", "value-id", "source-id", "source-ids", "identifier-field-ids")
_PARTS = ("fields", "type", "element", "key", "value")


def schema_of(document: Document, number: int | None) -> Field | None:
    every = document.get("schemas") or [document.get("schema") or {}]
    return next((each for each in every if each.get("schema-id", 0) == number), None)


def current_schema(document: Document) -> Field:
    schema = schema_of(document, document.get("current-schema-id", 0))
    if schema is None:
        raise UnmergeableTableError("its metadata lacks the current schema")
    return schema


def clashing_ids(base: Document, source: Document, dest: Document) -> set[int]:
    """Return the ids that both sides gave to columns, except to equal ones.

    Older ids are compared, too, because merges give other ids to columns.
    """
    start = base.get("last-column-id", 0)
    stop = min(source.get("last-column-id", 0), dest.get("last-column-id", 0))
    theirs, ours = map(definitions, (source, dest))
    return {
        each
        for each in range(1, stop + 1)
        if (each > start or (each in theirs and each in ours))
        and (each not in ours or theirs.get(each, set()).isdisjoint(ours[each]))
    }


def definitions(document: Document) -> dict[int, set[Any]]:
    """Return the columns by id, in all schemas."""
    columns = defaultdict[int, set[Any]](set)
    for schema in document.get("schemas") or [document.get("schema") or {}]:
        for number, column in numbered(schema):
            columns[number].add(column)
    return {**columns}


def numbered(schema: Field) -> Iterator[tuple[int, Any]]:
    """Yield the columns by id, nested ones too: path, type without nested ones, and required."""
    yield from _fields(schema, "")


def _fields(struct: Field, prefix: str) -> Iterator[tuple[int, Any]]:
    for each in struct.get("fields") or ():
        yield from _column(each["id"], prefix + each["name"], each["type"], each["required"])


def _column(number: int, name: str, kind: Any, required: bool) -> Iterator[tuple[int, Any]]:
    if isinstance(kind, str):
        yield number, (name, kind, required)
        return
    yield number, (name, kind["type"], required)
    if kind["type"] == "struct":
        yield from _fields(kind, f"{name}.")
    elif kind["type"] == "list":
        required = kind["element-required"]
        yield from _column(kind["element-id"], f"{name}.element", kind["element"], required)
    else:
        yield from _column(kind["key-id"], f"{name}.key", kind["key"], True)
        required = kind["value-required"]
        yield from _column(kind["value-id"], f"{name}.value", kind["value"], required)


# --- the same ids on all sides --------------------------------------------------------------------


def in_ids_of_dest(documents: Sequence[Document]) -> tuple[list[Document], list[ColumnIds]]:
    """Return the metadata of merge bases, source and dest in dest's ids, and the changed ids.

    Ids change if both sides gave one to different columns. A column of a merge base is the one that
    dest has, or had, with its path and type. A column that source added is the one of dest's
    current schema. If dest has none, it gets a new id.

    Raises:
        UnmergeableTableError: Two columns of a side would be one.
    """
    *bases, source, dest = documents
    theirs, ours = definitions(source), definitions(dest)
    clashing = {at for each in bases for at in clashing_ids(each, source, dest) if at in theirs}
    for old in map(definitions, bases):
        clashing.update(_apart(old, ours))
        _check_found(old, theirs)
        _check_found(old, ours)
    if not clashing:
        return [*documents], [{} for _ in documents]
    fresh = count(1 + max(each.get("last-column-id", 0) for each in documents))
    current, added = ({at: {each} for at, each in _current(side)} for side in (dest, source))
    known: list[tuple[int, set[Any], int]] = []
    """The columns of merge bases: id, definitions and new id."""
    every: list[ColumnIds] = []
    for side in (*bases, source):
        ids = dict[int, int]()
        for at, columns in definitions(side).items():
            matches = [new for one, same, new in known if one == at and columns & same]
            if not matches and not columns & ours.get(at, set()):
                own, candidates = (
                    (added.get(at, set()), current) if side is source else (columns, ours)
                )
                matches = [new for new, same in candidates.items() if own & same]
                matches = matches or ([next(fresh)] if at in clashing else [])
            ids[at] = matches[0] if matches else at
        if len({*ids.values()}) < len(ids):
            raise UnmergeableTableError(
                f"both sides gave the column id {min(clashing)} to different columns, and one side "
                "gave the name of a column to several"
            )
        if side is not source:
            known += [(at, columns, ids[at]) for at, columns in definitions(side).items()]
        every.append({at: new for at, new in ids.items() if at != new})
    last = next(fresh)
    moved = [
        {**with_ids(each, ids), "last-column-id": last}
        for each, ids in zip(documents, every, strict=False)
    ]
    return [*moved, dest], [*every, {}]


def own_ids(ids: ColumnIds, settings: Document) -> ColumnIds:
    """Return a side's own ids of the columns of merged settings, which it may lack."""
    own = {new: at for at, new in ids.items()}
    fresh = count(1 + max((settings["last-column-id"], *ids, *own)))
    changed = (at for at in definitions(settings) if at in own or at in ids)
    return {at: own[at] if at in own else next(fresh) for at in changed}


def with_ids(document: Document, ids: ColumnIds) -> Document:
    """Return metadata with other ids of columns."""
    if not ids:
        return document
    parts = {name: _with_ids(document[name], ids) for name in _SETTINGS if document.get(name)}
    last = max(document.get("last-column-id", 0), *ids.values())
    return {**document, **parts, "last-column-id": last}


def _with_ids(part: Any, ids: ColumnIds) -> Any:
    if isinstance(part, int):
        return ids.get(part, part)
    if isinstance(part, list):
        return [_with_ids(each, ids) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: _with_ids(each, ids) if name in (*_IDS, *_PARTS) else each
        for name, each in part.items()
    }


def _current(document: Document) -> Iterator[tuple[int, Any]]:
    return numbered(current_schema(document))


def _apart(old: Mapping[int, set[Any]], ours: Mapping[int, set[Any]]) -> list[int]:
    """Return the ids of base that a side gave to other columns, as after a merge into it."""
    return [at for at in old.keys() & ours.keys() if old[at].isdisjoint(ours[at])]


def _check_found(old: Mapping[int, set[Any]], ours: Mapping[int, set[Any]]) -> None:
    """Reject a side that changed a column of base, and lacks the schema with the former name."""
    every = set[Any]().union(*ours.values())
    changed = [at for at in _apart(old, ours) if old[at].isdisjoint(every)]
    if changed:
        raise UnmergeableTableError(
            f"a side lacks the schema in which the column id {min(changed)} has its former name or "
            "type"
        )
