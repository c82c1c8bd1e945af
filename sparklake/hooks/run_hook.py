"""Execution of an allowed hook."""

from __future__ import annotations

import importlib
import time

from sparklake.config import HookSettings, HookType
from sparklake.graveler.ports.registers import HookResult, HookStatus
from sparklake.hooks.commands import run_command
from sparklake.hooks.declarations import Hook, HookFile
from sparklake.hooks.events import Event, HookCall, HookOutcome, event_document, failed, passed
from sparklake.hooks.properties import ForeignHook, Properties, PythonHook, ShellHook, is_allowed
from sparklake.hooks.secrets import Secrets
from sparklake.hooks.webhooks import post_event


def run_hook(
    settings: HookSettings, event: Event, action: HookFile, hook: Hook
) -> tuple[HookResult, bool]:
    """Run a hook, and return its result and whether it is allowed. Never raises."""
    start = time.monotonic()
    outcome = _outcome(settings, event, action, hook)
    result = HookResult(
        file=action.path,
        action=action.name,
        hook=hook.id,
        type=hook.type.value,
        status=outcome.status,
        milliseconds=int(1000 * (time.monotonic() - start)),
        output=outcome.output,
    )
    return result, outcome.is_allowed


def _outcome(settings: HookSettings, event: Event, action: HookFile, hook: Hook) -> HookOutcome:
    properties, secrets = hook.properties, Secrets(settings.env)
    if hook.type.value in settings.skip:
        return HookOutcome(HookStatus.SKIPPED, "skipped by hooks_skip in the settings")
    if isinstance(properties, ForeignHook) or not is_allowed(settings, hook.type, properties):
        message = _not_allowed(hook.type, properties)
        return HookOutcome(HookStatus.FAILED, message, is_allowed=False)
    if isinstance(properties, PythonHook):
        call = HookCall(event, action.name, hook.id, properties.args)
        return _call(properties.function, call, secrets)
    document = event_document(event, action.name, hook.id)
    if isinstance(properties, ShellHook):
        return run_command(properties, document, secrets)
    return post_event(properties, document, settings, secrets)


def _not_allowed(kind: HookType, hook: Properties) -> str:
    if isinstance(hook, ForeignHook):
        return (
            f"only lakeFS runs hooks of type {kind.value}: use another hook instead, or add "
            f"{kind.value!r} to hooks_skip in the settings or to SPARKLAKE_HOOKS_SKIP"
        )
    try:
        entry = f"{kind.value}:{hook.plain}"
    except ValueError as error:
        return f"no pattern of hooks_allow can match this {kind.value} hook: {error}"
    return (
        f"hooks_allow does not allow this {kind.value} hook here. If you trust it, and everyone "
        f"with write access to the branch, add {entry!r} to hooks_allow in the settings or to "
        "SPARKLAKE_HOOKS_ALLOW"
    )


def _call(function: str, call: HookCall, secrets: Secrets) -> HookOutcome:
    """Call a function. False or an exception rejects the verb. A returned string is recorded."""
    name, _, attribute = function.partition(":")
    try:
        result = getattr(importlib.import_module(name), attribute)(call)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (any error is a refusal)
        return failed(secrets.kept(f"{type(error).__name__}: {error}"))
    if result is False:
        return failed(f"{function} returned False")
    return passed(secrets.kept(result) if isinstance(result, str) else "")
