"""Check a dump of refs: its faults, and what the ref store lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sparklake.errors import CorruptFileError, RefsLostError, SparklakeError
from sparklake.graveler.dumps.dump import DumpManifest, read_dump_manifest
from sparklake.graveler.ports import BranchState, ObjectStore
from sparklake.namespace.layout import DUMP_SETTINGS_KEY, REFS_MANIFEST_KEY
from sparklake.rows.findings import MOST_AFFECTED, Finding, FindingKind
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment, moment_of, ref_findings
from sparklake.verbs.dumps.lost_refs import ComparedDump, compare_dump, lost_operations
from sparklake.verbs.dumps.settings import find_last_manifest, is_by_sparklake


def lost_findings(context: Context, store: ObjectStore, moment: Moment) -> Iterator[Finding]:
    """Yield the findings about the dump and about lost refs, each lost ref once.

    A repository without a dump has no such findings.
    """
    manifest = find_last_manifest(store)
    try:
        if manifest is not None or store.find(REFS_MANIFEST_KEY) is not None:
            read_dump_manifest(store)
    except SparklakeError as error:
        yield Finding(FindingKind.DUMP_DAMAGED, REFS_MANIFEST_KEY, str(error))
    found = None
    while manifest is not None:
        found = compare_dump(context, store, manifest, moment.refs)
        again = find_last_manifest(store)
        if found.is_own or again in (manifest, None):
            yield from _dump_findings(store, manifest, found)
            break
        manifest = again  # Dumps have replaced it meanwhile.
    known = {each.name for each in found.lost.named} if found is not None and found.is_own else ()
    for each in lost_operations(context, moment.refs, found.settled if found is not None else 0):
        if each.ref not in known:
            detail = f"the log has it at {each.to_commit}"
            yield Finding(FindingKind.REF_LOST, each.ref, detail, branches=(each.ref,))


def _dump_findings(
    store: ObjectStore, manifest: DumpManifest, found: ComparedDump
) -> Iterator[Finding]:
    lost = found.lost
    if not found.is_own and not isinstance(found.settings, CorruptFileError):
        detail = f"Postgres lacks {lost.text} of it" if lost else ""
        commits = lost.commits[:MOST_AFFECTED]
        count = len(lost.commits)
        kind = FindingKind.FOREIGN_DUMP
        yield Finding(kind, REFS_MANIFEST_KEY, detail, commits=commits, commit_count=count)
        return
    yield from _settings_findings(store, manifest, found)
    for problem in found.problems:
        yield Finding(FindingKind.DUMP_DAMAGED, REFS_MANIFEST_KEY, str(problem))
    for commit_id in lost.commits:
        yield Finding(FindingKind.COMMIT_LOST, commit_id, commits=(commit_id,), commit_count=1)
    for kind, refs in (
        (FindingKind.REF_LOST, lost.named),
        (FindingKind.BRANCH_BEHIND, lost.behind),
    ):
        for each in refs:
            branches = (each.name,) if isinstance(each, BranchState) else ()
            detail = f"the dump has it at {each.commit_id}"
            yield Finding(kind, each.name, detail, branches=branches)


def _settings_findings(
    store: ObjectStore, manifest: DumpManifest, found: ComparedDump
) -> Iterator[Finding]:
    if isinstance(found.settings, CorruptFileError):
        yield Finding(FindingKind.DUMP_DAMAGED, DUMP_SETTINGS_KEY, str(found.settings))
    elif found.settings is None and is_by_sparklake(store, manifest):
        yield Finding(FindingKind.DUMP_DAMAGED, DUMP_SETTINGS_KEY, "it is missing")


def check_nothing_lost(context: Context) -> None:
    """Raise RefsLostError if lost refs may reference objects.

    A verb that deletes unreferenced objects would delete the only copies.
    """
    store = open_store(context.info.storage_namespace)  # Not through the cache.
    moment = moment_of(context)
    for each in chain(ref_findings(context, moment), lost_findings(context, store, moment)):
        if each.hides_names:
            raise RefsLostError(
                f"nothing was deleted: {each.meaning}: {each.subject}"
                f"{f' ({each.detail})' if each.detail else ''}. Lost commits and refs may "
                "reference objects that would be deleted. `sparklake check --refs` lists all such "
                "faults, and `sparklake repair` restores refs from the dump. Restore the others "
                "from a backup of Postgres, or give up lost refs, and those only in the dump, "
                "with `sparklake refs dump --overwrite`"
            )
