"""Dump refs and commits into a storage namespace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparklake.errors import CorruptFileError, RepositoryNotFoundError
from sparklake.graveler.dumps.dump import DumpManifest, encode_refs, manifest_bytes, read_refs
from sparklake.graveler.dumps.lakefs_limits import refused_addresses, refused_branches, refused_tags
from sparklake.graveler.ports import BranchState, ObjectStore, RefsSnapshot, TagInfo
from sparklake.graveler.ports.registers import HeldCheck
from sparklake.layout import REFS_MANIFEST_KEY
from sparklake.namespace.swept_tree_files import put_tree_files
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace, check_namespace_writable, check_owner
from sparklake.verbs.dumps import settings
from sparklake.verbs.dumps.addresses import find_refused
from sparklake.verbs.dumps.lost_refs import check_replaceable, newer_dump
from sparklake.verbs.dumps.settings import LogPosition

_SLOT = "refs dump"
"""The queue slot of dumps. No branch can have this name."""
_SLOT_SECONDS = 60.0
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Options of a dump.

    `overwrite` replaces any dump, including newer ones of other programs and those with lost refs.
    Without `check_addresses`, no range is read, and addresses cause no warnings.
    """

    overwrite: bool = False
    check_addresses: bool = True


@dataclass(frozen=True, slots=True)
class RefsDump:
    """Counts of a dump. It lacks the changes staged on the `dirty` branches.

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
    """
    # Not through the cache, which contains only trees.
    store = open_store(context.info.storage_namespace)
    check_namespace(store)
    check_owner(store, context.info)
    check_namespace_writable(store, "a refs dump")
    # Dumps run one after the other, so that an older dump never replaces a newer one.
    with (
        context.refs.branches.turn(_SLOT, _SLOT_SECONDS),
        # A collection of trees keeps the tree files that the manifest names.
        context.refs.collections.alone_with_tree_files() as check_held,
    ):
        # Before the refs: what they lack has a higher number, or was not committed yet.
        latest = next(iter(context.refs.operations.list(1)), None)
        refs = context.refs.snapshot()
        if all(each.name != context.info.default_branch for each in refs.branches):
            raise RepositoryNotFoundError(f"the repository {context.info.name!r} no longer exists")
        previous, last = settings.find_manifest(store), settings.find_last_manifest(store)
        if not options.overwrite:
            check_replaceable(context, store, last, refs)
        position = LogPosition(context.info.uid, latest) if latest else None
        manifest = _write(store, context, refs, previous, position, check_held)
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
    check_held: HeldCheck,
) -> DumpManifest:
    manifest, files = encode_refs(refs)
    put_tree_files(store, files)
    committed = tuple(
        BranchState(each.name, each.commit_id, hidden=each.hidden) for each in refs.branches
    )
    bare = tuple(TagInfo(each.name, each.commit_id) for each in refs.tags)
    if read_refs(store, manifest) != replace(refs, branches=committed, tags=bare):
        raise CorruptFileError(
            f"the dump in {store.uri} was read back with different content: the previous dump "
            "remains valid. Check the store"
        )
    if settings.find_manifest(store) != previous:
        raise newer_dump(store)
    # Until the manifest is replaced, the settings belong to the previous dump, too.
    before = () if previous is None or previous == manifest else (previous,)
    earlier = settings.find_readable_settings(store) if before else None
    file = settings.dump_settings(
        default_branch=context.info.default_branch,
        range_records=context.info.range_records,
        settings=context.refs.settings.get(),
        manifests=(manifest, *before),
        renames=settings.renames_of(earlier, before[0]) if before else {},
    )
    is_first = previous is None
    notes = settings.tag_notes(refs.tags)
    file = replace(file, position=position, tags=notes)
    settings.write_settings(store, replace(file, is_first=is_first))
    check_held()
    store.replace(REFS_MANIFEST_KEY, manifest_bytes(manifest))
    if is_first:
        settings.write_settings(store, file)
    return manifest


def _name_warning(noun: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN:,} more (--output json)" if names[_SHOWN:] else ""
    sample = f"{', '.join(names[:_SHOWN])}{more}"
    return [
        f"lakeFS rejects the names of some {noun}, and cannot open them: {sample}. To pass them "
        "to lakeFS, create others at the same commits and dump again"
    ]


def _address_warnings(context: Context, refs: RefsSnapshot) -> list[str]:
    refused = find_refused(context, refs, refused_addresses, "dump")
    if refused is None:
        return []
    count, first = refused
    return [
        f"lakeFS cannot read the addresses of {count:,} objects, and fails to list commits with "
        f"them: the first is {first}. Remove these objects, commit, and import them again"
    ]
