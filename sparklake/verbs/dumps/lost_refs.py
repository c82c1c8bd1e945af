"""Dumped refs and commits missing from the ref store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from sparklake import errors
from sparklake.graveler.dumps.dump import DumpManifest, find_dump
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchState, ObjectStore, Operation, RefsSnapshot, RefVerb
from sparklake.layout import REFS_MANIFEST_KEY
from sparklake.verbs.base.context import Context
from sparklake.verbs.dumps.settings import (
    DumpSettings,
    LogPosition,
    belong_together,
    is_by_sparklake,
    position_of,
    read_settings,
    renames_of,
)
from sparklake.verbs.refs.logged_refs import Named, contains_commit, read_ref


@dataclass(frozen=True, slots=True)
class LostRefs:
    """Dumped refs and commits missing from the ref store without a logged reason.

    `missing` are missing refs and moved tags, `behind` branches without the dumped commit.
    """

    commits: tuple[CommitId, ...] = ()
    missing: tuple[Named, ...] = ()
    behind: tuple[BranchState, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.commits or self.missing or self.behind)

    @property
    def text(self) -> str:
        refs = [each.name for each in (*self.missing, *self.behind)]
        lost = (("commit", self.commits), ("ref", refs))
        return " and ".join(_counted(noun, names) for noun, names in lost if names)


def _counted(noun: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"the {noun} {names[0]}"
    return f"{len(names):,} {noun}s, such as {names[0]},"


def find_lost(
    context: Context, dumped: RefsSnapshot, refs: RefsSnapshot, position: LogPosition | None = None
) -> LostRefs:
    """Return the dumped refs and commits missing from a later snapshot."""
    history = {each.id: each for each in refs.commits}
    commits = tuple(each.id for each in dumped.commits if each.id not in history)
    present: Mapping[str, Named] = {each.name: each for each in refs.named}
    moved = [each for each in dumped.named if _at(present.get(each.name)) != each.commit_id]
    latest = context.refs.operations.latest([each.name for each in moved]) if moved else {}
    explained = _explained(context, moved, present, latest, position) if moved else set()
    missing, behind = list[Named](), list[BranchState]()
    for each in (ref for ref in moved if ref.name not in explained):
        before = present.get(each.name)
        ref, operation = read_ref(context, each.name)
        if _at(ref) != _at(before) or operation != latest.get(each.name):
            # It has moved since the refs or the log were read.
            refs_now = {each.name: ref} if ref is not None else {}
            log_now = {each.name: operation} if operation is not None else {}
            if _at(ref) == each.commit_id:
                continue
            if _explained(context, [each], refs_now, log_now, position):
                continue
            history = {commit.id: commit for commit in context.refs.snapshot().commits}
        else:
            ref = before
        if not (isinstance(each, BranchState) and isinstance(ref, BranchState)):
            missing.append(each)
        elif not contains_commit(history, ref.commit_id, each.commit_id):
            behind.append(each)
    return LostRefs(commits, tuple(missing), tuple(behind))


def _explained(
    context: Context,
    moved: Sequence[Named],
    present: Mapping[str, Named],
    latest: Mapping[str, Operation],
    position: LogPosition | None,
) -> Set[str]:
    """Return the refs that a logged operation moved or deleted after the dump."""
    log = context.refs.operations
    dumped = {each.name: each.commit_id for each in moved}
    if position is not None and position.repository == context.info.uid:
        if not is_logged(context, position):
            # The ref store is an older copy: only what it logged after the dump counts.
            return log.reached(dumped, position.operation)
        # The log is not older than the dump, so a ref at its logged position moved since then.
        return {
            each.name
            for each in moved
            if (operation := latest.get(each.name)) is not None
            and operation.to_commit == _at(present.get(each.name))
            and is_after(operation, position, each.commit_id)
        }
    # The dump has been restored, or an earlier version has written it.
    reached, first = log.reached(dumped), log.first()
    names = {
        each.name
        for each in moved
        if each.name in reached
        and each.name in latest
        and latest[each.name].to_commit == _at(present.get(each.name))
    }
    if first is not None and first.verb == RefVerb.RESTORE_REPOSITORY.value:
        # A restore by an earlier version has left no record of the names that it changed.
        names |= dumped.keys() - latest.keys()
    return names


def is_after(operation: Operation, position: LogPosition, dumped: CommitId) -> bool:
    """Return whether an operation moved a ref after the ref was dumped."""
    # An operation committed after the dump may have a lower number.
    return operation.sequence > position.operation.sequence or operation.from_commit == dumped


def is_logged(context: Context, position: LogPosition) -> bool:
    """Return whether the log contains the operation at a position, so is not an older copy."""
    if position.repository != context.info.uid:
        return False
    return context.refs.operations.find(position.operation.sequence) == position.operation


def _at(ref: Named | None) -> CommitId | None:
    return ref.commit_id if ref is not None else None


def lost_operations(context: Context, refs: RefsSnapshot, settled: int) -> Iterator[Operation]:
    """Yield the latest operations of missing, undeleted refs after `settled`."""
    present = {each.name for each in refs.named}
    for name, last in context.refs.operations.latest().items():
        if last.to_commit is None or last.sequence <= settled or name in present:
            continue
        ref, operation = read_ref(context, name)
        if ref is None and operation is not None and operation.to_commit is not None:
            yield operation


@dataclass(frozen=True, slots=True)
class ComparedDump:
    """A dump compared with the refs of its repository.

    The repository wrote or restored an `is_own` dump. `problems` are those of its files. `settings`
    is an error if they are damaged. The dump has every ref as of operation `settled`.
    """

    is_own: bool
    lost: LostRefs
    problems: Sequence[errors.SparklakeError]
    settings: DumpSettings | errors.CorruptFileError | None
    settled: int = 0


def compare_dump(
    context: Context, store: ObjectStore, manifest: DumpManifest, refs: RefsSnapshot
) -> ComparedDump:
    """Compare a dump with the given refs, and with the current ones if some seem lost."""
    settings: DumpSettings | errors.CorruptFileError | None
    readable = None
    try:
        settings = readable = read_settings(store)
    except errors.CorruptFileError as error:
        settings = error
    fits = readable is not None and belong_together(store, readable, manifest)
    dump = find_dump(store, manifest, renames_of(readable, manifest))
    position = position_of(readable, manifest)
    lost = find_lost(context, dump.refs, refs, position)
    if lost:  # The dump may be younger than the refs.
        lost = find_lost(context, dump.refs, context.refs.snapshot(), position)
    is_own = fits
    if not fits and (readable is None or not readable.manifests):
        # Earlier versions left no record of the dump that they restored.
        is_known = not lost and not any(
            isinstance(each, errors.InvalidDumpError) for each in dump.problems
        )
        is_own = is_known or (readable is None and is_by_sparklake(store, manifest))
    is_whole = fits and not dump.problems
    settled = 0
    if position is not None and is_whole and is_logged(context, position):
        settled = position.operation.sequence
    return ComparedDump(is_own, lost, dump.problems, settings, settled)


def check_replaceable(
    context: Context, store: ObjectStore, manifest: DumpManifest | None, refs: RefsSnapshot
) -> None:
    """Raise NewerDumpError for a dump of another program, RefsLostError for lost refs."""
    lost, settled = LostRefs(), 0
    if manifest is not None:
        dump = compare_dump(context, store, manifest, refs)
        if not dump.is_own:
            raise newer_dump(store)
        lost, settled = dump.lost, dump.settled
    standing = [each.ref for each in lost_operations(context, refs, settled)]
    if lost or standing:
        what = f"{lost.text} of the dump" if lost else f"{_counted('ref', standing)} of its log"
        raise errors.RefsLostError(
            f"nothing was dumped: Postgres lacks {what} in {store.uri}, and no operation explains "
            "it, so the dump there may be the only copy. `sparklake check --refs` lists "
            "everything lost, and `sparklake repair` restores what the dump contains. To discard "
            "the rest, dump with --overwrite"
        )


def newer_dump(store: ObjectStore) -> errors.NewerDumpError:
    return errors.NewerDumpError(
        f"nothing was dumped: another program, such as lakeFS, has written {REFS_MANIFEST_KEY} in "
        f"{store.uri} since this repository last read or wrote it. Restore that dump as another "
        "repository to compare both, or replace it with --overwrite"
    )
