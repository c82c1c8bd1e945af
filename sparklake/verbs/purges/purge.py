"""Purge: delete the bytes of objects from all history, and keep records and ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from uuid import uuid4

import msgspec

from sparklake.errors import (
    InvalidInputError,
    LostResultError,
    NoChangesError,
    NotFoundError,
    PurgeBlockedError,
    PurgeRunningError,
)
from sparklake.graveler.guards import read_only_error
from sparklake.graveler.ids import MetaRangeId, RangeId
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import BranchState
from sparklake.graveler.ports.registers import Purge, PurgeCounts, PurgeState
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sums import bounded
from sparklake.namespace.layout import (
    purge_claim_key,
    purge_list_folder,
    purge_plan_key,
    purge_receipt_folder,
    purge_summary_key,
)
from sparklake.namespace.markers import open_purges
from sparklake.strategies.path_globs import glob_pattern
from sparklake.udfs.purges import FoundReport, Patterns, Scan, delete_body, found_body, scan_body
from sparklake.udfs.tasks import decode_reports, encode_tasks
from sparklake.verbs.base.context import Context, now
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.publish import check_texts
from sparklake.verbs.base.runner import retry_lost_races
from sparklake.verbs.base.staging import StagedLayers
from sparklake.verbs.checks.dumps import check_nothing_lost
from sparklake.verbs.purges.opening import claim_purge, close_purge, end_unregistered, open_purge
from sparklake.verbs.purges.removals import commit_removals

_NAMED = 5
_DELETION_RECORDS = 100
"""The approximate number of records that could be read while one object is deleted."""


@dataclass(frozen=True, slots=True)
class PurgeOptions:
    """The options of a purge. See `Repository.purge`."""

    patterns: tuple[str, ...]
    message: str = ""
    commit: bool = False
    include_shared: bool = False
    include_external: bool = False
    dry_run: bool = False


def purge(context: Context, options: PurgeOptions) -> Purge:
    """Delete the bytes of objects under the given paths in all history.

    PurgeBlockedError: a head or staging has such a path, another path shares the bytes, or the
    bytes are in another repository's namespace. Then nothing is deleted.
    """
    patterns = _checked(context, options)
    check_namespace(context.store)
    if not options.include_shared:
        check_nothing_lost(context)
    made = Purge(
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
            return replace(made, counts=_found(context, patterns, made).counts)
        finally:
            _clear(context, made)
    with context.refs.purges.alone():
        end_unregistered(context)
        return _purged(context, patterns, made, options)


def _purged(context: Context, patterns: Patterns, made: Purge, options: PurgeOptions) -> Purge:
    try:
        open_purge(context, made.id)
        found = _found(context, patterns, made)
        _refuse_foreign(found)
        _refuse_shared(found, options)
        if options.commit and found.live_count:
            close_purge(context, made.id)
            commit_removals(context, patterns, options.message)
            open_purge(context, made.id)
            found = _found(context, patterns, made)
            _refuse_foreign(found)
            _refuse_shared(found, options)
        _refuse_live(found)
        made = replace(made, counts=found.counts)
        context.store.put_if_absent(purge_plan_key(made.id), msgspec.json.encode(found.parts))
        context.refs.purges.add(made)
        if not claim_purge(context, made.id):
            raise PurgeRunningError(
                f"nothing was purged: {made.id} lost its connection to Postgres, and another purge "
                f"ended it. Run `sparklake purge resume` {made.id}"
            )
    finally:
        if context.refs.purges.find(made.id) is None:
            _clear(context, made)
    return _carried_out(context, made)


def resume_purge(context: Context, purge_id: str) -> Purge:
    """Continue an unfinished purge.

    A purge that died before its first deletion is over: NotFoundError.
    """
    if context.refs.settings.get().read_only:
        raise read_only_error()
    check_namespace(context.store)
    with context.refs.purges.alone():
        if purge_id in end_unregistered(context):
            raise NotFoundError(
                f"the purge {purge_id!r} was interrupted before its first deletion. It deleted "
                "nothing and cannot be resumed: run it again"
            )
        made = get_purge(context, purge_id)
        if made.state is not PurgeState.DONE and purge_id not in open_purges(context.store):
            _open_again(context, made)
        return _carried_out(context, made)


def _open_again(context: Context, made: Purge) -> None:
    """Open a purge of an earlier version, which writers do not wait for."""
    open_purge(context, made.id)
    try:
        _refuse_live(_found(context, Patterns(made.patterns), made))
    except BaseException:
        close_purge(context, made.id)  # Nothing has been deleted since it was opened.
        raise


def get_purge(context: Context, purge_id: str) -> Purge:
    found = context.refs.purges.find(purge_id)
    if found is None:
        raise NotFoundError(
            f"{context.info.name} has no purge {purge_id!r}: `sparklake purge list` lists them"
        )
    return found


def receipt_of(context: Context, made: Purge) -> str:
    """Return the folder of the receipt: Parquet files, one row per path and address."""
    return f"{context.info.storage_namespace}/{purge_receipt_folder(made.id)}".rstrip("/")


def _checked(context: Context, options: PurgeOptions) -> Patterns:
    if not options.patterns:
        raise InvalidInputError("a purge needs at least one path, or a glob such as 'users/42/**'")
    for each in options.patterns:
        glob_pattern(each)
    check_texts([*options.patterns, options.message], "the paths and the message of a purge")
    if context.refs.settings.get().read_only:
        raise read_only_error()
    return Patterns(options.patterns)


def _found(context: Context, patterns: Patterns, made: Purge) -> FoundReport:
    """Write the list of objects to delete. Returns its parts and counts."""
    work = list(purge_scans(context))
    records = sum(each.count for scan in work for each in scan.ranges)
    runner = context.runner(records, "purge", made.id)
    reports = runner.sort_and_collect(
        partial(scan_body, context.workspace, patterns),
        partial(found_body, context.workspace, made.id, made.include_external),
        encode_tasks(work),
    )
    total = FoundReport()
    for report in decode_reports(reports, FoundReport):
        _add(total, report)
    return total


def _add(total: FoundReport, found: FoundReport) -> None:
    total.parts += found.parts
    total.live_count += found.live_count
    total.live += found.live
    total.shared += found.shared
    total.foreign_count += found.foreign_count
    total.foreign += found.foreign
    counts, found_counts = asdict(total.counts), asdict(found.counts)
    total.counts = PurgeCounts(
        **{name: bounded(counts[name] + found_counts[name]) for name in counts}
    )


def _refuse_live(found: FoundReport) -> None:
    if found.live_count:
        named = ", ".join(f"{path!r} on {name!r}" for name, path in found.live[:_NAMED])
        raise PurgeBlockedError(
            f"nothing was purged: branches still have {named}. Delete these paths and commit, or "
            "pass --commit to do this"
        )


def _refuse_foreign(found: FoundReport) -> None:
    if found.foreign_count:
        path, owner = found.foreign[0]
        raise PurgeBlockedError(
            f"nothing was purged: {path!r}, and {found.foreign_count} objects in total, are "
            f"in the storage namespace of another repository, such as {owner}. Purge them "
            "there"
        )


def _refuse_shared(found: FoundReport, options: PurgeOptions) -> None:
    if found.counts.shared and not options.include_shared:
        named = ", ".join(map(repr, found.shared[:_NAMED]))
        raise PurgeBlockedError(
            f"nothing was purged: other paths share the bytes of {named}, "
            f"{found.counts.shared} in total. Purge these paths too, or use --include-shared"
        )
    if not found.parts:
        raise NoChangesError("no commit and no staged change has a matching path")


def _carried_out(context: Context, made: Purge) -> Purge:
    """Delete the listed objects, or continue an earlier attempt."""
    if made.state is not PurgeState.DONE:
        plan = purge_plan_key(made.id)
        remedy = f"restore it from a backup, then run `sparklake purge resume` {made.id}"
        what = f"the list {plan} in {context.store.uri} of the objects to purge"
        parts = decode_json(context.store.get(plan), list[str], what, remedy)
        runner = context.runner(_DELETION_RECORDS * made.counts.paths, "purge", made.id)
        body = partial(delete_body, context.workspace, made.id, made.include_external)
        done = sum(batch.num_rows for batch in runner.collect(body, encode_tasks(parts)))
        if done < len(parts):
            raise LostResultError(
                "the engine returned no result for a part of the purge: resume it with "
                f"`sparklake purge resume` {made.id}"
            )
        made = replace(made, state=PurgeState.DONE)
        summary = msgspec.json.encode(asdict(made))
        context.store.replace(purge_summary_key(made.id), summary)
        context.refs.purges.finish(made.id)
    _clear(context, made)
    return made


def _clear(context: Context, made: Purge) -> None:
    """Remove the list of objects to delete, and release all ranges for writers.

    The receipt repeats the list.
    """
    listed = list(context.store.list(purge_list_folder(made.id)))
    for each in listed:
        context.store.delete(each.key)
    context.store.delete(purge_plan_key(made.id))
    context.store.delete(purge_claim_key(made.id))
    close_purge(context, made.id)


_RANGES_AT_ONCE = 16


def purge_scans(context: Context) -> Iterator[Scan]:
    """Yield each distinct range once, with its first commit, and all staged changes.

    Ranges of a head carry the name of its branch. Only lists of ranges are read.
    """
    return iter(retry_lost_races(lambda: _scans(context)))


def _scans(context: Context) -> list[Scan]:
    refs = context.refs.snapshot()
    live: dict[RangeId, str] = {}
    for state in refs.branches:
        tree = context.tree(context.graph.commit(state.commit_id))
        live.update((each.id, state.name) for each in tree.ranges)
    found: list[Scan] = []
    trees: set[MetaRangeId] = set()
    ranges: set[RangeId] = set()
    # The objects that only these commits named are gone, too.
    collected = context.refs.commits.collected([each.id for each in refs.commits])
    for order, each_commit in enumerate(refs.commits):
        if each_commit.meta_range_id in trees or each_commit.id in collected:
            continue
        trees.add(each_commit.meta_range_id)
        new = [each for each in context.tree(each_commit).ranges if each.id not in ranges]
        ranges.update(each.id for each in new)
        found += _packed(new, live, order, each_commit.id)
    for state in refs.branches:
        found += _staged(context, state, len(refs.commits))
    return found


def _packed(
    ranges: Iterable[RangeInfo], live: dict[RangeId, str], order: int, commit: str
) -> Iterator[Scan]:
    by_branch: dict[str, list[RangeInfo]] = {}
    for each in ranges:
        by_branch.setdefault(live.get(each.id, ""), []).append(each)
    for branch, some in by_branch.items():
        for start in range(0, len(some), _RANGES_AT_ONCE):
            part = tuple(some[start : start + _RANGES_AT_ONCE])
            yield Scan(part, (), order, commit, branch)


def _staged(context: Context, state: BranchState, order: int) -> Iterator[Scan]:
    for side in StagedLayers(context).sides(state.layers):
        if side.rows:
            yield Scan((), side.rows, order, "", state.name)
        for start in range(0, len(side.ranges), _RANGES_AT_ONCE):
            part = side.ranges[start : start + _RANGES_AT_ONCE]
            yield Scan(part, (), order, "", state.name)
