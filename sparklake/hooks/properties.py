"""Validated properties of hooks by type."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sparklake.config import HookSettings, HookType
from sparklake.hooks import patterns

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_FUNCTION = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
_URL = re.compile(r"[!-~]+")
MAX_SECONDS = 3600.0


def seconds(text: str | float) -> float:
    """Parse a timeout: seconds, or a string such as 500ms or 1m30s."""
    if isinstance(text, str):
        match = _DURATION.fullmatch(text)
        if match is None or not text:
            raise ValueError(f"{text!r} is not a duration: write 30s, 1m30s or 500ms")
        hours, minutes, whole, thousandths = (float(each or 0) for each in match.groups())
        text = 3600 * hours + 60 * minutes + whole + thousandths / 1000
    if not 0 < text <= MAX_SECONDS:
        raise ValueError(f"a timeout must be above 0 and at most {MAX_SECONDS:.0f} seconds")
    return float(text)


class PythonHook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function of an installed module. `args` are passed to it unchanged."""

    function: str
    args: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if not _FUNCTION.fullmatch(self.function):
            raise ValueError(f"{self.function!r} is not a function: write module:function")

    @property
    def plain(self) -> str:
        """The pattern for exactly this hook."""
        return self.function

    def matches(self, pattern: str) -> bool:
        return patterns.is_function(pattern, self.function)


class ShellHook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command: its words, or with `shell` one string for /bin/sh."""

    command: list[str] | str
    shell: bool = False
    timeout: str | float = "1m"

    def __post_init__(self) -> None:
        seconds(self.timeout)
        if isinstance(self.command, str) != self.shell:
            raise ValueError("a command must be a list of words, or one string with `shell: true`")
        if not self.words[-1] or not self.words[0] or any("\0" in each for each in self.words):
            raise ValueError("a command may not be empty or contain a NUL character")

    @property
    def words(self) -> list[str]:
        if isinstance(self.command, str):
            return ["/bin/sh", "-c", self.command]
        return self.command or [""]

    @property
    def plain(self) -> str:
        """The pattern for this command with any arguments, or for exactly this script."""
        if not isinstance(self.command, str):
            return patterns.plain_command(self.words[0])
        if "*" in self.command or "?" in self.command:
            raise ValueError(
                "move its script, which contains '*' or '?', to a file, and run the file"
            )
        return self.command

    def matches(self, pattern: str) -> bool:
        # Wildcards match no script.
        return pattern == self.plain if self.shell else patterns.is_path(pattern, self.plain)


class Webhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A URL to post events to. Headers and parameters may contain variables."""

    url: str
    timeout: str | float = "1m"
    headers: dict[str, str] = {}
    query_params: dict[str, str | list[str]] = {}
    follow_redirects: bool = False

    def __post_init__(self) -> None:
        seconds(self.timeout)
        check_url(self.url)
        for name in self.headers:
            if not _HEADER.fullmatch(name) or name.lower() in _OURS:
                raise ValueError(f"the header {name!r} may not be set")

    @property
    def plain(self) -> str:
        """The pattern for this URL with any query."""
        return patterns.plain_address(self.url)

    def matches(self, pattern: str) -> bool:
        return patterns.is_address(pattern, self.plain)


class ForeignHook(msgspec.Struct, frozen=True):
    """A hook for lakeFS only, with any properties."""


Runnable = PythonHook | ShellHook | Webhook
Properties = Runnable | ForeignHook

SHAPES: dict[HookType, type[Properties]] = {
    HookType.PYTHON: PythonHook,
    HookType.SHELL: ShellHook,
    HookType.WEBHOOK: Webhook,
    HookType.LUA: ForeignHook,
    HookType.AIRFLOW: ForeignHook,
}


def check_url(url: str) -> None:
    if not _URL.fullmatch(url):
        raise ValueError("a URL must be printable ASCII without spaces: escape other characters")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("a URL must start with https:// or http:// and a host")
    if "@" in parts.netloc or "\\" in url:
        raise ValueError("a URL may not contain a user: use headers for secrets, as {{ ENV.NAME }}")


def is_allowed(settings: HookSettings, kind: HookType, hook: Runnable) -> bool:
    for each in settings.allow:
        name, has_pattern, pattern = each.partition(":")
        if name == kind.value:
            with suppress(ValueError):
                if not has_pattern or hook.matches(pattern):
                    return True
    return False
