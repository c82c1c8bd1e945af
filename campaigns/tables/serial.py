"""Serial orders of the operations of two sides, and the tables that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from campaigns.tables.operations import Operation, Row, Table, Version


@dataclass(frozen=True, slots=True)
class Effect:
    """An operation, and the row versions that it removed and added where it ran.

    An overwrite does not replace `spared` versions, which earlier commits had removed there.
    """

    operation: Operation
    removed: Set[Version]
    added: Mapping[Version, Row]
    spared: Set[Version] = frozenset()

    @staticmethod
    def of(operation: Operation, table: Table) -> Effect:
        after = operation.apply(table)
        return Effect(
            operation,
            table.rows.keys() - after.rows.keys(),
            {at: row for at, row in after.rows.items() if at not in table.rows},
        )

    def repeat(self, table: Table) -> Table | None:
        """Return the table after the same effect, or None if a removed row is not there.

        An overwrite replaces all rows of its region, also those that it did not see.
        """
        region = self.operation.region()
        if region is None and not self.removed <= table.rows.keys():
            return None
        kept = {
            at: row
            for at, row in table.rows.items()
            if (at not in self.removed if region is None else at in self.spared or not region(row))
        }
        columns = self.operation.apply(replace(table, rows={})).columns
        return Table(columns, {**kept, **self.added})

    def evaluate(self, table: Table) -> Table | None:
        """Return the table after the operation, with its predicates evaluated again."""
        return self.operation.apply(table)


Step = Callable[[Effect, Table], Table | None]


def orders(
    table: Table, source: Sequence[Effect], dest: Sequence[Effect], step: Step
) -> Iterator[tuple[Table, list[Effect]]]:
    """Yield the table after each order of both sides' effects that keeps the order of each."""
    if not source and not dest:
        yield table, []
    for side, rests in ((source, (source[1:], dest)), (dest, (source, dest[1:]))):
        if side:
            after = step(side[0], table)
            if after is not None:
                for end, order in orders(after, *rests, step):
                    yield end, [side[0], *order]


def find_order(
    table: Table, source: Sequence[Effect], dest: Sequence[Effect], step: Step, contents: object
) -> list[Effect] | None:
    """Return an order that leads to the contents, or None."""
    ends = orders(table, source, dest, step)
    return next((order for end, order in ends if end.contents() == contents), None)
