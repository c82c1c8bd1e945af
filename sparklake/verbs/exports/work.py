"""A planned export: its passes over the differences, and its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import msgspec

from sparklake.choices import parse_choice
from sparklake.engine.base import Amount, range_count
from sparklake.errors import LostResultError, UnsupportedNamesError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.graveler.planning.packing import Task, divided, pack_tasks
from sparklake.graveler.planning.plan import Plan, plan_diff
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange
from sparklake.stores.objects import open_destination
from sparklake.udfs.exports import (
    EXPORT_MARKER_KEY,
    ExportPass,
    ExportReport,
    ExportTaskSettings,
    ManifestFormat,
    export_body,
)
from sparklake.udfs.tasks import decode_reports, encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import listed_commit
from sparklake.verbs.exports.marks import ExportMark, is_empty

COPY_RECORDS = 100
"""The approximate number of records that could be read while one object is copied."""

TASK_OBJECTS = 2_500
"""The approximate number of objects that a task copies."""

_UNFIT_NAMED = 5


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of an export. See `Repository.export`."""

    prefix: str = ""
    since: str | None = None
    incremental: bool = False
    keep_removed: bool = False
    overwrite: bool = False
    manifest_only: bool = False
    dry_run: bool = False
    format: str = ManifestFormat.PARQUET.value

    @property
    def form(self) -> ManifestFormat:
        """The checked format of the manifest."""
        failure = f"{self.format!r} is not a manifest format: choose"
        return parse_choice(ManifestFormat, self.format, failure)


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of a finished or planned export.

    `size` is the bytes of added and changed objects. `since` is the commit from which the export
    continued, or None. `manifest` is the folder of the manifest. `dirty` reports uncommitted
    changes of the branch, which an export does not include.
    """

    to: str
    ref: str
    commit: CommitId
    since: CommitId | None
    prefix: str
    added: int
    changed: int
    removed: int
    size: int
    manifest: str
    dirty: bool
    dry_run: bool


@dataclass(frozen=True, slots=True)
class ExportWork:
    """The differences of the exported commit from each commit at the destination.

    `folder` is the folder of the manifest, "" or with a '/' at its end.
    """

    context: Context
    store: ObjectStore
    commit: Commit
    options: ExportOptions
    folder: str
    plans: Sequence[tuple[CommitId | None, Plan]]

    def run(self, step: ExportPass, expected: ExportReport | None = None) -> ExportReport:
        """Run one step over all differences. `expected` are the counts for progress."""
        total = ExportReport()
        if expected is not None:
            amount = Amount(expected.added + expected.changed, expected.copied_bytes)
            self.context.runners.progress.begin_objects(lambda: amount)
        for number, (export, plan) in enumerate(self._exports(step)):
            manifest = f"{self.folder}part{number or ''}"
            for report in self._reports(replace(export, manifest=manifest), plan):
                total.plus(report)
        if total.unfit_count:
            raise _unfit(self.store.uri, total)
        return total

    def clear_manifest(self) -> None:
        """Remove an earlier manifest from the same folder."""
        destination = open_destination(self.store.uri)
        for each in () if is_empty(self.store) else list(self.store.list(f"{self.folder}part")):
            destination.remove(each.key)

    def write_mark(self, mark: ExportMark) -> None:
        self._put(EXPORT_MARKER_KEY, msgspec.json.encode(mark))

    def write_summary(self, result: ExportResult) -> None:
        self._put(f"{self.folder}_summary.json", msgspec.json.encode(asdict(result)))

    def tidy(self) -> None:
        """Remove the leftovers of killed tasks."""
        open_destination(self.store.uri).tidy()

    def result(self, ref: str, total: ExportReport) -> ExportResult:
        state = self.context.refs.branches.find(ref)
        return ExportResult(
            to=self.store.uri,
            ref=ref,
            commit=self.commit.id,
            since=self.plans[0][0],
            prefix=self.options.prefix,
            added=total.added,
            changed=total.changed,
            removed=total.removed,
            size=total.copied_bytes,
            manifest=f"{self.store.uri}/{self.folder}".rstrip("/"),
            dirty=state is not None and bool(state.layers),
            dry_run=self.options.dry_run,
        )

    def _put(self, key: str, body: bytes) -> None:
        destination = open_destination(self.store.uri)
        destination.put(key, body)
        destination.settle()

    def _exports(self, step: ExportPass) -> Iterator[tuple[ExportTaskSettings, Plan]]:
        """Yield the task settings of each plan. A plan from the empty tree writes all objects."""
        everything = any(origin is None for origin, _ in self.plans)
        for origin, plan in self.plans:
            yield (
                ExportTaskSettings(
                    workspace=self.context.workspace,
                    to=self.store.uri,
                    step=step,
                    commit=self.commit.id,
                    manifest="",
                    form=self.options.form,
                    reserves=bool(self.folder),
                    removals=not self.options.keep_removed,
                    writes=origin is None or not everything,
                ),
                plan,
            )

    def _reports(self, export: ExportTaskSettings, plan: Plan) -> Iterator[ExportReport]:
        copies = export.step is ExportPass.COPY
        records = plan.records * COPY_RECORDS if copies else plan.records
        runner = self.context.runner(records, "export", export.to)
        size = runner.task_records(plan.records)
        if copies:
            size = min(size, TASK_OBJECTS)
        tasks = pack_tasks(divided(plan, size), size)
        progress = self.context.runners.progress
        if not copies:
            progress.begin(sum(map(_ranges, tasks)))
        waiting = set(range(len(tasks)))
        batches = runner.collect(partial(export_body, export), encode_tasks(tasks))
        for report in decode_reports(batches, ExportReport):
            if report.position in waiting:
                waiting.remove(report.position)
                if copies:
                    progress.advance_objects(report.added + report.changed, report.copied_bytes)
                else:
                    progress.advance(_ranges(tasks[report.position]))
                yield report
        if waiting:
            raise LostResultError(
                "the engine returned no result for a part of the export; run it again to resume it"
            )


def export_plans(
    context: Context, commit: Commit, prefix: str, origins: Sequence[CommitId | None]
) -> list[tuple[CommitId | None, Plan]]:
    """Plan the differences of a commit from each origin. No range is read."""
    within, ranges = prefix_interval(key_prefix(prefix)), context.tree(commit).ranges
    return [
        (origin, plan_diff(_tree_of(context, origin).ranges, ranges, within)) for origin in origins
    ]


def _tree_of(context: Context, commit_id: CommitId | None) -> MetaRange:
    if commit_id is None:
        return context.trees.get(EMPTY_META_RANGE)
    return context.tree(listed_commit(context, commit_id))


def _ranges(task: Task) -> int:
    return sum(range_count(each.piece) for each in task.pieces)


def _unfit(root: str, total: ExportReport) -> UnsupportedNamesError:
    paths = "; ".join(f"{each.path!r} {each.reason}" for each in total.unfit[:_UNFIT_NAMED])
    return UnsupportedNamesError(
        f"{root} cannot store {total.unfit_count} of the objects: {paths}; rename them, export "
        "prefixes without them, or export to a bucket",
        [(each.path, each.reason) for each in total.unfit],
        total.unfit_count,
    )
