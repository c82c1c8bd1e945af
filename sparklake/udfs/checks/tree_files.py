"""Task bodies verifying metaranges and ranges in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparklake.errors import CorruptFileError, InvalidKeyError, MissingFileError, SparklakeError
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.verification import shown_key
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ports import Content, ObjectStore
from sparklake.graveler.ranges import RangeInfo, RangeList
from sparklake.graveler.sstable.range_files import (
    check_file_size,
    read_meta_range_file,
    read_range_file,
    read_together,
    tree_file_key,
)
from sparklake.graveler.sstable.verification import layout_problem, range_problem, tree_problem
from sparklake.rows.findings import Finding, FindingKind
from sparklake.udfs.checks.exchange import CheckPlace, Step, rows_key, write_buckets
from sparklake.udfs.checks.named import NamedObjects, range_tag


@dataclass(frozen=True, slots=True)
class TreeShare:
    """Metaranges to verify, or with `only`, to search for these ranges."""

    trees: tuple[MetaRangeId, ...]
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeRanges:
    tree: MetaRangeId
    ranges: tuple[RangeInfo, ...]


@dataclass(slots=True)
class TreesResult:
    """The findings about metaranges, and their ranges."""

    findings: list[Finding] = field(default_factory=list)
    trees: list[TreeRanges] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RangeShare:
    """Ranges to verify.

    With `is_named`, the addresses of their objects are written; otherwise only expired commits
    reference them. With `is_staged`, they may have tombstones.
    """

    ranges: tuple[RangeInfo, ...]
    is_named: bool
    is_staged: bool = False


@dataclass(slots=True)
class RangesResult:
    """The findings about ranges, and the number of their records."""

    findings: list[Finding] = field(default_factory=list)
    records: int = 0


# --- metaranges -----------------------------------------------------------------------------------


def check_trees(place: CheckPlace, name: str, share: TreeShare) -> TreesResult:
    store, result = place.workspace.open_store(), TreesResult()
    only = frozenset(share.only)
    for tree, content in _contents(store, share.trees):
        try:
            ranges = _tree_ranges(tree, content, result)
        except MissingFileError as error:
            result.findings.append(Finding(FindingKind.TREE_MISSING, tree, str(error), tree))
        except SparklakeError as error:
            result.findings.append(Finding(FindingKind.TREE_DAMAGED, tree, str(error), tree))
        else:
            if only:
                ranges = tuple(each for each in ranges if each.id in only)
            result.trees.append(TreeRanges(MetaRangeId(tree), ranges))
    return result


CHECK_TREES = Step("trees", check_trees, TreeShare, TreesResult)


def _tree_ranges(
    tree: str, content: Content | SparklakeError, result: TreesResult
) -> tuple[RangeInfo, ...]:
    if isinstance(content, SparklakeError):
        raise content
    block = read_meta_range_file(content, tree)
    if not len(block):
        return ()
    if problem := layout_problem(block) or tree_problem(block):
        raise CorruptFileError(problem)
    ranges = tuple(RangeList(block))
    last = b""
    for each in ranges:
        if not last < each.min_key <= each.max_key:
            paths = shown_key(each.min_key), shown_key(each.max_key)
            detail = f"the range {each.id} starts before the end of the previous one"
            result.findings.append(Finding(FindingKind.RANGES_OVERLAP, tree, detail, tree, *paths))
        last = each.max_key
    return ranges


# --- ranges ---------------------------------------------------------------------------------------


def check_ranges(place: CheckPlace, name: str, share: RangeShare) -> RangesResult:
    """Verify ranges, and write their referenced objects."""
    store, result = place.workspace.open_store(), RangesResult()
    referenced = NamedObjects(place.workspace.storage_namespace, place.buckets)
    for group in read_together(share.ranges):
        contents = _contents(store, [each.id for each in group])
        for info, (range_id, content) in zip(group, contents, strict=True):
            block = _verified(info, content, share, result)
            if block is not None:
                result.records += len(block)
                if share.is_named:
                    referenced.add(block, range_tag(range_id))
    if share.is_named:
        rows = referenced.table()
        key = rows_key(CHECK_RANGES.name, name)
        write_buckets(place.open_folder(), key, rows, referenced.buckets_of(rows), place.buckets)
    return result


CHECK_RANGES = Step("ranges", check_ranges, RangeShare, RangesResult)


def _verified(
    info: RangeInfo, content: Content | SparklakeError, share: RangeShare, result: RangesResult
) -> Block | None:
    """Verify a range; return its records unless they are unusable."""

    def report(kind: FindingKind, detail: str) -> None:
        paths = shown_key(info.min_key), shown_key(info.max_key)
        result.findings.append(Finding(kind, info.id, detail, info.id, *paths))

    try:
        if isinstance(content, SparklakeError):
            raise content
        check_file_size(info, len(content))
        block = read_range_file(content, info.id)
        if problem := layout_problem(block):
            raise CorruptFileError(problem)
    except MissingFileError as error:
        report(FindingKind.RANGE_MISSING, str(error))
        return None
    except SparklakeError as error:
        report(FindingKind.RANGE_DAMAGED, str(error))
        return None
    if detail := range_problem(block):
        report(FindingKind.RECORD_DAMAGED, detail)
        return None
    tombstones = int(np.count_nonzero(block.tombstones))
    if tombstones and not share.is_staged:
        report(FindingKind.TOMBSTONE_COMMITTED, f"{tombstones:,} of its records are tombstones")
    if detail := _mismatch(info, block, tombstones):
        report(FindingKind.RANGE_METADATA_MISMATCH, detail)
    return block


def _mismatch(info: RangeInfo, block: Block, tombstones: int) -> str:
    """Return the error in a metarange's description of a range, or ""."""
    if (block.first_key, block.last_key) != (info.min_key, info.max_key):
        return f"its keys are {block.first_key!r} to {block.last_key!r}"
    if len(block) != info.count:
        return f"it has {len(block):,} records, not {info.count:,}"
    if tombstones != info.tombstones:
        return f"it has {tombstones:,} tombstones, not {info.tombstones:,}"
    return ""


def _contents(
    store: ObjectStore, table_ids: Sequence[str]
) -> Iterator[tuple[str, Content | SparklakeError]]:
    """Yield each tree file with its bytes or its read error."""
    pending = list(table_ids)
    while pending:
        contents = store.get_many([tree_file_key(each) for each in pending])
        try:
            for content in contents:
                yield pending.pop(0), content
        except (MissingFileError, InvalidKeyError) as error:
            yield pending.pop(0), error
