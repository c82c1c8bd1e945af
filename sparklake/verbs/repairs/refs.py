"""Sources of lost refs: the dump and the log."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparklake.graveler.dumps.dump import find_dump
from sparklake.graveler.ports import BranchState, Operation, RefsSnapshot, RefVerb, TagInfo
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment
from sparklake.verbs.dumps.lost_refs import is_after, is_logged
from sparklake.verbs.dumps.settings import (
    LogPosition,
    find_last_manifest,
    find_readable_settings,
    position_of,
    renames_of,
    with_tag_notes,
)
from sparklake.verbs.refs.logged_refs import Named, contains_commit
from sparklake.verbs.repairs.trees import TreeSources

DUMP = "the refs dump"
LOG = "the log of Postgres"


@dataclass(frozen=True, slots=True)
class DumpedRefs:
    """The valid part of a dump, and its log position, if known."""

    refs: RefsSnapshot
    position: LogPosition | None = None

    def find(self, name: str) -> Named | None:
        return next((each for each in self.refs.named if each.name == name), None)


def dumped_refs(sources: TreeSources) -> DumpedRefs:
    """Return the dump of the namespace or of a copy, or an empty one."""
    for store in (sources.store, *map(open_store, sources.copies)):
        manifest = find_last_manifest(store)
        if manifest is None:
            continue
        settings = find_readable_settings(store)
        renames = renames_of(settings, manifest)
        refs = with_tag_notes(find_dump(store, manifest, renames).refs, settings, renames)
        if refs.commits:
            return DumpedRefs(refs, position_of(settings, manifest))
    return DumpedRefs(RefsSnapshot((), (), ()))


@dataclass(frozen=True, slots=True)
class LostRef:
    """A lost ref to restore, and its source: `DUMP` or `LOG`."""

    ref: Named
    source: str

    @property
    def text(self) -> str:
        return f"{self.source}, at {self.ref.commit_id}"


def lost_ref(context: Context, moment: Moment, dumped: DumpedRefs, name: str) -> LostRef | None:
    """Return a missing ref as of its last operation, or else as dumped.

    If that operation may be older than the dump, the dump may have a later commit. Returns None for
    a ref deleted after the dump.
    """
    ref, last = dumped.find(name), context.refs.operations.latest([name]).get(name)
    is_later = last is not None and _is_later(context, last, ref, dumped.position)
    if last is not None and last.to_commit is None and is_later:
        return None
    logged = _as_logged(last, ref) if last is not None else None
    commits = {each.id: each for each in (*dumped.refs.commits, *moment.refs.commits)}
    if logged is None or logged.commit_id not in commits:
        return LostRef(ref, DUMP) if ref is not None else None
    if ref is None or is_later or ref.commit_id == logged.commit_id:
        return LostRef(logged, LOG)
    is_newer = contains_commit(commits, ref.commit_id, logged.commit_id)
    return LostRef(ref, DUMP) if is_newer else LostRef(logged, LOG)


def _as_logged(last: Operation, dumped: Named | None) -> Named | None:
    """Return the ref after an operation, or None for a deletion or an unknown state."""
    if last.to_commit is None:
        return None
    if last.verb == RefVerb.RESTORE_REPOSITORY.value:  # Of a branch or of a tag.
        return replace(dumped, commit_id=last.to_commit) if dumped is not None else None
    if last.verb == RefVerb.CREATE_TAG.value:
        if isinstance(dumped, TagInfo) and dumped.commit_id == last.to_commit:
            return dumped  # With its message and metadata, which the log lacks.
        return TagInfo(last.ref, last.to_commit, last.who, last.date)
    hidden = isinstance(dumped, BranchState) and dumped.hidden
    return BranchState(last.ref, last.to_commit, hidden=hidden)


def _is_later(
    context: Context, last: Operation, dumped: Named | None, position: LogPosition | None
) -> bool:
    """Return whether a ref's last operation is certainly later than its dump."""
    if position is None:
        return False
    if position.repository != context.info.uid:  # The repository was restored from that dump.
        return True
    is_newer = dumped is None or is_after(last, position, dumped.commit_id)
    return is_newer and is_logged(context, position)
