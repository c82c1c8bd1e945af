"""Sources of lost tree files: copies, and other trees. Ids prove the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from math import prod

from sparklake.errors import SparklakeError
from sparklake.graveler.blocks.block import Block, block_of_encoded, block_of_records
from sparklake.graveler.ids import MetaRangeId, file_id, is_generation
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.ports import Content, ObjectStore
from sparklake.graveler.ranges import RangeInfo, range_list, record_ids
from sparklake.graveler.records import Record
from sparklake.graveler.sstable import range_files
from sparklake.graveler.sstable.verification import layout_problem, range_problem, tree_problem
from sparklake.graveler.sstable.writer import make_table
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment

_MAX_GUESSES = 1 << 16
"""The maximum number of contents that are compared with an id."""

_MAX_ORPHANS = 16
_MAX_NEAR = 12
"""The number of trees that a lost metarange is assembled from."""


@dataclass(frozen=True)
class TreeSources:
    """Sources of lost tree files: a namespace and its copies."""

    context: Context
    store: ObjectStore
    moment: Moment
    copies: tuple[str, ...]

    def find_copy(self, table_id: str, *, is_tree: bool) -> tuple[str, bytes] | None:
        """Return the place and bytes of a valid copy."""
        places: list[tuple[str, ObjectStore]] = [("the local cache", self.context.store)]
        places += [(each, open_store(each)) for each in self.copies]
        for name, store in places:
            try:
                content = range_files.tree_file(store, table_id)
            except SparklakeError:
                continue
            if is_tree_file(table_id, content, is_tree=is_tree):
                return name, content[:]
        return None

    def rewritten(self, table_id: str, *, is_tree: bool) -> bytes | None:
        """Rewrite a tree file from its own records, unless they are damaged."""
        try:
            block = _read(table_id, range_files.tree_file(self.store, table_id), is_tree=is_tree)
            encoded = block.encoded
            is_sound = _has_sound_records(block, is_tree=is_tree)
        except SparklakeError:
            return None
        return make_table(block_of_encoded(encoded)).file if is_sound else None

    @cached_property
    def trees(self) -> dict[MetaRangeId, Sequence[RangeInfo]]:
        ids = dict.fromkeys(each.meta_range_id for each in reversed(self.moment.refs.commits))
        trees: dict[MetaRangeId, Sequence[RangeInfo]] = {}
        for each in ids | dict.fromkeys(self.moment.staged_trees):
            with suppress(SparklakeError):
                trees[each] = tuple(range_files.read_meta_range(self.store, each).ranges)
        return trees

    def near(self, trees: Iterable[str]) -> Iterator[MetaRangeId]:
        """Yield all other trees, those of parents and children first."""
        excluded = set(trees)
        commits = self.moment.commits
        first: dict[MetaRangeId, None] = {}
        for each in self.moment.refs.commits:
            parents = [commits[parent] for parent in each.parents if parent in commits]
            if each.meta_range_id in excluded:
                first |= dict.fromkeys(parent.meta_range_id for parent in parents)
            elif any(parent.meta_range_id in excluded for parent in parents):
                first[each.meta_range_id] = None
        yield from (each for each in first if each in self.trees and each not in excluded)
        yield from (each for each in self.trees if each not in first and each not in excluded)

    def rebuilt_range(self, info: RangeInfo, trees: Iterable[str]) -> bytes | None:
        """Rebuild a range from the records of other trees."""
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
            body = _range_with_id(info, options, lacking)
            if body is not None:
                return body
        return None

    def _records(
        self, tree: MetaRangeId, interval: Interval, lost: str
    ) -> dict[bytes, bytes] | None:
        """Return the records of a tree in an interval, unless some are unreadable."""
        ranges = [each for each in self.trees[tree] if each.id != lost]
        try:
            blocks = list(range_files.read_ranges(self.store, ranges, interval))
        except SparklakeError:
            return None
        return dict(record for block in blocks for record in block.records())

    def redescribed_tree(self, tree: MetaRangeId) -> bytes | None:
        """Correct a metarange's descriptions of its ranges.

        Returns None if they are correct, or if a range is unreadable.
        """
        ranges, exact = self.trees.get(tree, ()), list[RangeInfo]()
        try:
            for each in ranges:
                content = range_files.tree_file(self.store, each.id)
                block = range_files.read_range_file(content, each.id)
                exact.append(range_files.make_range(block_of_encoded(block.encoded))[0])
        except SparklakeError:
            return None
        if list(map(_facts, exact)) == list(map(_facts, ranges)):
            return None
        return make_table(range_list(exact).block).file

    def rebuilt_tree(self, tree: MetaRangeId) -> bytes | None:
        """Rebuild a metarange from ranges of other trees and from orphaned ranges."""
        sources: list[Sequence[RangeInfo]] = []
        for near in islice(self.near([tree]), _MAX_NEAR):
            ranges = self.trees[near]
            if not sources:
                sources += [_overlaid(ranges, [each]) for each in self._orphans]
            sources += [ranges, _overlaid(ranges, _apart(self._orphans))]
            assembled = _ranges_with_id(tree, sources)
            if assembled is not None:
                return make_table(range_list(assembled).block).file
        return None

    @cached_property
    def _orphans(self) -> list[RangeInfo]:
        in_use = {each.id for ranges in self.trees.values() for each in ranges}
        orphans = []
        for table_id, _ in range_files.list_tree_files(self.store):
            if table_id not in in_use and table_id not in self.trees:
                with suppress(SparklakeError):
                    block = range_files.read_range_file(
                        range_files.tree_file(self.store, table_id), table_id
                    )
                    if not range_problem(block):
                        orphans.append(range_files.make_range(block)[0])
        return orphans[:_MAX_ORPHANS]


def _facts(info: RangeInfo) -> tuple[object, ...]:
    """Return the description of a range without its estimated size."""
    return info.id, info.min_key, info.max_key, info.count, info.tombstones


def is_tree_file(table_id: str, body: Content, *, is_tree: bool) -> bool:
    """Return whether bytes have the given id. All ids are recomputed."""
    try:
        block = _read(table_id, body, is_tree=is_tree)
        return not layout_problem(block) and _has_sound_records(block, is_tree=is_tree)
    except SparklakeError:
        return False


def _read(table_id: str, body: Content, *, is_tree: bool) -> Block:
    return (range_files.read_meta_range_file if is_tree else range_files.read_range_file)(
        body, table_id
    )


def _has_sound_records(block: Block, *, is_tree: bool) -> bool:
    return not (tree_problem if is_tree else range_problem)(block)


def _range_with_id(
    info: RangeInfo, options: dict[bytes, dict[bytes, Record]], lacking: set[bytes]
) -> bytes | None:
    """Return the range with the given id, choosing one option, or none, for each key."""
    keys = sorted(options)
    if not keys or keys[0] > info.min_key or len(keys) < info.count:
        return None
    choices: list[list[Record | None]] = []
    for key in keys:
        choices.append([*options[key].values()])
        if key in lacking and key not in (info.min_key, info.max_key):
            choices[-1].append(None)
    if prod(map(len, choices)) > _MAX_GUESSES:
        return None
    for guess in product(*choices):
        records = [each for each in guess if each is not None]
        if len(records) == info.count:
            ids = b"".join(stored[-32:] for _, stored in records)
            if is_generation(info.id, file_id(ids)):
                return range_files.make_range(block_of_records(records))[1]
    return None


def _ranges_with_id(
    tree: MetaRangeId, sources: Sequence[Sequence[RangeInfo]]
) -> Sequence[RangeInfo] | None:
    """Assemble a tree from parts of several trees, by its id."""
    choices = [list(each) for each in _segments(sources)]
    if prod(map(len, choices)) > _MAX_GUESSES:
        return None
    hashed = [[record_ids(ranges).tobytes() for ranges in parts] for parts in choices]
    for guess in product(*(range(len(parts)) for parts in choices)):
        ids = b"".join(parts[at] for parts, at in zip(hashed, guess, strict=True))
        if ids and file_id(ids) == tree:
            return [each for at, parts in zip(guess, choices, strict=True) for each in parts[at]]
    return None


def _segments(sources: Sequence[Sequence[RangeInfo]]) -> Iterator[Iterable[tuple[RangeInfo, ...]]]:
    """Yield the different parts of trees in each interval not crossed by any range."""
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
    apart: list[RangeInfo] = []
    for each in sorted(ranges, key=lambda each: each.min_key):
        if not apart or apart[-1].max_key < each.min_key:
            apart.append(each)
    return apart


def _overlaid(ranges: Sequence[RangeInfo], over: Sequence[RangeInfo]) -> list[RangeInfo]:
    """Return `over` and the ranges not overlapped by it, in key order."""
    below = (
        each
        for each in ranges
        if not any(each.min_key <= one.max_key and one.min_key <= each.max_key for one in over)
    )
    return sorted([*below, *over], key=lambda each: each.min_key)
