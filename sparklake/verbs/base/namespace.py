"""Storage namespaces, owned by one repository of any lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import msgspec

from sparklake import errors
from sparklake.graveler.json_errors import BAD_JSON
from sparklake.graveler.ports import ObjectStore, RefsSnapshot, RefStore, RepositoryInfo
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.layout import DATA_FOLDER, NAMESPACE_MARKER_KEY, PROBE_PREFIX
from sparklake.namespace.nesting import find_enclosing
from sparklake.stores.objects import (
    describe_store,
    find_local_path,
    normalise_store_uri,
    open_store,
)
from sparklake.stores.objects.namespaces import roots_overlap


@dataclass(frozen=True, slots=True)
class OwnershipMarker:
    """The owner of a storage namespace."""

    repository: str
    uid: str
    lake: str
    made_by: str = "sparklake"


@contextmanager
def given_place(uri: str = "") -> Iterator[None]:
    """Raise InvalidInputError for a location without a store, or for a file."""
    path = find_local_path(uri)
    places = () if path is None else (Path(path), *Path(path).parents)
    file = next((each for each in places if each.is_file()), None)
    if file is not None:
        raise errors.InvalidInputError(f"{file} is a file: choose a folder")
    try:
        yield
    except errors.StoreUnreachableError as error:
        if not error.is_missing:
            raise
        raise errors.InvalidInputError(str(error)) from error


def take_namespace(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> RepositoryInfo:
    """Mark an unused namespace as the repository's; return the repository to create.

    Continues an earlier attempt that died after writing the marker, under its uid.
    """
    with given_place(store.uri):
        marked = _put_marker(store, refs, info)
    try:
        check_enclosing(store.uri)
        _check_unused(store)
    except BaseException:
        leave_namespace(store, refs, marked)
        raise
    return marked


def _put_marker(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> RepositoryInfo:
    marker = OwnershipMarker(info.name, info.uid, refs.id())
    encoded = msgspec.json.encode(marker)
    if not store.put_if_absent(NAMESPACE_MARKER_KEY, encoded):
        owner = _find_marker(store)
        if owner and owner == replace(marker, uid=owner.uid) and _is_abandoned(store, refs, owner):
            return replace(info, uid=owner.uid)
        raise errors.NamespaceInUseError(
            f"{store.uri} is, or was, the storage namespace of a repository: choose an unused "
            f"one. Delete it with its {NAMESPACE_MARKER_KEY} only if nothing in it is needed any "
            "more"
        )
    _check_conditional(store, encoded)
    return info


def take_over_namespace(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> None:
    """Write this repository's marker. Afterwards, a previous owner can no longer dump there."""
    encoded = msgspec.json.encode(OwnershipMarker(info.name, info.uid, refs.id()))
    store.replace(NAMESPACE_MARKER_KEY, encoded)
    _check_conditional(store, encoded)


def check_owner(store: ObjectStore, info: RepositoryInfo) -> None:
    """Raise NamespaceInUseError if another repository owns the namespace now."""
    marker = _find_marker(store)
    if marker is not None and marker.uid == info.uid:
        return
    what = f"{store.uri} is not marked as the storage namespace of {info.name!r}"
    if marker is not None:
        raise errors.NamespaceInUseError(
            f"{what}: its refs were restored to {marker.repository!r}, which uses it now. To use "
            "it here again, delete the repository and restore it"
        )
    state = "damaged" if store.find(NAMESPACE_MARKER_KEY) else "missing"
    raise errors.CorruptFileError(
        f"{what}: the ownership marker {NAMESPACE_MARKER_KEY} is {state}. `sparklake "
        "repair` writes it again if this is the namespace"
    )


def _check_conditional(store: ObjectStore, encoded: bytes) -> None:
    if store.put_if_absent(NAMESPACE_MARKER_KEY, encoded):
        store.delete(NAMESPACE_MARKER_KEY)
        raise errors.StoreError(
            f"{store.uri} ignores conditional puts (If-None-Match), so writers could destroy "
            "each other's files: use a store with conditional puts"
        )


