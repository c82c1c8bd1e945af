"""Unreferenced files, and crash leftovers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from sparklake.errors import CorruptFileError, InvalidDumpError, MissingFileError
from sparklake.graveler.dumps.dump import dump_roots
from sparklake.graveler.dumps.ref_files import ref_table_ids
from sparklake.graveler.ports import ObjectStore, WriteState
from sparklake.graveler.ports.registers import PurgeState
from sparklake.graveler.sstable.range_files import list_tree_files
from sparklake.namespace.leftovers import probes, unfinished_checks
from sparklake.namespace.markers import is_run_id, open_markers
from sparklake.rows.findings import Finding, FindingKind
from sparklake.stores.objects.temporary import temporary_files
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment
from sparklake.verbs.dumps.settings import find_manifest


def register_findings(context: Context, moment: Moment) -> Iterator[Finding]:
    for write in context.refs.writes.list():
        if write.state is WriteState.OPEN:
            detail = f"{write.who} started it on {write.branch!r}"
            yield Finding(FindingKind.WRITE_OPEN, write.id, detail, branches=(write.branch,))
    for purge in context.refs.purges.list():
        if purge.state is PurgeState.DELETING:
            yield Finding(FindingKind.PURGE_UNFINISHED, purge.id, f"{purge.who} started it")
    for branch in moment.refs.branches:
        if branch.may_be_pruned:
            yield Finding(FindingKind.BRANCH_EXPIRED, branch.name, branches=(branch.name,))


def file_findings(store: ObjectStore, check_id: str) -> Iterator[Finding]:
    for each in temporary_files(store):
        yield Finding(FindingKind.TEMPORARY_FILE, each.key, size=each.size)
    for marker in open_markers(store):
        run_id = store.get(marker).decode(errors="replace")
        if is_run_id(run_id):
            yield Finding(FindingKind.COLLECTION_UNFINISHED, run_id)
        else:
            detail = "it contains no id of a garbage collection"
            yield Finding(FindingKind.GC_MARKER_DAMAGED, marker, detail)
    for each in probes(store):
        yield Finding(FindingKind.TEMPORARY_FILE, each.key, size=each.size)
    for each_id, files in sorted(unfinished_checks(store).items()):
        if each_id != check_id:
            size = sum(each.size for each in files)
            detail = "an unfinished check"
            yield Finding(FindingKind.TEMPORARY_FILE, each_id, detail, size=size)


def unreferenced_tree_files(store: ObjectStore, in_use: Collection[str]) -> Iterator[Finding]:
    """Yield the tree files not referenced by a commit, staged run or dump."""
    dumped = dumped_file_ids(store)
    for file_id, each in list_tree_files(store):
        if file_id not in in_use and file_id not in dumped:
            yield Finding(
                FindingKind.TREE_FILE_UNREFERENCED, file_id, tree_file=file_id, size=each.size
            )


def dumped_file_ids(store: ObjectStore) -> set[str]:
    """Return the ids of all readable dumped tree files."""
    manifest = find_manifest(store)
    ids: set[str] = set()
    for file_id, entity in dump_roots(manifest) if manifest is not None else ():
        ids.add(file_id)
        with suppress(CorruptFileError, MissingFileError, InvalidDumpError):
            ids.update(ref_table_ids(store, file_id, entity))
    return ids
