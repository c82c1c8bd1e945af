"""Overlaps of storage namespaces, with symbolic links currently resolved."""

from __future__ import annotations

import os
from collections.abc import Iterable

from sparklake.errors import NamespaceInUseError
from sparklake.stores.objects.local.provider import find_local_path


def real_root(uri: str) -> str:
    """Return the real path of a store's root, with a trailing '/'."""
    path = find_local_path(uri)
    return f"{uri}/" if path is None else os.path.realpath(path).rstrip("/") + "/"


def roots_overlap(first: str, second: str) -> bool:
    """Return whether one root is the other or inside it, by name or by resolved links."""
    first, second = first.rstrip("/"), second.rstrip("/")
    by_name = _nested(f"{first}/", f"{second}/")
    return by_name or _nested(real_root(first), real_root(second))


def refuse_overlapping(uri: str, others: Iterable[tuple[str, str]]) -> None:
    """Raise NamespaceInUseError for a root inside or around another one."""
    for name, other in others:
        if roots_overlap(uri, other):
            raise NamespaceInUseError(
                f"{uri} overlaps the storage namespace of repository {name!r}: choose another one"
            )


def _nested(first: str, second: str) -> bool:
    return first.startswith(second) or second.startswith(first)
