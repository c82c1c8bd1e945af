"""Unreferenced files, and leftovers of crashes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from sparklake.errors import CorruptFileError, InvalidDumpError, MissingFileError
from sparklake.graveler.dumps.dump import DumpManifest, dump_roots, read_dump_manifest
from sparklake.graveler.dumps.ref_files import ref_table_ids
from sparklake.graveler.ports import ObjectStore, WriteState
from sparklake.graveler.ports.registers import PurgeState
from sparklake.graveler.refs.names import is_commit_id
from sparklake.graveler.sstable.range_files import table_key
from sparklake.namespace.leftovers import probes, unfinished_checks
from sparklake.namespace.markers import is_run_id, open_markers
from sparklake.rows.findings import Finding, FindingKind
from sparklake.stores.objects.temporary import temporary_files
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment


def register_findings(context: Context, moment: Moment) -> Iterator[Finding]:
    """Yield unfinished writes and purges, and expired branches."""
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
    """Yield temporary files, and unfinished collections and checks."""
    for each in temporary_files(store):
        yield Finding(FindingKind.TEMPORARY_FILE, each.key, size=each.size)
    yield from _collection_findings(store)
    for each in probes(store):
        yield Finding(FindingKind.TEMPORARY_FILE, each.key, size=each.size)
    for each_id, files in sorted(unfinished_checks(store).items()):
        if each_id != check_id:
            size = sum(each.size for each in files)
            detail = "an unfinished check"
            yield Finding(FindingKind.TEMPORARY_FILE, each_id, detail, size=size)


def _collection_findings(store: ObjectStore) -> Iterator[Finding]:
    for each in open_markers(store):
        run_id = store.get(each).decode(errors="replace")
        if is_run_id(run_id):
            yield Finding(FindingKind.COLLECTION_UNFINISHED, run_id)
        else:
            yield Finding(
                FindingKind.GC_MARKER_DAMAGED, each, "it contains no id of a garbage collection"
            )


def unreferenced_tree_files(store: ObjectStore, named: Collection[str]) -> Iterator[Finding]:
    """Yield the tree files without a reference by a commit, staged run or dump."""
    dumped = dump_table_ids(store)
    prefix = table_key("")
    for each in store.list(prefix):
        table_id = each.key.removeprefix(prefix)
        if is_commit_id(table_id) and table_id not in named and table_id not in dumped:
            yield Finding(
                FindingKind.TREE_FILE_UNREFERENCED, table_id, tree_file=table_id, size=each.size
            )


def dump_table_ids(store: ObjectStore) -> set[str]:
    """Return the ids of all readable tree files of the dump."""
    found: set[str] = set()
    manifest: DumpManifest | None = None
    with suppress(CorruptFileError, MissingFileError):
        manifest = read_dump_manifest(store)
    if manifest is None:
        return found
    for table_id, entity in dump_roots(manifest):
        found.add(table_id)
        with suppress(CorruptFileError, MissingFileError, InvalidDumpError):
            found.update(ref_table_ids(store, table_id, entity))
    return found
