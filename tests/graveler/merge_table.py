"""The fifteen rows of a three-way merge, with the result of each strategy.

A, B and C are identities, X is an absent record. The first ten rows are those of lakeFS's page on
merging; in the last five, base is absent. The merge without a strategy ends in CONFLICT where
there is one.
"""

from __future__ import annotations

from typing import NamedTuple

from sparklake.graveler.algebra.classify import KeyOutcome, Strategy

A, B, C = b"A", b"B", b"C"
X = None
CONFLICT = "conflict"

Side = bytes | None


class Row(NamedTuple):
    base: Side
    source: Side
    dest: Side
    outcome: KeyOutcome
    no_strategy: Side | str
    source_wins: Side
    dest_wins: Side

    def result(self, strategy: Strategy) -> Side:
        return self.source_wins if strategy is Strategy.SOURCE_WINS else self.dest_wins

    @property
    def is_conflict(self) -> bool:
        return self.no_strategy == CONFLICT

    def __str__(self) -> str:
        return "".join("X" if side is None else side.decode() for side in self[:3])


MERGE_TABLE = (
    #   base source dest  outcome           none  source-wins dest-wins
    Row(A, A, A, KeyOutcome.SAME, A, A, A),
    Row(A, A, B, KeyOutcome.TAKE_DEST, B, B, B),
    Row(A, B, A, KeyOutcome.TAKE_SOURCE, B, B, B),
    Row(A, B, B, KeyOutcome.SAME, B, B, B),
    Row(A, B, C, KeyOutcome.CONFLICT, CONFLICT, B, C),
    Row(A, A, X, KeyOutcome.TAKE_DEST, X, X, X),
    Row(A, X, A, KeyOutcome.TAKE_SOURCE, X, X, X),
    Row(A, B, X, KeyOutcome.CONFLICT, CONFLICT, B, X),
    Row(A, X, B, KeyOutcome.CONFLICT, CONFLICT, X, B),
    Row(A, X, X, KeyOutcome.SAME, X, X, X),
    Row(X, A, A, KeyOutcome.SAME, A, A, A),
    Row(X, A, B, KeyOutcome.CONFLICT, CONFLICT, A, B),
    Row(X, A, X, KeyOutcome.TAKE_SOURCE, A, A, A),
    Row(X, X, A, KeyOutcome.TAKE_DEST, A, A, A),
    Row(X, X, X, KeyOutcome.SAME, X, X, X),
)
