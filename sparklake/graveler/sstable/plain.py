"""Tables as lakeFS itself lays them out: plain records and properties, no directory of ours.

They are for what is small and read whole: the refs of a repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparklake.graveler.encoded import KEY_SUFFIX, SUFFIX_BYTES
from sparklake.graveler.ports import Content
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.files import TableFile
from sparklake.graveler.sstable.layout import (
    NotOurLayoutError,
    compressed,
    damaged_table,
    handle_bytes,
    number_bytes,
    properties,
    small_block,
)

_BLOCK_BYTES = 32 * 1024


def make_plain_table(records: Sequence[Record], named: Mapping[str, str]) -> bytes:
    """Returns the table of some records in key order, at least one, with properties of its own."""
    file = TableFile(compressed)
    index = []
    for block in _blocks(records):
        content = small_block([(key + KEY_SUFFIX, value) for key, value in block])
        index.append((block[-1][0] + KEY_SUFFIX, handle_bytes(file.add(*file.pack(content)))))
    data_bytes = file.size
    index_handle = file.add(*compressed(small_block(index)))
    key_bytes = sum(len(key) + SUFFIX_BYTES for key, _ in records)
    numbers = {
        b"rocksdb.data.size": data_bytes,
        b"rocksdb.index.size": index_handle.size,
        b"rocksdb.num.data.blocks": len(index),
        b"rocksdb.num.entries": len(records),
        b"rocksdb.raw.key.size": key_bytes,
        b"rocksdb.raw.value.size": sum(len(value) for _, value in records),
    }
    own = {name.encode(): text.encode() for name, text in named.items()}
    return file.ended(
        index_handle, {**own, **{name: number_bytes(each) for name, each in numbers.items()}}
    )


def table_properties(name: str, file: Content) -> dict[bytes, bytes]:
    """Returns the properties of a table, whoever wrote it; raises CorruptFileError, naming it."""
    try:
        return properties(file)
    except NotOurLayoutError:
        raise damaged_table(name) from None


def _blocks(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Yields the records of each data block."""
    start = size = 0
    for at, (key, value) in enumerate(records, 1):
        size += len(key) + len(value)
        if size >= _BLOCK_BYTES or at == len(records):
            yield records[start:at]
            start, size = at, 0
