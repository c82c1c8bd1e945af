"""Data blocks of a table: their ends, and which are opened or reused."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import CorruptFileError
from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.algebra.compare import diff
from sparklake.graveler.algebra.staged import apply
from sparklake.graveler.algebra.three_way_merge import merge
from sparklake.graveler.blocks.block import Block, block_of_records, concatenated
from sparklake.graveler.blocks.columns import keys_of
from sparklake.graveler.blocks.encoded import EncodedRecords
from sparklake.graveler.ids import file_id
from sparklake.graveler.records import Record, encode_record, tombstone
from sparklake.graveler.sstable.directory import BLOCK_RECORDS, BlockColumn, block_ends
from sparklake.graveler.sstable.range_files import make_range
from sparklake.graveler.sstable.reader import DataBlocks, Table, read_sstable
from sparklake.graveler.sstable.writer import make_table
from tests.support.blocks import take_side

COUNT = 4000
BASE = [encode_record(b"key-%06d" % number, b"v%d" % number, b"d" * 40) for number in range(COUNT)]


def file_of(records: list[Record], *, compress: bool = True) -> bytes:
    return make_table(block_of_records(records), compress=compress).file


@dataclass
class Watched:
    """File content that records which parts are read."""

    file: bytes
    parts: list[slice] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.file)

    def __getitem__(self, part: slice) -> bytes:
        self.parts.append(part)
        return self.file[part]


def opened(file: bytes) -> tuple[Block, Table]:
    block = read_sstable("_lakefs/table", Watched(file))
    assert block is not None
    (unit,) = block.units
    assert isinstance(unit, DataBlocks)
    return block, unit.table


def changed(*numbers: int) -> list[Record]:
    return [encode_record(BASE[number][0], b"new", b"n") for number in numbers]


def blocks_of(table: Table, *numbers: int) -> set[int]:
    """Return the data blocks of the given records of BASE."""
    ends = np.cumsum(table.directory.numbers[BlockColumn.COUNT])
    return set(np.searchsorted(ends, numbers, "right").tolist())


def read(table: Table) -> set[int]:
    """Return the numbers of the data blocks read so far."""
    offsets, sizes = table.directory.numbers[BlockColumn.OFFSET : BlockColumn.SIZE + 1]
    assert isinstance(table.file, Watched)
    return {
        number
        for start, stop, _ in (part.indices(len(table.file)) for part in table.file.parts)
        for number in np.flatnonzero((offsets >= start) & (offsets + sizes <= stop)).tolist()
    }


def packed(table: Table) -> list[bytes]:
    """Return the data blocks of a table as they lie in its file."""
    places = table.directory.numbers[BlockColumn.OFFSET : BlockColumn.SIZE + 1].T.tolist()
    return [table.file[offset : offset + size] for offset, size in places]


# --- where they end -------------------------------------------------------------------------------


def expected_ends(ids: list[bytes]) -> list[int]:
    ends, last = [], 0
    for end, each in enumerate(ids, 1):
        full = end - last == 4 * BLOCK_RECORDS
        if each[0] % BLOCK_RECORDS == 0 or full or end == len(ids):
            ends.append(end)
            last = end
    return ends


@given(st.lists(st.integers(0, 255), min_size=1, max_size=900), st.integers(0, 1))
def test_record_ids_determine_the_ends_of_data_blocks(first_bytes: list[int], odd: int) -> None:
    ids = [bytes([each | odd]) + bytes(31) for each in first_bytes]
    words = np.frombuffer(b"".join(ids), np.uint64).reshape(len(ids), 4)
    assert block_ends(words).tolist() == expected_ends(ids)


@pytest.mark.parametrize("compress", [True, False])
def test_a_directory_describes_its_table(compress: bool) -> None:
    records = sorted([*BASE[:300], tombstone(b"key-000100x"), tombstone(b"key-000200x")])
    table_file = make_table(block_of_records(records), compress=compress)
    block, table = opened(table_file.file)
    assert block.records() == records
    assert file_id(block.ids.data) == file_id(b"".join(stored[-32:] for _, stored in records))
    ends = np.cumsum(table.directory.numbers[BlockColumn.COUNT]).tolist()
    assert table.directory.last_keys == [records[end - 1][0] for end in ends]
    assert table.directory.first_keys == [records[at][0] for at in [0, *ends[:-1]]]
    assert table_file.size == sum(len(key) + len(stored) for key, stored in records)
    assert table_file.tombstones == table.directory.numbers[BlockColumn.TOMBSTONES].sum() == 2


def test_compression_keeps_the_records_and_reduces_the_size() -> None:
    small, large = file_of(BASE), file_of(BASE, compress=False)
    assert len(small) < len(large)
    assert opened(small)[0].records() == opened(large)[0].records() == BASE


# --- which are opened -----------------------------------------------------------------------------


def test_a_commit_opens_only_changed_data_blocks() -> None:
    block, table = opened(file_of(BASE))
    staged = block_of_records(changed(10, 2000))
    result = concatenated(list(apply([[staged]], [block], ChangeCounts())))
    assert read(table) == blocks_of(table, 10, 2000)
    # Besides the changed data blocks, only those next to a new block end are written anew.
    before, after = packed(table), packed(opened(make_table(result).file)[1])
    assert 2 <= len(set(before) - set(after)) <= 4


def test_a_diff_opens_only_different_data_blocks() -> None:
    after = {**dict(BASE), **dict(changed(5, 3999))}
    sides = [opened(file_of(records)) for records in (BASE, sorted(after.items()))]
    (changes,) = diff(*([block] for block, _ in sides))
    assert [change.key for change in changes] == [BASE[5][0], BASE[3999][0]]
    for _, table in sides:
        assert len(read(table)) <= 2


def test_equal_sides_are_not_opened() -> None:
    sides = [opened(file_of(BASE)) for _ in range(3)]
    blocks = [[block] for block, _ in sides]
    assert list(diff(*blocks[:2])) == []
    (result,) = merge(*blocks, take_side(Strategy.DEST_WINS))
    assert not any(read(table) for _, table in sides)
    assert make_table(result).file == file_of(BASE)


def test_a_merge_of_separate_changes_does_not_open_base() -> None:
    source = sorted({**dict(BASE), **dict(changed(100))}.items())
    dest = sorted({**dict(BASE), **dict(changed(3000))}.items())
    sides = [opened(file_of(records)) for records in (BASE, source, dest)]
    (result,) = merge(*([block] for block, _ in sides), take_side(Strategy.DEST_WINS))
    assert result.records() == sorted({**dict(BASE), **dict(changed(100, 3000))}.items())
    assert not read(sides[0][1])


def test_a_lookup_opens_one_data_block() -> None:
    block, table = opened(file_of(BASE))
    assert block.position(BASE[1234][0]) == 1234
    assert block.record(1234) == BASE[1234]
    assert read(table) == blocks_of(table, 1234)


# --- damage ---------------------------------------------------------------------------------------


def damaged(file: bytes, number: int) -> bytes:
    """Return a file with one changed byte in a data block."""
    _, table = opened(file)
    at = int(table.directory.numbers[BlockColumn.OFFSET, number]) + 3
    return file[:at] + bytes([file[at] ^ 1]) + file[at + 1 :]


@pytest.mark.parametrize("compress", [True, False])
def test_opening_a_damaged_data_block_is_an_error(compress: bool) -> None:
    file = damaged(file_of(BASE, compress=compress), 7)
    block, _ = opened(file)
    start, stop = block.starts[7:9].tolist()
    assert block.slice(0, start).records() == BASE[:start]
    assert block.slice(stop, COUNT).records() == BASE[stop:]
    for show in (lambda: block.record(start), lambda: block.slice(0, stop - 1).records()):
        with pytest.raises(CorruptFileError, match=r"_lakefs/table does not contain the records"):
            show()


@pytest.mark.parametrize("compress", [False, True])
def test_a_lookup_in_a_damaged_data_block_is_an_error(compress: bool) -> None:
    file = damaged(file_of(BASE, compress=compress), 7)
    block, _ = opened(file)
    bad = 0
    for key, stored in BASE:
        try:
            assert block.stored(key) == stored
        except CorruptFileError:
            bad += 1
    assert 0 < bad < len(BASE) // 4


def test_a_damaged_data_block_is_not_copied() -> None:
    block, _ = opened(damaged(file_of(BASE), 7))
    staged = block_of_records(changed(COUNT - 1))
    (result,) = apply([[staged]], [block], ChangeCounts())
    with pytest.raises(CorruptFileError, match="_lakefs/table"):
        make_table(result)


def test_swapped_data_blocks_are_detected() -> None:
    """All checksums are right; only the record ids differ."""
    block, table = opened(file_of(BASE, compress=False))
    numbers = table.directory.numbers.copy()
    counts = numbers[BlockColumn.COUNT]
    one, other = next(
        (a, b) for a in range(len(counts)) for b in range(a) if counts[a] == counts[b]
    )
    places = slice(BlockColumn.OFFSET, BlockColumn.RAW_SIZE + 1)
    numbers[places, [one, other]] = numbers[places, [other, one]]
    swapped = Table("_lakefs/table", table.file, table.directory._replace(numbers=numbers))
    with pytest.raises(CorruptFileError, match="_lakefs/table"):
        Block([DataBlocks(swapped, 0, len(counts))], block.ids).records()
    blocks = DataBlocks(swapped, 0, len(counts))
    (key,) = (record[0] for record in BASE if record[0] == blocks.last_keys[one])
    for look in (blocks.find, blocks.reaching, lambda key: blocks.find_many(keys_of([key]))):
        with pytest.raises(CorruptFileError, match="_lakefs/table"):
            look(key[:-1] + b"!" if look == blocks.reaching else key)


def test_a_range_with_a_wrong_first_key_is_rejected() -> None:
    block, table = opened(file_of(BASE))
    keys = [*table.directory.first_keys]
    keys[1] = table.directory.last_keys[1]
    wrong = Table("_lakefs/table", table.file, table.directory._replace(first_keys=keys))
    records = Block([DataBlocks(wrong, 1, len(keys))], block.ids[block.starts[1] :])
    with pytest.raises(CorruptFileError, match="out of order"):
        make_range(records)


@pytest.mark.parametrize("is_encoded", [False, True])
def test_a_bulk_lookup_agrees_with_single_lookups(is_encoded: bool) -> None:
    block, _ = opened(file_of(BASE))
    (unit,) = block.units
    records = block.encoded if is_encoded else unit
    assert isinstance(records, EncodedRecords | DataBlocks)
    keys = [b"", *(key + end for key, _ in BASE[::7] for end in (b"", b"x")), b"~"]
    values, positions = records.find_many(keys_of(keys))
    expected = [(at, value) for at, key in enumerate(keys) if (value := records.find(key))]
    assert list(zip(positions.tolist(), values.to_pylist(), strict=True)) == expected
    assert len(expected) == len(BASE[::7])


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 0, 1)])
def test_keys_out_of_order_are_rejected(order: tuple[int, ...]) -> None:
    with pytest.raises(CorruptFileError, match="out of order"):
        file_of([BASE[number] for number in order])
    parts = [opened(file_of(BASE[:500]))[0], opened(file_of(BASE[400:900]))[0]]
    ids = np.concatenate([part.ids for part in parts])
    joined = Block([unit for part in parts for unit in part.units], ids)
    with pytest.raises(CorruptFileError, match="out of order"):
        make_table(joined)
