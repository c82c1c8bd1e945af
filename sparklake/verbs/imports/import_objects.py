"""Import: add existing objects to a branch in place, without copying bytes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from sparklake.engine.base import Body, watched
from sparklake.engine.execution import rows_in_order, run_plan, stitched
from sparklake.engine.sort import sliced
from sparklake.errors import ImportErrorsError, InvalidInputError, NoChangesError
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action
from sparklake.graveler.keys import object_key, prefix_interval
from sparklake.graveler.planning.plan import OpenPiece, Plan, SideStream, plan_matched, plan_replace
from sparklake.graveler.ranges import MetaRange, Ranges, record_count
from sparklake.namespace.swept_tables import check_written_tables
from sparklake.rows.imports import ERROR_SCHEMA, Defect, ErrorsResult, ImportTaskSettings, Reason
from sparklake.rows.results import PieceResult, decode_results
from sparklake.udfs.adopted_ranges import check_objects_body
from sparklake.udfs.imports.defects import error_table
from sparklake.udfs.imports.row_checks import import_body
from sparklake.udfs.imports.tasks import matched_body, ranges_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.udfs.write_ranges import apply_body
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace
from sparklake.verbs.base.once import ResultCodec, VerbResult
from sparklake.verbs.base.publish import Signature, publish, sign
from sparklake.verbs.base.resolve import check_clean, get_branch, open_branch
from sparklake.verbs.base.runner import restarts, with_branch_queue
from sparklake.verbs.base.staging import StagedLayers
from sparklake.verbs.imports.error_place import checked_place
from sparklake.verbs.imports.sources import OpenSource, open_source, source_name

if TYPE_CHECKING:
    from sparklake.verbs.imports.sources import ImportSource

E = TypeVar("E", bound=Enum)
ImportPlan = Callable[[MetaRange], Plan]

MAX_ERRORS = 10_000
"""The most errors that the driver receives. With many tasks, each sends at most a hundred."""

_ERRORS_OF_A_TASK = 100
_STORED_ERRORS = 100
_SHOWN = 5
_SHOWN_LETTERS = 80


class ImportMode(str, Enum):
    """The treatment of a branch's existing objects under the prefix of an import."""

    REPLACE = "replace"
    ADD = "add"


class OnError(str, Enum):
    """The reaction of an import to rows that cannot be imported."""

    ABORT = "abort"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import: its commit, and the rows that it left out.

    `counts` are by reason. `errors` is a table of ERROR_SCHEMA with the first 10,000 errors at
    most. All errors are in Parquet files under `errors_to`, if that was given.
    """

    commit: Commit
    objects: int
    counts: Mapping[str, int]
    errors: pa.Table
    errors_to: str | None = None

    @property
    def skipped(self) -> int:
        """The number of rows that were left out."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The options of an import."""

    prefix: str = ""
    message: str | None = None
    committer: str | None = None
    metadata: Mapping[str, str] | None = None
    mode: str = ImportMode.REPLACE
    on_error: str = OnError.ABORT
    errors_to: str | None = None
    if_needed: bool = False

    @property
    def folder(self) -> str:
        """The prefix with a '/' at its end, or "" without a prefix."""
        return f"{self.prefix.rstrip('/')}/" if self.prefix else ""


@dataclass(slots=True)
class _ImportResult:
    """The results of the tasks of an import."""

    pieces: list[PieceResult] = field(default_factory=list)
    counts: Counter[Reason] = field(default_factory=Counter)
    first: list[Defect] = field(default_factory=list)

    @property
    def said(self) -> dict[str, int]:
        """The counts of errors, by the names of their reasons."""
        return {reason.value: count for reason, count in sorted(self.counts.items())}


def import_objects(
    context: Context, branch: str, source: ImportSource, options: ImportOptions
) -> VerbResult[ImportReport]:
    """Commit the objects of a source, replacing or adding to a branch's folder.

    Raises:
        DirtyBranchError: The branch has uncommitted changes.
        NoChangesError: The branch already has all of the objects.
        ImportErrorsError: Some rows cannot be imported.
        InvalidInputError: The source is empty or overlaps the repository's own namespace.
        AddressConflictError: A range of the same objects exists and names other addresses.
    """
    comes_once = isinstance(source, pa.RecordBatchReader) or options.errors_to is not None
    run = (
        _import_objects
        if comes_once
        else restarts(versions=True, collections=False)(_import_objects)
    )
    return run(context, branch, source, options)


