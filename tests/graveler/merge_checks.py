"""Checks shared by all merge tests: against the dict oracle and the diff of three sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sparklake.graveler import algebra
from sparklake.graveler.algebra.changes import Change, Conflict
from sparklake.graveler.algebra.compare import three_way_diff
from sparklake.graveler.algebra.three_way_merge import merge
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.records import Record
from tests.support import oracle
from tests.support.blocks import flat, in_blocks
from tests.support.oracle import Contents
from tests.support.trees import identities, identity, records_of
from tests.support.triples import STRATEGIES, Policy, Triple

SIZES = (4, 2)


def check_merge(
    base: Contents,
    source: Contents,
    dest: Contents,
    sizes: Sequence[int] = SIZES,
    policies: Sequence[Policy] = STRATEGIES,
) -> None:
    """Compare the merges of policies, and the three-way diff, with the oracle."""
    triple = Triple(base, source, dest)
    blocks = [list(side) for side in blocks_of(sided(*triple), sizes)]
    rows = rows_of(three_way_diff(*map(iter, blocks)))
    conflict_rows = [row for row in rows if isinstance(row, Conflict)]
    changes = {row.key: row for row in rows if isinstance(row, Change)}
    for key, row in changes.items():
        assert identity_or_none(key, row.left) == dest.get(key)
    for policy in policies:
        decided: list[Conflict] = []

        def decide(
            conflicts: Sequence[Conflict], policy: Policy = policy, decided: list = decided
        ) -> list[bytes | None]:
            decided.extend(conflicts)
            return [policy.decide(each) for each in conflicts]

        result = identities(flat(merge(*map(iter, blocks), decide)))
        winner = policy.winner(triple)
        expected, conflicts = oracle.merged(*triple, winner)
        assert result == expected
        assert [each.key for each in decided] == conflicts
        assert decided == conflict_rows, "the diff and the merge see other conflicts"
        # Except for conflicts, the diff lists exactly the changes of the merge.
        dest_changes = {key: identity_or_none(key, row.right) for key, row in changes.items()}
        settled = {key: winner.get(key) for key in conflicts}
        assert oracle.changed(dest, dest_changes | settled) == expected
    for each in conflict_rows:
        stored = (each.base, each.source, each.dest)
        assert tuple(identity_or_none(each.key, one) for one in stored) == triple.identities(
            each.key
        )


def sided(base: Contents, source: Contents, dest: Contents) -> tuple[list[Record], ...]:
    """Return streams whose data contains the side; merges ignore data."""
    sides = {b"base": base, b"source": source, b"dest": dest}
    return tuple(records_of(each, data) for data, each in sides.items())


def blocks_of(
    streams: Iterable[list[Record]], sizes: Sequence[int] = SIZES
) -> list[Iterator[Block]]:
    """Return streams as blocks, with different bounds in each stream."""
    return [in_blocks(stream, (1 + at, *sizes)) for at, stream in enumerate(streams)]


def rows_of(stream: Iterable[algebra.BlockChanges]) -> list[Change | Conflict]:
    """Return the rows of change columns, all of them non-empty."""
    columns = list(stream)
    assert all(map(len, columns))
    return [row for each in columns for row in each]


def identity_or_none(key: bytes, stored: bytes | None) -> bytes | None:
    return None if stored is None else identity(key, stored)
