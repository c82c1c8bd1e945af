"""Ranges and metaranges as files of an object store: write, read and verify."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks.align import restricted
from sparklake.graveler.blocks.block import EMPTY, Block, Blocks, block_of_records, concatenated
from sparklake.graveler.blocks.encoded import EncodedRecords, holds_its_ids
from sparklake.graveler.commits import hash_map
from sparklake.graveler.ids import EMPTY_META_RANGE, MetaRangeId, RangeId, file_id, is_generation
from sparklake.graveler.keys import EVERYTHING, Interval
from sparklake.graveler.planning.split import split
from sparklake.graveler.ports import Content, FetchedContent, ObjectStore, StoredObject
from sparklake.graveler.ranges import (
    MetaRange,
    RangeInfo,
    RangeList,
    Ranges,
    byte_count,
    overlapping,
    range_list,
)
from sparklake.graveler.records import Record, has_trailer, with_trailer
from sparklake.graveler.refs.names import is_commit_id
from sparklake.graveler.sstable.foreign import read_foreign
from sparklake.graveler.sstable.layout import damaged_table, ends_whole, out_of_order
from sparklake.graveler.sstable.reader import read_sstable
from sparklake.graveler.sstable.writer import make_table
from sparklake.layout import METADATA_FOLDER

_FILES_READ_AT_ONCE = 32
_BYTES_READ_AT_ONCE = 16 * 1024 * 1024
_SIZE_FACTOR, _RECORD_BYTES, _EXTRA_BYTES = 4, 256, 1 << 20
"""The limit of a range's file: this times its raw bytes, and bytes for each record and file."""

NO_TREE = MetaRange(EMPTY_META_RANGE, RangeList())

_RANGES, _META_RANGES = "ranges", "metaranges"


def tree_file_key(table_id: str) -> str:
    return f"{METADATA_FOLDER}{table_id}"


def find_table_id(key: str) -> str | None:
    """Return the id in the key of a tree file, or None for any other key."""
    table_id = key.removeprefix(METADATA_FOLDER)
    return table_id if table_id != key and is_commit_id(table_id) else None


def list_tree_files(store: ObjectStore) -> Iterator[tuple[str, StoredObject]]:
    """Yield the id and the file of each range and metarange in a namespace."""
    for each in store.list(METADATA_FOLDER):
        if table_id := find_table_id(each.key):
            yield table_id, each


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """A new range. An open one must be joined with the next range."""

    info: RangeInfo
    closed: bool


def as_put(info: RangeInfo, replaced: Mapping[RangeId, RangeId]) -> RangeInfo:
    """Return the range with its id in the store."""
    return replace(info, id=replaced.get(info.id, info.id))


def write_ranges(
    blocks: Blocks, range_records: int, *, compress: bool = True
) -> Iterator[tuple[WrittenRange, bytes]]:
    """Split records in key order into ranges; yield each with its file."""
    last = b""
    for stretch in split(blocks, range_records):
        info, file = make_range(stretch.records, compress=compress)
        if info.min_key <= last:
            raise out_of_order(info.min_key)
        last = info.max_key
        yield WrittenRange(info, stretch.closed), file


def make_range(records: Block, *, compress: bool = True) -> tuple[RangeInfo, bytes]:
    """Return the range of at least one record, and its file. Unordered keys are an error."""
    table = make_table(records, compress=compress)
    # Decoded: a copied data block may have another first key than its directory.
    if records.record(0)[0] != records.first_key:
        raise out_of_order(records.first_key)
    info = RangeInfo(
        id=RangeId(file_id(records.ids.data)),
        min_key=records.first_key,
        max_key=records.last_key,
        count=len(records),
        size=table.size,
        tombstones=table.tombstones,
    )
    return info, table.file


def make_meta_range(ranges: Ranges) -> tuple[MetaRange, dict[str, bytes]]:
    """Return the metarange of ranges in key order, and its file by key; no file without ranges."""
    if not ranges:
        return NO_TREE, {}
    listed = range_list(ranges)
    _ = listed.block.encoded  # Threads share trees.
    tree = MetaRange(MetaRangeId(file_id(listed.block.ids.data)), listed)
    return tree, {tree_file_key(tree.id): make_table(listed.block).file}


def read_meta_range(store: ObjectStore, meta_range_id: MetaRangeId) -> MetaRange:
    if meta_range_id == EMPTY_META_RANGE:
        return NO_TREE
    if meta_range_id == lakefs_id((), {"type": _META_RANGES}):
        # lakeFS writes an empty table when everything was deleted.
        return MetaRange(meta_range_id, RangeList())
    (file,) = store.get_many([tree_file_key(meta_range_id)])
    block = _read_table(file, meta_range_id, _META_RANGES, trusted=store.traits.verifies)
    _ = block.encoded  # Threads share trees.
    ranges = RangeList(block)
    try:
        # The first and the last record detect a range's file in place of a metarange.
        _ = ranges[0], ranges[-1]
    except CorruptFileError as error:
        raise damaged_table(tree_file_key(meta_range_id)) from error
    return MetaRange(meta_range_id, ranges)


