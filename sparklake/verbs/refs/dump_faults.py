"""What a dump of refs has and the ref store lacks, and faults of the dump itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from sparklake.errors import (
    CorruptFileError,
    InvalidDumpError,
    NewerDumpError,
    RefsLostError,
    SparklakeError,
)
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchState, ObjectStore, RefsSnapshot, RefVerb
from sparklake.graveler.refs.dump import MANIFEST_KEY, DumpManifest, find_refs, read_dump_manifest
from sparklake.stores.objects import open_store
from sparklake.udfs.checks.findings import MOST_AFFECTED, Finding, FindingKind
from sparklake.verbs.base.context import Context
from sparklake.verbs.refs.dump_settings import (
    SETTINGS_KEY,
    KeptSettings,
    belong_together,
    is_by_sparklake,
    read_settings,
    renames_of,
)
from sparklake.verbs.refs.ref_faults import (
    Moment,
    Named,
    contains_commit,
    moment_of,
    ref_findings,
)

_DELETIONS = {
    RefVerb.DELETE_BRANCH.value,
    RefVerb.PRUNE_BRANCH.value,
    RefVerb.DELETE_TAG.value,
}


@dataclass(frozen=True, slots=True)
class LostRefs:
    """What a dump has and the ref store lacks, although no logged operation explains it.

    `named` are the branches and tags that are missing, and the tags at another commit. `behind` are
    the branches whose dumped commit is neither in their log nor in their history.
    """

    commits: tuple[CommitId, ...] = ()
    named: tuple[Named, ...] = ()
    behind: tuple[BranchState, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.commits or self.named or self.behind)

    @property
    def text(self) -> str:
        """What is lost, in a few words."""
        refs = [each.name for each in (*self.named, *self.behind)]
        found = (("commit", self.commits), ("ref", refs))
        return " and ".join(_counted(noun, some) for noun, some in found if some)


def _counted(noun: str, some: Sequence[str]) -> str:
    if len(some) == 1:
        return f"the {noun} {some[0]}"
    return f"{len(some):,} {noun}s, such as {some[0]},"


def find_lost(context: Context, dumped: RefsSnapshot, refs: RefsSnapshot) -> LostRefs:
    """Return what a dump has and the refs at a later moment lack."""
    known = {each.id: each for each in refs.commits}
    commits = tuple(each.id for each in dumped.commits if each.id not in known)
    present: Mapping[str, Named] = {each.name: each for each in refs.named}
    moved = [each for each in dumped.named if not _is_at(present.get(each.name), each.commit_id)]
    if not moved:
        return LostRefs(commits)
    log = context.refs.operations
    reached = log.reached({each.name: each.commit_id for each in moved})
    last = log.latest([each.name for each in moved if each.name not in present])
    named, behind = list[Named](), list[BranchState]()
    for each in moved:
        found = present.get(each.name)
        if found is None:
            operation = last.get(each.name)
            deleted = operation is not None and operation.verb in _DELETIONS
            if not (deleted and each.name in reached):
                named.append(each)
        elif each.name in reached:
            continue
        elif not (isinstance(each, BranchState) and isinstance(found, BranchState)):
            named.append(each)
        elif not contains_commit(known, found.commit_id, each.commit_id):
            behind.append(each)
    return LostRefs(commits, tuple(named), tuple(behind))


def _is_at(present: Named | None, commit_id: CommitId) -> bool:
    return present is not None and present.commit_id == commit_id


# --- the dump -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparedDump:
    """A dump in a namespace, compared with the refs of its repository.

    An `is_own` dump was written or restored by the repository. `problems` are those of its tables.
    `settings` is the error of damaged settings, the settings, or None if there are none.
    """

    is_own: bool
    lost: LostRefs
    problems: Sequence[SparklakeError]
    settings: KeptSettings | CorruptFileError | None


def compare_dump(
    context: Context, store: ObjectStore, manifest: DumpManifest, refs: RefsSnapshot
) -> ComparedDump:
    """Compare a dump with refs that were read after it, or with the present ones."""
    settings = _settings(store)
    kept = settings if isinstance(settings, KeptSettings) else None
    fits = kept is not None and belong_together(store, kept, manifest)
    dumped, problems = find_refs(store, manifest, renames_of(kept, manifest))
    lost = find_lost(context, dumped, refs)
    if lost:  # The dump may be younger than the refs.
        lost = find_lost(context, dumped, context.refs.snapshot())
    is_own = fits
    if not fits and (kept is None or not kept.manifests):
        # Earlier versions left no record of the dump that they restored.
        is_known = not lost and not any(isinstance(each, InvalidDumpError) for each in problems)
        is_own = is_known or (kept is None and is_by_sparklake(store, manifest))
    return ComparedDump(is_own, lost, problems, settings)


def _settings(store: ObjectStore) -> KeptSettings | CorruptFileError | None:
    try:
        return read_settings(store)
    except CorruptFileError as error:
        return error


# --- findings -------------------------------------------------------------------------------------


def dump_findings(context: Context, store: ObjectStore, moment: Moment) -> Iterator[Finding]:
    """Yield the findings about the dump. A repository that never dumped refs has none."""
    if store.find(MANIFEST_KEY) is None:
        if store.find(SETTINGS_KEY) is not None:
            detail = "it is missing, although there are settings of a dump"
            yield Finding(FindingKind.DUMP_DAMAGED, MANIFEST_KEY, detail)
        return
    try:
        manifest = read_dump_manifest(store)
    except SparklakeError as error:
        yield Finding(FindingKind.DUMP_DAMAGED, MANIFEST_KEY, str(error))
        return
    found = compare_dump(context, store, manifest, moment.refs)
    lost = found.lost
    if not found.is_own and not isinstance(found.settings, CorruptFileError):
        detail = f"Postgres lacks {lost.text} of it" if lost else ""
        yield Finding(
            FindingKind.DUMP_OF_OTHERS,
            MANIFEST_KEY,
            detail,
            commits=lost.commits[:MOST_AFFECTED],
            commit_count=len(lost.commits),
        )
        return
    yield from _settings_findings(store, manifest, found)
    for problem in found.problems:
        yield Finding(FindingKind.DUMP_DAMAGED, MANIFEST_KEY, str(problem))
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
        yield Finding(FindingKind.DUMP_DAMAGED, SETTINGS_KEY, str(found.settings))
    elif found.settings is None and is_by_sparklake(store, manifest):
        yield Finding(FindingKind.DUMP_DAMAGED, SETTINGS_KEY, "it is missing")


# --- refusals -------------------------------------------------------------------------------------


def check_replaceable(
    context: Context, store: ObjectStore, manifest: DumpManifest, refs: RefsSnapshot
) -> None:
    """Raise NewerDumpError for a dump of another program.

    Raises RefsLostError for an own dump that has what the ref store has lost.
    """
    found = compare_dump(context, store, manifest, refs)
    if not found.is_own:
        raise newer_dump(store)
    if found.lost:
        raise RefsLostError(
            f"nothing was dumped: Postgres lacks {found.lost.text} of the dump in {store.uri}, "
            "and no operation deleted them, so this dump may be the only copy. `sparklake repair` "
            "restores them. To give them up, replace the dump with --overwrite"
        )


def newer_dump(store: ObjectStore) -> NewerDumpError:
    """Return the error for a manifest that another program has written."""
    return NewerDumpError(
        f"nothing was dumped: another program, such as lakeFS, has written {MANIFEST_KEY} in "
        f"{store.uri} since this repository last read or wrote it. Restore that dump as another "
        "repository to compare both, or replace it with --overwrite"
    )


def check_nothing_lost(context: Context) -> None:
    """Raise RefsLostError if something that names objects may be lost.

    A verb that deletes what nothing names would delete the only copies of what is lost.
    """
    store = open_store(context.info.storage_namespace)  # Not through the cache.
    moment = moment_of(context)
    for each in chain(ref_findings(context, moment), dump_findings(context, store, moment)):
        if each.hides_names:
            raise RefsLostError(
                f"nothing was deleted: {each.meaning}: {each.subject}"
                f"{f' ({each.detail})' if each.detail else ''}. What is lost may name objects "
                "that would be deleted. `sparklake check --refs` lists all such faults, and "
                "`sparklake repair` restores what it can. To give up what only the dump of refs "
                "has, replace the dump with `sparklake refs dump --overwrite`"
            )
