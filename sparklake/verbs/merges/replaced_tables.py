"""Tables with different formats on the two sides of a merge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.chunks import chunked
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.planning.plan import plan_diff
from sparklake.graveler.ranges import overlapping
from sparklake.graveler.records import stored_record_id
from sparklake.metadata import registry
from sparklake.metadata.delta.table_files import is_hidden
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.diffs import keys_batch
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import DEST, SIDE_NAMES, SOURCE, ThreeWayTrees
from sparklake.verbs.diffs.differences import streamed_keys
from sparklake.verbs.objects.owners import find_owner
from sparklake.verbs.tables.metadata_folders import records_in
from sparklake.verbs.tables.unions import ChangedTable, Refused, StoredValues, Taken, stored_values

MAX_TAKEN = 100_000
"""The maximum number of changed files of a table that a strategy takes as a whole."""

_PLAIN = "plain files"
_SHOWN = 3
_CHUNK = 1_000

Change = tuple[bytes, StoredValues]


def replaced_table(
    context: Context, sides: ThreeWayTrees, table: bytes, resolution: Resolution
) -> Refused | Taken | None:
    """Return the union of a table with other formats in source, dest or base, if both changed it.

    If only one side changed it, a merge by keys is correct. Files that readers skip, such as
    `_SUCCESS`, are no change. A table of one format that both sides created is no replaced one.
    """
    source, dest = (_table_format(context, each, table) for each in (sides.source, sides.dest))
    if source == dest == _PLAIN:
        return None
    commits = [context.graph.commit(each).meta_range_id for each in sides.bases[1:] and sides.bases]
    trees = commits or [sides.base]
    bases = {_table_format(context, each, table) for each in trees}
    if source == dest and (
        dest in bases or not any(_has_files(context, each, table) for each in trees)
    ):
        return None
    replaced = _ReplacedTable(context, sides, table, bases, (source, dest))
    changes = tuple([*islice(replaced.changes(each), _SHOWN)] for each in (SOURCE, DEST))
    is_whole = sides.path_filter.holds(prefix_interval(table))
    is_new = not any(_has_files(context, each, table) for each in (*trees, sides.dest))
    is_mixed = not (is_whole or is_new) and {source} != bases
    if not changes[0] or not (changes[1] or is_mixed or len(bases) > 1):
        return None
    kind = dest if source == _PLAIN else source
    changed = ChangedTable(table, dict([*changes[0], *changes[1]]), kind)
    reason = replaced.reason(changes, is_mixed=is_mixed)
    winner = resolution.chosen(changes[0][0][0]) if is_whole else None
    if isinstance(winner, Strategy):
        return replaced.taken(changed, winner, resolution, reason)
    return replace(changed.refused(reason), may_be_taken=is_whole)


@dataclass(frozen=True, slots=True)
class _ReplacedTable:
    """A table with its formats in the merge bases, and in source and dest."""

    context: Context
    sides: ThreeWayTrees
    table: bytes
    bases: set[str]
    formats: tuple[str, str]

    def changes(self, place: int, *, hidden: bool = False) -> Iterator[Change]:
        """Yield the changes of a side that the other side lacks."""
        base, side = (self.context.trees.get(self.sides.trees[each]).ranges for each in (0, place))
        plan = plan_diff(base, side, prefix_interval(self.table))
        keys = streamed_keys(self.context, plan, keys_batch, "files of a replaced table")
        for chunk in chunked(keys, _CHUNK):
            values = [stored_values(self.context, each, chunk) for each in self.sides.trees]
            for key in chunk:
                stored = StoredValues(*(each[key] for each in values))
                if (hidden or self._is_visible(key, place)) and self._matters(stored):
                    yield key, stored

    def reason(self, changes: Sequence[Sequence[Change]], *, is_mixed: bool) -> str:
        parts = map(self._change, (SOURCE, DEST), self.formats, changes)
        why = "; the selected paths include only a part of it" if is_mixed else ""
        return f"{', and '.join(filter(None, parts))}{why}"

    def _change(self, place: int, new: str, changes: Sequence[Change]) -> str:
        side, tree = SIDE_NAMES[place], self.context.trees.get(self.sides.trees[place])
        if not self.context.open_ranges.holding(tree.ranges, [prefix_interval(self.table)]):
            return f"{side} deleted it"
        if {new} != self.bases:
            return f"{side} changed it from {' or '.join(sorted(self.bases))} to {new}"
        keys = (_name(key, self.table) for key, _ in changes)
        more = ", ..." if len(changes) == _SHOWN else ""
        return f"{side} changed {', '.join(map(repr, keys))}{more} in it" if changes else ""

    def taken(
        self, changed: ChangedTable, winner: Strategy, resolution: Resolution, reason: str
    ) -> Refused | Taken:
        """Return the winner's files of the whole table, if rules agree on all."""
        everything = chain.from_iterable(self.changes(each, hidden=True) for each in (SOURCE, DEST))
        log = dict(islice(everything, MAX_TAKEN + 1))
        if len(log) > MAX_TAKEN:
            why = f"{reason}. No strategy takes more than {MAX_TAKEN:,} changed files"
            return changed.refused(why)
        if any(resolution.chosen(each) is not winner for each in log):
            return replace(changed.refused(reason), may_be_taken=True)
        return replace(changed, log=log).taken(winner)

    def _is_visible(self, key: bytes, place: int) -> bool:
        name = key[len(self.table) :]
        selected = place == DEST or key in self.sides.path_filter
        is_metadata = name.startswith(tuple(registry.folder_names()))
        return selected and (is_metadata or not is_hidden(name))

    def _matters(self, stored: StoredValues) -> bool:
        """Return whether the sides differ, or both removed a file, which means its rows."""
        _, source, dest = map(stored_record_id, stored)
        return source != dest or (dest is None and self.bases == {_PLAIN})


def _name(key: bytes, folder: bytes) -> str:
    return key[len(folder) :].decode(errors="replace")


def _has_files(context: Context, tree: MetaRangeId, table: bytes) -> bool:
    """Return whether a table has a file that readers do not skip."""
    inside = overlapping(context.trees.get(tree).ranges, prefix_interval(table))
    return any(not is_hidden(key[len(table) :]) for key, _ in records_in(context, inside, table))


def _table_format(context: Context, tree: MetaRangeId, table: bytes) -> str:
    """Return the format that metadata gives a folder. A log has precedence over UniForm's files."""
    folder = table.decode(errors="replace")
    owner = find_owner(context, context.trees.get(tree).ranges, (), folder)
    if owner is None or owner.folder != folder or owner.kind not in registry.BUILT_IN:
        return _PLAIN
    return owner.format
