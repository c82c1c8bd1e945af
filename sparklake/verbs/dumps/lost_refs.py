"""Dumped refs and commits missing from the ref store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from sparklake.errors import (
    CorruptFileError,
    InvalidDumpError,
    NewerDumpError,
    RefsLostError,
    SparklakeError,
)
from sparklake.graveler.dumps.dump import DumpManifest, find_refs
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchState, ObjectStore, Operation, RefsSnapshot, RefVerb
from sparklake.namespace.layout import REFS_MANIFEST_KEY
from sparklake.verbs.base.context import Context
from sparklake.verbs.dumps.settings import (
    KeptSettings,
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

    `named` are missing branches and tags, and tags at another commit. `behind` are branches whose
    dumped commit is neither in their log nor in their history.
    """

    commits: tuple[CommitId, ...] = ()
    named: tuple[Named, ...] = ()
    behind: tuple[BranchState, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.commits or self.named or self.behind)

    @property
    def text(self) -> str:
        refs = [each.name for each in (*self.named, *self.behind)]
        found = (("commit", self.commits), ("ref", refs))
        return " and ".join(_counted(noun, some) for noun, some in found if some)


def _counted(noun: str, some: Sequence[str]) -> str:
    if len(some) == 1:
        return f"the {noun} {some[0]}"
    return f"{len(some):,} {noun}s, such as {some[0]},"


def find_lost(
    context: Context, dumped: RefsSnapshot, refs: RefsSnapshot, position: LogPosition | None = None
) -> LostRefs:
    """Return the dumped refs and commits missing from a later snapshot."""
    known = {each.id: each for each in refs.commits}
    commits = tuple(each.id for each in dumped.commits if each.id not in known)
    present: Mapping[str, Named] = {each.name: each for each in refs.named}
    moved = [each for each in dumped.named if _at(present.get(each.name)) != each.commit_id]
    latest = context.refs.operations.latest([each.name for each in moved]) if moved else {}
    explained = _explained(context, moved, present, latest, position) if moved else set()
    named, behind = list[Named](), list[BranchState]()
    for each in moved:
        found = present.get(each.name)
        if each.name in explained:
            continue
        now, operation = read_ref(context, each.name)
        if _at(now) != _at(found) or operation != latest.get(each.name):
            # It has moved since the refs or the log were read.
            refs_now = {each.name: now} if now is not None else {}
            log_now = {each.name: operation} if operation is not None else {}
            if _at(now) == each.commit_id:
                continue
            if _explained(context, [each], refs_now, log_now, position):
                continue
            found, known = now, {commit.id: commit for commit in context.refs.snapshot().commits}
        if not (isinstance(each, BranchState) and isinstance(found, BranchState)):
            named.append(each)
        elif not contains_commit(known, found.commit_id, each.commit_id):
            behind.append(each)
    return LostRefs(commits, tuple(named), tuple(behind))


def _explained(
    context: Context,
    moved: Sequence[Named],
    present: Mapping[str, Named],
    latest: Mapping[str, Operation],
    position: LogPosition | None,
) -> Set[str]:
    """Return the refs moved or deleted by a logged operation after the dump."""
    log = context.refs.operations
    dumped = {each.name: each.commit_id for each in moved}
    if position is not None and position.repository == context.info.uid:
        if not is_logged(context, position):
            # The ref store is an older copy: only what it logged after the dump counts.
            return log.reached(dumped, position.operation)
        # The log is not older than the dump, so a ref that is where it says has moved since.
        return {
            each.name
            for each in moved
            if (operation := latest.get(each.name)) is not None
            and operation.to_commit == _at(present.get(each.name))
            and is_after(operation, position, each.commit_id)
        }
    # The dump has been restored, or an earlier version has written it.
    reached, first = log.reached(dumped), log.first()
    found = {
        each.name
        for each in moved
        if each.name in reached
        and each.name in latest
        and latest[each.name].to_commit == _at(present.get(each.name))
    }
    if first is not None and first.verb == RefVerb.RESTORE_REPOSITORY.value:
        # A restore by an earlier version has left no record of the names that it changed.
        found |= dumped.keys() - latest.keys()
    return found


