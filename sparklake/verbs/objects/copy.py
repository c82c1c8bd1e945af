"""Move and copy objects by staging records, without copying bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sparklake.engine.base import Runner
from sparklake.engine.execution import cut_for_tasks, finish, row_of
from sparklake.errors import InvalidInputError, LostResultError, ObjectNotFoundError
from sparklake.graveler.guards import Action
from sparklake.graveler.keys import Interval, existing_key, object_key, prefix_interval, successor
from sparklake.graveler.planning.layers import plan_listing
from sparklake.graveler.planning.packing import Task, TaskPiece
from sparklake.graveler.planning.plan import Plan
from sparklake.graveler.ranges import record_count
from sparklake.graveler.sstable.range_files import WrittenRange
from sparklake.rows.results import PieceResult, decode_results
from sparklake.udfs.objects import Transfer, transfer_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.resolve import ResolvedRef, open_branch, read_consistently
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.base.staging import StagedLayers
from sparklake.verbs.objects.owners import warn_of_ranges


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """The options of a move or copy. `ref` defaults to the branch. See `routes`."""

    source: str
    dest: str
    ref: str | None = None
    recursive: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A key or a prefix, and its replacement."""

    start: bytes
    goal: bytes
    is_folder: bool

    @property
    def source(self) -> Interval:
        """The interval of the old keys."""
        return self._interval(self.start)

    @property
    def dest(self) -> Interval:
        """The interval of the new keys."""
        return self._interval(self.goal)

    @property
    def overlaps(self) -> bool:
        """Whether a key may be both an old and a new key."""
        if self.is_folder:
            return self.start.startswith(self.goal) or self.goal.startswith(self.start)
        return self.start == self.goal

    def moved(self, interval: Interval) -> Interval:
        """Return the new keys' interval for a part of the old keys."""
        cut = len(self.start)
        stop = self.dest.stop
        if interval.stop is not None and interval.stop != self.source.stop:
            stop = self.goal + interval.stop[cut:]
        return Interval(self.goal + interval.start[cut:], stop)

    def _interval(self, key: bytes) -> Interval:
        return prefix_interval(key) if self.is_folder else Interval(key, successor(key))


def routes(source: str, dest: str, *, recursive: bool) -> list[Route]:
    """Return the routes from source to dest.

    A source that ends with a slash, or is empty, is a folder: everything below it goes below dest.
    Any other source is an object and, if recursive, also the folder of its name. If dest ends with
    a slash or is empty, the last name of the source is added to it.
    """
    if source:
        existing_key(source)
    if dest:
        object_key(dest)
    if not source or source.endswith("/"):
        goal = dest if not dest or dest.endswith("/") else f"{dest}/"
        return [Route(source.encode(), goal.encode(), is_folder=True)]
    if not dest or dest.endswith("/"):
        dest += source.rsplit("/", 1)[-1]
    result = [Route(existing_key(source), object_key(dest), is_folder=False)]
    if recursive:
        result.append(Route(f"{source}/".encode(), object_key(f"{dest}/"), is_folder=True))
    return result


def move(context: Context, branch: str, request: CopyRequest) -> int:
    """Stage objects under new paths and removals of the old ones, or nothing on errors."""
    ways = routes(request.source, request.dest, recursive=request.recursive)
    if any(each.overlaps for each in ways):
        raise InvalidInputError(
            f"{request.source!r} cannot be moved to {request.dest!r}: one contains the other; "
            "move it elsewhere first"
        )
    return _transfer(context, "mv", branch, request, ways)


def copy(context: Context, branch: str, request: CopyRequest) -> int:
    """Stage objects of a ref under other paths, or nothing on errors."""
    ways = routes(request.source, request.dest, recursive=request.recursive)
    return _transfer(context, "cp", branch, request, ways)


