"""Sources of lost tree files: other copies, and the trees of other commits.

Ids prove the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from math import prod

from sparklake.errors import SparklakeError
from sparklake.graveler.blocks.block import Block, block_of_encoded, block_of_records
from sparklake.graveler.ids import MetaRangeId, file_id, is_generation
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo, range_list, record_ids
from sparklake.graveler.records import Record
from sparklake.graveler.refs.names import is_commit_id
from sparklake.graveler.sstable import make_table
from sparklake.graveler.sstable.range_files import (
    make_range,
    read_meta_range,
    read_meta_range_file,
    read_range_file,
    read_ranges,
    table_key,
)
from sparklake.graveler.sstable.verification import layout_problem, range_problem, tree_problem
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment

_MOST_GUESSES = 1 << 16
"""The maximum number of contents that are compared with an id."""

_MOST_ORPHANS = 16
_MOST_NEAR = 12
"""The number of trees that a lost metarange is assembled from."""


@dataclass(frozen=True)
class TreeSources:
    """The sources of lost tree files: copies of the namespace, and its trees."""

    context: Context
    store: ObjectStore
    moment: Moment
    copies: tuple[str, ...]

    def find_copy(self, table_id: str, *, is_tree: bool) -> tuple[str, bytes] | None:
        """Return the place and the bytes of a valid copy of a tree file, or None."""
        places: list[tuple[str, ObjectStore]] = [("the local cache", self.context.store)]
        places += [(each, open_store(each)) for each in self.copies]
        for name, store in places:
            try:
                body = store.get(table_key(table_id))
            except SparklakeError:
                continue
            if is_tree_file(table_id, body, is_tree=is_tree):
                return name, body
        return None

    def rewritten(self, table_id: str, *, is_tree: bool) -> bytes | None:
        """Rewrite a tree file from its own records. Returns None if they are damaged."""
        try:
            block = _read(table_id, self.store.get(table_key(table_id)), is_tree=is_tree)
            encoded = block.encoded
            is_sound = _has_sound_records(block, is_tree=is_tree)
        except SparklakeError:
            return None
        return make_table(block_of_encoded(encoded)).file if is_sound else None

    @cached_property
    def trees(self) -> dict[MetaRangeId, Sequence[RangeInfo]]:
        """The ranges of all readable trees."""
        names = dict.fromkeys(each.meta_range_id for each in reversed(self.moment.refs.commits))
        names |= dict.fromkeys(self.moment.staged_trees)
        found: dict[MetaRangeId, Sequence[RangeInfo]] = {}
        for each in names:
            try:
                found[each] = tuple(read_meta_range(self.store, each).ranges)
            except SparklakeError:
                continue
        return found

    def near(self, trees: Iterable[str]) -> Iterator[MetaRangeId]:
        """Yield trees, first those of parents and children of commits with the given trees."""
        wanted = set(trees)
        commits = self.moment.commits
        first: dict[MetaRangeId, None] = {}
        for each in self.moment.refs.commits:
            around = [commits[parent] for parent in each.parents if parent in commits]
            if each.meta_range_id in wanted:
                first |= dict.fromkeys(parent.meta_range_id for parent in around)
            elif any(parent.meta_range_id in wanted for parent in around):
                first[each.meta_range_id] = None
        yield from (each for each in first if each in self.trees and each not in wanted)
        yield from (each for each in self.trees if each not in first and each not in wanted)

    # --- ranges -----------------------------------------------------------------------------------

    def rebuilt_range(self, info: RangeInfo, trees: Iterable[str]) -> bytes | None:
        """Rebuild a range from the records of other trees, or return None."""
        interval = Interval(info.min_key, successor(info.max_key))
        options: dict[bytes, dict[bytes, Record]] = {}
        lacking: set[bytes] = set()
        for number, tree in enumerate(self.near(trees)):
            records = self._records(tree, interval, info.id)
            if records is None:
                continue
            for key, stored in records.items():
                if key not in options and number:
                    lacking.add(key)
                options.setdefault(key, {}).setdefault(stored[-32:], (key, stored))
            lacking |= options.keys() - records.keys()
            found = _chosen(info, options, lacking)
            if found is not None:
                return found
        return None

    def _records(
        self, tree: MetaRangeId, interval: Interval, lost: str
    ) -> dict[bytes, bytes] | None:
        """Return the records of a tree in an interval, or None if one is unreadable."""
        ranges = [each for each in self.trees[tree] if each.id != lost]
        try:
            blocks = list(read_ranges(self.store, ranges, interval))
        except SparklakeError:
            return None
        return dict(record for block in blocks for record in block.records())

    # --- metaranges -------------------------------------------------------------------------------

    def redescribed_tree(self, tree: MetaRangeId) -> bytes | None:
        """Correct a metarange's descriptions of its ranges.

        Returns None if they are correct, or if a range is unreadable.
        """
        ranges = self.trees.get(tree, ())
        try:
            exact = [self._described(each.id) for each in ranges]
        except SparklakeError:
            return None
        if list(map(_facts, exact)) == list(map(_facts, ranges)):
            return None
        return make_table(range_list(exact).block).file

    def _described(self, range_id: str) -> RangeInfo:
        block = read_range_file(self.store.get(table_key(range_id)), range_id)
        return make_range(block_of_encoded(block.encoded))[0]

    def rebuilt_tree(self, tree: MetaRangeId) -> bytes | None:
        """Rebuild a metarange from ranges of other trees and from orphans, or return None."""
        sources: list[Sequence[RangeInfo]] = []
        for near in islice(self.near([tree]), _MOST_NEAR):
            ranges = self.trees[near]
            if not sources:
                sources += [_overlaid(ranges, [each]) for each in self._orphans]
            sources += [ranges, _overlaid(ranges, _apart(self._orphans))]
            found = _assembled(tree, sources)
            if found is not None:
                return make_table(range_list(found).block).file
        return None

    @cached_property
    def _orphans(self) -> list[RangeInfo]:
        """The ranges without a readable tree."""
        known = {each.id for ranges in self.trees.values() for each in ranges}
        prefix = table_key("")
        found = []
        for each in self.store.list(prefix):
            table_id = each.key.removeprefix(prefix)
            if is_commit_id(table_id) and table_id not in known and table_id not in self.trees:
                try:
                    block = read_range_file(self.store.get(each.key), table_id)
                    if not range_problem(block):
                        found.append(make_range(block)[0])
                except SparklakeError:
                    continue
        return found[:_MOST_ORPHANS]


def _facts(info: RangeInfo) -> tuple[object, ...]:
    """Return the description of a range without its size, which is an estimate."""
    return info.id, info.min_key, info.max_key, info.count, info.tombstones


def is_tree_file(table_id: str, body: bytes, *, is_tree: bool) -> bool:
    """Return whether bytes have an id. All ids are computed."""
    try:
        block = _read(table_id, body, is_tree=is_tree)
        return not layout_problem(block) and _has_sound_records(block, is_tree=is_tree)
    except SparklakeError:
        return False


def _read(table_id: str, body: bytes, *, is_tree: bool) -> Block:
    return (read_meta_range_file if is_tree else read_range_file)(body, table_id)


def _has_sound_records(block: Block, *, is_tree: bool) -> bool:
    return not (tree_problem if is_tree else range_problem)(block)


def _chosen(
    info: RangeInfo, options: dict[bytes, dict[bytes, Record]], lacking: set[bytes]
) -> bytes | None:
    """Return the range with one option, or none, for each key, or None if no choice has its id."""
    keys = sorted(options)
    if not keys or keys[0] > info.min_key or len(keys) < info.count:
        return None
    choices: list[list[Record | None]] = []
    guesses = 1
    for key in keys:
        some: list[Record | None] = list(options[key].values())
        if key in lacking and key not in (info.min_key, info.max_key):
            some.append(None)
        choices.append(some)
        guesses *= len(some)
    if guesses > _MOST_GUESSES:
        return None
    for guess in product(*choices):
        records = [each for each in guess if each is not None]
        if len(records) == info.count:
            ids = b"".join(stored[-32:] for _, stored in records)
            if is_generation(info.id, file_id(ids)):
                return make_range(block_of_records(records))[1]
    return None


def _assembled(
    tree: MetaRangeId, sources: Sequence[Sequence[RangeInfo]]
) -> Sequence[RangeInfo] | None:
    """Return the ranges of a tree, each part as in one of several trees, or None."""
    choices = [list(each) for each in _segments(sources)]
    if prod(map(len, choices)) > _MOST_GUESSES:
        return None
    hashed = [[record_ids(ranges).tobytes() for ranges in some] for some in choices]
    for guess in product(*(range(len(some)) for some in choices)):
        ids = b"".join(some[at] for some, at in zip(hashed, guess, strict=True))
        if ids and file_id(ids) == tree:
            picked = zip(choices, guess, strict=True)
            return [each for some, at in picked for each in some[at]]
    return None


def _segments(sources: Sequence[Sequence[RangeInfo]]) -> Iterator[Iterable[tuple[RangeInfo, ...]]]:
    """Yield the different parts of trees in each interval that no range crosses."""
    every = {(each.min_key, each.max_key) for ranges in sources for each in ranges}
    cuts: list[bytes] = []
    end: bytes | None = None
    for low, high in sorted(every):
        if end is None or low > end:
            cuts.append(low)
        end = high if end is None else max(end, high)
    at = [0] * len(sources)
    for stop in (*cuts[1:], None):
        parts: dict[tuple[str, ...], tuple[RangeInfo, ...]] = {}
        for number, ranges in enumerate(sources):
            first = at[number]
            while at[number] < len(ranges) and (stop is None or ranges[at[number]].min_key < stop):
                at[number] += 1
            part = tuple(ranges[first : at[number]])
            parts.setdefault(tuple(each.id for each in part), part)
        yield parts.values()


def _apart(ranges: Sequence[RangeInfo]) -> list[RangeInfo]:
    """Return ranges in key order, without overlaps with an earlier one."""
    found: list[RangeInfo] = []
    for each in sorted(ranges, key=lambda each: each.min_key):
        if not found or found[-1].max_key < each.min_key:
            found.append(each)
    return found


def _overlaid(ranges: Sequence[RangeInfo], over: Sequence[RangeInfo]) -> list[RangeInfo]:
    """Return ranges in key order, without overlaps with `over`."""
    kept = [
        each
        for each in ranges
        if not any(each.min_key <= one.max_key and one.min_key <= each.max_key for one in over)
    ]
    return sorted([*kept, *over], key=lambda each: each.min_key)
