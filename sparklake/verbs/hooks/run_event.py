"""Execution and records of the hooks of one event."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sparklake.config import HookSettings
from sparklake.errors import HookFailedError, HookNotAllowedError
from sparklake.graveler.ports.registers import HookResult, HookRun, HookStatus
from sparklake.hooks.declarations import HookFile
from sparklake.hooks.events import Event, EventName
from sparklake.hooks.run_hook import run_hook
from sparklake.verbs.base.context import now
from sparklake.verbs.hooks.subject import RefChange
from sparklake.verbs.hooks.trees import PublishedTree

_SHOWN_CHARACTERS = 1000


def run_event(
    settings: HookSettings, subject: RefChange, name: str, actions: Sequence[HookFile]
) -> None:
    """Run the hooks of an event in order, up to a failure.

    In that file, hooks that ask for it still run. Raises HookFailedError.
    """
    event = _event(subject, EventName(name))
    results: list[HookResult] = []
    refusal: HookFailedError | None = None
    for each in actions:
        if refusal is None and each.is_on(event.name, event.ref):
            refusal = _run_action(settings, event, each, results)
    if results:
        run = _run(event, results)
        subject.context.refs.hook_runs.add(run)
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
    said = result.output[-_SHOWN_CHARACTERS:].strip() or "no output"
    fate = "the operation was refused" if event.name.is_before else "the operation stays done"
    return (
        f"the hook {result.hook!r} of {result.file} failed on {event.name.value} of "
        f"{event.ref!r}; {fate}: {said}\n`sparklake hooks show lakefs://{event.repository} "
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
