"""Restore: create a repository from a dump by sparklake or lakeFS, in place."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from sparklake.errors import InvalidInputError, MissingFileError
from sparklake.graveler.commits import Commit
from sparklake.graveler.defaults import DEFAULT_RANGE_RECORDS
from sparklake.graveler.guards import RepositorySettings
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore, RefsSnapshot, RefStore, RepositoryInfo
from sparklake.graveler.refs.dump import read_dump_manifest, read_refs
from sparklake.graveler.sstable.range_files import read_meta_range, table_key
from sparklake.verbs.base.context import now
from sparklake.verbs.base.namespace import check_enclosing, take_over_namespace
from sparklake.verbs.refs.dump import SETTINGS_KEY, KeptSettings

_DEFAULT_BRANCH = "main"


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options of a restored repository. None means the value of the dump."""

    name: str
    default_branch: str | None = None
    range_records: int | None = None


def restore_refs(
    store: ObjectStore, ref_store: RefStore, options: RestoreOptions, committer: str
) -> RepositoryInfo:
    """Create a repository from the dump in a namespace, after the dump is verified.

    From then on the repository owns the namespace, which must not be inside another one.

    Raises:
        MissingFileError: A file of the dump or a tree is missing. As for all errors, no repository
            is created.
        CorruptFileError: A file is damaged.
        InvalidDumpError: The dump is invalid.
        AlreadyExistsError: A repository has this name.
        NamespaceInUseError: Another repository uses the namespace.
    """
    refs = read_refs(store, read_dump_manifest(store))
    settings = _find_settings(store)
    info = RepositoryInfo(
        name=options.name,
        uid=uuid.uuid4().hex,
        storage_namespace=store.uri,
        default_branch=_default_branch(options, settings, refs),
        range_records=_range_records(options, settings),
        creation_date=now(),
        settings=settings.settings if settings else RepositorySettings(),
    )
    _check_trees(store, refs)
    check_enclosing(store.uri)
    ref_store.restore_repository(info, refs, committer)
    try:
        take_over_namespace(store, ref_store, info)
    except BaseException:
        ref_store.delete_repository(info.name)
        raise
    return info


def _find_settings(store: ObjectStore) -> KeptSettings | None:
    """Return the settings next to a dump by sparklake, or None for a dump by lakeFS."""
    if store.find(SETTINGS_KEY) is None:
        return None
    return decode_json(store.get(SETTINGS_KEY), KeptSettings, f"{SETTINGS_KEY} in {store.uri}")


def _default_branch(
    options: RestoreOptions, settings: KeptSettings | None, refs: RefsSnapshot
) -> str:
    kept = settings.default_branch if settings else _DEFAULT_BRANCH
    chosen = options.default_branch or kept
    names = [each.name for each in refs.branches]
    if chosen not in names:
        known = f"choose one of its {len(names)} branches, such as {', '.join(names[:10])}"
        raise InvalidInputError(
            f"the dump has no branch {chosen!r} to use as the default: "
            f"{known if names else 'it has no branches'}"
        )
    return chosen


def _range_records(options: RestoreOptions, settings: KeptSettings | None) -> int:
    if settings is None:
        return options.range_records or DEFAULT_RANGE_RECORDS
    if options.range_records not in (None, settings.range_records):
        raise InvalidInputError(
            f"range_records is {settings.range_records} in this dump, and cannot be changed"
        )
    return settings.range_records


def _check_trees(store: ObjectStore, refs: RefsSnapshot) -> None:
    """Raise MissingFileError or CorruptFileError for incomplete trees.

    Every commit's metarange must exist, and all ranges of the commits of branches and tags. The
    check takes one listing.
    """
    wanted = {table_key(each.meta_range_id): each.id for each in refs.commits if each.meta_range_id}
    for commit in _named_commits(refs):
        for each in read_meta_range(store, commit.meta_range_id).ranges:
            wanted[table_key(each.id)] = commit.id
    for stored in store.list(table_key("")):
        wanted.pop(stored.key, None)
    if wanted:
        key, commit_id = next(iter(wanted.items()))
        raise MissingFileError(
            f"{store.uri} lacks {key}, which the commit {commit_id} needs, and {len(wanted)} "
            "such tables in total: restore them from a backup"
        )


def _named_commits(refs: RefsSnapshot) -> Sequence[Commit]:
    named = {each.commit_id for each in refs.named}
    return [each for each in refs.commits if each.id in named]
