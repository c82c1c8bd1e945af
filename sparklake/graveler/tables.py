"""Ranges and metaranges as files of an object store: written, fetched, verified."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path

from google.protobuf.message import DecodeError

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks import Block, Blocks, restricted
from sparklake.graveler.commits import hash_map
from sparklake.graveler.ids import (
    EMPTY_META_RANGE,
    RECORD_ID_BYTES,
    MetaRangeId,
    RangeId,
    file_id,
    record_id,
)
from sparklake.graveler.keys import EVERYTHING, Interval
from sparklake.graveler.messages import RangeDataMessage
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange, RangeInfo, byte_count, overlapping
from sparklake.graveler.records import (
    Record,
    decode_record,
    encode_record,
    has_trailer,
    with_trailer,
)
from sparklake.graveler.splitting import split
from sparklake.graveler.sstable import open_tables, write_table

_FILES_OPEN_AT_ONCE = 64
_BYTES_OPEN_AT_ONCE = 16 * 1024 * 1024
_METADATA_FOLDER = "_lakefs"


def table_key(table_id: str) -> str:
    """Returns where in a storage namespace a range or metarange lies."""
    return f"{_METADATA_FOLDER}/{table_id}"


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """Is a range just cut. An open one must be joined with whatever follows it."""

    info: RangeInfo
    closed: bool


# --- writing --------------------------------------------------------------------------------------


def write_ranges(
    blocks: Blocks, range_records: int, folder: Path
) -> Iterator[tuple[WrittenRange, Path]]:
    """Cuts records in key order into ranges, written to local files; yields each when it is done.

    Raises ValueError for keys that do not ascend from range to range; within one, RocksDB refuses.
    """
    last = b""
    for stretch in split(blocks, range_records):
        info = describe_range(stretch.records)
        if info.min_key <= last:
            raise ValueError(f"records out of order: {info.min_key!r} after {last!r}")
        last = info.max_key
        path = folder / f"{info.id}-{uuid.uuid4().hex}"
        write_table(path, stretch.records)
        yield WrittenRange(info, stretch.closed), path


def describe_range(records: Block) -> RangeInfo:
    """Returns the range that some records make."""
    return RangeInfo(
        id=RangeId(file_id([stored[-RECORD_ID_BYTES:] for _, stored in records])),
        min_key=records[0][0],
        max_key=records[-1][0],
        count=len(records),
        size=sum([len(key) + len(stored) for key, stored in records]),
    )


def write_meta_range(store: ObjectStore, ranges: Sequence[RangeInfo], scratch: Path) -> MetaRange:
    """Writes the metarange of ranges in key order; it is durable on return."""
    records = [_range_record(each) for each in ranges]
    if not records:
        return MetaRange(EMPTY_META_RANGE, ())
    meta_range_id = MetaRangeId(file_id(stored[-RECORD_ID_BYTES:] for _, stored in records))
    path = scratch / f"{meta_range_id}-{uuid.uuid4().hex}"
    write_table(path, records)
    store.put_files_if_absent({table_key(meta_range_id): path})
    path.unlink()
    return MetaRange(meta_range_id, tuple(ranges))


def _range_record(each: RangeInfo) -> Record:
    message = RangeDataMessage(
        min_key=each.min_key, max_key=each.max_key, estimated_size=each.size, count=each.count
    )
    return encode_record(each.max_key, each.id.encode(), message.SerializeToString())


# --- reading --------------------------------------------------------------------------------------


def read_meta_range(store: ObjectStore, meta_range_id: MetaRangeId, scratch: Path) -> MetaRange:
    """Reads a metarange and verifies it; raises MissingFileError or CorruptFileError."""
    if meta_range_id == EMPTY_META_RANGE:
        return MetaRange(meta_range_id, ())
    path = _fetch(store, meta_range_id, scratch)
    with open_tables([path], scratch) as items:
        records = _verified(list(items), meta_range_id, "metaranges")
    try:
        return MetaRange(meta_range_id, tuple(map(_range_info, records)))
    except (DecodeError, ValueError) as error:
        raise _corrupt(meta_range_id) from error


def read_ranges(
    store: ObjectStore,
    ranges: Sequence[RangeInfo],
    scratch: Path,
    interval: Interval = EVERYTHING,
) -> Iterator[Block]:
    """Streams the records of ranges in key order, a range a block, restricted to an interval.

    Only ranges that overlap the interval are fetched, and each is verified before it is passed on.
    Raises MissingFileError or CorruptFileError, naming the range.
    """
    for group in _groups(overlapping(ranges, interval)):
        paths = [_fetch(store, each.id, scratch) for each in group]
        with _culprit_named(store, group, scratch), open_tables(paths, scratch) as items:
            for each in group:
                records = _verified(list(islice(items, each.count)), each.id, "ranges")
                inside = restricted(records, interval)
                if inside:
                    yield inside


def _groups(ranges: Iterable[RangeInfo]) -> Iterator[list[RangeInfo]]:
    """Yields ranges as many at a time as are opened together."""
    group: list[RangeInfo] = []
    for each in ranges:
        too_large = byte_count(group) + each.size > _BYTES_OPEN_AT_ONCE
        if group and (too_large or len(group) == _FILES_OPEN_AT_ONCE):
            yield group
            group = []
        group.append(each)
    if group:
        yield group


@contextmanager
def _culprit_named(store: ObjectStore, group: Sequence[RangeInfo], scratch: Path) -> Iterator[None]:
    """Finds the corrupt range where RocksDB can only blame all that are open."""
    try:
        yield
    except CorruptFileError:
        for each in group if len(group) > 1 else ():
            for _ in read_ranges(store, [each], scratch):
                pass
        raise


def _fetch(store: ObjectStore, table_id: str, scratch: Path) -> Path:
    path = scratch / f"{table_id}-{uuid.uuid4().hex}"
    store.get_to_file(table_key(table_id), path)
    return path


def _range_info(record: Record) -> RangeInfo:
    """Returns the range that a metarange's record describes; raises what bad bytes raise."""
    decoded = decode_record(*record)
    message = RangeDataMessage.FromString(decoded.data)
    if message.max_key != decoded.key:
        raise ValueError(f"the record of {decoded.key!r} describes no range")
    return RangeInfo(
        id=RangeId(decoded.identity.decode()),
        min_key=message.min_key,
        max_key=message.max_key,
        count=message.count,
        size=message.estimated_size,
    )


