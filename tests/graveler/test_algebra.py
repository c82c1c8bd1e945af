"""Diff, apply and merge over streams, against plain dicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.graveler.algebra.changes import Change, ChangeCounts, ChangeType
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.algebra.compare import diff, three_way_diff
from sparklake.graveler.algebra.staged import apply, staged_diff
from sparklake.graveler.algebra.three_way_merge import merge
from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.records import encode_record, tombstone
from tests.graveler.merge_checks import blocks_of, check_merge, identity_or_none, rows_of, sided
from tests.graveler.merge_table import MERGE_TABLE, Row
from tests.support import oracle
from tests.support.blocks import flat, in_blocks, take_side
from tests.support.cases import for_each
from tests.support.oracle import Changes, Contents
from tests.support.trees import identities, records_of, staged_records

KEYS = [b"k%d" % number for number in range(12)]
NAMES = (b"A", b"B", b"C")

contents = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(NAMES))
changes = st.dictionaries(st.sampled_from(KEYS), st.sampled_from((*NAMES, None)))


def check_merges(cases: Iterable[tuple[Contents, Contents, Contents]]) -> None:
    """Check many cases as a few merges, each case in a folder of its own: keys stand alone."""
    numbered = enumerate(cases)
    while chunk := list(islice(numbered, 2_000)):
        sides: tuple[Contents, Contents, Contents] = ({}, {}, {})
        for number, case in chunk:
            for side, contents in zip(sides, case, strict=True):
                side.update({b"%06d/%b" % (number, key): each for key, each in contents.items()})
        check_merge(*sides, sizes=(1_001, 777, 2_048))


# --- merge ----------------------------------------------------------------------------------------


@for_each("strategy", Strategy)
@for_each("row", MERGE_TABLE)
def test_every_row_is_merged(row: Row, strategy: Strategy) -> None:
    sides = [{} if each is None else {b"key": each} for each in row[:3]]
    result = row.result(strategy)
    merged = identities(flat(merge(*blocks_of(sided(*sides)), take_side(strategy))))
    assert merged == ({} if result is None else {b"key": result})
    check_merge(*sides)


def arrangements(keys: int) -> Iterator[tuple[Contents, Contents, Contents]]:
    """Yield every arrangement of identities A, B, C or none over the keys.

    Identities are only ever compared, so of arrangements that differ in their names alone the one
    that names them in order stands for all.
    """

    def grown(sides: tuple[int, ...], names: int) -> Iterator[tuple[int, ...]]:
        if len(sides) == 3 * keys:
            yield sides
            return
        for choice in range(min(names, len(NAMES) - 1) + 2):
            yield from grown((*sides, choice), max(names, choice))

    for numbers in grown((), 0):
        yield tuple(
            {
                KEYS[at]: NAMES[number - 1]
                for at, number in enumerate(numbers[side * keys : (side + 1) * keys])
                if number
            }
            for side in range(3)
        )


def test_arrangements_cover_every_shape() -> None:
    def shape(sides: tuple[bytes | None, ...]) -> tuple[int, ...]:
        names: dict[bytes, int] = {}
        return tuple(
            0 if each is None else names.setdefault(each, len(names) + 1) for each in sides
        )

    everything = {shape(sides) for sides in product((*NAMES, None), repeat=6)}
    listed = [
        shape(tuple(side.get(key) for side in sides for key in KEYS[:2]))
        for sides in arrangements(2)
    ]
    assert sorted(listed) == sorted(everything)


@pytest.mark.parametrize("keys", [1, 2, pytest.param(3, marks=pytest.mark.system)])
def test_every_arrangement_of_a_few_keys_is_merged(keys: int) -> None:
    check_merges(arrangements(keys))


@pytest.mark.system
@given(contents, contents, contents)
def test_random_merge_matches_the_oracle(base: Contents, source: Contents, dest: Contents) -> None:
    check_merge(base, source, dest)


def test_equal_identities_keep_the_record_of_dest() -> None:
    streams = sided({b"k": b"A"}, {b"k": b"B"}, {b"k": b"B"})
    winner = take_side(Strategy.SOURCE_WINS)
    assert flat(merge(*blocks_of(streams), winner)) == streams[2]
    assert rows_of(three_way_diff(*blocks_of(streams))) == []


def test_identities_of_different_keys_are_never_compared() -> None:
    """Dest's `b` has the identity of base's next key."""
    base = {b"a": b"A", b"c": b"A"}
    source = {b"a": b"A", b"c": b"A"}
    dest = {b"a": b"A", b"b": b"A", b"c": b"A"}
    check_merge(base, source, dest)
    check_merge(base, dest, source)


def test_a_merge_holds_one_block_of_each_side() -> None:
    """Block come out as they go in: nothing waits for the end of a stream."""
    requested_keys: list[bytes] = []

    def stream(pairs: Mapping[bytes, bytes]) -> Iterator[Block]:
        for block in in_blocks(records_of(pairs), [1]):
            requested_keys.append(block.first_key)
            yield block

    everything = dict.fromkeys(KEYS, b"A")
    sides = (stream(everything), stream(everything), stream(everything))
    merged = merge(*sides, take_side(Strategy.DEST_WINS))
    next(merged)
    assert requested_keys.count(max(requested_keys)) <= 3
    assert max(requested_keys) <= sorted(KEYS)[1]


# --- diff -----------------------------------------------------------------------------------------


@given(contents, contents)
def test_diff_matches_the_difference_of_dicts(left: Contents, right: Contents) -> None:
    streams = records_of(left, b"left"), records_of(right, b"right")
    rows = rows_of(diff(*blocks_of(streams)))
    assert {
        row.key: (identity_or_none(row.key, row.left), identity_or_none(row.key, row.right))
        for row in rows
    } == oracle.differences(left, right)
    assert [row.key for row in rows] == sorted(row.key for row in rows)


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (None, b"x", ChangeType.ADDED),
        (b"x", None, ChangeType.REMOVED),
        (b"x", b"y", ChangeType.CHANGED),
    ],
)
def test_a_change_has_a_type(left: bytes | None, right: bytes | None, kind: ChangeType) -> None:
    assert Change(b"k", left, right).type is kind


# --- staged changes -------------------------------------------------------------------------------


@given(st.lists(changes, max_size=4), contents)
def test_staged_layers_are_applied_newest_first(layers: list[Changes], base: Contents) -> None:
    together: Changes = {}
    for layer in reversed(layers):
        together.update(layer)
    after = oracle.changed(base, together)
    differences = oracle.differences(base, after)

    def staged() -> list[Iterator[Block]]:
        return blocks_of([staged_records(layer) for layer in layers])

    counts = ChangeCounts()
    applied = apply(staged(), in_blocks(records_of(base)), counts)
    assert identities(flat(applied)) == after
    kinds = [Change(key, *sides).type for key, sides in differences.items()]
    assert (counts.added, counts.removed, counts.changed) == tuple(
        kinds.count(kind) for kind in (ChangeType.ADDED, ChangeType.REMOVED, ChangeType.CHANGED)
    )
    assert counts.total == len(differences)

    rows = rows_of(staged_diff(staged(), in_blocks(records_of(base))))
    assert rows == rows_of(diff(*blocks_of([records_of(base), records_of(after)])))


def test_staging_the_same_identity_is_not_a_change() -> None:
    """The committed record stays, with its address and its time."""
    committed, staged = [encode_record(b"k", b"A", data) for data in (b"old", b"new")]
    counts = ChangeCounts()
    layer, base = block_of_records([staged]), block_of_records([committed])
    assert flat(apply([[layer]], [base], counts)) == [committed]
    assert rows_of(staged_diff([[layer]], [base])) == []
    assert counts.total == 0


def test_a_tombstone_of_a_missing_key_is_not_a_change() -> None:
    counts = ChangeCounts()
    layer = block_of_records([tombstone(b"k")])
    assert flat(apply([[layer]], [], counts)) == []
    assert rows_of(staged_diff([[layer]], [])) == []
    assert counts.total == 0
