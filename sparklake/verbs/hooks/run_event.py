"""Execution and records of one event's hooks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparklake.config import HookSettings
from sparklake.engine.lazy_rows import Rows
from sparklake.errors import HookFailedError, HookNotAllowedError
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ports.registers import HookResult, HookRun, HookStatus
from sparklake.graveler.ranges import MetaRange
from sparklake.hooks.declarations import HookFile
from sparklake.hooks.events import Event, EventName
from sparklake.hooks.run_hook import run_hook
from sparklake.rows.diffs import DiffRow
from sparklake.rows.objects import ObjectInfo
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context, now
from sparklake.verbs.base.read import list_tree
from sparklake.verbs.base.snapshot import Snapshot, snapshot_over
from sparklake.verbs.diffs.differences import diff_trees
from sparklake.verbs.tables.read import read_table
from sparklake.verbs.tables.version import tree_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.verbs.hooks.guard import RefChange

_SHOWN_CHARACTERS = 1000


def run_event(
    settings: HookSettings, subject: RefChange, name: str, actions: Sequence[HookFile]
) -> None:
    """Run the hooks of an event in order, up to a failed file."""
    event = _event(subject, EventName(name))
    results: list[HookResult] = []
    refusal: HookFailedError | None = None
    for each in actions:
        if refusal is None and each.is_on(event.name, event.ref):
            refusal = _run_action(settings, event, each, results)
    if results:
        subject.context.refs.hook_runs.add(_run(event, results))
    if refusal is not None:
        raise refusal


def _event(subject: RefChange, name: EventName) -> Event:
    context, info = subject.context, subject.context.info
    return Event(
        name=name,
        run_id=uuid.uuid4().hex,
        repository=info.name,
        storage_namespace=info.storage_namespace,
        ref=subject.ref,
        who=subject.who,
        date=now(),
        tree=PublishedTree(context, subject.ref, subject.before, subject.after),
        head=subject.head,
        source=subject.source,
        commits=subject.commits,
    )


def _run_action(
    settings: HookSettings, event: Event, action: HookFile, results: list[HookResult]
) -> HookFailedError | None:
    refusal: HookFailedError | None = None
    for hook in action.hooks:
        if not hook.runs_after(has_failed=refusal is not None):
            continue
        result, is_allowed = run_hook(settings, event, action, hook)
        results.append(result)
        if result.status is HookStatus.FAILED and refusal is None:
            kind = HookFailedError if is_allowed else HookNotAllowedError
            refusal = kind(_words(event, result), event.run_id)
    return refusal


def _words(event: Event, result: HookResult) -> str:
    output = result.output[-_SHOWN_CHARACTERS:].strip() or "no output"
    fate = (
        "the operation was rejected" if event.name.is_before else "the operation remains in effect"
    )
    return (
        f"the hook {result.hook!r} of {result.file} failed on {event.name.value} of "
        f"{event.ref!r}; {fate}: {output}\n`sparklake hooks show lakefs://{event.repository} "
        f"{event.run_id}` shows the run"
    )


def _run(event: Event, results: Sequence[HookResult]) -> HookRun:
    statuses = {each.status for each in results}
    order = (HookStatus.FAILED, HookStatus.PASSED, HookStatus.SKIPPED)
    return HookRun(
        id=event.run_id,
        event=event.name.value,
        ref=event.ref,
        commit_id=event.commit_id,
        who=event.who,
        date=event.date,
        status=next(each for each in order if each in statuses),
        hooks=tuple(results),
    )


@dataclass(frozen=True)
class PublishedTree:
    """The `EventTree` of a move or of a name, possibly unpublished, and the tree before it."""

    _context: Context
    _ref: str
    _before: MetaRangeId
    _after: MetaRangeId

    @property
    def id(self) -> MetaRangeId:
        return self._after

    def objects(self, prefix: str = "") -> Rows[ObjectInfo]:
        return list_tree(self._context, self._tree, prefix, self._ref)

    def stat(self, path: str) -> ObjectInfo:
        return self._snapshot.stat(path)

    def exists(self, path: str) -> bool:
        return self._snapshot.exists(path)

    def read_bytes(self, path: str) -> bytes:
        return read_body(self.stat(path), self._ref)

    def read(
        self,
        path: str,
        format: str | None = None,  # noqa: A002  (Spark's own word)
        **options: Any,
    ) -> DataFrame:
        table = tree_table(self._context, self._tree, self._ref, path)
        return read_table(self._context, table, format, options)

    def changes(self, prefix: str = "") -> Rows[DiffRow]:
        before = self._context.trees.get(self._before)
        return diff_trees(self._context, before, self._tree, prefix, self._ref)

    @property
    def _tree(self) -> MetaRange:
        return self._context.trees.get(self._after)

    @property
    def _snapshot(self) -> Snapshot:
        return snapshot_over(self._context, self._ref, self._tree)
