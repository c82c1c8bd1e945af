"""The settings beside a dump, and the dumps that they belong to."""

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
    """The uid of the repository that wrote a dump, and its latest operation before that."""

    repository: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class KeptSettings:
    """The settings that are stored next to a dump.

    They belong to the dumps of `manifests`: the last one, and the one before it, until the last one
    is complete. Earlier versions wrote none. All names are those of the dump. `renames`, as in
    `find_refs`, are those of the last restore of the last one of `manifests`. `position` belongs to
    the first one. With `is_first`, that dump is the first one, and may not be complete yet.
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
        """The stored settings; raises InvalidInputError if they are invalid."""
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
    """Write the settings that belong to some dumps of a repository; return them."""
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
    """Return settings in the form of their file."""
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
    """Write the file of settings."""
    store.replace(DUMP_SETTINGS_KEY, msgspec.json.encode(kept))


def read_settings(store: ObjectStore) -> KeptSettings | None:
    """Return the settings in a namespace, of any dump; raise CorruptFileError."""
    if store.find(DUMP_SETTINGS_KEY) is None:
        return None
    return decode_json(
        store.get(DUMP_SETTINGS_KEY), KeptSettings, f"{DUMP_SETTINGS_KEY} in {store.uri}"
    )


def renames_of(kept: KeptSettings | None, manifest: DumpManifest) -> Mapping[str, str]:
    """Return the new names by old ones with which a dump was restored, as in `find_refs`."""
    # While a dump is written, the settings belong to it and to the one before it, which comes last.
    return kept.renames if kept is not None and kept.manifests[-1:] == (manifest,) else {}


def position_of(kept: KeptSettings | None, manifest: DumpManifest) -> LogPosition | None:
    """Return the position in the log at which a dump was written, if it is known."""
    return kept.position if kept is not None and kept.manifests[:1] == (manifest,) else None


def belong_together(store: ObjectStore, kept: KeptSettings, manifest: DumpManifest) -> bool:
    """Return whether settings belong to a dump, rather than to an older one."""
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
    """Return the valid part of a dump, and its problems.

    Names are those that the last restore of this dump has given.
    """
    kept = None
    with suppress(CorruptFileError):
        kept = read_settings(store)
    return find_refs(store, manifest, renames_of(kept, manifest))


def find_manifest(store: ObjectStore) -> DumpManifest | None:
    """Return the manifest in a namespace, or None if it has none that is readable."""
    with suppress(CorruptFileError, MissingFileError):
        return read_dump_manifest(store)
    return None


def find_last_manifest(store: ObjectStore) -> DumpManifest | None:
    """Return the manifest of the last dump: from the settings, if its own file is unreadable."""
    found = find_manifest(store)
    if found is not None:
        return found
    with suppress(CorruptFileError):
        kept = read_settings(store)
        if kept is not None and not kept.is_first:
            return next(iter(kept.manifests), None)
    return None