def leave_namespace(store: ObjectStore, refs: RefStore, info: RepositoryInfo) -> None:
    """Remove the marker of a rejected repository, unless another attempt created it."""
    existing = refs.find_repository(info.name)
    if existing is None or existing.uid != info.uid:
        store.delete(NAMESPACE_MARKER_KEY)


def check_namespace(store: ObjectStore) -> None:
    """Raise StoreUnreachableError if a local namespace seems lost, such as on an unmounted disk."""
    if store.traits.is_local and store.find(NAMESPACE_MARKER_KEY) is None:
        remedy = (
            "mount its disk, or restore it from a backup"
            if is_bare(store)
            else "its tree files are there, so run `sparklake repair`, which writes it again"
        )
        raise errors.StoreUnreachableError(
            f"{store.uri} is no longer the storage namespace of this repository, because "
            f"{NAMESPACE_MARKER_KEY} is missing: {remedy}"
        )


def is_bare(store: ObjectStore) -> bool:
    return (
        store.find(NAMESPACE_MARKER_KEY) is None
        and next(iter(store.list(tree_file_key(""))), None) is None
    )


def check_disk(info: RepositoryInfo, refs: RefsSnapshot) -> None:
    """Raise StoreUnreachableError for a local namespace without its files."""
    uri = info.storage_namespace
    if describe_store(uri).is_local and is_bare(open_store(uri)) and has_content(refs):
        raise errors.StoreUnreachableError(
            f"nothing was done: {uri} has neither its ownership marker nor any tree file. "
            "Mount its disk, or restore the namespace from a backup"
        )


def has_content(refs: RefsSnapshot) -> bool:
    return any(each.meta_range_id for each in refs.commits) or any(
        each.layers for each in refs.branches
    )


@contextmanager
def first_write(store: ObjectStore, verb: str) -> Iterator[None]:
    """Raise ReadOnlyNamespaceError if the first write of a verb is rejected."""
    try:
        yield
    except errors.StorePermissionError as error:
        raise errors.ReadOnlyNamespaceError(
            f"nothing was done: {verb} must write to {store.uri}, but cannot: {error}"
        ) from error


def check_namespace_writable(store: ObjectStore, verb: str) -> None:
    with first_write(store, verb):
        if store.traits.is_local:
            probe = f"{PROBE_PREFIX}{uuid4().hex}"
            store.put_if_absent(probe, b"")
            store.delete(probe)
        else:
            # The marker is there: S3 says so only to who may put it, and writes nothing.
            store.put_if_absent(NAMESPACE_MARKER_KEY, b"")


def check_apart(info: RepositoryInfo, uri: str) -> str:
    """Return the root of a store, or reject an overlap with the storage namespace."""
    root, own = normalise_store_uri(uri), info.storage_namespace
    if roots_overlap(root, own):
        raise errors.InvalidInputError(
            f"{root} overlaps the storage namespace of {info.name}, {own}: choose a folder "
            "outside the namespace that does not contain it"
        )
    return root


def check_enclosing(uri: str) -> None:
    with given_place(uri):
        enclosing = find_enclosing(uri)
    if enclosing is not None:
        raise errors.NamespaceInUseError(
            f"{uri} is inside {enclosing}, which is, or was, the storage namespace of a "
            f"repository: choose a location outside. Delete {enclosing} with its "
            f"{NAMESPACE_MARKER_KEY} only if nothing in it is needed any more"
        )


def _check_unused(store: ObjectStore) -> None:
    """Reject a namespace with objects, which may belong to a nested repository."""
    if next(iter(store.list(DATA_FOLDER)), None) is not None:
        raise errors.NamespaceInUseError(
            f"{store.uri}/{DATA_FOLDER} already contains files, which a garbage collection of "
            "the new repository would delete: choose an unused namespace, and import the "
            "files from their location"
        )


def _find_marker(store: ObjectStore) -> OwnershipMarker | None:
    try:
        return msgspec.json.decode(store.get(NAMESPACE_MARKER_KEY), type=OwnershipMarker)
    except (*BAD_JSON, errors.MissingFileError):
        return None


def _is_abandoned(store: ObjectStore, refs: RefStore, marker: OwnershipMarker) -> bool:
    was_made = refs.refs(marker.uid).operations.list(1)
    return not was_made and all(each.key == NAMESPACE_MARKER_KEY for each in store.list())
