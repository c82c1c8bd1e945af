"""Hook files, in the format of lakeFS's action files."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from sparklake.config import HookType
from sparklake.errors import InvalidHooksError
from sparklake.hooks.events import EventName
from sparklake.hooks.properties import SHAPES, Properties
from sparklake.hooks.yaml import line_of, parsed

if TYPE_CHECKING:
    import yaml

MAX_FILE_BYTES = 64 * 1024

_CONDITIONS = {"success()": "success", "failure()": "failure", "true": "always", "false": "never"}


class _Trigger(msgspec.Struct, forbid_unknown_fields=True):
    branches: list[str] = []
    tags: list[str] = []


class _Hook(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    type: HookType
    condition: str | bool = msgspec.field(name="if", default="success()")
    description: str = ""
    properties: dict[str, Any] = {}


class _File(msgspec.Struct, forbid_unknown_fields=True):
    on: dict[EventName, Any]
    hooks: list[_Hook]
    name: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook of a file. `condition` is success, failure, always or never."""

    id: str
    type: HookType
    condition: str
    properties: Properties

    def runs_after(self, *, has_failed: bool) -> bool:
        return self.condition in ("always", "failure" if has_failed else "success")


@dataclass(frozen=True, slots=True)
class HookFile:
    """A hook file: its events and refs, and its hooks in order."""

    path: str
    name: str
    on: dict[EventName, tuple[str, ...]]
    hooks: tuple[Hook, ...]

    def is_on(self, event: EventName, ref: str) -> bool:
        globs = self.on.get(event)
        return globs is not None and (not globs or any(fnmatchcase(ref, each) for each in globs))


def parse_action(path: str, body: bytes, skip: Container[str] = ()) -> HookFile:
    """Parse a hook file without the events to skip. Errors contain its path, line and reason."""
    try:
        if len(body) > MAX_FILE_BYTES:
            raise InvalidHooksError(f"it has more than {MAX_FILE_BYTES} bytes")
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise InvalidHooksError("it is not UTF-8") from None
        data, node = parsed(text)
        if not isinstance(data, dict):
            raise InvalidHooksError(
                "line 1: a hook file is a YAML mapping with `name`, `on` and `hooks`, not "
                f"{data!r:.60}"
            )
        skipped = _take_events(data, skip)
        file = _converted(data, _File, node)
        if not (file.on or skipped) or not file.hooks:
            raise InvalidHooksError("line 1: it declares no event or hook")
        _check_storable(file.name, "$.name", node)
        hooks = tuple(_hooks(file, node))
        on = {event: _globs(event, trigger, node) for event, trigger in file.on.items()}
        return HookFile(path, file.name or PurePosixPath(path).stem, on, hooks)
    except InvalidHooksError as error:
        raise InvalidHooksError(f"{path}: {error}") from None


def _take_events(data: dict[str, Any], names: Container[str]) -> Collection[str]:
    """Remove the given events from a file's data, and return those it has."""
    events = data.get("on")
    matches = [each for each in events if each in names] if isinstance(events, dict) else []
    for each in matches:
        del data["on"][each]
    return matches


def _hooks(file: _File, node: yaml.Node) -> Iterator[Hook]:
    ids: set[str] = set()
    for at, each in enumerate(file.hooks):
        place = f"$.hooks[{at}]"
        if not each.id or each.id in ids:
            raise _wrong(node, f"{place}.id", "each hook needs its own id")
        _check_storable(each.id, f"{place}.id", node)
        ids.add(each.id)
        text = each.condition if isinstance(each.condition, str) else str(each.condition).lower()
        condition = _CONDITIONS.get(text.replace(" ", ""))
        if condition is None:
            raise _wrong(node, f"{place}.if", f"it must be one of {', '.join(_CONDITIONS)}")
        shape, inside = SHAPES[each.type], f"{place}.properties"
        yield Hook(each.id, each.type, condition, _converted(each.properties, shape, node, inside))


def _check_storable(text: str, place: str, node: yaml.Node) -> None:
    if "\0" in text:
        raise _wrong(node, place, "a name cannot contain a NUL character")


def _globs(event: EventName, data: Any, node: yaml.Node) -> tuple[str, ...]:
    place = f"$.on.{event.value}"
    trigger = _converted({} if data is None else data, _Trigger, node, place)
    wrong, right = ("branches", "tags") if event.is_of_tags else ("tags", "branches")
    if getattr(trigger, wrong):
        raise _wrong(node, place, f"{event.value} is filtered by {right}, not by {wrong}")
    return tuple(getattr(trigger, right))


def _converted(data: Any, shape: Any, node: yaml.Node, inside: str = "$") -> Any:
    try:
        return msgspec.convert(data, shape)
    except msgspec.ValidationError as error:
        problem, _, at = str(error).partition(" - at `")
        path = inside + at[at.rfind("$") + 1 :].removesuffix("`")
        if problem.startswith("Invalid enum value"):
            choices = HookType if path.endswith(".type") else EventName
            problem += f": it must be one of {', '.join(each.value for each in choices)}"
            if choices is EventName:
                problem += (
                    ". Add an event that only lakeFS has to hooks_skip in the settings or to "
                    "SPARKLAKE_HOOKS_SKIP"
                )
        raise _wrong(node, path, problem) from None


def _wrong(node: yaml.Node, path: str, problem: str) -> InvalidHooksError:
    return InvalidHooksError(f"line {line_of(node, path)}: {path.removeprefix('$.')}: {problem}")