def _import_objects(
    context: Context, branch: str, source: ImportSource, options: ImportOptions
) -> VerbResult[ImportReport]:
    message = options.message or f"Import {source_name(source)}"
    signature = sign(context, message, options.committer, options.metadata)
    mode, settings = _checked(ImportMode, options.mode, "mode"), _task_settings(context, options)
    begun = open_branch(context, branch, Action.COMMIT)
    check_clean(begun, "import into it")
    check_namespace(context.store)
    opened = open_source(context, source)
    written = _write(context, branch, opened, settings)
    if written.counts and not settings.skips:
        raise _refusal(opened, written, settings)
    pieces = rows_in_order(written.pieces)
    imported = stitched(context.store, context.workspace, pieces)
    if not imported:
        if written.counts:
            raise _refusal(opened, written, settings)
        raise InvalidInputError(f"nothing was imported: {opened.name} contains no objects")
    moves = _ImportMoves(
        context=context,
        branch=branch,
        imported=imported,
        mode=mode,
        if_needed=options.if_needed,
        folder=settings.folder,
        signature=signature,
        fence=begun.fence,
    )

    def report(made: Commit) -> ImportReport:
        errors = error_table(written.first)
        return ImportReport(made, record_count(imported), written.said, errors, settings.errors_to)

    @restarts()
    def attempt(context: Context) -> VerbResult[Commit]:
        return moves.attempt(context, report)

    made = with_branch_queue(context, branch, lambda: attempt(context))
    return VerbResult(report(made.value), made.changed)


def _stored(report: ImportReport) -> Mapping[str, Any]:
    """Return a report as JSON for a once key, with the first errors."""
    return {
        "commit": report.commit.id,
        "objects": report.objects,
        "counts": dict(report.counts),
        "errors": report.errors.slice(0, _STORED_ERRORS).to_pylist(),
        "errors_to": report.errors_to,
    }


def _report(context: Context, stored: Mapping[str, Any]) -> ImportReport:
    return ImportReport(
        context.graph.commit(stored["commit"]),
        stored["objects"],
        stored["counts"],
        pa.Table.from_pylist(stored["errors"], schema=ERROR_SCHEMA),
        stored["errors_to"],
    )


RESULT: ResultCodec[ImportReport] = ResultCodec(_stored, _report)
"""The stored form of a report, for once keys."""


# --- before ---------------------------------------------------------------------------------------


def _task_settings(context: Context, options: ImportOptions) -> ImportTaskSettings:
    if options.folder:
        object_key(options.folder)
    skips = _checked(OnError, options.on_error, "on_error") is OnError.SKIP
    errors_to = None if options.errors_to is None else checked_place(context, options.errors_to)
    return ImportTaskSettings(options.folder, time.time_ns(), skips, errors_to)


def _checked(kind: type[E], text: str, name: str) -> E:
    try:
        return kind(text)
    except ValueError as error:
        words = " or ".join(each.value for each in kind)
        raise InvalidInputError(
            f"{text!r} is not a valid {name} of an import: choose {words}"
        ) from error


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
    written = _ImportResult()
    for result in decode_results(runner.sort_and_collect(encode, body, opened.rows)):
        if isinstance(result, PieceResult):
            written.pieces.append(result)
        elif isinstance(result, ErrorsResult):
            written.counts.update(result.counts)
            written.first += result.first[: MAX_ERRORS - len(written.first)]
    return written


def _refusal(
    opened: OpenSource, written: _ImportResult, settings: ImportTaskSettings
) -> ImportErrorsError:
    counts = ", ".join(f"{count:,} {name}" for name, count in written.said.items())
    shown = "; ".join(map(_shown, written.first[:_SHOWN]))
    whole = (
        f"all of them are in {settings.errors_to}"
        if settings.errors_to
        else "use errors_to to write all of them to a table"
    )
    return ImportErrorsError(
        f"nothing was imported from {opened.name}: some rows are invalid: {counts}. The "
        f"first: {shown}. Correct these rows, or skip them; {whole}",
        written.said,
        error_table(written.first),
        settings.errors_to,
    )


def _shown(each: Defect) -> str:
    return f"{(each.path or each.address or '')[:_SHOWN_LETTERS]!r}: {each.message}"


