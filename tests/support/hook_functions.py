"""Functions for hooks of tests."""

from __future__ import annotations

from collections.abc import Callable

from sparklake.hooks.events import HookCall

CALLS: list[HookCall] = []
"""What the hooks of a test were called with, in order."""

DOING: list[Callable[[HookCall], object]] = []
"""What the next calls of `act` do."""


def note(call: HookCall) -> str:
    CALLS.append(call)
    return f"noted {call.hook}"


def act(call: HookCall) -> object:
    CALLS.append(call)
    return DOING.pop(0)(call) if DOING else None


def refuse(call: HookCall) -> bool:
    CALLS.append(call)
    return False


def fail(call: HookCall) -> None:
    CALLS.append(call)
    raise ValueError(f"{call.event.ref} is not fit")


def babble(call: HookCall) -> None:
    CALLS.append(call)
    raise ValueError("\0\ud800")


def leave(call: HookCall) -> None:
    CALLS.append(call)
    raise SystemExit(0)


def look(call: HookCall) -> str:
    """Report the contents of the tree to publish, and its changes."""
    CALLS.append(call)
    tree = call.tree
    object_paths = [each.path for each in tree.objects("t/")]
    changes = [f"{each.type.value} {each.path}" for each in tree.changes("t/")]
    body = tree.read_bytes("t/a").decode() if tree.exists("t/a") else "-"
    return f"{object_paths} {changes} {body}"
