"""The patterns of `hooks_allow` and `hooks_private`.

`*` and `?` match within one segment: a folder, a label of a host, a module. `**` as a whole segment
matches any number of segments. Nothing else is special. An ambiguous command or address has no
plain form, and no pattern matches it.
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
    return is_path(pattern.translate(_SEPARATORS), function.translate(_SEPARATORS))


def is_address(pattern: str, url: str) -> bool:
    """Match a plain URL: scheme, port, host by labels, path by folders."""
    allowed, address = _ADDRESS.fullmatch(pattern), _ADDRESS.fullmatch(url)
    return (
        allowed is not None
        and address is not None
        and allowed["scheme"].lower() == address["scheme"]
        and is_host(allowed["host"].strip("[]"), address["host"].strip("[]"))
        and is_path(_port(allowed), _port(address))
        and is_path(allowed["path"] or "/", address["path"])
    )


def is_host(pattern: str, host: str) -> bool:
    return is_path(pattern.lower().replace(".", "/"), host.lower().replace(".", "/"))


def is_path(pattern: str, text: str) -> bool:
    return path_pattern(pattern).fullmatch(text) is not None


def plain_command(word: str) -> str:
    """Return a command's name, or its path without empty folders.

    Symbolic links are not resolved. Raises ValueError for other relative paths and for `..`.
    """
    name, *folders = word.split("/")
    if ".." in (name, *folders) or (name and folders):
        raise ValueError("write its command as a name, or as an absolute path without '..'")
    return name if not folders else "/" + "/".join(each for each in folders if each not in _DOTS)


def plain_address(url: str) -> str:
    """Normalize a URL without its query, or raise ValueError for an ambiguous one."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", parts.path or "/"
    *folders, last = path.split("/")[1:]
    segments = [*folders, last] if last else folders
    if not _HOST.fullmatch(host) or not all(map(_is_plain, segments)):
        raise ValueError(
            "write its URL with a plain host, without a dot at its end, and with a path without "
            "'//', '.', '..', or escapes of '/', '\\', '%' or control characters"
        )
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{path}"


def _is_plain(segment: str) -> bool:
    try:
        text = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        return False
    # Some servers drop a part after a semicolon before they resolve '..'.
    has_name = text.partition(";")[0] not in _DOTS
    return has_name and text.isprintable() and not any(each in text for each in "/\\%")


def _port(address: re.Match[str]) -> str:
    return address["port"] or _PORTS[address["scheme"].lower()]
