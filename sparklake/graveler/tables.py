"""Ranges and metaranges as files of an object store: written, fetched, verified."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks import Block, Blocks, block_of_records, concatenated, restricted
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
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.range_lists import MetaRange, RangeList, Ranges, overlapping, range_list
from sparklake.graveler.ranges import RangeInfo, byte_count
from sparklake.graveler.records import (
    Record,
    decode_record,
    has_trailer,
    with_trailer,
)
from sparklake.graveler.splitting import split
from sparklake.graveler.sstable import read_foreign, read_tables, table_bytes

_FILES_READ_AT_ONCE = 32
_BYTES_READ_AT_ONCE = 16 * 1024 * 1024
_METADATA_FOLDER = "_lakefs"
NO_TREE = MetaRange(EMPTY_META_RANGE, RangeList())

_RANGES, _META_RANGES = "ranges", "metaranges"


def table_key(table_id: str) -> str:
    """Returns where in a storage namespace a range or metarange lies."""
    return f"{_METADATA_FOLDER}/{table_id}"


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """Is a range just cut. An open one must be joined with whatever follows it."""

    info: RangeInfo
    closed: bool


# --- writing --------------------------------------------------------------------------------------


def write_ranges(blocks: Blocks, range_records: int) -> Iterator[tuple[WrittenRange, bytes]]:
    """Cuts records in key order into ranges; yields each with its file.

    Raises ValueError for keys that do not ascend.
    """
    for stretch in split(_ascending(blocks), range_records):
        info = describe_range(stretch.records)
        yield WrittenRange(info, stretch.closed), table_bytes(stretch.records)


def _ascending(blocks: Blocks) -> Iterator[Block]:
    """Passes on blocks whose keys ascend; a table in any other order would lose some."""
    last = b""
    for block in blocks:
        if len(block):
            if block.first_key <= last or not block.is_ascending:
                raise ValueError(f"keys from {block.first_key!r} on are out of order")
            last = block.last_key
        yield block


def describe_range(records: Block) -> RangeInfo:
    """Returns the range that some records make."""
    return RangeInfo(
        id=RangeId(file_id(records.ids.data)),
        min_key=records.first_key,
        max_key=records.last_key,
        count=len(records),
        size=records.size,
        tombstones=int(np.count_nonzero(records.tombstones)),
    )


def write_meta_range(store: ObjectStore, ranges: Ranges) -> MetaRange:
    """Writes the metarange of ranges in key order, durable on return; none is written for none."""
    if not ranges:
        return NO_TREE
    listed = range_list(ranges)
    meta_range_id = MetaRangeId(file_id(listed.block.ids.data))
    store.put_many_if_absent({table_key(meta_range_id): table_bytes(listed.block)})
    return MetaRange(meta_range_id, listed)


# --- reading --------------------------------------------------------------------------------------


def read_meta_range(store: ObjectStore, meta_range_id: MetaRangeId) -> MetaRange:
    """Reads a metarange and verifies it; raises MissingFileError or CorruptFileError."""
    if meta_range_id == EMPTY_META_RANGE:
        return NO_TREE
    ranges = RangeList(_read(store, [meta_range_id], _META_RANGES))
    try:
        # A range's file, taken for a metarange, is told by its ends.
        _ = ranges[0], ranges[-1]
    except CorruptFileError as error:
        raise _corrupt(meta_range_id) from error
    return MetaRange(meta_range_id, ranges)


def read_ranges(
    store: ObjectStore, ranges: Sequence[RangeInfo], interval: Interval = EVERYTHING
) -> Iterator[Block]:
    """Streams the records of ranges in key order, restricted to an interval.

    Only ranges that overlap the interval are fetched, and each is verified before it is passed on.
    Raises MissingFileError or CorruptFileError, naming the range.
    """
    for group in read_together(overlapping(ranges, interval)):
        inside = restricted(_read(store, [each.id for each in group], _RANGES), interval)
        if len(inside):
            yield inside


def read_together(ranges: Iterable[RangeInfo]) -> Iterator[list[RangeInfo]]:
    """Yields ranges as many at a time as are read at once: some files, of not too many bytes."""
    group: list[RangeInfo] = []
    for each in ranges:
        too_large = byte_count(group) + each.size > _BYTES_READ_AT_ONCE
        if group and (too_large or len(group) == _FILES_READ_AT_ONCE):
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def read_each(store: ObjectStore, ranges: Sequence[RangeInfo]) -> Iterator[Block]:
    """Yields the records of each range, verified; raises MissingFileError or CorruptFileError."""
    files = store.get_many([table_key(each.id) for each in ranges])
    for each, file in zip(ranges, files, strict=True):
        yield _decoded(store, [file], [each.id], _RANGES)


def verify_table(table_id: str, content: bytes) -> None:
    """Raises CorruptFileError unless some bytes are the range or metarange of an id."""
    if _read_ours([content], [table_id]) is None:
        try:
            _read_any(content, table_id, _RANGES)
        except CorruptFileError:
            # Of lakeFS's tables the id says which kind they are.
            _read_any(content, table_id, _META_RANGES)


def _read(store: ObjectStore, table_ids: Sequence[str], kind: str) -> Block:
    """Returns the records of tables, whose keys follow each other."""
    files = list(store.get_many([table_key(each) for each in table_ids]))
    return _decoded(store, files, table_ids, kind)


def _decoded(
    store: ObjectStore, files: Sequence[bytes], table_ids: Sequence[str], kind: str
) -> Block:
    """Returns the records in the files of tables, each verified unless the store has done so."""
    block = _read_ours(files, table_ids, trusted=store.verifies)
    if block is not None:
        return block
    pairs = zip(files, table_ids, strict=True)
    return concatenated([_read_any(file, each, kind) for file, each in pairs])


def _read_ours(
    files: Sequence[bytes], table_ids: Sequence[str], *, trusted: bool = False
) -> Block | None:
    """Returns the records of tables that we wrote; None if one of them is damaged or another's.

    What is trusted is not hashed again: RocksDB's checksums of the blocks tell damage.
    """
    found = read_tables(files)
    if found is None:
        return None
    block, counts = found
    start = 0
    for table_id, count in zip(table_ids, counts, strict=True):
        if not _are_those_of(block.slice(start, start + count), None if trusted else table_id):
            return None
        start += count
    return block


def _read_any(file: bytes, table_id: str, kind: str) -> Block:
    """Returns the records of one table, whoever wrote it; lakeFS's get their record ids here."""
    ours = _read_ours([file], [table_id])
    if ours is not None:
        return ours
    records = read_foreign(table_key(table_id), file)
    try:
        if records and not has_trailer(*records[0]):
            if _lakefs_id(records, kind) == table_id:
                return block_of_records([with_trailer(*record) for record in records])
        else:
            block = block_of_records(records)
            if _are_those_of(block, table_id):
                return block
    except CorruptFileError as error:
        # It names a key; the file is what can be restored.
        raise _corrupt(table_id) from error
    raise _corrupt(table_id)


def _are_those_of(block: Block, table_id: str | None) -> bool:
    """Tells whether records are those of a table's id: all by their ids, two by their bytes.

    Without an id, only the two are looked at.
    """
    if not len(block) or (table_id is not None and file_id(block.ids.data) != table_id):
        return False
    ends = (block.record(0), block.record(len(block) - 1))
    return all(
        record_id(key, decode_record(key, stored).identity) == stored[-RECORD_ID_BYTES:]
        for key, stored in ends
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
