"""The check of the dump of refs against the ref store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from sparklake.errors import CorruptFileError, InvalidDumpError, MissingFileError, SparklakeError
from sparklake.graveler.ports import BranchState, ObjectStore, RefsSnapshot, RefVerb, TagInfo
from sparklake.graveler.refs.dump import (
    MANIFEST_KEY,
    DumpManifest,
    find_refs,
    read_dump_manifest,
)
from sparklake.graveler.refs.dump_tables import ref_table_ids
from sparklake.graveler.refs.dumped_trees import dump_roots
from sparklake.udfs.checks.findings import Finding, FindingKind
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment
from sparklake.verbs.refs.dump_settings import SETTINGS_KEY, belong_together, read_settings

_DELETIONS = {
    RefVerb.DELETE_BRANCH.value,
    RefVerb.PRUNE_BRANCH.value,
    RefVerb.DELETE_TAG.value,
}
_OPERATIONS = 100_000


def dump_findings(context: Context, store: ObjectStore, moment: Moment) -> Iterator[Finding]:
    """Yield the findings about the dump. A repository without a dump has none."""
    if store.find(MANIFEST_KEY) is None:
        return
    try:
        manifest = read_dump_manifest(store)
    except SparklakeError as error:
        yield Finding(FindingKind.DUMP_DAMAGED, MANIFEST_KEY, str(error))
        return
    try:
        kept = read_settings(store)
    except SparklakeError as error:
        yield Finding(FindingKind.DUMP_DAMAGED, SETTINGS_KEY, str(error))
        kept = None
    else:
        if kept is None or not belong_together(store, kept, manifest):
            detail = "its settings are missing, or belong to another dump"
            yield Finding(FindingKind.DUMP_OF_OTHERS, MANIFEST_KEY, detail)
            return
    refs, problems = find_refs(store, manifest)
    for problem in problems:
        yield Finding(FindingKind.DUMP_DAMAGED, MANIFEST_KEY, str(problem))
    yield from _lost(context, refs, moment)


def _lost(context: Context, dumped: RefsSnapshot, moment: Moment) -> Iterator[Finding]:
    """Yield the commits and refs that the ref store lacks."""
    for commit in dumped.commits:
        if commit.id not in moment.commits:
            yield Finding(FindingKind.COMMIT_LOST, commit.id, commits=(commit.id,), commit_count=1)
    present: dict[str, BranchState | TagInfo] = {each.name: each for each in moment.refs.named}
    lost = [each for each in dumped.named if _is_gone(each, present.get(each.name))]
    if not lost:
        return
    deleted = {
        each.ref for each in context.refs.operations.list(_OPERATIONS) if each.verb in _DELETIONS
    }
    for each in lost:
        if each.name not in deleted:
            branches = (each.name,) if isinstance(each, BranchState) else ()
            detail = f"the dump has it at {each.commit_id}"
            yield Finding(FindingKind.REF_LOST, each.name, detail, branches=branches)


def _is_gone(dumped: BranchState | TagInfo, present: BranchState | TagInfo | None) -> bool:
    if present is None:
        return True
    return isinstance(dumped, TagInfo) and dumped.commit_id != present.commit_id


def dump_table_ids(store: ObjectStore) -> set[str]:
    """Return the ids of all tables of the dump that can be read."""
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
