"""The settings beside a dump, and the dumps that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from sparklake.errors import CorruptFileError, InvalidDumpError, MissingFileError, NewerDumpError
from sparklake.graveler.defaults import MAX_RANGE_RECORDS
from sparklake.graveler.guards import Action, ProtectionRule, RepositorySettings
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore, RefsSnapshot, RepositoryInfo
from sparklake.graveler.refs.dump import (
    MANIFEST_KEY,
    DumpManifest,
    encode_refs,
    read_dump_manifest,
    read_refs,
)
from sparklake.graveler.retention import Retention

SETTINGS_KEY = "_lakefs/sparklake_settings.json"
"""The file of a dump for settings that lakeFS's format does not have."""


@dataclass(frozen=True, slots=True)
class KeptSettings:
    """The settings that are stored next to a dump.

    They belong to the dumps of `manifests`: the last one, and the one before it, until the last one
    is complete. Earlier versions wrote none.
    """

    default_branch: str
    range_records: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANGE_RECORDS)]
    read_only: bool = False
    protection: dict[str, list[Action]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    retention: Retention | None = None
    manifests: tuple[DumpManifest, ...] = ()

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
) -> None:
    """Write the settings that belong to some dumps."""
    kept = KeptSettings(
        default_branch=info.default_branch,
        range_records=info.range_records,
        read_only=settings.read_only,
        protection={each.pattern: sorted(each.actions) for each in settings.protection},
        metadata=dict(settings.metadata),
        retention=settings.retention,
        manifests=tuple(dict.fromkeys(manifests)),
    )
    store.replace(SETTINGS_KEY, msgspec.json.encode(kept))


def read_settings(store: ObjectStore) -> KeptSettings | None:
    """Return the settings in a namespace, of any dump; raise CorruptFileError."""
    if store.find(SETTINGS_KEY) is None:
        return None
    return decode_json(store.get(SETTINGS_KEY), KeptSettings, f"{SETTINGS_KEY} in {store.uri}")


def belong_together(store: ObjectStore, kept: KeptSettings, manifest: DumpManifest) -> bool:
    """Return whether settings belong to a dump, rather than to an older one."""
    if kept.manifests:
        return manifest in kept.manifests
    # An earlier version wrote the settings. It wrote the dump, too, if equal refs give its ids.
    with suppress(CorruptFileError, InvalidDumpError, MissingFileError):
        return encode_refs(read_refs(store, manifest))[0] == manifest
    return False


def find_manifest(store: ObjectStore) -> DumpManifest | None:
    """Return the manifest in a namespace, or None if it has none that is readable."""
    with suppress(CorruptFileError, MissingFileError):
        return read_dump_manifest(store)
    return None


def check_replaceable(store: ObjectStore, manifest: DumpManifest, refs: RefsSnapshot) -> None:
    """Raise NewerDumpError for a dump of another program that a repository does not know."""
    kept = None
    with suppress(CorruptFileError):
        kept = read_settings(store)
    if kept is not None and belong_together(store, kept, manifest):
        return
    if (kept is None or not kept.manifests) and _knows_all(store, manifest, refs):
        return
    raise newer_dump(store)


def newer_dump(store: ObjectStore) -> NewerDumpError:
    """Return the error for a manifest that another program has written."""
    return NewerDumpError(
        f"nothing was dumped: another program, such as lakeFS, has written {MANIFEST_KEY} in "
        f"{store.uri} since this repository last read or wrote it. Restore that dump as another "
        "repository to compare both, or replace it with --overwrite"
    )


def _knows_all(store: ObjectStore, manifest: DumpManifest, refs: RefsSnapshot) -> bool:
    """Return whether refs contain all commits and names of a dump.

    Earlier versions left no record of the dump that they restored.
    """
    try:
        theirs = read_refs(store, manifest)
    except (CorruptFileError, MissingFileError):
        return True  # Nobody can restore that dump.
    except InvalidDumpError:
        return False
    commits = {each.id for each in refs.commits}
    names = {each.name for each in refs.named}
    return all(each.id in commits for each in theirs.commits) and all(
        each.name in names for each in theirs.named
    )
