"""The mark by which a storage namespace belongs to one repository, of whatever lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import uuid4

import msgspec

from sparklake.errors import (
    InvalidInputError,
    MissingFileError,
    NamespaceInUseError,
    ReadOnlyNamespaceError,
    StoreError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.graveler.json_errors import BAD_JSON
from sparklake.graveler.ports import ObjectStore, RefStore, RepositoryInfo
from sparklake.stores.objects import normalise_store_uri
from sparklake.stores.objects.namespaces import MARKER_KEY, find_enclosing, roots_overlap
from sparklake.udfs.strategies.object_access import DATA_FOLDER


@dataclass(frozen=True, slots=True)
class Mark:
    """Says whose a storage namespace is."""

    repository: str
    uid: str
    lake: str
    made_by: str = "sparklake"


def take_namespace(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> RepositoryInfo:
    """Mark a namespace as taken, so that of two repositories only one can have it.

    Returns the repository to create. Where an earlier attempt to create it died after it had put
    the mark, that attempt is carried on, under its uid. Raises NamespaceInUseError, also for a
    namespace that lies in another one, of whatever lake, or that has objects already.
    """
    marked = _put_mark(store, refs, info)
    try:
        check_enclosing(store.uri)
        _check_unused(store)
    except BaseException:
        leave_namespace(store, refs, marked)
        raise
    return marked


def _put_mark(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> RepositoryInfo:
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
    """Mark a namespace as this repository's, whosever it was; who had it dumps there no more."""
    encoded = msgspec.json.encode(Mark(info.name, info.uid, refs.id()))
    store.replace(MARKER_KEY, encoded)
    _check_conditional(store, encoded)


def check_owner(store: ObjectStore, info: RepositoryInfo) -> None:
    """Raise NamespaceInUseError where a namespace has been taken over from a repository."""
    mark = _find_mark(store)
    if mark is None or mark.uid != info.uid:
        raise NamespaceInUseError(
            f"{store.uri} is not marked as that of {info.name!r}: its refs were restored as those "
            f"of {repr(mark.repository) if mark else 'another repository'}, which goes on from "
            "there. To go on here, delete the repository and restore it"
        )


def _check_conditional(store: ObjectStore, encoded: bytes) -> None:
    """Raise StoreError where a mark that is there can be put once more."""
    if store.put_if_absent(MARKER_KEY, encoded):
        store.delete(MARKER_KEY)
        raise StoreError(
            f"{store.uri} overwrites objects where it was told not to (If-None-Match): use a store "
            "with conditional puts, without which writers could destroy each other's files"
        )


def leave_namespace(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> None:
    """Remove the mark of a repository that was refused, unless another attempt has created it."""
    made = refs.find_repository(info.name)
    if made is None or made.uid != info.uid:
        store.delete(MARKER_KEY)


def check_namespace(store: ObjectStore) -> None:
    """Raise StoreUnreachableError where a local namespace is not to be seen.

    The directory under a disk that is not mounted takes files too, and hides them afterwards. A
    bucket that is away says so itself.
    """
    if store.uri.startswith("file://") and store.find(MARKER_KEY) is None:
        raise StoreUnreachableError(
            f"{store.uri} is not the storage namespace that it was, for it has no {MARKER_KEY}: "
            "mount the disk that holds it, or restore it from a backup"
        )


@contextmanager
def first_write(store: ObjectStore, verb: str) -> Iterator[None]:
    """Turn the refusal of what a verb writes first into ReadOnlyNamespaceError."""
    try:
        yield
    except StorePermissionError as error:
        raise ReadOnlyNamespaceError(
            f"{verb} writes to {store.uri}, and may not: {error} Nothing was done"
        ) from error


def check_namespace_writable(store: ObjectStore, verb: str) -> None:
    """Raise ReadOnlyNamespaceError where nothing can be written beside the mark."""
    with first_write(store, verb):
        if store.uri.startswith("file://"):
            probe = f"_sparklake/probe-{uuid4().hex}"
            store.put_if_absent(probe, b"")
            store.delete(probe)
        else:
            # The mark is there: S3 says so only to who may put it, and writes nothing.
            store.put_if_absent(MARKER_KEY, b"")


def check_apart(info: RepositoryInfo, uri: str) -> str:
    """Return the one spelling of a store's root.

    Raises InvalidInputError where it overlaps the storage namespace.
    """
    root, own = normalise_store_uri(uri), info.storage_namespace
    if roots_overlap(root, own):
        raise InvalidInputError(
            f"{root} overlaps the storage namespace of {info.name}, {own}: name a folder that "
            "neither contains the namespace nor lies in it"
        )
    return root


def check_enclosing(uri: str) -> None:
    """Raise NamespaceInUseError for a root that lies in a storage namespace of any lake."""
    if (found := find_enclosing(uri)) is not None:
        raise NamespaceInUseError(
            f"{uri} lies in {found}, which is, or was, the storage namespace of a repository: "
            f"choose a place outside of it. Only if nothing in {found} is needed any more, delete "
            f"it with its {MARKER_KEY}"
        )


def _check_unused(store: ObjectStore) -> None:
    """Raise NamespaceInUseError where a new repository would adopt objects as its own.

    They may be those of another repository, whose namespace lies in this one.
    """
    if next(iter(store.list(f"{DATA_FOLDER}/")), None) is not None:
        raise NamespaceInUseError(
            f"{store.uri}/{DATA_FOLDER} holds files already, which a garbage collection of the new "
            "repository would delete: choose an unused namespace, and import them from where they "
            "are"
        )


def _find_mark(store: ObjectStore) -> Mark | None:
    try:
        return msgspec.json.decode(store.get(MARKER_KEY), type=Mark)
    except (*BAD_JSON, MissingFileError):
        return None


def _is_abandoned(store: ObjectStore, refs: RefStore, mark: Mark) -> bool:
    """Return whether a mark of this lake stands for no repository that ever was."""
    was_made = refs.refs(mark.uid).operations.list(1)
    return not was_made and all(each.key == MARKER_KEY for each in store.list())