@restarts(versions=True)
def _transfer(
    context: Context, verb: str, branch: str, request: CopyRequest, ways: Sequence[Route]
) -> int:
    open_branch(context, branch, Action.STAGE)
    check_namespace(context.store)

    def attempt() -> int:
        # The result is valid only for the sealed state: no change at an old path and no object at a
        # new path may come in between.
        state = context.refs.staging.seal(branch, Action.STAGE)
        here = ResolvedRef(context.graph.head(state), state, is_name=True)
        work = [_CopyPlans.of(context, here, request, each) for each in ways]
        runner = context.runner(sum(each.listed.records for each in work), verb, branch)
        shares = _shares(work, runner, removing=verb == "mv")
        copies = _written(context, runner, shares)
        moved = [each.info for share in shares for each in copies[share.position]]
        if not moved:
            raise ObjectNotFoundError(
                f"{request.ref or branch!r} has no object at {request.source!r}; `sparklake ls` "
                "shows its objects, and a folder ends with a slash"
            )
        rows = sorted(
            (row_of(each) for each in copies.values() if each),
            key=lambda row: row.ranges[0].min_key,
        )
        warn_of_ranges(context, state, moved)
        run = finish(context.store, context.workspace, rows)
        count = record_count(moved)
        once = context.recorded(count)
        context.refs.staging.add_run(branch, run.id, state, fence=state.fence, once=once)
        return count

    return with_branch_queue(context, branch, attempt)


@dataclass(frozen=True, slots=True)
class _CopyPlans:
    """Plans to read the records of a route, and the existing records at the new keys."""

    route: Route
    listed: Plan
    existing: Plan | None

    @staticmethod
    def of(context: Context, here: ResolvedRef, request: CopyRequest, route: Route) -> _CopyPlans:
        def listed(resolved: ResolvedRef) -> Plan:
            resolved.check_kept(context)
            return _listing(context, resolved, route.start, route.source)

        source = (
            listed(here) if request.ref is None else read_consistently(context, request.ref, listed)
        )
        existing = None if request.force else _listing(context, here, route.goal, route.dest)
        return _CopyPlans(route, source, existing)

    def shares(self, size: int) -> Iterator[tuple[Task, Task | None]]:
        """Yield the input of each task: source records, and existing records at the new keys."""
        plan = cut_for_tasks(self.listed, size)
        for position, piece in enumerate(plan.stretches):
            there = self.existing and self.existing.restricted(self.route.moved(piece.interval))
            yield Task((TaskPiece(position, piece),)), _whole(there)


def _listing(context: Context, resolved: ResolvedRef, prefix: bytes, within: Interval) -> Plan:
    sides = StagedLayers(context, prefix).sides(resolved.layers)
    return plan_listing(resolved.tree(context).ranges, sides, within)


def _whole(plan: Plan | None) -> Task | None:
    """Return a plan as one task, or None if there is nothing to read."""
    if plan is None or not plan.records:
        return None
    return Task(tuple(TaskPiece(at, piece) for at, piece in enumerate(plan.stretches)))


def _shares(work: Sequence[_CopyPlans], runner: Runner, *, removing: bool) -> list[Transfer]:
    size = runner.task_records(sum(each.listed.records for each in work))
    inputs = [(each.route, *tasks) for each in work for tasks in each.shares(size)]
    return [
        Transfer(2 * at, old, new, len(route.start), route.goal, 2 * at + 1 if removing else None)
        for at, (route, old, new) in enumerate(inputs)
    ]


def _written(
    context: Context, runner: Runner, shares: Sequence[Transfer]
) -> dict[int, tuple[WrittenRange, ...]]:
    body = partial(transfer_body, context.workspace)
    results = decode_results(runner.collect(body, encode_tasks(shares)))
    ranges = {each.position: each.written for each in results if isinstance(each, PieceResult)}
    positions = {at for each in shares for at in (each.position, each.removals) if at is not None}
    if ranges.keys() != positions:
        raise LostResultError(
            "nothing was staged: the engine returned no result for a part of the objects. "
            "Run it again"
        )
    return ranges
