"""Checks of dumps and of lost refs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sparklake.errors import CorruptFileError, RefsLostError, SparklakeError
from sparklake.graveler.dumps.dump import DumpManifest, read_dump_manifest
from sparklake.graveler.ports import ObjectStore
from sparklake.layout import DUMP_SETTINGS_KEY, REFS_MANIFEST_KEY
from sparklake.rows.findings import MOST_AFFECTED, Finding, FindingKind
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment, branches_of, moment_of, ref_findings
from sparklake.verbs.dumps.lost_refs import ComparedDump, compare_dump, lost_operations
from sparklake.verbs.dumps.settings import find_last_manifest, is_by_sparklake


def lost_findings(context: Context, store: ObjectStore, moment: Moment) -> Iterator[Finding]:
    """Yield the findings about the dump and about lost refs, each lost ref once."""
    manifest = find_last_manifest(store)
    try:
        if manifest is not None or store.find(REFS_MANIFEST_KEY) is not None:
            read_dump_manifest(store)
    except SparklakeError as error:
        yield Finding(FindingKind.DUMP_DAMAGED, REFS_MANIFEST_KEY, str(error))
    dump = None
    while manifest is not None:
        dump = compare_dump(context, store, manifest, moment.refs)
        latest = find_last_manifest(store)
        if dump.is_own or latest in (manifest, None):
            yield from _dump_findings(store, manifest, dump)
            break
        manifest = latest  # A concurrent dump has replaced it.
    reported = {each.name for each in dump.lost.missing} if dump is not None and dump.is_own else ()
    for each in lost_operations(context, moment.refs, dump.settled if dump is not None else 0):
        if each.ref not in reported:
            detail = f"the log has it at {each.to_commit}"
            yield Finding(FindingKind.REF_LOST, each.ref, detail, branches=(each.ref,))


def _dump_findings(
    store: ObjectStore, manifest: DumpManifest, dump: ComparedDump
) -> Iterator[Finding]:
    lost = dump.lost
    if isinstance(dump.settings, CorruptFileError):
        yield Finding(FindingKind.DUMP_DAMAGED, DUMP_SETTINGS_KEY, str(dump.settings))
    elif not dump.is_own:
        yield Finding(
            FindingKind.FOREIGN_DUMP,
            REFS_MANIFEST_KEY,
            f"Postgres lacks {lost.text} of it" if lost else "",
            commits=lost.commits[:MOST_AFFECTED],
            commit_count=len(lost.commits),
        )
        return
    elif dump.settings is None and is_by_sparklake(store, manifest):
        yield Finding(FindingKind.DUMP_DAMAGED, DUMP_SETTINGS_KEY, "it is missing")
    for problem in dump.problems:
        yield Finding(FindingKind.DUMP_DAMAGED, REFS_MANIFEST_KEY, str(problem))
    for commit_id in lost.commits:
        yield Finding(FindingKind.COMMIT_LOST, commit_id, commits=(commit_id,), commit_count=1)
    for kind, refs in (
        (FindingKind.REF_LOST, lost.missing),
        (FindingKind.BRANCH_BEHIND, lost.behind),
    ):
        for each in refs:
            detail = f"the dump has it at {each.commit_id}"
            yield Finding(kind, each.name, detail, branches=branches_of(each))


def check_nothing_lost(context: Context) -> None:
    """Raise RefsLostError if lost refs may reference the only copies of objects."""
    store = open_store(context.info.storage_namespace)  # Not through the cache.
    moment = moment_of(context)
    for each in chain(ref_findings(context, moment), lost_findings(context, store, moment)):
        if each.hides_names:
            raise RefsLostError(
                f"nothing was deleted: {each.meaning}: {each.subject}"
                f"{f' ({each.detail})' if each.detail else ''}. Lost commits and refs may "
                "reference objects that would be deleted. `sparklake check --refs` lists all such "
                "faults, and `sparklake repair` restores refs from the dump. Restore the others "
                "from a backup of Postgres, or discard lost refs, and refs only in the dump, with "
                "`sparklake refs dump --overwrite`"
            )
