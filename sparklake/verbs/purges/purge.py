"""Purge: delete the bytes of objects from all history, and keep records and ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from uuid import uuid4

import msgspec

from sparklake import errors, layout
from sparklake.graveler.chunks import chunked
from sparklake.graveler.guards import read_only_error
from sparklake.graveler.ids import MetaRangeId, RangeId
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import BranchState
from sparklake.graveler.ports.registers import Purge, PurgeCounts, PurgeState
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sums import bounded
from sparklake.namespace.markers import ENDED, decide_once, open_purges
from sparklake.strategies.path_globs import glob_pattern
from sparklake.udfs import purges as tasks
from sparklake.udfs.purges import FoundReport, Patterns, Scan
from sparklake.udfs.tasks import decode_reports, encode_tasks
from sparklake.verbs.base.context import Context, now
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.publish import check_texts
from sparklake.verbs.base.runner import retry_lost_races
from sparklake.verbs.base.staging import StagedLayers
from sparklake.verbs.checks.dumps import check_nothing_lost
from sparklake.verbs.purges.removals import commit_removals
from sparklake.visible import count_of

_SHOWN = 5
_RANGES_AT_ONCE = 16
_DELETION_RECORDS = 100
"""The approximate number of records that could be read while one object is deleted."""


@dataclass(frozen=True, slots=True)
class PurgeOptions:
    patterns: tuple[str, ...]
    message: str = ""
    commit: bool = False
    include_shared: bool = False
    include_external: bool = False
    dry_run: bool = False


def purge(context: Context, options: PurgeOptions) -> Purge:
    """Delete the bytes of objects under the given paths in all history.

    Raises PurgeBlockedError, and deletes nothing, if a head or a staged change has such a path,
    another path shares the bytes, or the bytes are in another repository's namespace.
    """
    patterns = _check_options(context, options)
    check_namespace(context.store)
    if not options.include_shared:
        check_nothing_lost(context)
    draft = Purge(
        id=uuid4().hex,
        who=context.committer,
        date=now(),
        message=options.message,
        patterns=options.patterns,
        state=PurgeState.DELETING,
        counts=PurgeCounts(),
        include_shared=options.include_shared,
        include_external=options.include_external,
    )
    if options.dry_run:
        try:
            return replace(draft, counts=_scan(context, patterns, draft).counts)
        finally:
            _clear(context, draft)
    with context.refs.purges.alone():
        _end_unregistered(context)
        return _run(context, patterns, draft, options)


def _run(context: Context, patterns: Patterns, draft: Purge, options: PurgeOptions) -> Purge:
    store = context.store
    try:
        report = _open_and_scan(context, patterns, draft)
        if options.commit and report.live_count:
            _close(context, draft.id)
            commit_removals(context, patterns, options.message)
            report = _open_and_scan(context, patterns, draft)
        _refuse_live(report)
        purge = replace(draft, counts=report.counts)
        store.put_if_absent(layout.purge_plan_key(purge.id), msgspec.json.encode(report.parts))
        context.refs.purges.add(purge)
        if not _claim(context, purge.id):
            raise errors.PurgeRunningError(
                f"nothing was purged: {purge.id} lost its connection to Postgres, and another "
                f"purge closed it. Run `sparklake purge resume` {purge.id}"
            )
    finally:
        if context.refs.purges.find(draft.id) is None:
            _clear(context, draft)
    return _finish(context, purge)


def _open_and_scan(context: Context, patterns: Patterns, draft: Purge) -> FoundReport:
    _open(context, draft.id)
    report = _scan(context, patterns, draft)
    if report.foreign_count:
        path, owner = report.foreign[0]
        raise errors.PurgeBlockedError(
            f"nothing was purged: {path!r}, and {count_of(report.foreign_count, 'object')} in "
            f"total, are in the storage namespace of another repository, such as {owner}. Purge "
            "them there"
        )
    if report.counts.shared and not draft.include_shared:
        sample = ", ".join(map(repr, report.shared[:_SHOWN]))
        raise errors.PurgeBlockedError(
            f"nothing was purged: other paths share the bytes of {sample}, "
            f"{report.counts.shared} in total. Purge these paths too, or use --include-shared"
        )
    if not report.parts:
        raise errors.NoChangesError("no commit and no staged change has a matching path")
    return report


def resume_purge(context: Context, purge_id: str) -> Purge:
    """Resume an unfinished purge, unless it died before its first deletion."""
    if context.refs.settings.get().read_only:
        raise read_only_error()
    check_namespace(context.store)
    with context.refs.purges.alone():
        if purge_id in _end_unregistered(context):
            raise errors.NotFoundError(
                f"the purge {purge_id!r} was interrupted before its first deletion. It deleted "
                "nothing and cannot be resumed: run it again"
            )
        purge = get_purge(context, purge_id)
        if purge.state is not PurgeState.DONE and purge_id not in open_purges(context.store):
            # A purge of an earlier version, which writers do not wait for.
            _open(context, purge_id)
            try:
                _refuse_live(_scan(context, Patterns(purge.patterns), purge))
            except BaseException:
                _close(context, purge_id)  # Nothing has been deleted since it was opened.
                raise
        return _finish(context, purge)


def get_purge(context: Context, purge_id: str) -> Purge:
    purge = context.refs.purges.find(purge_id)
    if purge is None:
        raise errors.NotFoundError(
            f"{context.info.name} has no purge {purge_id!r}: `sparklake purge list` lists them"
        )
    return purge


def receipt_of(context: Context, purge: Purge) -> str:
    """Return the folder of the receipt: Parquet files, one row per path and address."""
    return f"{context.info.storage_namespace}/{layout.purge_receipt_folder(purge.id)}".rstrip("/")


def _check_options(context: Context, options: PurgeOptions) -> Patterns:
    if not options.patterns:
        raise errors.InvalidInputError(
            "a purge needs at least one path, or a glob such as 'users/42/**'"
        )
    for each in options.patterns:
        glob_pattern(each)
    check_texts([*options.patterns, options.message], "the paths and the message of a purge")
    if context.refs.settings.get().read_only:
        raise read_only_error()
    return Patterns(options.patterns)


def _scan(context: Context, patterns: Patterns, draft: Purge) -> FoundReport:
    """Write the list of objects to delete. Returns its parts and counts."""
    work = retry_lost_races(partial(_scans, context))
    records = sum(each.count for scan in work for each in scan.ranges)
    runner = context.runner(records, "purge", draft.id)
    reports = runner.sort_and_collect(
        partial(tasks.scan_body, context.workspace, patterns),
        partial(tasks.found_body, context.workspace, draft.id, draft.include_external),
        encode_tasks(work),
    )
    total = FoundReport()
    for report in decode_reports(reports, FoundReport):
        _add(total, report)
    return total


def _add(total: FoundReport, report: FoundReport) -> None:
    total.parts += report.parts
    total.live_count += report.live_count
    total.live += report.live
    total.shared += report.shared
    total.foreign_count += report.foreign_count
    total.foreign += report.foreign
    counts = asdict(report.counts)
    total.counts = PurgeCounts(
        **{name: bounded(count + counts[name]) for name, count in asdict(total.counts).items()}
    )


def _refuse_live(report: FoundReport) -> None:
    if report.live_count:
        sample = ", ".join(f"{path!r} on {name!r}" for name, path in report.live[:_SHOWN])
        raise errors.PurgeBlockedError(
            f"nothing was purged: branches still have {sample}. Delete these paths and commit, or "
            "pass --commit to do this"
        )


def _finish(context: Context, purge: Purge) -> Purge:
    """Delete the listed objects, or continue an earlier attempt."""
    if purge.state is not PurgeState.DONE:
        plan = layout.purge_plan_key(purge.id)
        remedy = f"restore it from a backup, then run `sparklake purge resume` {purge.id}"
        what = f"the list {plan} in {context.store.uri} of the objects to purge"
        parts = decode_json(context.store.get(plan), list[str], what, remedy)
        runner = context.runner(_DELETION_RECORDS * purge.counts.paths, "purge", purge.id)
        body = partial(tasks.delete_body, context.workspace, purge.id, purge.include_external)
        done = sum(batch.num_rows for batch in runner.collect(body, encode_tasks(parts)))
        if done < len(parts):
            raise errors.LostResultError(
                "the engine returned no result for a part of the purge: resume it with "
                f"`sparklake purge resume` {purge.id}"
            )
        purge = replace(purge, state=PurgeState.DONE)
        summary = msgspec.json.encode(asdict(purge))
        context.store.replace(layout.purge_summary_key(purge.id), summary)
        context.refs.purges.finish(purge.id)
    _clear(context, purge)
    return purge


def _clear(context: Context, purge: Purge) -> None:
    """Delete the list of objects, which the receipt repeats, and release all ranges."""
    for each in list(context.store.list(layout.purge_list_folder(purge.id))):
        context.store.delete(each.key)
    context.store.delete(layout.purge_plan_key(purge.id))
    context.store.delete(layout.purge_claim_key(purge.id))
    _close(context, purge.id)


# --- open purges: docs/design/035 has the proof of safety -----------------------------------------


def _open(context: Context, purge_id: str) -> None:
    """Mark a purge as open, then restart the running verbs.

    A later scan finds everything published earlier. Whatever is published later references nothing
    in the scan's list, except by its address.
    """
    context.store.replace(layout.open_purge_key(purge_id), purge_id.encode())
    context.refs.collections.begin(expires=False, rows=False)


def _close(context: Context, purge_id: str) -> None:
    context.store.delete(layout.open_purge_key(purge_id))


def _end_unregistered(context: Context) -> list[str]:
    """Close purges interrupted before their registration or after they finished.

    Returns the ids of unregistered ones. A purge that is still running without its lock loses its
    claim.
    """
    unregistered = []
    for each in open_purges(context.store):
        purge = context.refs.purges.find(each)
        if purge is None and not _claim(context, each, ENDED):
            continue  # It has been registered since.
        if purge is None or purge.state is PurgeState.DONE:
            _close(context, each)
        if purge is None:
            unregistered.append(each)
    return unregistered


def _claim(context: Context, purge_id: str, claim: bytes = b"deleting") -> bool:
    """Claim the deletion or the closing of a purge. Only the first claim succeeds."""
    return decide_once(context.store, layout.purge_claim_key(purge_id), claim) == claim


def _scans(context: Context) -> list[Scan]:
    """Return each distinct range once, with its first commit, and all staged changes.

    Ranges of a head carry the name of its branch. Only metaranges are read.
    """
    refs = context.refs.snapshot()
    live: dict[RangeId, str] = {}
    for state in refs.branches:
        tree = context.tree(context.graph.head(state))
        live.update((each.id, state.name) for each in tree.ranges)
    scans: list[Scan] = []
    trees: set[MetaRangeId] = set()
    ranges: set[RangeId] = set()
    # The objects that only these commits referenced are gone, too.
    collected = context.refs.commits.collected([each.id for each in refs.commits])
    for order, each_commit in enumerate(refs.commits):
        if each_commit.meta_range_id in trees or each_commit.id in collected:
            continue
        trees.add(each_commit.meta_range_id)
        new = [each for each in context.tree(each_commit).ranges if each.id not in ranges]
        ranges.update(each.id for each in new)
        scans += _pack(new, live, order, each_commit.id)
    for state in refs.branches:
        scans += _staged(context, state, len(refs.commits))
    return scans


def _pack(
    ranges: Iterable[RangeInfo], live: dict[RangeId, str], order: int, commit: str
) -> Iterator[Scan]:
    by_branch: dict[str, list[RangeInfo]] = {}
    for each in ranges:
        by_branch.setdefault(live.get(each.id, ""), []).append(each)
    for branch, group in by_branch.items():
        for part in chunked(group, _RANGES_AT_ONCE):
            yield Scan(tuple(part), (), order, commit, branch)


def _staged(context: Context, state: BranchState, order: int) -> Iterator[Scan]:
    for side in StagedLayers(context).sides(state.layers):
        if side.rows:
            yield Scan((), side.rows, order, "", state.name)
        for part in chunked(side.ranges, _RANGES_AT_ONCE):
            yield Scan(tuple(part), (), order, "", state.name)
