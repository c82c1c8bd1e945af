"""The mark by which a storage namespace belongs to one repository, of whatever lake."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from sparklake.errors import (
    InvalidInputError,
    MissingFileError,
    NamespaceInUseError,
    StoreError,
    StoreUnreachableError,
)
from sparklake.graveler.json_errors import BAD_JSON
from sparklake.graveler.ports import ObjectStore, RefStore, RepositoryInfo
from sparklake.stores.objects import normalise_store_uri
from sparklake.udfs.imports.own import real_root

MARKER_KEY = "_lakefs/dummy"
"""Where lakeFS, too, marks a storage namespace as taken."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Says whose a storage namespace is."""

    repository: str
    uid: str
    lake: str
    made_by: str = "sparklake"


def take_namespace(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> RepositoryInfo:
    """Marks a namespace as taken, so that of two repositories only one can have it.

    Returns the repository to create. Where an earlier attempt to create it died after it had put
    the mark, that attempt is carried on, under its uid. Raises NamespaceInUseError.
    """
    mark = Mark(info.name, info.uid, refs.id())
    encoded = msgspec.json.encode(mark)
    if not store.put_if_absent(MARKER_KEY, encoded):
        found = _find_mark(store)
        if found and found == replace(mark, uid=found.uid) and _is_abandoned(store, refs, found):
            return replace(info, uid=found.uid)
        raise NamespaceInUseError(
            f"{store.uri} is, or was, the storage namespace of a repository: choose an unused one. "
            f"Only if nothing in it is needed any more, delete it with its {MARKER_KEY}"
        )
    _check_conditional(store, encoded)
    return info


def take_over_namespace(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> None:
    """Marks a namespace as this repository's, whosever it was; who had it dumps there no more."""
    encoded = msgspec.json.encode(Mark(info.name, info.uid, refs.id()))
    store.replace(MARKER_KEY, encoded)
    _check_conditional(store, encoded)


def check_owner(store: ObjectStore, info: RepositoryInfo) -> None:
    """Raises NamespaceInUseError where a namespace has been taken over from a repository."""
    mark = _find_mark(store)
    if mark is None or mark.uid != info.uid:
        raise NamespaceInUseError(
            f"{store.uri} is not marked as that of {info.name!r}: its refs were restored as those "
            f"of {repr(mark.repository) if mark else 'another repository'}, which goes on from "
            "there. To go on here, delete the repository and restore it"
        )


def _check_conditional(store: ObjectStore, encoded: bytes) -> None:
    """Raises StoreError where a mark that is there can be put once more."""
    if store.put_if_absent(MARKER_KEY, encoded):
        store.delete(MARKER_KEY)
        raise StoreError(
            f"{store.uri} overwrites objects where it was told not to (If-None-Match): use a store "
            "with conditional puts, without which writers could destroy each other's files"
        )


def leave_namespace(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> None:
    """Removes the mark of a repository that was refused, unless another attempt has created it."""
    made = refs.find_repository(info.name)
    if made is None or made.uid != info.uid:
        store.delete(MARKER_KEY)


def check_namespace(store: ObjectStore) -> None:
    """Raises StoreUnreachableError where a local namespace is not to be seen.

    The directory under a disk that is not mounted takes files too, and hides them afterwards. A
    bucket that is away says so itself.
    """
    if store.uri.startswith("file://") and store.find(MARKER_KEY) is None:
        raise StoreUnreachableError(
            f"{store.uri} is not the storage namespace that it was, for it has no {MARKER_KEY}: "
            "mount the disk that holds it, or restore it from a backup"
        )


def check_apart(info: RepositoryInfo, uri: str) -> str:
    """Returns the one spelling of a store's root.

    Raises InvalidInputError where it overlaps the storage namespace.
    """
    root, own = normalise_store_uri(uri), info.storage_namespace
    here, there = real_root(root), real_root(own)
    if here.startswith(there) or there.startswith(here):
        raise InvalidInputError(
            f"{root} overlaps the storage namespace of {info.name}, {own}: name a folder that "
            "neither contains the namespace nor lies in it"
        )
    return root


def _find_mark(store: ObjectStore) -> Mark | None:
    try:
        return msgspec.json.decode(store.get(MARKER_KEY), type=Mark)
    except (*BAD_JSON, MissingFileError):
        return None


def _is_abandoned(store: ObjectStore, refs: RefStore, mark: Mark) -> bool:
    """Tells whether a mark of this lake stands for no repository that ever was."""
    was_made = refs.refs(mark.uid).operations.list(1)
    return not was_made and all(each.key == MARKER_KEY for each in store.list())
