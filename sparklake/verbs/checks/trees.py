"""The check of tree files and staged rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from operator import attrgetter

from sparklake.errors import RaceLostError
from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.blocks.verification import shown_key
from sparklake.graveler.chunks import chunked, sliced
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import Layer, LayerKind
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.graveler.sstable.verification import range_problem
from sparklake.rows.findings import MOST_AFFECTED, Finding, FindingKind
from sparklake.udfs.checks.exchange import Step, rows_key, write_buckets
from sparklake.udfs.checks.named import NamedObjects
from sparklake.udfs.checks.summaries import CHECK_SUMMARIES, SummarisedCommit
from sparklake.udfs.checks.tree_files import (
    CHECK_RANGES,
    CHECK_TREES,
    RangeShare,
    TreeShare,
    TreesResult,
)
from sparklake.verbs.checks.refs import Moment, moment_of
from sparklake.verbs.checks.steps import Steps

_TREES_OF_A_SHARE = 64
_RECORDS_OF_A_TREE = 1000
"""The approximate number of records that take as long as a metarange."""

_COMMITS_AT_ONCE = 10_000
"""The commits whose summaries are read at once."""

_OBJECTS_OF_A_BUCKET = 1_000_000
_BATCH_ROWS = 8192
_MIN_STORED = 34
"""The bytes of a tombstone: two lengths and a record id."""

_ID_LENGTH = 64
_AFFECTED = replace(CHECK_TREES, name="affected")
_REQUIRED = replace(CHECK_TREES, name="required")
_MISSING = (FindingKind.TREE_MISSING, FindingKind.RANGE_MISSING)

_RangeKey = tuple[str, bytes, bytes, int, int]


@dataclass(slots=True)
class CheckedTrees:
    """The tree files read by a check.

    `files` are the exchanged files with referenced objects, `ids` all referenced tree files, and
    `rows` the branches of layers of staged rows, by tag.
    """

    findings: list[Finding] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    ranges: list[RangeInfo] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    records: int = 0


@dataclass(slots=True)
class _Ranges:
    """The distinct ranges of all trees."""

    infos: dict[_RangeKey, RangeInfo] = field(default_factory=dict)
    retained: set[_RangeKey] = field(default_factory=set)
    committed: set[_RangeKey] = field(default_factory=set)


def check_tree_files(steps: Steps, moment: Moment) -> CheckedTrees:
    """Verify all metaranges and ranges, each once, and all staged rows."""
    checked = CheckedTrees()
    ranges = _checked_trees(steps, moment, checked)
    checked.ranges = list(ranges.infos.values())
    checked.ids.update(each.id for each in checked.ranges)
    if not steps.state.buckets:
        count = sum(ranges.infos[key].count for key in ranges.retained)
        steps.save(buckets=1 + count // _OBJECTS_OF_A_BUCKET)
    _check_ranges(steps, ranges, checked)
    for branch in moment.refs.branches:
        for layer in branch.layers:
            if layer.kind is LayerKind.ROWS:
                _check_rows(steps, branch.name, layer, checked)
    missing = {each.tree_file for each in checked.findings if each.kind in _MISSING}
    lost = _lost(steps, missing) if missing else missing
    checked.findings = [
        each for each in checked.findings if each.kind not in _MISSING or each.tree_file in lost
    ]
    return checked


def _lost(steps: Steps, missing: Collection[str]) -> set[str]:
    """Return the missing tree files that are still required.

    While a check runs, commits may expire, and collections may delete their trees.
    """
    moment = moment_of(steps.context)
    trees = _trees(moment, with_collected=False)
    required: set[str] = set(trees)
    for result in _run_trees(steps, _REQUIRED, trees, sorted(missing)):
        required.update(each.id for tree in result.trees for each in tree.ranges)
    return {
        each for each in required & set(missing) if steps.store.find(tree_file_key(each)) is None
    }


def summary_findings(steps: Steps, moment: Moment) -> Iterator[Finding]:
    """Yield findings about the change summaries of unexpired commits."""
    retained = [
        each
        for each in moment.refs.commits
        if each.id not in moment.expired and each.parents and each.parents[0] in moment.commits
    ]
    for commits in chunked(retained, _COMMITS_AT_ONCE):
        stored = steps.context.refs.commits.change_summaries([each.id for each in commits])
        work = []
        for each in commits:
            if each.id in stored:
                base, tree = moment.commits[each.parents[0]].meta_range_id, each.meta_range_id
                work.append(SummarisedCommit(each.id, base, tree, stored[each.id]))
        shares = list(map(tuple, chunked(work, _TREES_OF_A_SHARE)))
        records = len(work) * _RECORDS_OF_A_TREE
        for findings in steps.run(CHECK_SUMMARIES, shares, records):
            for finding in findings:
                commit = CommitId(finding.subject)
                branches = moment.branches_with(commit)
                yield replace(finding, commits=(commit,), commit_count=1, branches=branches)


def _checked_trees(steps: Steps, moment: Moment, checked: CheckedTrees) -> _Ranges:
    trees = _trees(moment)
    checked.ids.update(trees)
    ranges = _Ranges()
    for result in _run_trees(steps, CHECK_TREES, trees, ()):
        checked.findings += result.findings
        for tree in result.trees:
            is_staged = tree.tree in moment.staged_trees
            is_retained = is_staged or tree.tree in moment.kept_trees
            for each in tree.ranges:
                key = each.id, each.min_key, each.max_key, each.count, each.tombstones
                ranges.infos.setdefault(key, each)
                if is_retained:
                    ranges.retained.add(key)
                if not is_staged:
                    ranges.committed.add(key)
    return ranges


def _trees(moment: Moment, *, with_collected: bool = True) -> list[MetaRangeId]:
    trees = dict.fromkeys(
        each.meta_range_id
        for each in moment.refs.commits
        if with_collected or each.id not in moment.collected
    )
    trees |= dict.fromkeys(moment.staged_trees)
    return [each for each in trees if len(each) == _ID_LENGTH]


def _run_trees(
    steps: Steps,
    step: Step[TreeShare, TreesResult],
    trees: Sequence[MetaRangeId],
    range_ids: Sequence[str],
) -> Iterator[TreesResult]:
    shares = [
        TreeShare(tuple(part), tuple(range_ids)) for part in chunked(trees, _TREES_OF_A_SHARE)
    ]
    return steps.run(step, shares, len(trees) * _RECORDS_OF_A_TREE)


def _check_ranges(steps: Steps, ranges: _Ranges, checked: CheckedTrees) -> None:
    records = sum(each.count for each in ranges.infos.values())
    size = steps.context.runner(records, "check", CHECK_RANGES.name).task_records(records)
    shares = []
    for is_named, is_staged in product((True, False), repeat=2):
        group = [
            info
            for key, info in ranges.infos.items()
            if (key in ranges.retained) == is_named and (key not in ranges.committed) == is_staged
        ]
        # In the order of ids, so that a resumed check has the same shares.
        group.sort(key=attrgetter("id"))
        parts = sliced(group, size, attrgetter("count"))
        shares += [RangeShare(tuple(part), is_named, is_staged) for part in parts]
    for share, result in zip(shares, steps.run(CHECK_RANGES, shares, records), strict=True):
        checked.records += result.records
        checked.findings += result.findings
        if share.is_named:
            checked.files.append(CHECK_RANGES.rows_key(share))


def _check_rows(steps: Steps, branch: str, layer: Layer, checked: CheckedTrees) -> None:
    """Verify the rows of a layer. A concurrent commit or reset may remove the layer."""
    tag = int(sha256(b"layer %d" % layer.id).hexdigest()[:16], 16)
    place = steps.place
    objects = NamedObjects(place.workspace.storage_namespace, place.buckets)
    try:
        for block in _blocks(steps.context.refs.staging.rows(layer.id), branch, checked):
            checked.records += len(block)
            objects.add(block, tag, with_paths=True)
    except RaceLostError:
        return
    rows = objects.table()
    if rows.num_rows:
        key = rows_key("rows", f"{layer.id}")
        write_buckets(steps.folder, key, rows, objects.buckets_of(rows), place.buckets)
        checked.files.append(key)
        checked.rows[tag] = branch


def _blocks(rows: Iterator[Record], branch: str, checked: CheckedTrees) -> Iterator[Block]:
    """Yield the valid rows of a layer in blocks. The others become findings."""
    last = b""
    for chunk in chunked(rows, _BATCH_ROWS):
        block, problem = _block(chunk)
        if problem or chunk[0][0] <= last:
            valid = []
            for row in chunk:
                _, problem = _block([row])
                if problem or row[0] <= last:
                    finding = Finding(
                        kind=FindingKind.STAGED_ROW_DAMAGED,
                        subject=branch,
                        detail=problem or "its keys are not in ascending order",
                        first_path=shown_key(row[0]),
                        last_path=shown_key(row[0]),
                        branches=(branch,),
                    )
                    checked.findings.append(finding)
                else:
                    valid.append(row)
                last = max(last, row[0])
            block = block_of_records(valid) if valid else None
        last = max(last, chunk[-1][0])
        if block is not None:
            yield block


def _block(rows: Sequence[Record]) -> tuple[Block | None, str]:
    if any(len(stored) < _MIN_STORED for _, stored in rows):
        return None, "its value is truncated"
    try:
        block = block_of_records(list(rows))
        return block, range_problem(block)
    except (ValueError, IndexError) as error:
        return None, str(error)


@dataclass(frozen=True, slots=True)
class Affected:
    """The commits and branches with a tree file."""

    commits: tuple[CommitId, ...] = ()
    branches: tuple[str, ...] = ()

    def of(self, each: Finding) -> Finding:
        return replace(
            each,
            commits=self.commits[:MOST_AFFECTED],
            commit_count=len(self.commits),
            branches=self.branches[:MOST_AFFECTED],
        )


def affected_by(steps: Steps, moment: Moment, ranges: Iterable[str]) -> Mapping[str, Affected]:
    """Return the commits and branches of ranges. Tasks read the metaranges again."""
    range_ids = sorted(set(ranges))
    trees: dict[str, list[MetaRangeId]] = {}
    if range_ids:
        for result in _run_trees(steps, _AFFECTED, _trees(moment), range_ids):
            for tree in result.trees:
                for each in tree.ranges:
                    trees.setdefault(each.id, []).append(tree.tree)
    return {each: affected_trees(moment, users) for each, users in trees.items()}


def affected_trees(moment: Moment, trees: Iterable[MetaRangeId]) -> Affected:
    """Return the retained commits and the branches of trees."""
    commits: dict[CommitId, None] = {}
    branches: set[str] = set()
    for each in trees:
        commits |= dict.fromkeys(moment.kept_trees.get(each, ()))
        branches.update(moment.staged_trees.get(each, ()))
    for commit in commits:
        branches.update(moment.heads.get(commit, ()))
    return Affected(tuple(commits), tuple(sorted(branches)))
