"""Restore: create a repository from a dump by sparklake or lakeFS, in place."""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparklake.errors import CorruptFileError, InvalidInputError, MissingFileError, SparklakeError
from sparklake.graveler.commits import Commit
from sparklake.graveler.defaults import DEFAULT_RANGE_RECORDS
from sparklake.graveler.guards import RepositorySettings
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore, RefsSnapshot, RefStore, RepositoryInfo
from sparklake.graveler.refs.dump import DumpManifest, find_refs, name_problems, read_dump_manifest
from sparklake.graveler.refs.lakefs_rules import PROTECTION_KEY, RETENTION_KEY, find_lakefs_rules
from sparklake.graveler.refs.problems import raise_all
from sparklake.graveler.sstable.range_files import read_meta_range, table_key
from sparklake.udfs.adopted_ranges import COLLECTED_KEY, MARKER_KEY, open_purge_key, open_purges
from sparklake.verbs.base.context import now
from sparklake.verbs.base.namespace import check_enclosing, take_over_namespace
from sparklake.verbs.refs.dump_settings import (
    SETTINGS_KEY,
    KeptSettings,
    belong_together,
    read_settings,
    write_settings,
)

_DEFAULT_BRANCH = "main"


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options of a restored repository. None means the value of the dump.

    `renames` are new names of branches and tags by old ones, as in `find_refs`.
    """

    name: str
    default_branch: str | None = None
    range_records: int | None = None
    renames: Mapping[str, str] = field(default_factory=dict)

    def branch(self, name: str) -> str:
        """Return the new name of a branch."""
        return self.renames.get(f"heads/{name}", self.renames.get(name, name))


def restore_refs(
    store: ObjectStore, ref_store: RefStore, options: RestoreOptions, committer: str
) -> tuple[RepositoryInfo, Sequence[str]]:
    """Create a repository from the dump in a namespace, after the dump is verified.

    Returns the repository, and notes on what was not carried over. From then on the repository owns
    the namespace, which must not be inside another one. An error names all problems of a dump.

    Raises:
        MissingFileError: A file of the dump or a tree is missing. As for all errors, no repository
            is created.
        CorruptFileError: A file is damaged.
        InvalidDumpError: The dump is invalid.
        InvalidInputError: An option does not fit the dump.
        AlreadyExistsError: A repository has this name.
        NamespaceInUseError: Another repository uses the namespace.
    """
    manifest = read_dump_manifest(store)
    refs, problems = find_refs(store, manifest, options.renames)
    # The branches may be in a table that cannot be read.
    is_whole = not any(isinstance(each, CorruptFileError | MissingFileError) for each in problems)
    problems += name_problems(refs)
    collected = _collected(store, refs)
    problems += _tree_problems(store, refs, collected)
    found = _find_settings(store, manifest, options)
    default = _default_branch(options, found.kept)
    if is_whole and all(each.name != default for each in refs.branches):
        problems.append(_no_branch(default, refs))
    raise_all(problems)
    info = RepositoryInfo(
        name=options.name,
        uid=uuid.uuid4().hex,
        storage_namespace=store.uri,
        default_branch=default,
        range_records=_range_records(options, found.kept),
        creation_date=now(),
        settings=found.settings,
    )
    check_enclosing(store.uri)
    ref_store.restore_repository(info, refs, committer, collected)
    try:
        take_over_namespace(store, ref_store, info)
        # The list of a collection that was interrupted does not know these refs.
        store.delete(MARKER_KEY)
        for purge_id in open_purges(store):  # These refs have no such purges.
            store.delete(open_purge_key(purge_id))
        if found.kept is None:
            # A later dump may replace this one, and no other one of another program.
            write_settings(store, info, found.settings, (manifest,))
    except BaseException:
        ref_store.delete_repository(info.name, force=True)
        raise
    return info, found.notes


# --- settings -------------------------------------------------------------------------------------

_NOT_IN_DUMPS = (
    "a dump contains no staged changes, no log of operations and no runs of hooks, so these "
    "were not carried over"
)
_NOT_IN_LAKEFS_DUMPS = (
    "a dump of lakeFS contains no uncommitted changes, no repository metadata, no pull requests, "
    "no runs of actions, no users and no permissions, so these were not carried over",
    "the nanoseconds of commit dates were not carried over",
)
_NO_PROTECTION = (
    "lakeFS keeps rules of branch protection in its database, so they were not carried over: "
    "`lakectl branch-protect list` shows them, and `sparklake protect add` adds them here"
)


@dataclass(frozen=True, slots=True)
class _FoundSettings:
    """The settings for a restored repository. `kept` is None for a dump by lakeFS."""

    kept: KeptSettings | None
    settings: RepositorySettings
    notes: Sequence[str]


def _find_settings(
    store: ObjectStore, manifest: DumpManifest, options: RestoreOptions
) -> _FoundSettings:
    kept = read_settings(store)
    if kept is not None and belong_together(store, kept, manifest):
        return _FoundSettings(kept, kept.settings, (_NOT_IN_DUMPS,))
    rules = find_lakefs_rules(store, options.branch)
    notes = [*_NOT_IN_LAKEFS_DUMPS, *rules.notes]
    if kept is not None:
        notes.append(
            f"the settings in {SETTINGS_KEY} belong to an older dump, and were not applied"
        )
    if rules.retention is not None:
        notes.append(f"the rules of garbage collection in {RETENTION_KEY} were taken over")
    if rules.protection:
        notes.append(f"the rules of branch protection in {PROTECTION_KEY} were taken over")
    else:
        notes.append(_NO_PROTECTION)
    settings = RepositorySettings(protection=rules.protection, retention=rules.retention)
    return _FoundSettings(None, settings, notes)


def _default_branch(options: RestoreOptions, kept: KeptSettings | None) -> str:
    dumped = kept.default_branch if kept else _DEFAULT_BRANCH
    return options.default_branch or options.branch(dumped)


def _no_branch(name: str, refs: RefsSnapshot) -> InvalidInputError:
    names = [each.name for each in refs.branches]
    known = f"choose one of its {len(names)} branches, such as {', '.join(names[:10])}"
    return InvalidInputError(
        f"the dump has no branch {name!r} to use as the default: "
        f"{known if names else 'it has no branches'}"
    )


def _range_records(options: RestoreOptions, kept: KeptSettings | None) -> int:
    if kept is None:
        return options.range_records or DEFAULT_RANGE_RECORDS
    if options.range_records not in (None, kept.range_records):
        raise InvalidInputError(
            f"range_records is {kept.range_records} in this dump, and cannot be changed"
        )
    return kept.range_records


# --- trees ----------------------------------------------------------------------------------------


def _collected(store: ObjectStore, refs: RefsSnapshot) -> set[CommitId]:
    """Return the commits of a dump whose trees a garbage collection has deleted since.

    A commit that was made again since has its tree, and so has one whose tree is not deleted yet.
    """
    try:
        said = decode_json(store.get(COLLECTED_KEY), list[CommitId], COLLECTED_KEY)
    except MissingFileError:
        return set()
    named = {each.commit_id for each in refs.named}
    listed = set(said) - named
    commits = [each for each in refs.commits if each.id in listed]
    there = {each.key for each in store.list(table_key(""))} if commits else set()
    return {each.id for each in commits if not _is_whole(store, each.meta_range_id, there)}


def _is_whole(store: ObjectStore, tree: MetaRangeId, there: Container[str]) -> bool:
    """Return whether all tables of a tree are among those that exist."""
    if tree and table_key(tree) not in there:
        return False
    return all(table_key(each.id) in there for each in read_meta_range(store, tree).ranges)


def _tree_problems(
    store: ObjectStore, refs: RefsSnapshot, collected: Container[CommitId]
) -> list[SparklakeError]:
    """Return the problems of incomplete trees.

    The metarange of every commit that was not collected must exist, and all ranges of the commits
    of branches and tags. The check takes one listing.
    """
    problems: list[SparklakeError] = []
    wanted = {
        table_key(each.meta_range_id): each.id
        for each in refs.commits
        if each.meta_range_id and each.id not in collected
    }
    for commit in _named_commits(refs):
        try:
            ranges = read_meta_range(store, commit.meta_range_id).ranges
        except MissingFileError:
            continue  # The listing finds it.
        except CorruptFileError as error:
            problems.append(error)
            continue
        for each in ranges:
            wanted[table_key(each.id)] = commit.id
    for stored in store.list(table_key("")):
        wanted.pop(stored.key, None)
    return [*problems, *_missing(store, wanted)]


def _missing(store: ObjectStore, wanted: Mapping[str, str]) -> Iterator[MissingFileError]:
    for key, commit_id in wanted.items():
        yield MissingFileError(
            f"{store.uri} lacks {key}, which the commit {commit_id} needs: restore it from a backup"
        )


def _named_commits(refs: RefsSnapshot) -> Sequence[Commit]:
    named = {each.commit_id for each in refs.named}
    return [each for each in refs.commits if each.id in named]
