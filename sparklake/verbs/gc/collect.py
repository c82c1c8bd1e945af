"""Garbage collection: delete unreferenced objects. docs/design/034 has the proof of safety."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from sparklake.engine.base import UNWATCHED, Amount, Body, Progress, Runner, Source, Work, watched
from sparklake.engine.execution import finish, write_run
from sparklake.engine.lazy_rows import Rows
from sparklake.engine.threads import LocalRunner
from sparklake.errors import InvalidInputError
from sparklake.graveler.chunks import chunked, sliced
from sparklake.graveler.ids import EMPTY_META_RANGE
from sparklake.graveler.planning.layers import plan_listing
from sparklake.graveler.planning.packing import divided, pack_tasks
from sparklake.graveler.planning.plan import Plan, SideStream
from sparklake.graveler.ports import LayerKind, RepositorySnapshot, WriteState
from sparklake.graveler.ports.registers import HeldCheck
from sparklake.graveler.ranges import MetaRange, RangeInfo
from sparklake.graveler.sstable.range_files import NO_TREE
from sparklake.graveler.sums import bounded_sum
from sparklake.layout import COLLECTED_KEY, DATA_FOLDER, candidates_key
from sparklake.namespace.leftovers import remove_leftovers
from sparklake.namespace.markers import check_sweep
from sparklake.rows.objects import ObjectInfo
from sparklake.rows.records import record_batch
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.udfs import gc as tasks
from sparklake.udfs.objects import list_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_apart, check_namespace, check_owner
from sparklake.verbs.base.read import OBJECTS
from sparklake.verbs.base.resolve import open_branch
from sparklake.verbs.checks.dumps import check_nothing_lost
from sparklake.verbs.checks.steps import new_run_id
from sparklake.verbs.gc.runs import CollectionRun, RunFolder, Sweep, open_sweeps
from sparklake.verbs.gc.trees import UnreferencedTreeFiles, collects_trees

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST = timedelta(days=36_500)
_SAMPLE = 10
_BATCH_ROWS = 8192
_TreeFiles = UnreferencedTreeFiles | None


@dataclass(frozen=True, slots=True)
class Collection:
    """The result of a collection, with its first objects."""

    run: CollectionRun
    sample: tuple[ObjectInfo, ...]


def collect_garbage(
    context: Context, *, dry_run: bool, sweep: str | None, grace: timedelta, lists: str | None
) -> Collection:
    """Delete unreferenced objects below `data/` older than `grace`.

    `sweep` is the id of a dry run: its list is deleted, except for objects referenced since then.
    `lists` is a folder outside the namespace for the lists.
    """
    if not timedelta() <= grace <= _LONGEST:
        raise InvalidInputError(
            f"the grace period {grace} is out of range: choose 0 to 36,500 days"
        )
    if dry_run and sweep is not None:
        raise InvalidInputError("a dry run does not sweep: choose one of the two")
    if sweep is not None and lists is not None:
        raise InvalidInputError(
            "the list to sweep already exists: pass --work to the run that creates it"
        )
    place = check_apart(context.info, lists) if lists is not None else ""
    check_namespace(context.store)
    check_owner(context.store, context.info)
    with context.refs.collections.alone():
        check_nothing_lost(context)
        if dry_run:
            folder = _writable_folder(context, None, place)
            moment, files = context.refs.collections.look(), None
            if collects_trees(context):
                files = UnreferencedTreeFiles.listed(context, moment, _before(grace))
            records = sum(each.count for each in _ranges(context, moment))
            work = _GcWork.begin(context, folder, records, None)
            return _with_sample(context, work.mark(moment, grace, "found", files))
        open_branch(context, context.info.default_branch)  # raises ReadOnlyError
        if sweep is not None or not collects_trees(context):
            # The list of a dry run has no tree files.
            return _collect(context, sweep, grace, place)
        with context.refs.collections.alone_with_tree_files() as check_held:
            return _collect(context, None, grace, place, check_held)


def open_places(context: Context) -> tuple[str, ...]:
    """Return the folders of open writes. Their objects may not be referenced yet."""
    writes = context.refs.writes.list()
    return tuple(f"{each.place}/" for each in writes if each.state is WriteState.OPEN)


def garbage_rows(context: Context, run_id: str) -> Rows[ObjectInfo]:
    folder = RunFolder(context, run_id)
    plan = plan_listing(folder.tree(folder.read().garbage).ranges, ())
    body = partial(list_body, folder.workspace)
    return Rows(plan, OBJECTS, context.job("gc", run_id, ("list",)), body)


def _with_sample(context: Context, run: CollectionRun) -> Collection:
    return Collection(run, tuple(islice(garbage_rows(context, run.id), _SAMPLE)))


def _writable_folder(context: Context, earlier: str | None, place: str) -> RunFolder:
    """Return the folder of a new or earlier run, after a first write."""
    if earlier is None:
        folder = RunFolder(context, new_run_id(), place)
    else:
        folder = RunFolder(context, earlier)
        if folder.read().state == "swept":
            raise InvalidInputError(f"the garbage collection {earlier!r} was already swept")
    folder.begin()
    return folder


def _collect(
    context: Context,
    sweep: str | None,
    grace: timedelta,
    place: str,
    check_held: HeldCheck | None = None,
) -> Collection:
    """Collect objects, and tree files if their lock can be checked."""
    _finish_interrupted(context)
    folder = _writable_folder(context, sweep, place)
    moment = context.refs.collections.look(rows=False)
    records = sum(each.count for each in _ranges(context, moment))
    # Both lists are complete before the fence is raised, so they contain nothing later.
    work = _GcWork.begin(context, folder, records, sweep)
    files = None
    if check_held is not None:
        moment = context.refs.collections.look(rows=False)
        files = UnreferencedTreeFiles.listed(context, moment, _before(grace), check_held)
        files.announce(folder.run_id)
    sweep_attempt = Sweep.open(context.store, folder.run_id)
    try:
        moment = context.refs.collections.begin(trees=files is not None)
        if files is not None:
            files.drop_referenced(moment)
            # Restores of older dumps need the ids of commits without trees.
            ids = msgspec.json.encode(sorted(moment.treeless))
            context.store.replace(COLLECTED_KEY, ids)
        run = work.mark(moment, grace, "marked", files)
        sweep_attempt.decide(run.garbage)
    except BaseException:
        # A claim without an answer may have been read by another process, which deletes the list.
        if sweep_attempt.end(None) is None:
            sweep_attempt.close()
        raise
    collection = _with_sample(context, work.sweep(run, files, sweep_attempt))
    remove_leftovers(open_store(context.info.storage_namespace), grace)
    return collection


def _finish_interrupted(context: Context) -> None:
    """Complete the sweeps of processes that died or lost their lock.

    A sweep without a claimed list is closed: its objects may be referenced by now.
    """
    for sweep in open_sweeps(context.store):
        folder = RunFolder(context, sweep.run_id)
        run = folder.find()
        garbage = sweep.end(run)
        if garbage is None:
            sweep.close()
        else:
            run = run or CollectionRun(sweep.run_id, "marked", EMPTY_META_RANGE)
            # No other process deletes the tree files: the next list has them again.
            work = _GcWork(context, folder, NO_TREE, 0)
            work.sweep(replace(run, garbage=garbage), None, sweep)


@dataclass(frozen=True, slots=True)
class _GcWork:
    """One run: its folder, its list, and the approximate number of records to read.

    `spared` are the folders of the writes that were open when the list was complete: a later write
    has no objects in the list. `is_earlier` marks the list of an earlier run.
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
            listed = folder.tree(folder.read().listed)
        else:
            runner = context.runner(records, "gc", "list")
            encode: Body = partial(tasks.listed_body, context.workspace)
            if runner.name != "spark":
                encode = watched(context.runners.progress, encode)
            prefixes = [DATA_FOLDER]
            if not context.store.traits.is_local:  # Each task would read a whole local folder.
                prefixes = [
                    f"{DATA_FOLDER}{chr(each)}" for each in range(32, 127) if each != ord("/")
                ]
            work = encode_tasks(prefixes)
            listed = _write_list(folder.workspace, runner, encode, Work(work))
            run = CollectionRun(folder.run_id, "listed", listed.id, objects_listed=listed.count)
            folder.write(run)
        spared, is_earlier = open_places(context), earlier is not None
        return _GcWork(context, folder, listed, records, spared, is_earlier=is_earlier)

    def mark(
        self, moment: RepositorySnapshot, grace: timedelta, state: str, files: _TreeFiles
    ) -> CollectionRun:
        """Write the list of objects without a reference at a moment."""
        addresses = self._addresses(moment)
        garbage = self._garbage(addresses, _before(grace))
        # Only a dry run counts young objects: it takes a second comparison.
        every = self._garbage(addresses, _NEVER) if state == "found" else garbage
        body = partial(tasks.weigh_body, self.folder.workspace)
        objects, size = self._count("weigh", body, garbage)
        run = CollectionRun(
            id=self.folder.run_id,
            state=state,
            listed=self.listed.id,
            garbage=garbage.id,
            objects_listed=self.listed.count,
            objects=objects,
            bytes=size,
            young=every.count - garbage.count,
            commits_expired=len(moment.expiring),
            trees=len(moment.collecting) if files is not None else 0,
            tree_files=len(files.sizes) if files is not None else 0,
            tree_file_bytes=sum(files.sizes.values()) if files is not None else 0,
        )
        self.folder.write(run)
        return run

    def sweep(self, run: CollectionRun, files: _TreeFiles, sweep: Sweep) -> CollectionRun:
        """Delete unreferenced tree files, then the run's garbage, and write its new state."""
        if files is not None:
            files.sweep(sweep.marker)
        namespace = self.context.info.storage_namespace
        body = partial(tasks.sweep_body, self.folder.workspace, namespace, sweep.marker)
        progress = self.context.runners.progress
        progress.begin_objects(lambda: Amount(run.objects, run.bytes))
        self._count("sweep", body, self.folder.tree(run.garbage), progress)
        check_sweep(self.context.store, sweep.marker)
        done = replace(run, state="swept")
        self.folder.write(done)
        # Ids that were announced are used again only after caches know that they may have changed.
        if self.context.store.find(candidates_key(run.id)) is not None:
            self.context.refs.collections.end_tree_sweep()
        sweep.close()
        self.folder.keep_only(self.folder.tree(run.garbage))
        return done

    def _addresses(self, moment: RepositorySnapshot) -> tuple[MetaRange, MetaRange]:
        """Write the addresses in ranges, and the addresses in staged rows."""
        runner = self.context.runner(self.records, "gc", "names")
        size = runner.task_records(self.records)
        shares = sliced(_ranges(self.context, moment), size, attrgetter("count"))
        encode = partial(tasks.named_body, self.context.workspace)
        source = Work(encode_tasks(shares))
        by_ranges = _write_list(self.folder.workspace, runner, encode, source)
        encode = partial(tasks.named_rows_body, self.context.workspace)
        rows = _staged_rows(moment)
        return by_ranges, _write_list(self.folder.workspace, LocalRunner(), encode, rows)

    def _garbage(self, addresses: tuple[MetaRange, MetaRange], before: int) -> MetaRange:
        sides = [SideStream(tuple(each.ranges)) for each in addresses]
        plan = plan_listing(self.listed.ranges, sides)
        runner = self.context.runner(plan.records, "gc", "compare")
        namespace = self.context.info.storage_namespace if self.is_earlier else None
        encode = partial(tasks.garbage_body, self.folder.workspace, before, self.spared, namespace)
        source = Work(_encode_plan(plan, runner))
        return _write_list(self.folder.workspace, runner, encode, source)

    def _count(
        self, step: str, body: Body, listed: MetaRange, progress: Progress = UNWATCHED
    ) -> tuple[int, int]:
        plan = plan_listing(listed.ranges, ())
        runner = self.context.runner(plan.records, "gc", step)
        objects, sizes = list[int](), list[int]()
        for batch in runner.collect(body, _encode_plan(plan, runner)):
            for row in batch.to_pylist():
                objects.append(row["objects"])
                sizes.append(row["bytes"])
                progress.advance_objects(row["objects"], row["bytes"])
        return sum(objects), bounded_sum(sizes)


