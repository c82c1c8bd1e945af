"""Garbage collection: delete the unreferenced objects of a namespace.

The steps are: list, raise the fence, find the referenced objects, compare, sweep. docs/design/034
explains why no referenced object can be deleted. All long steps run as tasks, and the driver keeps
nothing per object.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING

from sparklake.engine.base import UNWATCHED, Amount, Body, Progress, Runner, Source, watched
from sparklake.engine.execution import finish, write_run
from sparklake.engine.lazy_rows import Rows
from sparklake.engine.sort import sliced
from sparklake.engine.threads import LocalRunner
from sparklake.errors import InvalidInputError
from sparklake.graveler.ids import EMPTY_META_RANGE, RangeId
from sparklake.graveler.planning.layers import plan_listing
from sparklake.graveler.planning.packing import divided, pack_tasks
from sparklake.graveler.planning.plan import Plan, SideStream
from sparklake.graveler.ports import LayerKind, RepositorySnapshot, WriteState
from sparklake.graveler.ranges import MetaRange, RangeInfo
from sparklake.graveler.sstable.range_files import NO_TREE
from sparklake.graveler.sums import bounded_sum
from sparklake.namespace.layout import DATA_FOLDER, candidates_key
from sparklake.namespace.leftovers import remove_leftovers
from sparklake.namespace.markers import check_sweep
from sparklake.rows.objects import ObjectInfo
from sparklake.rows.records import record_batch
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.udfs.gc import (
    distinct_run_body,
    garbage_body,
    listed_body,
    named_body,
    named_rows_body,
    sweep_body,
    weigh_body,
)
from sparklake.udfs.objects import list_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_apart, check_namespace, check_owner
from sparklake.verbs.base.read import OBJECTS
from sparklake.verbs.base.resolve import open_branch
from sparklake.verbs.checks.dumps import check_nothing_lost
from sparklake.verbs.gc.runs import CollectionRun, RunFolder, Sweep, open_sweeps
from sparklake.verbs.gc.trees import UnreferencedTreeFiles, collects_trees, write_collected

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST = timedelta(days=36_500)
_SAMPLE = 10
_BATCH_ROWS = 8192
_SIDES = ("list",)


@dataclass(frozen=True, slots=True)
class Collection:
    """The result of a collection, with its first objects."""

    run: CollectionRun
    sample: tuple[ObjectInfo, ...]


def open_places(context: Context) -> tuple[str, ...]:
    """Return the folders of open writes. Their objects may be unreferenced yet."""
    writes = context.refs.writes.list()
    return tuple(f"{each.place}/" for each in writes if each.state is WriteState.OPEN)


def collect_garbage(
    context: Context, *, dry_run: bool, sweep: str | None, grace: timedelta, lists: str | None
) -> Collection:
    """Delete unreferenced objects below `data/`.

    Objects younger than `grace` are kept. A dry run deletes nothing. Its list can be swept later by
    its id, except for objects referenced by then. `lists` is a folder for the lists outside the
    namespace.
    """
    if not timedelta() <= grace <= _LONGEST:
        raise InvalidInputError(
            f"the grace period {grace} is out of range: choose 0 to 36,500 days"
        )
    if dry_run and sweep is not None:
        raise InvalidInputError("a dry run does not sweep: choose one of the two")
    if sweep is not None and lists is not None:
        raise InvalidInputError(
            "the list to sweep exists already: pass --work to the run that makes it"
        )
    place = check_apart(context.info, lists) if lists is not None else ""
    check_namespace(context.store)
    check_owner(context.store, context.info)
    with context.refs.collections.alone():
        check_nothing_lost(context)
        if dry_run:
            folder = _begun(context, None, place)
            with context.refs.collections.look() as moment:
                files = None
                if collects_trees(context):
                    files = UnreferencedTreeFiles.listed(context, moment, _before(grace))
                work = _GcWork.begin(context, folder, _records(context, moment), None)
                return work.said(work.marked(moment, grace, "found", files))
        open_branch(context, context.info.default_branch)  # raises ReadOnlyError
        if sweep is not None or not collects_trees(context):
            # The list of a dry run has no tree files.
            return _collected(context, sweep, grace, place, trees=False)
        with context.refs.collections.alone_with_tables():
            return _collected(context, None, grace, place, trees=True)


def garbage_rows(context: Context, run_id: str) -> Rows[ObjectInfo]:
    """Return the unreferenced objects of a run, by address."""
    folder = RunFolder(context, run_id)
    plan = plan_listing(folder.tree(folder.read().garbage).ranges, ())
    body = partial(list_body, folder.workspace)
    return Rows(plan, OBJECTS, context.job("gc", run_id, _SIDES), body)


def _begun(context: Context, earlier: str | None, place: str) -> RunFolder:
    """Return the writable folder of a new run or of an earlier one."""
    if earlier is not None:
        folder = RunFolder(context, earlier)
        folder.check_unswept(folder.read())
    else:
        now = datetime.now(timezone.utc)
        folder = RunFolder(context, f"{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}", place)
    folder.begin()
    return folder


def _collected(
    context: Context, sweep: str | None, grace: timedelta, place: str, *, trees: bool
) -> Collection:
    _finish_interrupted(context)
    folder = _begun(context, sweep, place)
    with context.refs.collections.look() as moment:
        records = _records(context, moment)
    # Both lists are complete before the fence is raised, so they contain nothing later.
    work = _GcWork.begin(context, folder, records, sweep)
    files = None
    if trees:
        with context.refs.collections.look() as moment:
            files = UnreferencedTreeFiles.listed(context, moment, _before(grace))
        files.announce(folder.run_id)
    sweep_attempt = Sweep.open(context.store, folder.run_id)
    try:
        with context.refs.collections.begin(trees=trees) as moment:
            if files is not None:
                files.drop_referenced(moment)
                write_collected(context.store, moment)
            run = work.marked(moment, grace, "marked", files)
        sweep_attempt.decide(run.garbage)
    except BaseException:
        # A claim without an answer may have been read by another process, which deletes the list.
        if sweep_attempt.end(None) is None:
            sweep_attempt.close()
        raise
    collection = work.said(work.swept(run, files, sweep_attempt))
    remove_leftovers(open_store(context.info.storage_namespace), grace)
    return collection


def _finish_interrupted(context: Context) -> None:
    """Complete the sweeps of processes that died or lost their lock.

    A sweep without a claimed list ends without it: its objects may be referenced by now.
    """
    for sweep in open_sweeps(context.store):
        folder = RunFolder(context, sweep.run_id)
        run = folder.find()
        garbage = sweep.end(run)
        if garbage is None:
            sweep.close()
        else:
            run = run or CollectionRun(sweep.run_id, "marked", EMPTY_META_RANGE)
            # Tables are not deleted by a list of another process: the next list has them again.
            work = _GcWork(context, folder, NO_TREE, 0)
            work.swept(replace(run, garbage=garbage), None, sweep)


@dataclass(frozen=True, slots=True)
class _GcWork:
    """One run: its folder, its list, and the approximate number of records to read.

    The `spared` places are those of writes that were open when the list was complete. A later write
    has no objects in the list. With `is_earlier`, the list is from an earlier run.
    """

    context: Context
    folder: RunFolder
    listed: MetaRange
    records: int
    spared: tuple[str, ...] = ()
    is_earlier: bool = False

    @staticmethod
    def begin(context: Context, folder: RunFolder, records: int, earlier: str | None) -> _GcWork:
        """List the objects, or use the list of an earlier run."""
        if earlier is not None:
            listed, spared = folder.tree(folder.read().listed), open_places(context)
            return _GcWork(context, folder, listed, records, spared, is_earlier=True)
        runner = context.runner(records, "gc", "list")
        encode: Body = partial(listed_body, context.workspace)
        if runner.name != "spark":
            encode = watched(context.runners.progress, encode)
        work = encode_tasks(_prefixes(context))
        listed = _written(folder.workspace, runner, encode, _spread(runner, work))
        folder.write(CollectionRun(folder.run_id, "listed", listed.id, objects_listed=listed.count))
        return _GcWork(context, folder, listed, records, open_places(context))

    def marked(
        self,
        moment: RepositorySnapshot,
        grace: timedelta,
        state: str,
        files: UnreferencedTreeFiles | None,
    ) -> CollectionRun:
        """Write the list of objects without a reference at a moment. Returns the run."""
        named = self._named(moment)
        garbage = self._garbage(named, _before(grace))
        objects, size = self._counted("weigh", partial(weigh_body, self.folder.workspace), garbage)
        run = CollectionRun(
            id=self.folder.run_id,
            state=state,
            listed=self.listed.id,
            garbage=garbage.id,
            objects_listed=self.listed.count,
            objects=objects,
            bytes=size,
            commits_expired=len(moment.expiring),
        )
        if files is not None:
            run = replace(
                run,
                trees=len(moment.collecting),
                tree_files=len(files.sizes),
                tree_file_bytes=files.size,
            )
        self.folder.write(run)
        return run

    def swept(
        self, run: CollectionRun, files: UnreferencedTreeFiles | None, sweep: Sweep
    ) -> CollectionRun:
        """Delete unreferenced tree files, then the run's garbage. Writes its new state."""
        if files is not None:
            files.sweep(sweep.marker)
        namespace = self.context.info.storage_namespace
        body = partial(sweep_body, self.folder.workspace, namespace, sweep.marker)
        progress = self.context.runners.progress
        progress.begin_objects(lambda: Amount(run.objects, run.bytes))
        self._counted("sweep", body, self.folder.tree(run.garbage), progress)
        check_sweep(self.context.store, sweep.marker)
        done = run.swept()
        self.folder.write(done)
        # Ids that were announced are used again only after caches know that they may have changed.
        if self.context.store.find(candidates_key(run.id)) is not None:
            self.context.refs.collections.end_tree_sweep()
        sweep.close()
        self.folder.keep_only(self.folder.tree(run.garbage))
        return done

    def said(self, run: CollectionRun) -> Collection:
        rows = garbage_rows(self.context, run.id)
        return Collection(run, tuple(islice(rows, _SAMPLE)))

    def _named(self, moment: RepositorySnapshot) -> tuple[MetaRange, MetaRange]:
        """Write the addresses in ranges, and the addresses in staged rows."""
        runner = self.context.runner(self.records, "gc", "names")
        size = runner.task_records(self.records)
        shares = sliced(_ranges(self.context, moment), size, attrgetter("count"))
        encode = partial(named_body, self.context.workspace)
        source = _spread(runner, encode_tasks(shares))
        by_ranges = _written(self.folder.workspace, runner, encode, source)
        rows = _staged_rows(moment)
        encode_rows = partial(named_rows_body, self.context.workspace)
        by_rows = _written(self.folder.workspace, LocalRunner(), encode_rows, rows)
        return by_ranges, by_rows

    def _garbage(self, named: tuple[MetaRange, MetaRange], before: int) -> MetaRange:
        plan = plan_listing(self.listed.ranges, [SideStream(tuple(each.ranges)) for each in named])
        runner = self.context.runner(plan.records, "gc", "compare")
        watched = self.context.info.storage_namespace if self.is_earlier else None
        encode = partial(garbage_body, self.folder.workspace, before, self.spared, watched)
        source = _spread(runner, _tasks(plan, runner))
        return _written(self.folder.workspace, runner, encode, source)

    def _counted(
        self, step: str, body: Body, listed: MetaRange, progress: Progress = UNWATCHED
    ) -> tuple[int, int]:
        plan = plan_listing(listed.ranges, ())
        runner = self.context.runner(plan.records, "gc", step)
        objects, sizes = list[int](), list[int]()
        for batch in runner.collect(body, _tasks(plan, runner)):
            for row in batch.to_pylist():
                objects.append(row["objects"])
                sizes.append(row["bytes"])
                progress.advance_objects(row["objects"], row["bytes"])
        return sum(objects), bounded_sum(sizes)


