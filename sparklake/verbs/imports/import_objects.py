"""Import: add existing objects to a branch in place, without copying bytes."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from sparklake.choices import parse_choice
from sparklake.engine.base import Body, watched
from sparklake.engine.execution import PlanResult, rows_in_order, run_plan, stitched
from sparklake.errors import (
    InvalidImportError,
    InvalidInputError,
    NoChangesError,
    ReplacementError,
    StoreUnreachableError,
)
from sparklake.graveler.chunks import sliced
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action
from sparklake.graveler.keys import Interval, object_key, prefix_interval, successor
from sparklake.graveler.planning.plan import Plan, plan_import, plan_replace
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import Ranges, record_count
from sparklake.namespace.swept_tree_files import check_written_tree_files
from sparklake.rows.imports import (
    ERROR_SCHEMA,
    Defect,
    ErrorsResult,
    ImportTaskSettings,
    ImportUpdate,
    Reason,
)
from sparklake.rows.results import PieceResult, decode_results
from sparklake.stores.objects import describe_store, open_store
from sparklake.strategies.path_globs import check_exclusions
from sparklake.udfs.adopted_ranges import check_objects_body
from sparklake.udfs.imports.defects import error_table
from sparklake.udfs.imports.row_checks import import_body
from sparklake.udfs.imports.tasks import ranges_body, update_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.udfs.write_ranges import apply_body
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.context import Context, OnceRun
from sparklake.verbs.base.namespace import check_apart, check_enclosing, check_namespace
from sparklake.verbs.base.once import ResultCodec, VerbResult
from sparklake.verbs.base.publish import Signature, publish, sign
from sparklake.verbs.base.resolve import check_clean, get_branch, open_branch
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.imports.sources import OpenSource, find_object, open_source, source_name
from sparklake.verbs.objects.owners import warn_of_ranges
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.verbs.imports.sources import ImportSource

E = TypeVar("E", bound=Enum)

MAX_ERRORS = 10_000
"""The maximum number of errors on the driver. On Spark, each task sends at most a hundred."""

_ERROR_FILE = re.compile(r"part-[0-9]{5,}-[0-9a-f]{32}[.]parquet")
_ERRORS_OF_A_TASK = 100
_STORED_ERRORS = 100
_SHOWN = 5
_SHOWN_LETTERS = 80


class OnError(str, Enum):
    """How an import handles invalid rows."""

    ABORT = "abort"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import: its commit, its changes and the skipped rows.

    `added`, `changed` and `removed` count objects of the branch. `retained` counts its other
    objects under the prefix. `counts` has the number of skipped rows per reason. `errors` is a
    table of ERROR_SCHEMA with at most the first 10,000 errors. `errors_to`, if set, is the location
    of Parquet files with all errors.
    """

    commit: Commit
    objects: int
    added: int
    changed: int
    removed: int
    retained: int
    counts: Mapping[str, int]
    errors: pa.Table
    errors_to: str | None = None

    @property
    def skipped(self) -> int:
        """The number of skipped rows."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    prefix: str = ""
    message: str | None = None
    committer: str | None = None
    metadata: Mapping[str, str] | None = None
    replace: bool = False
    exclude: Sequence[str] = ()
    on_error: str = OnError.ABORT
    errors_to: str | None = None
    if_needed: bool = False

    @property
    def folder(self) -> str:
        """The prefix with a '/' at its end, or "" without a prefix."""
        return f"{self.prefix.rstrip('/')}/" if self.prefix else ""


@dataclass(frozen=True, slots=True)
class _Target:
    """The keys that an import may change, and their name in messages."""

    within: Interval
    name: str
    is_branch: bool = False


@dataclass(slots=True)
class _ImportResult:
    pieces: list[PieceResult] = field(default_factory=list)
    counts: Counter[Reason] = field(default_factory=Counter)
    first: list[Defect] = field(default_factory=list)

    @property
    def by_reason(self) -> dict[str, int]:
        return {reason.value: count for reason, count in sorted(self.counts.items())}


def import_objects(
    context: Context, branch: str, source: ImportSource, options: ImportOptions
) -> VerbResult[ImportReport]:
    """Commit the objects of a source: add and update them in a folder, or replace it."""
    if isinstance(source, pa.RecordBatchReader) or options.errors_to is not None:
        return _import_objects(context, branch, source, options)  # Both can be used only once.
    run = restarts(versions=True, collections=False)(_import_objects)
    return run(context, branch, source, options)


def _import_objects(
    context: Context, branch: str, source: ImportSource, options: ImportOptions
) -> VerbResult[ImportReport]:
    message = options.message or f"Import {source_name(source)}"
    signature = sign(context, message, options.committer, options.metadata)
    source, options, target = _of_object(source, options)
    settings = _task_settings(context, options)
    state = open_branch(context, branch, Action.COMMIT)
    check_clean(state, "import into it")
    check_namespace(context.store)
    opened = open_source(context, source)
    result = _write(context, branch, opened, settings)
    if result.counts and not settings.skips:
        raise _refusal(opened, result, settings)
    pieces = rows_in_order(result.pieces)
    imported = stitched(context.store, context.workspace, pieces)
    if not imported:
        if result.counts:
            raise _refusal(opened, result, settings)
        raise InvalidInputError(f"nothing was imported: {opened.name} contains no objects")
    moves = _ImportMoves(
        context=context,
        branch=branch,
        imported=imported,
        target=target,
        is_table=opened.is_table,
        update=ImportUpdate(options.folder, opened.place, options.replace, settings.exclude),
        if_needed=options.if_needed,
        signature=signature,
        fence=state.fence,
    )

    def report(commit: Commit) -> ImportReport:
        changes = moves.changes
        return ImportReport(
            commit=commit,
            objects=record_count(imported),
            added=changes.counts.added,
            changed=changes.counts.changed,
            removed=changes.counts.removed,
            retained=changes.retained,
            counts=result.by_reason,
            errors=error_table(result.first),
            errors_to=settings.errors_to,
        )

    @restarts()
    def attempt(context: Context) -> VerbResult[Commit]:
        return moves.attempt(context, report)

    move = with_branch_queue(context, branch, lambda: attempt(context))
    return VerbResult(report(move.value), move.changed)


def _stored(report: ImportReport) -> Mapping[str, Any]:
    return {
        "commit": report.commit.id,
        "objects": report.objects,
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "retained": report.retained,
        "counts": dict(report.counts),
        "errors": report.errors.slice(0, _STORED_ERRORS).to_pylist(),
        "errors_to": report.errors_to,
    }


def _report(context: Context, stored: Mapping[str, Any]) -> ImportReport:
    # Results of earlier versions have no counts of changes.
    counts = ("objects", "added", "changed", "removed", "retained")
    return ImportReport(
        commit=context.graph.commit(stored["commit"]),
        **{name: stored.get(name, 0) for name in counts},
        counts=stored["counts"],
        errors=pa.Table.from_pylist(stored["errors"], schema=ERROR_SCHEMA),
        errors_to=stored["errors_to"],
    )


RESULT: ResultCodec[ImportReport] = ResultCodec(_stored, _report)
"""The stored form of a report, with the first errors, for idempotency keys."""


def _of_object(
    source: ImportSource, options: ImportOptions
) -> tuple[ImportSource, ImportOptions, _Target]:
    """Return the source with its options and target; a single object becomes a row."""
    single = find_object(source)
    if single is None:
        within = prefix_interval(object_key(options.folder) if options.folder else b"")
        return source, options, _Target(within, options.folder or "/", not options.folder)
    name, size, address = single
    folder, separator, last = options.prefix.rpartition("/")
    rows = pa.table({"path": [last or name], "size": [size], "address": [address]})
    options = replace(options, prefix=folder + separator, exclude=())
    path = options.folder + (last or name)
    key = object_key(path)
    return rows, options, _Target(Interval(key, successor(key)), path)


# --- before ---------------------------------------------------------------------------------------


def _task_settings(context: Context, options: ImportOptions) -> ImportTaskSettings:
    skips = _checked(OnError, options.on_error, "on_error") is OnError.SKIP
    errors_to = None if options.errors_to is None else _checked_place(context, options.errors_to)
    exclude = check_exclusions(options.exclude)
    return ImportTaskSettings(options.folder, time.time_ns(), skips, errors_to, exclude=exclude)


def _checked(kind: type[E], text: str, name: str) -> E:
    failure = f"{text!r} is not a valid {name} of an import: choose"
    return parse_choice(kind, text, failure, " or ")


def _checked_place(context: Context, errors_to: str) -> str:
    """Return an empty place for an error table, outside of the namespace."""
    root = check_apart(context.info, errors_to)
    check_enclosing(root)
    if context.once is not None and _clear_leftovers(open_store(root), context.once):
        return root
    try:
        is_used = any(True for _ in open_store(root).scan(""))
    except StoreUnreachableError:
        if not describe_store(root).is_local:
            raise
        is_used = False
    if is_used:
        raise InvalidInputError(f"{root} is not empty: choose a new location for the error table")
    if context.once is not None:
        open_store(root).put_if_absent(_marker_name(context.once), b"")
    return root


def _marker_name(run: OnceRun) -> str:
    return f"_once-{sha256(run.key.encode()).hexdigest()[:32]}"


def _clear_leftovers(store: ObjectStore, run: OnceRun) -> bool:
    """Delete the errors of a killed run with the same key; return whether there were any."""
    try:
        if store.find(_marker_name(run)) is None:
            return False
        keys = [each.key for each in store.list("") if _ERROR_FILE.fullmatch(each.key)]
    except StoreUnreachableError:
        return False
    for key in keys:
        store.delete(key)
    return True


# --- the tasks ------------------------------------------------------------------------------------


def _write(
    context: Context, branch: str, opened: OpenSource, settings: ImportTaskSettings
) -> _ImportResult:
    runner = opened.runner(context, branch)
    reported = _ERRORS_OF_A_TASK if runner.name == "spark" else MAX_ERRORS
    settings = replace(settings, reported=reported)
    encode: Body = partial(import_body, context.workspace, settings, opened.read)
    if runner.name != "spark":
        encode = watched(context.runners.progress, encode)
    body = partial(ranges_body, context.workspace, settings)
    result = _ImportResult()
    for each in decode_results(runner.sort_and_collect(encode, body, opened.rows)):
        if isinstance(each, PieceResult):
            result.pieces.append(each)
        elif isinstance(each, ErrorsResult):
            result.counts.update(each.counts)
            result.first += each.first[: MAX_ERRORS - len(result.first)]
    return result


def _refusal(
    opened: OpenSource, result: _ImportResult, settings: ImportTaskSettings
) -> InvalidImportError:
    counts = ", ".join(f"{count:,} {name}" for name, count in result.by_reason.items())
    first = "; ".join(
        f"{(each.path or each.address or '')[:_SHOWN_LETTERS]!r}: {each.message}"
        for each in result.first[:_SHOWN]
    )
    whole = (
        f"all of them are in {settings.errors_to}"
        if settings.errors_to
        else "set errors_to to write all of them to a table"
    )
    return InvalidImportError(
        f"nothing was imported from {opened.name}: some rows are invalid: {counts}. The "
        f"first: {first}. Correct these rows, or skip them; {whole}",
        result.by_reason,
        error_table(result.first),
        settings.errors_to,
    )


# --- the move -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _ImportMoves:
    """Attempts to move a branch over imported ranges, written at a fence.

    Imported objects are never garbage of this namespace, and a source may be readable only once.
    Therefore, only the move is retried after a collection.
    """

    context: Context
    branch: str
    imported: Ranges
    target: _Target
    is_table: bool
    update: ImportUpdate
    if_needed: bool
    signature: Signature
    fence: int
    changes: PlanResult = field(init=False)
    """The changes of the last attempt, and the changed objects from elsewhere."""
    _attempts: Attempts = field(init=False)
    _planned: Plan | None = field(init=False)
    _updated: Ranges = field(init=False)

    def __post_init__(self) -> None:
        self._reset()

    def attempt(
        self, context: Context, report: Callable[[Commit], ImportReport]
    ) -> VerbResult[Commit]:
        """Move the branch, if no collection deleted the ranges."""
        state = get_branch(context, self.branch)
        check_clean(state, "import into it")
        if state.fence != self.fence:
            check_written_tree_files(context.store, [each.id for each in self.imported])
            # An existing range may reference different objects of equal content.
            records = record_count(self.imported)
            runner = context.runner(records, "import", self.branch)
            shares = sliced(self.imported, runner.task_records(records), attrgetter("count"))
            check = partial(check_objects_body, context.workspace)
            list(runner.collect(check, encode_tasks(shares)))
            self.fence = state.fence
            self._reset()
        head = context.graph.head(state)
        warn_of_ranges(context, state, self.imported)
        base = context.tree(head)
        ranges = self._update(base.ranges)
        self._check_replacement(base.ranges)
        plan = plan_replace(base.ranges, ranges, self.target.within)
        outcome = self._attempts.run(partial(apply_body, context.workspace), plan)
        tree = self._attempts.finish(plan, outcome, head.meta_range_id)
        if tree.id != head.meta_range_id:
            commit = publish(
                context,
                state,
                "import",
                [head],
                meta_range_id=tree.id,
                signature=self.signature,
                result=report,
            )
            return VerbResult(commit)
        if self.if_needed:
            return VerbResult(head, changed=False)
        raise NoChangesError(
            f"{state.name!r} already has all of these objects under {self.target.name!r}"
        )

    def _reset(self) -> None:
        """Forget the tree files of earlier attempts. A collection may delete them."""
        title = self.context.title("import", self.branch)
        self._attempts = Attempts(self.context, title)
        self._planned = None

    def _update(self, base: Ranges) -> Ranges:
        """Return durable ranges of the target's objects after the import, and count its changes.

        Only ranges that overlap different ranges of base are read, and only once for several bases
        with the same ones.
        """
        context, update = self.context, self.update
        plan = plan_import(base, self.imported, self.target.within, update.replaces)
        if plan != self._planned:
            runner = context.runner(plan.records, "import", self.branch)
            body = partial(update_body, context.workspace, update)
            self.changes = run_plan(runner, body, plan)
            self._updated = stitched(context.store, context.workspace, self.changes.pieces)
            self._planned = plan
        return self._updated

    def _check_replacement(self, base: Ranges) -> None:
        """Reject changes of objects from elsewhere, unless the import replaces them."""
        reason = None if self.update.replaces else self._obstacle(base)
        if reason is not None:
            changes = self.changes
            raise ReplacementError.of(
                reason,
                added=changes.counts.added,
                changed=changes.counts.changed,
                removed=changes.counts.removed + changes.retained,
            )

    def _obstacle(self, base: Ranges) -> str | None:
        """Return why the import may only replace what is there, if so."""
        changes = self.changes
        if changes.others:
            more = ", ..." if changes.others > len(changes.first_others) else ""
            return (
                f"it would change {count_of(changes.others, 'object')} that this source did not "
                f"bring: {', '.join(map(repr, changes.first_others))}{more}"
            )
        if self.is_table and changes.retained:
            count = count_of(changes.retained, "object")
            return f"{self.target.name!r} has {count} that this table lacks"
        if self.target.is_branch and base and (changes.counts.total or changes.retained):
            return f"the prefix is empty, and {self.branch!r} has other objects"
        return None
