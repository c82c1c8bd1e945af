"""Export: copy a commit, or its changes since another, out of the lake."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from sparklake.errors import InvalidInputError
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import ObjectStore
from sparklake.layout import NAMESPACE_MARKER_KEY
from sparklake.stores.objects import open_store
from sparklake.udfs.exports import MANIFEST_FOLDER, ExportPass
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_apart, check_enclosing
from sparklake.verbs.base.resolve import get_commit, kept_commit
from sparklake.verbs.exports.marks import (
    ExportMark,
    check_mark,
    check_still_ours,
    find_mark,
    is_empty,
)
from sparklake.verbs.exports.work import ExportOptions, ExportResult, ExportWork, export_plans


def export(context: Context, ref: str, to: str, options: ExportOptions) -> ExportResult:
    """Write a commit, or its changes since another, to a destination."""
    if options.manifest_only:
        return _manifest(context, ref, to, options)
    store = _open(context, to)
    commit, origins = kept_commit(context, ref), _origins(context, store, options)
    folder = f"{MANIFEST_FOLDER}{commit.id}/"
    plans = export_plans(context, commit, options.prefix, origins)
    work = ExportWork(context, store, commit, options, folder, plans)
    survey = work.run(ExportPass.SURVEY)
    if options.dry_run:
        return work.result(ref, survey)
    info, states = context.info, tuple(dict.fromkeys((*origins, commit.id)))
    mark = ExportMark(
        info.name, info.uid, options.prefix, ref, commit=commit.id, run=uuid4().hex, begun=states
    )
    work.write_mark(mark)
    work.clear_manifest()
    # Removals come before copies: a file may replace a folder, and the other way round.
    if survey.removed:
        work.run(ExportPass.REMOVE)
    result = work.result(ref, work.run(ExportPass.COPY, expected=survey))
    work.write_summary(result)
    check_still_ours(store, mark)
    work.write_mark(replace(mark, begun=()))
    work.tidy()
    return result


def _manifest(context: Context, ref: str, to: str, options: ExportOptions) -> ExportResult:
    """Write the objects of a commit, or its changes, one row each. Copy no object."""
    if options.incremental:
        raise InvalidInputError(
            "a manifest alone cannot continue an export: choose a ref with `since`"
        )
    store = _open(context, to)
    commit = kept_commit(context, ref)
    if not (options.overwrite or is_empty(store)):
        raise _not_empty(store.uri)
    origin = None if options.since is None else get_commit(context, options.since).id
    plans = export_plans(context, commit, options.prefix, (origin,))
    work = ExportWork(context, store, commit, options, "", plans)
    if options.dry_run:
        return work.result(ref, work.run(ExportPass.SURVEY))
    work.clear_manifest()
    result = work.result(ref, work.run(ExportPass.LIST))
    work.write_summary(result)
    work.tidy()
    return result


def _origins(
    context: Context, store: ObjectStore, options: ExportOptions
) -> tuple[CommitId | None, ...]:
    """Return the commits with objects at the destination. None is the empty tree.

    The export writes its differences from each of them.
    """
    if options.since is not None and options.incremental:
        raise InvalidInputError("choose one of `since` and `incremental`")
    since = None if options.since is None else get_commit(context, options.since).id
    if options.overwrite:
        return (since,)
    mark = find_mark(store)
    if mark is None:
        if not is_empty(store):
            raise _not_empty(store.uri)
        return (since,)
    check_mark(store, mark, context.info, options.prefix)
    if options.incremental:
        return mark.origins
    if since is not None and since not in mark.origins:
        raise InvalidInputError(
            f"{store.uri} contains {mark.commit[:12]}, not {options.since!r}: continue from "
            "there (incremental), or overwrite it"
        )
    # The existing objects are written again or removed.
    return mark.origins if since is not None else tuple(dict.fromkeys((None, *mark.origins)))


def _open(context: Context, to: str) -> ObjectStore:
    store = open_store(check_apart(context.info, to))
    check_enclosing(store.uri)
    if not is_empty(store) and store.find(NAMESPACE_MARKER_KEY) is not None:
        raise InvalidInputError(
            f"{store.uri} is the storage namespace of a repository: choose another destination"
        )
    return store


def _not_empty(root: str) -> InvalidInputError:
    return InvalidInputError(
        f"{root} is not empty, and is not an export of this repository: choose an empty "
        "destination, or overwrite files with the same names"
    )
