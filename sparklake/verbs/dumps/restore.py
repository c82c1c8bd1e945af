"""Create a repository from a dump of sparklake or lakeFS, in place."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sparklake.errors import MissingFileError, SparklakeError
from sparklake.graveler.dumps.dump import (
    DumpManifest,
    find_dump,
    manifest_bytes,
    name_problems,
    parse_manifest,
    problem_text,
    raise_all,
    read_dump_manifest,
)
from sparklake.graveler.dumps.ref_files import Entity
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import ObjectStore, RefsSnapshot, RefStore, RepositoryInfo
from sparklake.namespace.layout import REFS_MANIFEST_KEY, open_purge_key
from sparklake.namespace.markers import open_markers, open_purges
from sparklake.stores.objects import normalise_object_uri, open_object
from sparklake.stores.objects.addresses import unsupported_addresses
from sparklake.verbs.base.context import Context, now
from sparklake.verbs.base.namespace import check_enclosing, given_place, take_over_namespace
from sparklake.verbs.dumps.addresses import find_refused
from sparklake.verbs.dumps.newer_files import age_note, newer_problems
from sparklake.verbs.dumps.restore_settings import (
    RestoredSettings,
    find_settings,
    invalid_options,
    joined_renames,
    option_problems,
    restored_settings,
    settled_renames,
)
from sparklake.verbs.dumps.restore_settings import RestoreOptions as RestoreOptions
from sparklake.verbs.dumps.settings import renames_of, write_kept
from sparklake.verbs.dumps.verify_trees import verify_trees


class RestoredRefs(NamedTuple):
    """A repository, notes on omitted parts, and whether another program wrote the dump."""

    info: RepositoryInfo
    notes: Sequence[str]
    is_foreign: bool


def restore_refs(
    store: ObjectStore, ref_store: RefStore, options: RestoreOptions, committer: str
) -> RestoredRefs:
    """Verify the dump in a namespace and create a repository from it.

    The repository then owns the namespace, which must not be inside another one. One error reports
    all problems of the dump and the options. On errors, no repository is created.

    Raises:
        MissingFileError: A file of the dump or of a tree is missing.
        CorruptFileError: A file is damaged.
        InvalidDumpError: The dump is invalid, or there are problems of several kinds.
        InvalidInputError: An option does not fit the dump.
        AlreadyExistsError: A repository has this name.
        NamespaceInUseError: Another repository uses the namespace.
        NewerDumpError: The namespace has a newer dump, or newer trees of lakeFS.
    """
    check_enclosing(store.uri)
    verified = _verify(store, options)
    found = verified.settings
    info = RepositoryInfo(
        name=options.name,
        uid=uuid.uuid4().hex,
        storage_namespace=store.uri,
        default_branch=found.default_branch,
        range_records=found.range_records,
        creation_date=now(),
        settings=found.settings,
    )
    ref_store.restore_repository(info, verified.refs, committer, verified.collected)
    try:
        take_over_namespace(store, ref_store, info)
        # The list of a collection that was interrupted does not know these refs.
        for marker in open_markers(store):
            store.delete(marker)
        for purge_id in open_purges(store):  # These refs have no such purges.
            store.delete(open_purge_key(purge_id))
        if options.manifest is not None:
            store.replace(REFS_MANIFEST_KEY, manifest_bytes(verified.manifest))
        if found.beside is not None:
            write_kept(store, found.beside)
    except BaseException:
        ref_store.delete_repository(info.name, force=True)
        raise
    return RestoredRefs(info, found.notes, verified.is_foreign)


@dataclass(frozen=True, slots=True)
class _VerifiedDump:
    """The refs of a valid dump, the commits without trees, and the settings."""

    manifest: DumpManifest
    refs: RefsSnapshot
    collected: set[CommitId]
    settings: RestoredSettings
    is_foreign: bool


def _verify(store: ObjectStore, options: RestoreOptions) -> _VerifiedDump:
    """Verify a dump and the options, and report all problems in one error."""
    try:
        with given_place(store.uri):
            manifest = _manifest(store, options.manifest)
    except MissingFileError:
        raise_all(invalid_options(options))  # They are invalid with any dump.
        raise
    file = find_settings(store, manifest)
    renames = joined_renames(renames_of(file.kept, manifest), options.renames)
    found = find_dump(store, manifest, renames)
    renames = settled_renames(renames, found)
    trees = verify_trees(store, found.refs)
    is_any_age = options.accept_old or Entity.COMMIT in found.unread
    raise_all(
        [
            *found.problems,
            *name_problems(found.refs),
            *file.problems,
            *option_problems(options, file, found, renames),
            *(() if options.incomplete else trees.problems),
            *(() if is_any_age else newer_problems(store, manifest, found.refs, trees)),
        ]
    )
    settings = restored_settings(store, manifest, options, file, renames)
    notes = [age_note(found.refs, manifest, trees), *settings.notes]
    if trees.problems:
        shown = problem_text(trees.problems)
        notes.append(f"trees are incomplete, as `sparklake check` shows: {shown}")
    settings = replace(settings, notes=notes)
    return _VerifiedDump(manifest, found.refs, trees.collected, settings, file.kept is None)


def _manifest(store: ObjectStore, place: str | None) -> DumpManifest:
    """Return the manifest at a path or URI, on stdin ("-"), or of the namespace."""
    if place is None:
        return read_dump_manifest(store)
    if place == "-":
        return parse_manifest(sys.stdin.buffer.read(), "the manifest on stdin")
    found, key = open_object(normalise_object_uri(place))
    return parse_manifest(found.get(key), f"the manifest {place}")


def address_notes(context: Context) -> Sequence[str]:
    """Return a note on objects of branches and tags in unsupported stores, if any."""
    try:
        found = find_refused(context, context.refs.snapshot(), unsupported_addresses, "restore")
    except SparklakeError as error:  # The repository is restored all the same.
        return [f"the addresses of objects could not be read, as `sparklake check` shows: {error}"]
    if found is None:
        return ()
    return [
        f"{found.objects:,} objects are in stores that sparklake cannot read: the first is "
        f"{found.first}. Only their entries are there: copy the objects to S3 or to files, and "
        "import them again"
    ]
