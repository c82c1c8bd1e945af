"""Stitching turns pieces with arbitrary ends into the ranges of one split."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.planning.split import RangeRow, split, stitch
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import make_range
from tests.support.blocks import in_blocks
from tests.support.oracle import range_ids
from tests.support.trees import records_of


class Store:
    """Keeps ranges in a dict and records reads and writes."""

    def __init__(self) -> None:
        self.ranges: dict[str, Block] = {}
        self.read_ids: list[str] = []
        self.written_ids: list[str] = []

    def piece(self, records: Block, *, closed: bool) -> RangeRow:
        info, _ = make_range(records)
        self.ranges[info.id] = records
        return RangeRow((info,), closed)

    def read(self, each: RangeInfo) -> Iterator[Block]:
        self.read_ids.append(each.id)
        return in_blocks(self.ranges[each.id].records())

    def write(self, records: Block) -> RangeInfo:
        (info,) = self.piece(records, closed=True).ranges
        self.written_ids.append(info.id)
        return info


def infos(rows: list[RangeRow]) -> list[RangeInfo]:
    return [each for row in rows for each in row.ranges]


def numbered(count: int) -> dict[bytes, bytes]:
    return {b"k%03d" % number: b"A" for number in range(count)}


@given(
    st.dictionaries(
        st.integers(0, 80).map(lambda at: b"k%02d" % at), st.sampled_from([b"A", b"B"])
    ),
    st.sets(st.integers(0, 80)),
    st.sampled_from([1, 2, 3, 8]),
)
def test_pieces_with_arbitrary_ends_are_stitched(
    pairs: dict[bytes, bytes], cuts: set[int], range_records: int
) -> None:
    store, records = Store(), records_of(pairs)
    bounds = [0, *sorted(at for at in cuts if at < len(records)), len(records)]
    pieces = [
        store.piece(stretch.records, closed=stretch.closed)
        for start, stop in pairwise(bounds)
        for stretch in split(in_blocks(records[start:stop]), range_records)
    ]
    stitched = stitch(pieces, range_records, store.read, store.write)
    assert [each.id for each in stitched] == range_ids(pairs, range_records)
    assert len(store.read_ids) == len({*store.read_ids})


def test_closed_pieces_are_not_read() -> None:
    store, records = Store(), records_of(numbered(60))
    pieces = [
        store.piece(each.records, closed=each.closed) for each in split(in_blocks(records), 4)
    ]
    assert [*stitch(pieces, 4, store.read, store.write)] == infos(pieces)
    assert store.read_ids == store.written_ids == []


def test_an_open_piece_at_the_end_is_kept() -> None:
    store = Store()
    pieces = [store.piece(block_of_records(records_of(numbered(1))), closed=False)]
    assert [*stitch(pieces, 1000, store.read, store.write)] == infos(pieces)
    assert store.read_ids == []


def test_an_open_piece_rewrites_only_its_neighbour() -> None:
    store, stretches = Store(), list(split(in_blocks(records_of(numbered(200))), 4))
    at = next(
        at
        for at in range(3, 30)
        if 1 < len(stretches[at].records) < 16 - len(stretches[at + 1].records)
    )
    pieces = [store.piece(each.records, closed=True) for each in stretches]
    shortened = stretches[at].records
    assert len(shortened) > 1
    pieces[at] = store.piece(shortened.slice(0, len(shortened) - 1), closed=False)
    ranges = [*stitch(pieces, 4, store.read, store.write)]
    assert store.read_ids == [each.id for each in infos(pieces[at : at + 2])]
    assert ranges[:at] == infos(pieces[:at])
    assert ranges[-3:] == infos(pieces[-3:])


def test_nothing_is_stitched_into_nothing() -> None:
    store = Store()
    assert not stitch([], 4, store.read, store.write)