# --- the move -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _ImportMoves:
    """The attempts to move a branch over the imported ranges, which were written at a fence.

    Imported objects are never garbage of this namespace, and a source may be readable only once. So
    only the move is retried after a collection.
    """

    context: Context
    branch: str
    imported: Ranges
    mode: ImportMode
    if_needed: bool
    folder: str
    signature: Signature
    fence: int
    _attempts: Attempts = field(init=False)
    _planned: ImportPlan = field(init=False)

    def __post_init__(self) -> None:
        self._begin()

    def attempt(
        self, context: Context, report: Callable[[Commit], ImportReport]
    ) -> VerbResult[Commit]:
        """Move the branch; raise CollectionStartedError if a collection has deleted the ranges."""
        state = get_branch(context, self.branch)
        check_clean(state, "import into it")
        if state.fence != self.fence:
            check_written_tables(context.store, [each.id for each in self.imported])
            _check_adopted_objects(context, "import", self.branch, self.imported)
            self.fence = state.fence
            self._begin()
        head = context.graph.commit(state.commit_id)
        plan = self._planned(context.tree(head))
        outcome = self._attempts.run(partial(apply_body, context.workspace), plan)
        tree = self._attempts.finish(plan, outcome, head.meta_range_id)
        if tree.id == head.meta_range_id:
            if self.if_needed:
                return VerbResult(head, changed=False)
            raise NoChangesError(
                f"{state.name!r} already has all of these objects under {self.folder or '/'!r}"
            )
        made = publish(
            context,
            state,
            "import",
            parents=[head],
            meta_range_id=tree.id,
            signature=self.signature,
            result=report,
        )
        return VerbResult(made)

    def _begin(self) -> None:
        """Forget the tables of earlier attempts, which a collection may have deleted."""
        layered = self.mode is ImportMode.ADD
        title = self.context.title("import", self.branch)
        self._attempts = Attempts(self.context, title, layered=layered)
        matched = _MatchedRanges(self.context, self.branch, self.imported, self.folder)
        self._planned = (
            partial(_addition, StagedLayers(self.context), matched)
            if layered
            else partial(_replacement, self.folder, matched)
        )


class _MatchedRanges:
    """Imported ranges with the present entries of the same content in them.

    Only ranges that overlap different ranges of a base are read, and not again for a base that has
    the same ones.
    """

    def __init__(self, context: Context, branch: str, imported: Ranges, folder: str) -> None:
        self._context = context
        self._branch = branch
        self._imported = imported
        self._within = prefix_interval(folder.encode())
        self._known: tuple[tuple[OpenPiece, ...], Ranges] = ((), imported)

    def over(self, base: MetaRange) -> Ranges:
        """Return the ranges for a base. They are durable."""
        plan = plan_matched(base.ranges, self._imported, self._within)
        stretches = plan.stretches
        if not stretches:
            return self._imported
        if stretches != self._known[0]:
            context = self._context
            runner = context.runner(plan.records, "import", self._branch)
            outcome = run_plan(runner, partial(matched_body, context.workspace), plan)
            ranges = stitched(context.store, context.workspace, outcome.pieces)
            self._known = (stretches, ranges)
        return self._known[1]


def _replacement(folder: str, matched: _MatchedRanges, base: MetaRange) -> Plan:
    """Return the plan of an import that replaces a folder."""
    return plan_replace(base.ranges, matched.over(base), prefix_interval(folder.encode()))


def _addition(staged: StagedLayers, matched: _MatchedRanges, base: MetaRange) -> Plan:
    """Return the plan of an import that is applied like a staged layer."""
    return staged.plan_sides(base, [SideStream(tuple(matched.over(base)))])


def _check_adopted_objects(context: Context, verb: str, branch: str, ranges: Ranges) -> None:
    """Check that the objects of the lake that ranges name were not deleted meanwhile.

    A range that existed may name other objects than the verb. Tasks read all ranges. Raises
    CollectionStartedError, CollectionRunningError and PurgeRunningError.
    """
    records = record_count(ranges)
    runner = context.runner(records, verb, branch)
    work = encode_tasks(sliced(ranges, runner.task_records(records), attrgetter("count")))
    list(runner.collect(partial(check_objects_body, context.workspace), work))
