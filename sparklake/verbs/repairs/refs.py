"""Sources of lost refs: the dump of refs, and the log of the ref store."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from sparklake.errors import CorruptFileError
from sparklake.graveler.ports import BranchState, Operation, RefsSnapshot, RefVerb, TagInfo
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.refs.dump_faults import is_logged
from sparklake.verbs.refs.dump_settings import (
    LogPosition,
    find_dumped_refs,
    find_last_manifest,
    position_of,
    read_settings,
)
from sparklake.verbs.refs.ref_faults import Moment, Named, contains_commit
from sparklake.verbs.repairs.tables import TableSources

DUMP = "the dump of refs"
LOG = "the log of Postgres"


@dataclass(frozen=True, slots=True)
class DumpedRefs:
    """The valid part of a dump, and the position of the log at which it was written, if known."""

    refs: RefsSnapshot
    position: LogPosition | None = None

    def find(self, name: str) -> Named | None:
        """Return a branch or a tag."""
        return next((each for each in self.refs.named if each.name == name), None)


def dumped_refs(sources: TableSources) -> DumpedRefs:
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
    """A lost ref as it can be restored, and its source: `DUMP` or `LOG`."""

    named: Named
    source: str


def lost_ref(context: Context, moment: Moment, dumped: DumpedRefs, name: str) -> LostRef | None:
    """Return a missing ref as its last operation has left it, or else as the dump has it.

    Of a log that is older than the dump, or may be, the dump has the later commit.
    """
    found, last = dumped.find(name), context.refs.operations.latest([name]).get(name)
    logged = _as_logged(last, found) if last is not None else None
    commits = {each.id: each for each in (*dumped.refs.commits, *moment.refs.commits)}
    if logged is None or logged.commit_id not in commits:
        return LostRef(found, DUMP) if found is not None else None
    if found is not None and not _precedes_log(context, dumped.position):
        at = found.commit_id
        if at != logged.commit_id and contains_commit(commits, at, logged.commit_id):
            return LostRef(found, DUMP)
    return LostRef(logged, LOG)


def _as_logged(last: Operation, found: Named | None) -> Named | None:
    """Return the ref that an operation has left, or None if it has deleted it."""
    if last.to_commit is None:
        return None
    if last.verb == RefVerb.RESTORE_REPOSITORY.value:  # Of a branch or of a tag.
        is_tag = isinstance(found, TagInfo)
        if found is None:
            return None
    else:
        is_tag = last.verb == RefVerb.CREATE_TAG.value
    if is_tag:
        return TagInfo(last.ref, last.to_commit)
    hidden = isinstance(found, BranchState) and found.hidden
    return BranchState(last.ref, last.to_commit, hidden=hidden)


def _precedes_log(context: Context, position: LogPosition | None) -> bool:
    """Return whether the log goes on after a dump, rather than being an older copy of it."""
    if position is None:
        return False
    return position.repository != context.info.uid or is_logged(context, position)
