"""URIs and paths of local directories."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sparklake.stores.objects.key_checks import invalid_uri
from sparklake.stores.objects.local.store import TRAITS, LocalStore
from sparklake.stores.objects.providers import StoreProvider

if TYPE_CHECKING:
    from sparklake.stores.objects.local.destination import LocalDestination

_ROOT = "file://"
_SCHEME = re.compile("(file|local):(?=/)", re.IGNORECASE)


def _canonical_root(uri: str) -> str:
    path = _path(uri)
    if path == "/":
        raise invalid_uri(uri, "is the root of the file system: choose a directory in it")
    return local_uri(path)


def _split(uri: str) -> tuple[str, str]:
    return _ROOT, _path(uri).removeprefix("/")


def _path(uri: str) -> str:
    """Return the absolute path of a URI or path; `~/` is the home directory."""
    scheme = _SCHEME.match(uri)
    if scheme is None:
        at_home = uri == "~" or uri.startswith("~/")
        return _absolute(os.path.expanduser(uri) if at_home else uri)  # noqa: PTH111
    path = uri[scheme.end() :]
    if path.startswith("//"):
        host, _, rest = path[2:].partition("/")
        if host not in ("", "localhost"):
            raise invalid_uri(
                uri, f"contains the host {host!r}: write file:/// and the absolute path"
            )
        path = f"/{rest}"
    return _absolute(path)


def _absolute(path: str) -> str:
    # POSIX allows a special meaning for two leading slashes, and abspath keeps them.
    return "/" + os.path.abspath(path).lstrip("/")  # noqa: PTH100


def _open(root: str) -> LocalStore:
    return LocalStore(Path(root.removeprefix(_ROOT) or "/"))


def _open_destination(root: str) -> LocalDestination:
    # Lazy import: only exports need it.
    from sparklake.stores.objects.local.destination import LocalDestination

    return LocalDestination(Path(root.removeprefix(_ROOT)))


def local_uri(path: str) -> str:
    return f"{_ROOT}{path}"


def find_local_path(uri: str) -> str | None:
    return uri.removeprefix(_ROOT) if uri.startswith(_ROOT) else None


LOCAL = StoreProvider(
    # lakeFS writes local://.
    schemes=("file", "local"),
    forms="a path, file:///path",
    traits=TRAITS,
    canonical_root=_canonical_root,
    split=_split,
    open=_open,
    open_destination=_open_destination,
    # A part that starts with '.' may be a dot part.
    canonical=rf"{_ROOT}(/[^./\x00][^/\x00]*)+$",
    plain_place=_ROOT,
)