_NEVER = 1 << 80  # Later than all times, in unix nanoseconds.


def _before(grace: timedelta) -> int:
    """Return the start of the grace period in unix nanoseconds."""
    return time.time_ns() - int(grace.total_seconds() * 1_000_000_000)


def _ranges(context: Context, moment: RepositorySnapshot) -> list[RangeInfo]:
    unkept = moment.unkept
    commits = (each for each in moment.refs.commits if each.id not in unkept)
    trees = dict.fromkeys(each.meta_range_id for each in commits)
    layers = (layer for each in moment.refs.branches for layer in each.layers)
    trees |= dict.fromkeys(each.meta_range_id for each in layers if each.meta_range_id is not None)
    return list(
        {info.id: info for each in trees for info in context.trees.get(each).ranges}.values()
    )


def _staged_rows(moment: RepositorySnapshot) -> Iterator[pa.RecordBatch]:
    layers = (layer for each in moment.refs.branches for layer in each.layers)
    rows = chain.from_iterable(
        moment.rows(layer.id) for layer in layers if layer.kind is LayerKind.ROWS
    )
    # Rows are sorted within a layer. Repeated names are harmless.
    return map(record_batch, chunked(rows, _BATCH_ROWS))


def _encode_plan(plan: Plan, runner: Runner) -> pa.Table:
    records = runner.task_records(plan.records)
    return encode_tasks(pack_tasks(divided(plan, records), records))


def _write_list(workspace: Workspace, runner: Runner, encode: Body, source: Source) -> MetaRange:
    pieces = write_run(runner, workspace, encode, source, tasks.distinct_run_body)
    return finish(workspace.open_store(), workspace, pieces)
