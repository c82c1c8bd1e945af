"""The patterns of `hooks_allow` and `hooks_private`.

`*` and `?` match within one segment: a folder, a label of a host, a module. `**` as a whole
segment matches any number of segments. Nothing else is special. A command or address that could
be understood in two ways has no plain form, and no pattern matches it.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from sparklake.graveler.globs import path_pattern

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[^]/]*]|[^:/]*)(?::(?P<port>[^/]*))?(?P<path>/.*)?",
    re.DOTALL | re.IGNORECASE,
)
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|[0-9a-f:.]*:[0-9a-f:.]*")
_SEPARATORS = str.maketrans(".:", "//")
_DOTS = ("", ".", "..")
_PORTS = {"http": "80", "https": "443"}


def is_function(pattern: str, function: str) -> bool:
    """Return whether a pattern matches a Python function, by modules."""
    return _matches(pattern.translate(_SEPARATORS), function.translate(_SEPARATORS))


def is_command(pattern: str, word: str) -> bool:
    """Return whether a pattern matches a command: its name, or its path by folders."""
    return _matches(pattern, plain_command(word))


def is_script(pattern: str, text: str) -> bool:
    """Return whether a pattern is exactly this text for a shell. Wildcards match no script."""
    return pattern == plain_script(text)


def is_address(pattern: str, url: str) -> bool:
    """Return whether a pattern matches a URL: scheme, port, host by labels, path by folders."""
    wanted, found = _ADDRESS.fullmatch(pattern), _ADDRESS.fullmatch(plain_address(url))
    return (
        wanted is not None
        and found is not None
        and wanted["scheme"].lower() == found["scheme"]
        and is_host(wanted["host"].strip("[]"), found["host"].strip("[]"))
        and _matches(_port(wanted), _port(found))
        and _matches(wanted["path"] or "/", found["path"])
    )


def is_host(pattern: str, host: str) -> bool:
    """Return whether a pattern matches a host, by labels."""
    return _matches(pattern.lower().replace(".", "/"), host.lower().replace(".", "/"))


def plain_command(word: str) -> str:
    """Return a command's name, or its path without empty folders.

    Symbolic links are not resolved. Raises ValueError for all other relative paths and for `..`.
    """
    name, *folders = word.split("/")
    if ".." in (name, *folders) or (name and folders):
        raise ValueError("write its command as a name, or as an absolute path without '..'")
    return name if not folders else "/" + "/".join(each for each in folders if each not in _DOTS)


def plain_script(text: str) -> str:
    """Return the text of a script; raise ValueError if it has wildcards."""
    if "*" in text or "?" in text:
        raise ValueError("put its script, which has '*' or '?', into a file, and run the file")
    return text


def plain_address(url: str) -> str:
    """Return a URL without its query, with its host in lowercase.

    Raises ValueError for a path or host that servers could understand in different ways.
    """
    parts = urlsplit(url)
    host, path = parts.hostname or "", parts.path or "/"
    if not _HOST.fullmatch(host) or not _is_plain(path):
        raise ValueError(
            "write its URL with a plain host, without a dot at its end, and with a path without "
            "'//', '.', '..', or escapes of '/', '\\', '%' or control characters"
        )
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{path}"


def _is_plain(path: str) -> bool:
    *folders, last = path.split("/")[1:]
    return all(map(_is_plain_segment, [*folders, last] if last else folders))


def _is_plain_segment(segment: str) -> bool:
    try:
        text = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        return False
    # Some servers drop what follows a semicolon before they resolve '..'.
    has_name = text.partition(";")[0] not in _DOTS
    return has_name and text.isprintable() and not any(each in text for each in "/\\%")


def _port(address: re.Match[str]) -> str:
    return address["port"] or _PORTS[address["scheme"].lower()]


def _matches(pattern: str, text: str) -> bool:
    return path_pattern(pattern).fullmatch(text) is not None
