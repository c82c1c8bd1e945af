"""Execution of one hook of any type, if the settings allow it."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from typing import Any

from sparklake.config import HookSettings, HookType
from sparklake.graveler.ports.registers import HookResult, HookStatus
from sparklake.hooks.commands import run_command
from sparklake.hooks.declarations import Hook, HookFile
from sparklake.hooks.events import Event, HookCall, HookOutcome, event_document, failed, passed
from sparklake.hooks.properties import ForeignHook, PythonHook, Runnable, ShellHook, is_allowed
from sparklake.hooks.secrets import Secrets
from sparklake.hooks.webhooks import post_event


def run_hook(
    settings: HookSettings, event: Event, action: HookFile, hook: Hook
) -> tuple[HookResult, bool]:
    """Run a hook; return its result and whether it was allowed. Never raises."""
    begun = time.monotonic()
    outcome = _outcome(settings, event, action, hook)
    milliseconds = int(1000 * (time.monotonic() - begun))
    kind = hook.type.value
    result = HookResult(
        file=action.path,
        action=action.name,
        hook=hook.id,
        type=kind,
        status=outcome.status,
        milliseconds=milliseconds,
        output=outcome.output,
    )
    return result, outcome.is_allowed


def _outcome(settings: HookSettings, event: Event, action: HookFile, hook: Hook) -> HookOutcome:
    said, secrets = hook.properties, Secrets(settings.env)
    if hook.type.value in settings.skip:
        return HookOutcome(HookStatus.SKIPPED, "skipped by hooks_skip in the settings")
    if isinstance(said, ForeignHook):
        return HookOutcome(HookStatus.FAILED, _foreign(hook.type), is_allowed=False)
    if not is_allowed(settings, hook.type, said):
        return HookOutcome(HookStatus.FAILED, _not_allowed(hook.type, said), is_allowed=False)
    if isinstance(said, PythonHook):
        return _called(said, HookCall(event, action.name, hook.id, said.args), secrets)
    document: Mapping[str, Any] = event_document(event, action.name, hook.id)
    if isinstance(said, ShellHook):
        return run_command(said, document, secrets)
    return post_event(said, document, settings, secrets)


def _foreign(kind: HookType) -> str:
    return (
        f"only lakeFS runs hooks of type {kind.value}: use another hook instead, or add "
        f"{kind.value!r} to hooks_skip in the settings or to SPARKLAKE_HOOKS_SKIP"
    )


def _not_allowed(kind: HookType, hook: Runnable) -> str:
    try:
        entry = f"{kind.value}:{hook.plain}"
    except ValueError as error:
        return f"no pattern of hooks_allow can match this {kind.value} hook: {error}"
    return (
        f"hooks_allow does not allow this {kind.value} hook here. If you trust it, and everyone "
        f"who may write to the branch, add {entry!r} to hooks_allow in the settings or to "
        "SPARKLAKE_HOOKS_ALLOW"
    )


def _called(python: PythonHook, call: HookCall, secrets: Secrets) -> HookOutcome:
    """Call a function. False or an error is a refusal. A returned string is kept."""
    name, _, attribute = python.function.partition(":")
    try:
        answer = getattr(importlib.import_module(name), attribute)(call)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (any error is a refusal)
        return failed(secrets.kept(f"{type(error).__name__}: {error}"))
    said = secrets.kept(answer) if isinstance(answer, str) else ""
    return failed(f"{python.function} returned False") if answer is False else passed(said)
