"""Record blocks, compared with lists of tuples."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks.align import aligned, restricted, unequal
from sparklake.graveler.blocks.block import (
    EMPTY,
    Block,
    block_of_encoded,
    block_of_records,
    concatenated,
)
from sparklake.graveler.blocks.edit import edited
from sparklake.graveler.blocks.encoded import EncodedRecords
from sparklake.graveler.buffers import binary_array
from sparklake.graveler.keys import Interval
from sparklake.graveler.records import Record, encode_record, tombstone
from sparklake.graveler.sstable.reader import read_sstable
from sparklake.graveler.sstable.writer import make_table

keys = st.binary(min_size=1, max_size=4)
some_records = st.dictionaries(keys, st.binary(min_size=1, max_size=300), max_size=30).map(
    lambda pairs: [encode_record(key, value[:200], value) for key, value in sorted(pairs.items())]
)


def unread(records: list[Record]) -> Block:
    """Return a block as read from a foreign file, before any length is parsed."""
    if not records:
        return EMPTY
    return block_of_encoded(EncodedRecords(block_of_records(records).encoded.entries))


def packed(records: list[Record]) -> Block:
    """Return a block as read from our own file, with all data blocks closed."""
    if not records:
        return EMPTY
    read = read_sstable("table", make_table(block_of_records(records)).file)
    assert read is not None
    return read


def mixed(records: list[Record]) -> Block:
    """Return a block with both packed and open records."""
    makers = (packed, block_of_records, unread)
    thirds = range(0, len(records), 3)
    return concatenated(
        [makers[at % len(makers)](records[at * 3 : at * 3 + 3]) for at in range(len(thirds))]
    )


every_block_kind = pytest.mark.parametrize("make", [block_of_records, unread, packed, mixed])


@every_block_kind
@given(records=some_records)
def test_a_block_returns_its_records(make, records: list[Record]) -> None:
    block = make(records)
    assert len(block) == len(records)
    assert [block.record(at) for at in range(len(block))] == records
    assert make(records).records() == records
    assert [bytes(row) for row in block.ids] == [stored[-32:] for _, stored in records]
    assert block.encoded.is_ascending
    for key, _ in records:
        assert records[block.position(key)][0] == key
    assert block.position(b"\xff" * 5) == len(records)


@every_block_kind
@given(records=some_records, others=st.lists(keys, max_size=5))
def test_a_single_record_is_looked_up(make, records: list[Record], others: list[bytes]) -> None:
    block, there = make(records), dict(records)
    for key in [*there, *others, b"", b"\xff" * 5]:
        assert block.stored(key) == there.get(key)
    if make is packed and records:
        assert not block.units[0].table.contents, "nothing stays open"


@every_block_kind
@given(records=some_records, data=st.data())
def test_slices_of_a_block_equal_slices_of_a_list(
    make, records: list[Record], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(records)))
    stop = data.draw(st.integers(start, len(records)))
    block = make(records)
    if data.draw(st.booleans()):
        _ = block.keys
    part = block.slice(start, stop)
    assert part.records() == records[start:stop]
    assert [part.record(at) for at in range(len(part))] == records[start:stop]
    rows = sorted(data.draw(st.sets(st.integers(0, max(0, len(records) - 1)), max_size=5)))
    if records:
        assert block.take(np.array(rows, np.int64)).records() == [records[row] for row in rows]
    cut = concatenated([make(records[:start]), EMPTY, make(records[start:])])
    assert cut.records() == records
    interval = Interval(data.draw(keys), data.draw(keys | st.none()))
    assert restricted(block, interval).records() == [
        each for each in records if each[0] in interval
    ]


@every_block_kind
@given(records=some_records, others=some_records, data=st.data())
def test_an_edit_drops_and_adds_records(
    make, records: list[Record], others: list[Record], data: st.DataObject
) -> None:
    dropped = [data.draw(st.booleans()) for _ in records]
    retained = dict(each for each, drop in zip(records, dropped, strict=True) if not drop)
    added = [each for each in others if each[0] not in retained]
    result = edited(make(records), np.array(dropped, bool), make(added))
    assert result.records() == sorted({**retained, **dict(added)}.items())


@given(st.lists(some_records, min_size=1, max_size=4), st.integers(1, 7))
def test_aligned_blocks_hold_the_same_keys(sides: list[list[Record]], size: int) -> None:
    streams = [
        [mixed(side[at : at + size + number]) for at in range(0, len(side), size + number)]
        for number, side in enumerate(sides)
    ]
    aligned_records: list[list[Record]] = [[] for _ in sides]
    last = b""
    for blocks in aligned(*streams):
        firsts = [block.first_key for block in blocks if len(block)]
        assert firsts
        assert min(firsts) > last
        last = max(block.last_key for block in blocks if len(block))
        for side, block in zip(aligned_records, blocks, strict=True):
            side.extend(block.records())
    assert aligned_records == sides


@every_block_kind
@given(records=some_records, searched=st.lists(keys, unique=True, max_size=9))
def test_find_agrees_with_bisection(make, records: list[Record], searched: list[bytes]) -> None:
    searched.sort()
    searched_block = block_of_records([encode_record(key, b"i", b"") for key in searched])
    places, matches = make(records).find(searched_block.keys)
    there = [key for key, _ in records]
    assert places.tolist() == [bisect_left(there, key) for key in searched]
    assert matches.tolist() == [key in there for key in searched]


def test_tombstones_are_marked() -> None:
    records = sorted([tombstone(b"a"), encode_record(b"b", b"\0", b""), tombstone(b"c")])
    assert block_of_records(records).tombstones.tolist() == [True, False, True]


@pytest.mark.parametrize("records", [[b"b", b"a"], [b"a", b"a"]])
def test_keys_out_of_order_are_detected(records: list[bytes]) -> None:
    block = block_of_records([encode_record(key, b"i", b"") for key in records])
    assert not block.encoded.is_ascending


def test_malformed_entries_are_rejected() -> None:
    entry = block_of_records([encode_record(b"key", b"i", b"d")]).encoded.entries[0].as_py()
    for bad in (b"\1" + entry[1:], entry.replace(b"key\1", b"key\2"), entry + b"more"):
        with pytest.raises(CorruptFileError):
            _ = EncodedRecords(binary_array(np.array([0, len(bad)]), bad)).shape


# --- comparing ids --------------------------------------------------------------------------------


def ids_of(rows: list[tuple[int, int]]) -> np.ndarray:
    """Return ids by their first and their last word."""
    return np.array([(first, 0, 0, last) for first, last in rows], np.uint64).reshape(len(rows), 4)


@given(st.lists(st.integers(0, 40), unique=True), st.lists(st.integers(0, 40), unique=True))
def test_unequal_marks_the_ids_of_one_side(left: list[int], right: list[int]) -> None:
    left, right = sorted(left), sorted(right)
    masks = unequal(*(ids_of([(each, each) for each in side]) for side in (left, right)))
    assert masks[0].tolist() == [each not in right for each in left]
    assert masks[1].tolist() == [each not in left for each in right]


few = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True, max_size=12)


@given(few, few)
def test_ids_with_equal_first_words_are_distinguished(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    masks = unequal(ids_of(left), ids_of(right))
    assert masks[0].tolist() == [each not in right for each in left]
    assert masks[1].tolist() == [each not in left for each in right]
