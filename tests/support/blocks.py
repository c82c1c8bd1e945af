"""Records in blocks of arbitrary sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, cycle

from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.algebra.three_way_merge import Decide
from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.records import Record

_SIZES = (1, 3, 2, 7, 1, 5)


def in_blocks(records: Iterable[Record], sizes: Sequence[int] = _SIZES) -> Iterator[Block]:
    """Yield records in blocks, with the given sizes in rotation."""
    rest = list(records)
    for size in cycle(sizes):
        if not rest:
            return
        yield block_of_records(rest[:size])
        rest = rest[size:]


def flat(blocks: Iterable[Block]) -> list[Record]:
    """Return the records of non-empty blocks."""
    listed = list(blocks)
    assert all(map(len, listed))
    return list(chain.from_iterable(block.records() for block in listed))


def take_side(strategy: Strategy) -> Decide:
    """Return a decision function for which one side wins every conflict."""
    if strategy is Strategy.SOURCE_WINS:
        return lambda conflicts: [each.source for each in conflicts]
    return lambda conflicts: [each.dest for each in conflicts]