def read_ranges(
    store: ObjectStore, ranges: Sequence[RangeInfo], interval: Interval = EVERYTHING
) -> Iterator[Block]:
    """Stream the verified records of ranges in an interval. Only overlapping ranges are read."""
    for group in read_together(overlapping(ranges, interval)):
        inside = restricted(concatenated(list(read_each(store, group))), interval)
        if len(inside):
            yield inside


def read_together(ranges: Iterable[RangeInfo]) -> Iterator[list[RangeInfo]]:
    """Group ranges to read together, bounded by files and bytes."""
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
    """Yield the verified records of each range."""
    files = store.get_many([tree_file_key(each.id) for each in ranges])
    for each, file in zip(ranges, files, strict=True):
        yield _range(store, each, file)


def read_packed(store: ObjectStore, ranges: Sequence[RangeInfo]) -> Iterator[Block]:
    """Yield packed records without keeping a file open. Errors are raised here or on access."""
    keys = [tree_file_key(each.id) for each in ranges]
    for each, key, content in zip(ranges, keys, store.get_many(keys), strict=True):
        if not isinstance(content, bytes):
            content = FetchedContent(store, key, len(content))
        yield _range(store, each, content)


def tree_file(store: ObjectStore, table_id: str) -> Content:
    """Return the content of a tree file, read in requested slices if possible."""
    return next(iter(store.get_many([tree_file_key(table_id)])))


def check_file_size(info: RangeInfo, size: int) -> None:
    """Raise CorruptFileError if a file is too large for a range. A grown file may fill memory."""
    if size > _SIZE_FACTOR * info.size + _RECORD_BYTES * info.count + _EXTRA_BYTES:
        raise damaged_table(tree_file_key(info.id))


def read_range_file(content: Content, range_id: str) -> Block:
    """Return the verified records of a range, even with a wrong directory or index."""
    return _read_table(content, range_id, _RANGES, lenient=True)


def read_meta_range_file(content: Content, meta_range_id: str) -> Block:
    """Return the verified records of a metarange; none in lakeFS's empty table."""
    if meta_range_id == lakefs_id((), {"type": _META_RANGES}):
        return EMPTY
    return _read_table(content, meta_range_id, _META_RANGES, lenient=True)


def verify_table(table_id: str, content: Content) -> None:
    """Raise CorruptFileError unless bytes are the range or metarange of an id."""
    try:
        block = _read_table(content, table_id, _RANGES)
    except CorruptFileError:
        # The id of a lakeFS table depends on its kind.
        block = _read_table(content, table_id, _META_RANGES)
    if not isinstance(block.units[0], EncodedRecords):
        _ = block.encoded
        return
    # Not read through its directory, if it has one. Readers that trust a verified table do.
    name = tree_file_key(table_id)
    ours = read_sstable(name, content)
    if ours is not None and not np.array_equal(ours.ids, block.ids):
        raise damaged_table(name)


def _range(store: ObjectStore, info: RangeInfo, file: Content) -> Block:
    """Return the records of a range, verified here or by the store.

    A file that contradicts its metarange has keys that searches would miss.
    """
    check_file_size(info, len(file))
    block = _read_table(file, info.id, _RANGES, trusted=store.traits.verifies)
    if (block.first_key, block.last_key) != (info.min_key, info.max_key):
        raise damaged_table(tree_file_key(info.id))
    return block


def _read_table(
    file: Content, table_id: str, kind: str, *, trusted: bool = False, lenient: bool = False
) -> Block:
    """Return the records of a tree file from any writer. Record ids are added to lakeFS's records.

    The ids of sparklake's own tables are verified unless `trusted`. Each data block is verified
    when it is opened.
    """
    name = tree_file_key(table_id)
    ours = read_sstable(name, file, lenient=lenient)
    if ours is not None and (trusted or is_generation(table_id, file_id(ours.ids.data))):
        return ours
    if not ends_whole(file):
        raise damaged_table(name)  # Of a grown file, nothing else is read.
    records = read_foreign(name, file[:])
    try:
        if records and not has_trailer(*records[0]):
            if lakefs_id(records, {"type": kind}) == table_id:
                return block_of_records([with_trailer(*record) for record in records])
        elif records:
            block = block_of_records(records)
            if is_generation(table_id, file_id(block.ids.data)) and holds_its_ids(block.encoded):
                return block
    except CorruptFileError as error:
        # The error names a key, but the file is what a user can restore.
        raise damaged_table(name) from error
    raise damaged_table(name)


def lakefs_id(records: Sequence[Record], properties: Mapping[str, str]) -> str:
    """Return lakeFS's id for a table: a hash of keys, complete values and properties."""
    digest = sha256()
    for record in records:
        for field in record:
            digest.update(b"%d%b|" % (len(field), field))
    digest.update(hash_map(properties))
    return digest.hexdigest()
