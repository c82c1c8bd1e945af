"""The settings file stored with a dump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated

import msgspec

from sparklake.errors import CorruptFileError, InvalidDumpError, MissingFileError
from sparklake.graveler.defaults import MAX_RANGE_RECORDS
from sparklake.graveler.dumps.dump import DumpManifest, encode_refs, read_dump_manifest, read_refs
from sparklake.graveler.guards import Action, ProtectionRule, RepositorySettings
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore, Operation, RefsSnapshot, TagInfo
from sparklake.graveler.retention import Retention
from sparklake.layout import DUMP_SETTINGS_KEY


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The uid of a dump's repository, and its latest operation before the dump."""

    repository: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class TagNote:
    """The parts of a tag that lakeFS's format lacks."""

    who: str
    creation_date: int
    message: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DumpSettings:
    """The settings stored with a dump, under its names.

    They belong to the dumps of `manifests`: the latest one and, until it is complete, the previous
    one. Earlier versions wrote no `manifests` and no `tags`. `renames`, as in `find_dump`, are
    those of the latest restore of the last manifest; `position` belongs to the first. `is_first`
    marks the first dump in a namespace, which may be incomplete.
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
    tags: dict[str, TagNote] = field(default_factory=dict)
    is_first: bool = False

    @property
    def repository_settings(self) -> RepositorySettings:
        rules = [
            ProtectionRule(pattern, frozenset(actions))
            for pattern, actions in sorted(self.protection.items())
        ]
        labels = dict(sorted(self.metadata.items()))
        return RepositorySettings(self.read_only, tuple(rules), labels, self.retention)


def dump_settings(
    default_branch: str,
    range_records: int,
    settings: RepositorySettings,
    manifests: Sequence[DumpManifest],
    renames: Mapping[str, str],
) -> DumpSettings:
    return DumpSettings(
        default_branch=default_branch,
        range_records=range_records,
        read_only=settings.read_only,
        protection={each.pattern: sorted(each.actions) for each in settings.protection},
        metadata=dict(settings.metadata),
        retention=settings.retention,
        manifests=tuple(dict.fromkeys(manifests)),
        renames=dict(renames),
    )


def tag_notes(tags: Sequence[TagInfo]) -> dict[str, TagNote]:
    return {
        each.name: TagNote(each.who, each.creation_date, each.message, dict(each.metadata))
        for each in tags
    }


def with_tag_notes(
    refs: RefsSnapshot, settings: DumpSettings | None, renames: Mapping[str, str]
) -> RefsSnapshot:
    """Add tag notes to dumped refs. `renames` may start with `tags/`."""
    notes = {} if settings is None else settings.tags
    by_name = {renames.get(f"tags/{old}", renames.get(old, old)): notes[old] for old in notes}
    tags = (
        replace(each, **asdict(by_name[each.name])) if each.name in by_name else each
        for each in refs.tags
    )
    return replace(refs, tags=tuple(tags))


def write_settings(store: ObjectStore, settings: DumpSettings) -> None:
    store.replace(DUMP_SETTINGS_KEY, msgspec.json.encode(settings))


def read_settings(store: ObjectStore) -> DumpSettings | None:
    if store.find(DUMP_SETTINGS_KEY) is None:
        return None
    what = f"{DUMP_SETTINGS_KEY} in {store.uri}"
    return decode_json(store.get(DUMP_SETTINGS_KEY), DumpSettings, what)


def find_readable_settings(store: ObjectStore) -> DumpSettings | None:
    with suppress(CorruptFileError):
        return read_settings(store)
    return None


def renames_of(settings: DumpSettings | None, manifest: DumpManifest) -> Mapping[str, str]:
    """Return the new names of the dump's latest restore, by old name."""
    # While a dump is written, the settings also belong to the previous one, which comes last.
    if settings is not None and settings.manifests[-1:] == (manifest,):
        return settings.renames
    return {}


def position_of(settings: DumpSettings | None, manifest: DumpManifest) -> LogPosition | None:
    if settings is not None and settings.manifests[:1] == (manifest,):
        return settings.position
    return None


def belong_together(store: ObjectStore, settings: DumpSettings, manifest: DumpManifest) -> bool:
    """Return whether settings belong to the given dump."""
    if settings.manifests:
        return manifest in settings.manifests
    # An earlier version wrote the settings.
    return is_by_sparklake(store, manifest)


def is_by_sparklake(store: ObjectStore, manifest: DumpManifest) -> bool:
    """Return whether sparklake wrote a dump. Ids are deterministic."""
    with suppress(CorruptFileError, InvalidDumpError, MissingFileError):
        return encode_refs(read_refs(store, manifest))[0] == manifest
    return False


def find_manifest(store: ObjectStore) -> DumpManifest | None:
    with suppress(CorruptFileError, MissingFileError):
        return read_dump_manifest(store)
    return None


def find_last_manifest(store: ObjectStore) -> DumpManifest | None:
    """Return the latest manifest: from the settings if its own file is unreadable."""
    manifest = find_manifest(store)
    if manifest is None:
        settings = find_readable_settings(store)
        if settings is not None and not settings.is_first:
            manifest = next(iter(settings.manifests), None)
    return manifest
