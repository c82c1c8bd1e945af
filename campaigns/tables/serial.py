"""Serial orders of the operations on two sides, and the resulting tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from campaigns.tables.operations import (
    Change,
    Contents,
    Operation,
    Region,
    Row,
    Table,
    Target,
    Version,
)


@dataclass(frozen=True, slots=True)
class Effect:
    """An operation, with the row versions removed and added in its own run.

    An overwrite replaces its region, but not `spared` versions, which earlier commits had removed
    there.
    """

    operation: Operation
    removed: Set[Version]
    added: Mapping[Version, Row]
    region: Region | None = None
    spared: Set[Version] = frozenset()

    @staticmethod
    def of(change: Change, target: Target) -> Effect:
        before, after = change.before.rows, change.after.rows
        region = change.operation.region(target)
        fresh = {at: row for at, row in after.items() if at not in before}
        new_rows = after if region is not None and region({}) else fresh
        return Effect(change.operation, before.keys() - after.keys(), new_rows, region)

    def repeat(self, table: Table) -> Table | None:
        """Return the table after the same effect, or None if a removed row is not there.

        An overwrite replaces all rows of its region, also those that it did not see.
        """
        region = self.region
        if region is None and not self.removed <= table.rows.keys():
            return None
        rows = {
            at: row
            for at, row in table.rows.items()
            if (at not in self.removed if region is None else at in self.spared or not region(row))
        }
        after = self.operation.apply(replace(table, rows={}))
        return replace(after, rows={**rows, **self.added})

    def evaluate(self, table: Table) -> Table | None:
        """Return the table after the operation, with its predicates evaluated again."""
        return self.operation.apply(table)

    def delete_again(self, table: Table) -> Table | None:
        """Evaluate a deletion again, because other rows may survive it; repeat other effects."""
        return self.repeat(table) if self.added else self.evaluate(table)


Step = Callable[[Effect, Table], Table | None]


def orders(
    table: Table, source: Sequence[Effect], dest: Sequence[Effect], step: Step
) -> Iterator[tuple[Table, list[Effect]]]:
    """Yield the table after each interleaving of both sides' effects."""
    if not source and not dest:
        yield table, []
    for side, tails in ((source, (source[1:], dest)), (dest, (source, dest[1:]))):
        if side:
            after = step(side[0], table)
            if after is not None:
                for end, order in orders(after, *tails, step):
                    yield end, [side[0], *order]


def find_order(
    table: Table,
    source: Sequence[Effect],
    dest: Sequence[Effect],
    step: Step,
    contents: Contents,
    view: Callable[[Contents], Contents] = lambda contents: contents,
) -> tuple[Table, list[Effect]] | None:
    """Return the table and an order with these contents, or None."""
    ends = orders(table, source, dest, step)
    return next((each for each in ends if view(each[0].contents()) == contents), None)
