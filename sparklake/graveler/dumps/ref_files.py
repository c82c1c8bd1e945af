"""Ref files in lakeFS's format and naming, as ranges under a metarange."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.json_format import MessageToDict

from sparklake.errors import CorruptFileError, InvalidDumpError, MissingFileError, SparklakeError
from sparklake.graveler.chunks import sliced
from sparklake.graveler.messages import (
    BranchDataMessage,
    CommitDataMessage,
    RangeDataMessage,
    TagDataMessage,
)
from sparklake.graveler.ports import Content, ObjectStore
from sparklake.graveler.records import Record, ValueRecord, byte_size, decode_record, plain_value
from sparklake.graveler.refs.names import is_commit_id
from sparklake.graveler.sstable.foreign import make_plain_table, read_foreign, table_properties
from sparklake.graveler.sstable.layout import damaged_table
from sparklake.graveler.sstable.range_files import lakefs_id, tree_file_key

_RANGES, META_RANGES = "ranges", "metaranges"
_ONLY_IN_LAKEFS = b"rocksdb.creation.time"
_HASHED = ("entity", "schema_definition", "schema_name", "type")
_RANGE_BYTES = 8 * 1024 * 1024
_UNREADABLE = (CorruptFileError, MissingFileError, InvalidDumpError)


class Entity(str, Enum):
    """The kind of records in a file, in lakeFS's words."""

    BRANCH = "branch"
    COMMIT = "commit"
    TAG = "tag"


MESSAGES: dict[Entity, Any] = {
    Entity.BRANCH: BranchDataMessage,
    Entity.COMMIT: CommitDataMessage,
    Entity.TAG: TagDataMessage,
}


def make_ref_tables(entity: Entity, records: Sequence[Record]) -> tuple[str, dict[str, bytes]]:
    """Return the metarange id of records, and files by key; "" and none for no records."""
    files: dict[str, bytes] = {}
    ranges = []
    for some in sliced(records, _RANGE_BYTES, byte_size):
        range_id = _add_table(files, entity, _RANGES, some)
        described = RangeDataMessage(
            min_key=some[0][0],
            max_key=some[-1][0],
            estimated_size=sum(map(byte_size, some)),
            count=len(some),
        )
        value = plain_value(range_id.encode(), described.SerializeToString(deterministic=True))
        ranges.append((some[-1][0], value))
    return (_add_table(files, entity, META_RANGES, ranges) if ranges else ""), files


def read_ref_records(store: ObjectStore, table_id: str, entity: Entity) -> list[ValueRecord]:
    """Return the records under a metarange in key order, verifying all files."""
    if not table_id:
        return []
    _, *range_ids = ref_table_ids(store, table_id, entity)
    records = [each for some in _read(store, range_ids, entity, _RANGES) for each in some]
    if any(before.key >= after.key for before, after in pairwise(records)):
        raise InvalidDumpError(f"{tree_file_key(table_id)} does not list its ranges in key order")
    return records


def find_ref_records(
    store: ObjectStore, table_id: str, entity: Entity
) -> tuple[list[ValueRecord], list[SparklakeError]]:
    """Return the records of the readable ranges under a metarange, and all problems."""
    try:
        return read_ref_records(store, table_id, entity), []
    except _UNREADABLE as error:
        first = error
    try:
        _, *range_ids = ref_table_ids(store, table_id, entity)
    except _UNREADABLE as error:
        return [], [error]
    records: list[ValueRecord] = []
    problems: list[SparklakeError] = []
    for each in range_ids:
        try:
            for some in _read(store, [each], entity, _RANGES):
                records += some
        except _UNREADABLE as error:
            problems.append(error)
    return records, problems or [first]


def ref_table_ids(store: ObjectStore, table_id: str, entity: Entity) -> list[str]:
    """Verify a metarange, and return its id and those of its ranges."""
    if not table_id:
        return []
    (ranges,) = _read(store, [table_id], entity, META_RANGES)
    return [table_id, *(each.identity.decode(errors="replace") for each in ranges)]


def lakefs_kind(name: str, file: Content) -> tuple[str, str]:
    """Return a lakeFS file's entity, "" for a tree, and its type; "" for other files."""
    properties = table_properties(name, file)
    if _ONLY_IN_LAKEFS not in properties:
        return "", ""
    entity, kind = (
        properties.get(each, b"").decode(errors="replace") for each in (b"entity", b"type")
    )
    return entity, kind


def record_total(store: ObjectStore, table_id: str, entity: Entity) -> int:
    """Return a metarange's number of records, or raise DecodeError. Reads no ranges."""
    (ranges,) = _read(store, [table_id], entity, META_RANGES)
    return sum(RangeDataMessage.FromString(each.data).count for each in ranges)


def _read(
    store: ObjectStore, table_ids: Sequence[str], entity: Entity, kind: str
) -> Iterator[list[ValueRecord]]:
    for each in table_ids:
        if not is_commit_id(each):  # Both ids have the same form.
            raise InvalidDumpError(f"{each!r} is not the id of a refs table: dump the refs again")
    files = store.get_many([tree_file_key(each) for each in table_ids])
    for table_id, file in zip(table_ids, files, strict=True):
        yield _read_table(table_id, file, entity, kind)


def _read_table(table_id: str, file: Content, entity: Entity, kind: str) -> list[ValueRecord]:
    name = tree_file_key(table_id)
    properties = table_properties(name, file)
    hashed = {
        each: properties[each.encode()].decode(errors="replace")
        for each in _HASHED
        if each.encode() in properties
    }
    # lakeFS writes empty tables, which RocksDB would refuse.
    records = [] if lakefs_id((), hashed) == table_id else read_foreign(name, file[:])
    if lakefs_id(records, hashed) != table_id:
        raise damaged_table(name)
    if (hashed.get("entity"), hashed.get("type")) != (entity.value, kind):
        raise InvalidDumpError(
            f"{name} does not contain {kind} of {entity.value} records: dump the refs again"
        )
    return [decode_record(*each) for each in records]


def _add_table(
    files: dict[str, bytes], entity: Entity, kind: str, records: Sequence[Record]
) -> str:
    name, definition = _schema(entity)
    hashed = {
        "entity": entity.value,
        "schema_definition": definition,
        "schema_name": name,
        "type": kind,
    }
    extra = {
        "count": str(len(records)),
        "estimated_size_bytes": str(sum(map(byte_size, records))),
        "max_key": records[-1][0].decode(),
        "min_key": records[0][0].decode(),
    }
    table_id = lakefs_id(records, hashed)
    files[tree_file_key(table_id)] = make_plain_table(records, {**hashed, **extra})
    return table_id


@cache
def _schema(entity: Entity) -> tuple[str, str]:
    """Return the name of a message, and its descriptor as JSON in lakeFS's spacing."""
    described: Any = MESSAGES[entity].DESCRIPTOR
    message = descriptor_pb2.DescriptorProto()
    described.CopyToProto(message)
    return described.full_name, json.dumps(MessageToDict(message), separators=(", ", ":"))
