"""Dump: write refs and commits into the storage namespace, for later restores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import msgspec

from sparklake.errors import CorruptFileError, RepositoryNotFoundError
from sparklake.graveler.defaults import MAX_RANGE_RECORDS
from sparklake.graveler.guards import Action, ProtectionRule, RepositorySettings
from sparklake.graveler.ports import BranchState, ObjectStore, RefsSnapshot, RepositoryInfo
from sparklake.graveler.refs.dump import (
    MANIFEST_KEY,
    DumpManifest,
    encode_refs,
    manifest_bytes,
    read_refs,
)
from sparklake.graveler.retention import Retention
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_namespace, check_namespace_writable, check_owner

SETTINGS_KEY = "_lakefs/sparklake_settings.json"
"""The file of a dump for settings that lakeFS's format does not have."""

_TURN = "refs dump"
"""The name of the lock. No branch can have this name."""
_TURN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RefsDump:
    """The counts of a dump. It excludes changes staged on the `dirty` branches."""

    manifest: DumpManifest
    branches: int
    tags: int
    commits: int
    dirty: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptSettings:
    """The settings that are stored next to a dump."""

    default_branch: str
    range_records: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANGE_RECORDS)]
    read_only: bool = False
    protection: dict[str, list[Action]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    retention: Retention | None = None

    @property
    def settings(self) -> RepositorySettings:
        """The stored settings; raises InvalidInputError if they are invalid."""
        rules = [
            ProtectionRule(pattern, frozenset(actions))
            for pattern, actions in sorted(self.protection.items())
        ]
        labels = dict(sorted(self.metadata.items()))
        return RepositorySettings(self.read_only, tuple(rules), labels, self.retention)


def dump_refs(context: Context) -> RefsDump:
    """Write all refs and commits, as of one moment, into the storage namespace.

    The manifest is replaced last, after all files that it names are durable and have been read
    back.

    Raises:
        NamespaceInUseError: Another repository has taken over the namespace.
        RepositoryNotFoundError: The repository has been deleted.
        ReadOnlyNamespaceError: The namespace cannot be written. The refs have not been read.
    """
    # Not through the cache, which contains only trees.
    store = open_store(context.info.storage_namespace)
    check_namespace(store)
    check_owner(store, context.info)
    check_namespace_writable(store, "a dump of refs")
    # Dumps run one after the other, so that an older dump never replaces a newer one.
    with context.refs.branches.turn(_TURN, _TURN_SECONDS):
        refs = context.refs.snapshot()
        if all(each.name != context.info.default_branch for each in refs.branches):
            raise RepositoryNotFoundError(f"the repository {context.info.name!r} no longer exists")
        manifest = _write(store, context, refs)
    dirty = tuple(each.name for each in refs.branches if each.layers)
    return RefsDump(manifest, len(refs.branches), len(refs.tags), len(refs.commits), dirty)


def _write(store: ObjectStore, context: Context, refs: RefsSnapshot) -> DumpManifest:
    manifest, files = encode_refs(refs)
    store.put_many_if_absent(files)
    committed = tuple(
        BranchState(each.name, each.commit_id, hidden=each.hidden) for each in refs.branches
    )
    if read_refs(store, manifest) != replace(refs, branches=committed):
        raise CorruptFileError(
            f"the dump in {store.uri} was read back with other content: the previous dump "
            "stays valid. Check the store"
        )
    settings = _kept_settings(context.info, context.refs.settings.get())
    store.replace(SETTINGS_KEY, msgspec.json.encode(settings))
    store.replace(MANIFEST_KEY, manifest_bytes(manifest))
    return manifest


def _kept_settings(info: RepositoryInfo, settings: RepositorySettings) -> KeptSettings:
    return KeptSettings(
        default_branch=info.default_branch,
        range_records=info.range_records,
        read_only=settings.read_only,
        protection={each.pattern: sorted(each.actions) for each in settings.protection},
        metadata=dict(settings.metadata),
        retention=settings.retention,
    )