def _before(grace: timedelta) -> int:
    """Return the time in unix nanoseconds before which garbage was written."""
    return time.time_ns() - int(grace.total_seconds() * 1_000_000_000)


def _records(context: Context, moment: RepositorySnapshot) -> int:
    return sum(each.count for each in _ranges(context, moment))


def _ranges(context: Context, moment: RepositorySnapshot) -> list[RangeInfo]:
    """Return the distinct ranges of all kept commits and staged runs."""
    unkept = moment.unkept
    kept = (each for each in moment.refs.commits if each.id not in unkept)
    trees = dict.fromkeys(each.meta_range_id for each in kept)
    layers = (layer for each in moment.refs.branches for layer in each.layers)
    trees |= dict.fromkeys(each.meta_range_id for each in layers if each.meta_range_id is not None)
    found: dict[RangeId, RangeInfo] = {}
    for each in trees:
        found.update((info.id, info) for info in context.trees.get(each).ranges)
    return list(found.values())


def _staged_rows(moment: RepositorySnapshot) -> Iterator[pa.RecordBatch]:
    layers = (layer for each in moment.refs.branches for layer in each.layers)
    rows = chain.from_iterable(
        moment.rows(layer.id) for layer in layers if layer.kind is LayerKind.ROWS
    )
    while chunk := list(islice(rows, _BATCH_ROWS)):
        # Rows are sorted within a layer. Repeated names are harmless.
        yield record_batch(chunk)


def _prefixes(context: Context) -> list[str]:
    """Return the prefixes to list, one task each.

    A bucket is split by the first character of keys. A directory is not split, because each task
    would read all of it.
    """
    if context.store.traits.is_local:
        return [DATA_FOLDER]
    characters = (chr(each) for each in range(32, 127))
    return [f"{DATA_FOLDER}{each}" for each in characters if each != "/"]


def _tasks(plan: Plan, runner: Runner) -> pa.Table:
    records = runner.task_records(plan.records)
    return encode_tasks(pack_tasks(divided(plan, records), records))


def _spread(runner: Runner, work: pa.Table) -> Source:
    """Return work as a source with one task per row."""
    tasks = getattr(runner, "tasks", None)
    return work if tasks is None else tasks(work)


def _written(workspace: Workspace, runner: Runner, encode: Body, source: Source) -> MetaRange:
    pieces = write_run(runner, workspace, encode, source, distinct_run_body)
    return finish(workspace.open_store(), workspace, pieces)