def is_after(operation: Operation, position: LogPosition, dumped: CommitId) -> bool:
    """Return whether an operation moved a ref after the ref was dumped.

    An operation that was committed after the dump may have a lower number.
    """
    return operation.sequence > position.operation.sequence or operation.from_commit == dumped


def is_logged(context: Context, position: LogPosition) -> bool:
    """Return whether the log has the operation of a position: it is not an older copy."""
    if position.repository != context.info.uid:
        return False
    return context.refs.operations.find(position.operation.sequence) == position.operation


def _at(named: Named | None) -> CommitId | None:
    return named.commit_id if named is not None else None


def lost_operations(context: Context, refs: RefsSnapshot, settled: int) -> Iterator[Operation]:
    """Yield the latest operations of missing, undeleted refs.

    Operations up to `settled` are ignored: a later dump accepted the loss.
    """
    present = {each.name for each in refs.named}
    for name, seen in context.refs.operations.latest().items():
        if seen.to_commit is None or seen.sequence <= settled or name in present:
            continue
        named, operation = read_ref(context, name)
        if named is None and operation is not None and operation.to_commit is not None:
            yield operation


# --- the dump -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparedDump:
    """A dump compared with the refs of its repository.

    An `is_own` dump was written or restored by the repository. `problems` are those of its files.
    `settings` is an error if they are damaged. The dump has every ref as of operation `settled`.
    """

    is_own: bool
    lost: LostRefs
    problems: Sequence[SparklakeError]
    settings: KeptSettings | CorruptFileError | None
    settled: int = 0


def compare_dump(
    context: Context, store: ObjectStore, manifest: DumpManifest, refs: RefsSnapshot
) -> ComparedDump:
    """Compare a dump with the given refs, and with the present ones if some seem lost."""
    settings = _settings(store)
    kept = settings if isinstance(settings, KeptSettings) else None
    fits = kept is not None and belong_together(store, kept, manifest)
    dumped, problems = find_refs(store, manifest, renames_of(kept, manifest))
    position = position_of(kept, manifest)
    lost = find_lost(context, dumped, refs, position)
    if lost:  # The dump may be younger than the refs.
        lost = find_lost(context, dumped, context.refs.snapshot(), position)
    is_own = fits
    if not fits and (kept is None or not kept.manifests):
        # Earlier versions left no record of the dump that they restored.
        is_known = not lost and not any(isinstance(each, InvalidDumpError) for each in problems)
        is_own = is_known or (kept is None and is_by_sparklake(store, manifest))
    is_whole = fits and not problems
    settled = 0
    if position is not None and is_whole and is_logged(context, position):
        settled = position.operation.sequence
    return ComparedDump(is_own, lost, problems, settings, settled)


def _settings(store: ObjectStore) -> KeptSettings | CorruptFileError | None:
    try:
        return read_settings(store)
    except CorruptFileError as error:
        return error


# --- refusals -------------------------------------------------------------------------------------


def check_replaceable(
    context: Context, store: ObjectStore, manifest: DumpManifest | None, refs: RefsSnapshot
) -> None:
    """Raise NewerDumpError for a dump of another program, RefsLostError for lost refs."""
    lost, settled = LostRefs(), 0
    if manifest is not None:
        found = compare_dump(context, store, manifest, refs)
        if not found.is_own:
            raise newer_dump(store)
        lost, settled = found.lost, found.settled
    standing = [each.ref for each in lost_operations(context, refs, settled)]
    if lost or standing:
        what = f"{lost.text} of the dump" if lost else f"{_counted('ref', standing)} of its log"
        raise RefsLostError(
            f"nothing was dumped: Postgres lacks {what} in {store.uri}, and no operation explains "
            "it, so the dump there may be the only copy. `sparklake check --refs` lists all that "
            "is lost, and `sparklake repair` restores what the dump has. To give up the rest, "
            "dump with --overwrite"
        )


def newer_dump(store: ObjectStore) -> NewerDumpError:
    return NewerDumpError(
        f"nothing was dumped: another program, such as lakeFS, has written {REFS_MANIFEST_KEY} in "
        f"{store.uri} since this repository last read or wrote it. Restore that dump as another "
        "repository to compare both, or replace it with --overwrite"
    )
