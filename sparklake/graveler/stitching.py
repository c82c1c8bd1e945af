"""Joins ranges that do not stop at a true range end with what follows them.

A task begins to cut at a range end, but where its work stops need not be one: the record that
ended the range may be gone, or the open tail of a tree may go on. There the records are cut again
until a cut falls on an existing end; from there on everything is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sparklake.graveler.blocks import EMPTY, Block, Blocks
from sparklake.graveler.range_lists import RangeList, Ranges, range_list
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.splitting import split

ReadRange = Callable[[RangeInfo], Blocks]
WriteRange = Callable[[Block], RangeInfo]


@dataclass(frozen=True, slots=True)
class Row:
    """Is ranges in a row as one tree has them; an open one may have to be joined at its end.

    `closed` tells whether the last one stops at a true range end: the others do.
    """

    ranges: Ranges
    closed: bool


def stitch(
    rows: Sequence[Row], range_records: int, read: ReadRange, write: WriteRange
) -> RangeList:
    """Returns the ranges of a whole tree from rows in key order.

    Reads only open tails and what follows them up to the next common end; holds two ranges. The
    rest passes without a look at each range.
    """
    made: list[Ranges] = []
    carry = EMPTY
    filled = [row for row in rows if row.ranges]
    for position, row in enumerate(filled):
        is_last = position == len(filled) - 1
        rest = row.ranges
        while rest:
            if not len(carry):
                whole = len(rest) - (not row.closed and not is_last)
                made.append(rest[:whole])
                rest = rest[whole:]
                if not rest:
                    break
            stretches = list(split(_after(carry, read(rest[0])), range_records))
            carry, rest = EMPTY, rest[1:]
            if not stretches[-1].closed and not (is_last and not rest):
                carry = stretches.pop().records
            made.append(tuple(write(stretch.records) for stretch in stretches))
    return range_list(*made)


def _after(carry: Block, blocks: Blocks) -> Iterator[Block]:
    if len(carry):
        yield carry
    yield from blocks
