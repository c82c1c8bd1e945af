"""Sources of lost refs: the dump of refs, and the log of the ref store."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from sparklake.errors import CorruptFileError
from sparklake.graveler.ports import BranchState, Operation, RefsSnapshot, RefVerb, TagInfo
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.checks.refs import Moment
from sparklake.verbs.dumps.lost_refs import is_after, is_logged
from sparklake.verbs.dumps.settings import (
    LogPosition,
    find_dumped_refs,
    find_last_manifest,
    position_of,
    read_settings,
)
from sparklake.verbs.refs.logged_refs import Named, contains_commit
from sparklake.verbs.repairs.trees import TreeSources

DUMP = "the dump of refs"
LOG = "the log of Postgres"


@dataclass(frozen=True, slots=True)
class DumpedRefs:
    """The valid part of a dump, and its position in the log, if known."""

    refs: RefsSnapshot
    position: LogPosition | None = None

    def find(self, name: str) -> Named | None:
        return next((each for each in self.refs.named if each.name == name), None)


def dumped_refs(sources: TreeSources) -> DumpedRefs:
    """Return the dump of the namespace, or that of a copy of it, or one without refs."""
    for store in (sources.store, *map(open_store, sources.copies)):
        manifest = find_last_manifest(store)
        if manifest is None:
            continue
        refs, _ = find_dumped_refs(store, manifest)
        if refs.commits:
            position = None
            with suppress(CorruptFileError):
                position = position_of(read_settings(store), manifest)
            return DumpedRefs(refs, position)
    return DumpedRefs(RefsSnapshot((), (), ()))


@dataclass(frozen=True, slots=True)
class LostRef:
    """A lost ref to restore, and its source: `DUMP` or `LOG`."""

    named: Named
    source: str


def lost_ref(context: Context, moment: Moment, dumped: DumpedRefs, name: str) -> LostRef | None:
    """Return a missing ref in the state of its last operation, or else of the dump.

    If that operation may be older than the dump, the dump may have a later commit. Returns None for
    a ref deleted after the dump.
    """
    found, last = dumped.find(name), context.refs.operations.latest([name]).get(name)
    is_later = last is not None and _is_later(context, last, found, dumped.position)
    if last is not None and last.to_commit is None and is_later:
        return None
    logged = _as_logged(last, found) if last is not None else None
    commits = {each.id: each for each in (*dumped.refs.commits, *moment.refs.commits)}
    if logged is None or logged.commit_id not in commits:
        return LostRef(found, DUMP) if found is not None else None
    if found is None or is_later or found.commit_id == logged.commit_id:
        return LostRef(logged, LOG)
    is_newer = contains_commit(commits, found.commit_id, logged.commit_id)
    return LostRef(found, DUMP) if is_newer else LostRef(logged, LOG)


def _as_logged(last: Operation, found: Named | None) -> Named | None:
    """Return the ref after an operation, or None for a deletion or an unknown state."""
    if last.to_commit is None:
        return None
    if last.verb == RefVerb.RESTORE_REPOSITORY.value:  # Of a branch or of a tag.
        return replace(found, commit_id=last.to_commit) if found is not None else None
    if last.verb == RefVerb.CREATE_TAG.value:
        return TagInfo(last.ref, last.to_commit)
    hidden = isinstance(found, BranchState) and found.hidden
    return BranchState(last.ref, last.to_commit, hidden=hidden)


def _is_later(
    context: Context, last: Operation, found: Named | None, position: LogPosition | None
) -> bool:
    """Return whether the last operation of a ref is certainly later than a dump of it."""
    if position is None:
        return False
    if position.repository != context.info.uid:  # The repository was restored from that dump.
        return True
    is_newer = found is None or is_after(last, position, found.commit_id)
    return is_newer and is_logged(context, position)
