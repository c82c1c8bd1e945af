"""Create a repository from a dump of sparklake or lakeFS, in place."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sparklake.errors import MissingFileError, SparklakeError
from sparklake.graveler.dumps import dump
from sparklake.graveler.dumps.dump import DumpManifest
from sparklake.graveler.dumps.ref_files import Entity
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import ObjectStore, RefsSnapshot, RefStore, RepositoryInfo
from sparklake.layout import REFS_MANIFEST_KEY, open_purge_key
from sparklake.namespace.markers import open_markers, open_purges
from sparklake.stores.objects import normalise_object_uri, open_object
from sparklake.stores.objects.addresses import unsupported_addresses
from sparklake.verbs.base.context import Context, now
from sparklake.verbs.base.namespace import check_enclosing, given_place, take_over_namespace
from sparklake.verbs.dumps import restore_settings
from sparklake.verbs.dumps.addresses import find_refused
from sparklake.verbs.dumps.newer_files import age_note, newer_problems
from sparklake.verbs.dumps.restore_settings import RestoreOptions as RestoreOptions
from sparklake.verbs.dumps.settings import renames_of, with_tag_notes, write_settings
from sparklake.verbs.dumps.verify_trees import verify_trees


class RestoredRefs(NamedTuple):
    """A repository, notes on omitted parts, and whether another program wrote the dump."""

    info: RepositoryInfo
    notes: Sequence[str]
    is_foreign: bool


def restore_refs(
    store: ObjectStore, ref_store: RefStore, options: RestoreOptions, committer: str
) -> RestoredRefs:
    """Create a repository from the dump in a namespace, which it then owns.

    One error reports all problems of the dump and the options, and no repository is created.
    """
    check_enclosing(store.uri)
    verified = _verify(store, options)
    settings = verified.settings
    info = RepositoryInfo(
        name=options.name,
        uid=uuid.uuid4().hex,
        storage_namespace=store.uri,
        default_branch=settings.default_branch,
        range_records=settings.range_records,
        creation_date=now(),
        settings=settings.settings,
    )
    ref_store.restore_repository(info, verified.refs, committer, verified.collected)
    try:
        take_over_namespace(store, ref_store, info)
        # The list of an interrupted collection ignores these refs.
        for marker in open_markers(store):
            store.delete(marker)
        for purge_id in open_purges(store):  # These refs have no such purges.
            store.delete(open_purge_key(purge_id))
        if options.manifest is not None:
            store.replace(REFS_MANIFEST_KEY, dump.manifest_bytes(verified.manifest))
        if settings.beside is not None:
            write_settings(store, settings.beside)
    except BaseException:
        ref_store.delete_repository(info.name, force=True)
        raise
    return RestoredRefs(info, settings.notes, verified.is_foreign)


@dataclass(frozen=True, slots=True)
class _VerifiedDump:
    manifest: DumpManifest
    refs: RefsSnapshot
    collected: set[CommitId]
    settings: restore_settings.RestoredSettings
    is_foreign: bool


def _verify(store: ObjectStore, options: RestoreOptions) -> _VerifiedDump:
    try:
        with given_place(store.uri):
            manifest = _manifest(store, options.manifest)
    except MissingFileError:
        dump.raise_all(restore_settings.invalid_options(options))  # They are invalid with any dump.
        raise
    file = restore_settings.find_settings(store, manifest)
    renames = restore_settings.joined_renames(renames_of(file.settings, manifest), options.renames)
    contents = dump.find_dump(store, manifest, renames)
    renames = restore_settings.settled_renames(renames, contents)
    trees = verify_trees(store, contents.refs)
    is_any_age = options.accept_old or Entity.COMMIT in contents.unread
    dump.raise_all(
        [
            *contents.problems,
            *dump.name_problems(contents.refs),
            *file.problems,
            *restore_settings.option_problems(options, file, contents, renames),
            *(() if options.incomplete else trees.problems),
            *(() if is_any_age else newer_problems(store, manifest, contents.refs, trees)),
        ]
    )
    settings = restore_settings.restored_settings(store, manifest, options, file, renames)
    notes = [age_note(contents.refs, manifest, trees), *settings.notes]
    if trees.problems:
        problems = dump.problem_text(trees.problems)
        notes.append(f"trees are incomplete, as `sparklake check` shows: {problems}")
    settings = replace(settings, notes=notes)
    refs = with_tag_notes(contents.refs, file.settings, renames)
    return _VerifiedDump(manifest, refs, trees.collected, settings, file.settings is None)


def _manifest(store: ObjectStore, place: str | None) -> DumpManifest:
    """Return the manifest at a path or URI, on stdin ("-"), or of the namespace."""
    if place is None:
        return dump.read_dump_manifest(store)
    if place == "-":
        return dump.parse_manifest(sys.stdin.buffer.read(), "the manifest on stdin")
    source, key = open_object(normalise_object_uri(place))
    return dump.parse_manifest(source.get(key), f"the manifest {place}")


def address_notes(context: Context) -> Sequence[str]:
    """Return a note on objects of branches and tags in unsupported stores, if any."""
    try:
        refused = find_refused(context, context.refs.snapshot(), unsupported_addresses, "restore")
    except SparklakeError as error:  # The repository is restored all the same.
        return [f"the addresses of objects could not be read, as `sparklake check` shows: {error}"]
    if refused is None:
        return ()
    count, first = refused
    return [
        f"{count:,} objects are in stores that sparklake cannot read: the first is {first}. Only "
        "their entries exist: copy the objects to a bucket or to files, and import them again"
    ]
