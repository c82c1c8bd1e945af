"""Dump refs and commits into the storage namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sparklake.errors import CorruptFileError, RepositoryNotFoundError
from sparklake.graveler.dumps.dump import DumpManifest, encode_refs, manifest_bytes, read_refs
from sparklake.graveler.dumps.lakefs_limits import refused_addresses, refused_branches, refused_tags
from sparklake.graveler.ports import BranchState, ObjectStore, RefsSnapshot
from sparklake.namespace.layout import REFS_MANIFEST_KEY
from sparklake.namespace.swept_tables import put_tables
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace, check_namespace_writable, check_owner
from sparklake.verbs.dumps.addresses import find_refused
from sparklake.verbs.dumps.lost_refs import check_replaceable, newer_dump
from sparklake.verbs.dumps.settings import (
    LogPosition,
    find_last_manifest,
    find_manifest,
    read_settings,
    renames_of,
    write_kept,
    write_settings,
)

_TURN = "refs dump"
"""The name of the lock. No branch can have this name."""
_TURN_SECONDS = 60.0
_NAMED = 10


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Options of a dump.

    `overwrite` replaces any dump, including newer ones of other programs and those with lost refs.
    Without `check_addresses`, no range is read, and no warning about addresses is given.
    """

    overwrite: bool = False
    check_addresses: bool = True


@dataclass(frozen=True, slots=True)
class RefsDump:
    """Counts of a dump, without the changes staged on the `dirty` branches.

    `warnings` include the first 10 `refused_branches` and `refused_tags`, which lakeFS cannot use.
    """

    manifest: DumpManifest
    branches: int
    tags: int
    commits: int
    dirty: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refused_branches: tuple[str, ...] = ()
    refused_tags: tuple[str, ...] = ()


def dump_refs(context: Context, options: DumpOptions) -> RefsDump:
    """Write a consistent snapshot of all refs and commits into the storage namespace.

    The manifest is replaced last, after its files are durable and verified.

    Raises:
        NamespaceInUseError: The namespace belongs to another repository.
        NewerDumpError: The namespace has a newer dump of another program.
        RefsLostError: The ref store lacks commits or refs of the previous dump.
        RepositoryNotFoundError: The repository does not exist.
        ReadOnlyNamespaceError: The namespace is not writable. The refs were not read.
        CollectionRunningError: A collection of trees is running.
    """
    # Not through the cache, which contains only trees.
    store = open_store(context.info.storage_namespace)
    check_namespace(store)
    check_owner(store, context.info)
    check_namespace_writable(store, "a dump of refs")
    # Dumps run one after the other, so that an older dump never replaces a newer one.
    with (
        context.refs.branches.turn(_TURN, _TURN_SECONDS),
        # A collection of trees keeps the tree files that the manifest names.
        context.refs.collections.alone_with_tables(),
    ):
        # Before the refs: what they lack has a higher number, or was not committed yet.
        latest = next(iter(context.refs.operations.list(1)), None)
        refs = context.refs.snapshot()
        if all(each.name != context.info.default_branch for each in refs.branches):
            raise RepositoryNotFoundError(f"the repository {context.info.name!r} no longer exists")
        previous, last = find_manifest(store), find_last_manifest(store)
        if not options.overwrite:
            check_replaceable(context, store, last, refs)
        position = LogPosition(context.info.uid, latest) if latest else None
        manifest = _write(store, context, refs, previous, position)
    branches, tags = refused_branches(refs), refused_tags(refs)
    warnings = [*_name_warning("branches", branches), *_name_warning("tags", tags)]
    if options.check_addresses:
        warnings += _address_warnings(context, refs)
    return RefsDump(
        manifest=manifest,
        branches=len(refs.branches),
        tags=len(refs.tags),
        commits=len(refs.commits),
        dirty=tuple(each.name for each in refs.branches if each.layers),
        warnings=tuple(warnings),
        refused_branches=tuple(branches),
        refused_tags=tuple(tags),
    )


def _write(
    store: ObjectStore,
    context: Context,
    refs: RefsSnapshot,
    previous: DumpManifest | None,
    position: LogPosition | None,
) -> DumpManifest:
    manifest, files = encode_refs(refs)
    put_tables(store, files)
    committed = tuple(
        BranchState(each.name, each.commit_id, hidden=each.hidden) for each in refs.branches
    )
    if read_refs(store, manifest) != replace(refs, branches=committed):
        raise CorruptFileError(
            f"the dump in {store.uri} was read back with other content: the previous dump "
            "stays valid. Check the store"
        )
    if find_manifest(store) != previous:
        raise newer_dump(store)
    # Until the manifest is replaced, the settings belong to the previous dump, too.
    before = () if previous is None or previous == manifest else (previous,)
    renames = _renames(store, previous) if previous is not None and before else {}
    settings = context.refs.settings.get()
    manifests, is_first = (manifest, *before), previous is None
    kept = write_settings(
        *(store, context.info, settings, manifests, renames, position), is_first=is_first
    )
    store.replace(REFS_MANIFEST_KEY, manifest_bytes(manifest))
    if is_first:
        write_kept(store, replace(kept, is_first=False))
    return manifest


def _renames(store: ObjectStore, manifest: DumpManifest) -> Mapping[str, str]:
    with suppress(CorruptFileError):
        return renames_of(read_settings(store), manifest)
    return {}


# --- warnings -------------------------------------------------------------------------------------


def _name_warning(noun: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [
        f"lakeFS refuses the names of some {noun}, and cannot open them: {_some(names)}. To give "
        "them to lakeFS, create others at the same commits and dump again"
    ]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more (--output json)" if names[_NAMED:] else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _address_warnings(context: Context, refs: RefsSnapshot) -> list[str]:
    found = find_refused(context, refs, refused_addresses, "dump")
    if found is None:
        return []
    return [
        f"lakeFS cannot read the addresses of {found.objects:,} objects, and fails to list commits "
        f"with them: the first is {found.first}. Remove these objects, commit, and import them "
        "again"
    ]
