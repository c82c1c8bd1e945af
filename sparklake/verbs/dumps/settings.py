"""The settings beside dumps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated

import msgspec

from sparklake.errors import CorruptFileError, InvalidDumpError, MissingFileError, SparklakeError
from sparklake.graveler.defaults import MAX_RANGE_RECORDS
from sparklake.graveler.dumps.dump import (
    DumpManifest,
    encode_refs,
    find_refs,
    read_dump_manifest,
    read_refs,
)
from sparklake.graveler.guards import Action, ProtectionRule, RepositorySettings
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore, Operation, RefsSnapshot, RepositoryInfo
from sparklake.graveler.retention import Retention
from sparklake.namespace.layout import DUMP_SETTINGS_KEY


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The uid of a dump's repository, and its latest operation before the dump."""

    repository: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class KeptSettings:
    """The settings in the file beside a dump. All names are those of the dump.

    They belong to the dumps of `manifests`: the last one and, until it is complete, the one before
    it. Earlier versions wrote no `manifests`. `renames`, as in `find_refs`, are those of the latest
    restore of the last dump. `position` belongs to the first of `manifests`. `is_first` marks the
    first dump in a namespace, which may be incomplete.
    """

    default_branch: str
    range_records: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANGE_RECORDS)]
    read_only: bool = False
    protection: dict[str, list[Action]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    retention: Retention | None = None
    manifests: tuple[DumpManifest, ...] = ()
    renames: dict[str, str] = field(default_factory=dict)
    position: LogPosition | None = None
    is_first: bool = False

    @property
    def settings(self) -> RepositorySettings:
        """The stored settings; InvalidInputError if they are invalid."""
        rules = [
            ProtectionRule(pattern, frozenset(actions))
            for pattern, actions in sorted(self.protection.items())
        ]
        labels = dict(sorted(self.metadata.items()))
        return RepositorySettings(self.read_only, tuple(rules), labels, self.retention)


def write_settings(
    store: ObjectStore,
    info: RepositoryInfo,
    settings: RepositorySettings,
    manifests: Sequence[DumpManifest],
    renames: Mapping[str, str],
    position: LogPosition | None,
    *,
    is_first: bool,
) -> KeptSettings:
    """Write the settings of the given dumps, and return them."""
    made = kept_settings(info.default_branch, info.range_records, settings, manifests, renames)
    kept = replace(made, position=position, is_first=is_first)
    write_kept(store, kept)
    return kept


def kept_settings(
    default_branch: str,
    range_records: int,
    settings: RepositorySettings,
    manifests: Sequence[DumpManifest],
    renames: Mapping[str, str] | None = None,
) -> KeptSettings:
    return KeptSettings(
        default_branch=default_branch,
        range_records=range_records,
        read_only=settings.read_only,
        protection={each.pattern: sorted(each.actions) for each in settings.protection},
        metadata=dict(settings.metadata),
        retention=settings.retention,
        manifests=tuple(dict.fromkeys(manifests)),
        renames=dict(renames or {}),
    )


def write_kept(store: ObjectStore, kept: KeptSettings) -> None:
    store.replace(DUMP_SETTINGS_KEY, msgspec.json.encode(kept))


def read_settings(store: ObjectStore) -> KeptSettings | None:
    """Return the settings of any dump in a namespace."""
    if store.find(DUMP_SETTINGS_KEY) is None:
        return None
    return decode_json(
        store.get(DUMP_SETTINGS_KEY), KeptSettings, f"{DUMP_SETTINGS_KEY} in {store.uri}"
    )


def renames_of(kept: KeptSettings | None, manifest: DumpManifest) -> Mapping[str, str]:
    """Return the new names, by old ones, of the dump's latest restore."""
    # While a dump is written, the settings belong to it and to the one before it, which comes last.
    return kept.renames if kept is not None and kept.manifests[-1:] == (manifest,) else {}


def position_of(kept: KeptSettings | None, manifest: DumpManifest) -> LogPosition | None:
    """Return a dump's log position, if known."""
    return kept.position if kept is not None and kept.manifests[:1] == (manifest,) else None


def belong_together(store: ObjectStore, kept: KeptSettings, manifest: DumpManifest) -> bool:
    """Return whether settings belong to the given dump and not to an older one."""
    if kept.manifests:
        return manifest in kept.manifests
    # An earlier version wrote the settings.
    return is_by_sparklake(store, manifest)


def is_by_sparklake(store: ObjectStore, manifest: DumpManifest) -> bool:
    """Return whether sparklake wrote a dump: equal refs give equal ids."""
    with suppress(CorruptFileError, InvalidDumpError, MissingFileError):
        return encode_refs(read_refs(store, manifest))[0] == manifest
    return False


def find_dumped_refs(
    store: ObjectStore, manifest: DumpManifest
) -> tuple[RefsSnapshot, list[SparklakeError]]:
    """Return a dump's valid part, under the names of the latest restore, and its problems."""
    kept = None
    with suppress(CorruptFileError):
        kept = read_settings(store)
    return find_refs(store, manifest, renames_of(kept, manifest))


def find_manifest(store: ObjectStore) -> DumpManifest | None:
    """Return the readable manifest of a namespace, or None."""
    with suppress(CorruptFileError, MissingFileError):
        return read_dump_manifest(store)
    return None


def find_last_manifest(store: ObjectStore) -> DumpManifest | None:
    """Return the latest manifest: from the settings if its own file is unreadable."""
    found = find_manifest(store)
    if found is not None:
        return found
    with suppress(CorruptFileError):
        kept = read_settings(store)
        if kept is not None and not kept.is_first:
            return next(iter(kept.manifests), None)
    return None