def _verified(records: list[Record], table_id: str, kind: str) -> list[Record]:
    """Returns records that are those of their table's id; lakeFS's get their record ids here."""
    try:
        if records and not has_trailer(*records[0]):
            if _lakefs_id(records, kind) == table_id:
                return [with_trailer(*record) for record in records]
        elif _are_those_of(records, table_id):
            return records
    except CorruptFileError as error:
        # It names a key; the file is what can be restored.
        raise _corrupt(table_id) from error
    raise _corrupt(table_id)


def _are_those_of(records: Sequence[Record], table_id: str) -> bool:
    if not records or file_id([stored[-RECORD_ID_BYTES:] for _, stored in records]) != table_id:
        return False
    return all(
        record_id(key, decode_record(key, stored).identity) == stored[-RECORD_ID_BYTES:]
        for key, stored in (records[0], records[-1])
    )


def _lakefs_id(records: Sequence[Record], kind: str) -> str:
    """Returns the id that lakeFS gives a table: a hash of keys and whole values."""
    digest = sha256()
    for record in records:
        for field in record:
            digest.update(b"%d%b|" % (len(field), field))
    digest.update(hash_map({"type": kind}))
    return digest.hexdigest()


def _corrupt(table_id: str) -> CorruptFileError:
    return CorruptFileError(
        f"{table_key(table_id)} does not hold the records that its name promises; "
        "restore the file from a backup of the storage namespace"
    )
