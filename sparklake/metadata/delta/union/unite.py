"""The union: source's commits since base, replayed onto dest's log."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sparklake.metadata.delta.actions import Action, FileKey
from sparklake.metadata.delta.delta_commits import MERGED, ORIGIN, UNDONE, DeltaCommit, last_fields
from sparklake.metadata.delta.union import claims
from sparklake.metadata.delta.union.combined import OTHER_ORDER, base_metadata, metadata_steps
from sparklake.metadata.delta.union.continuation import check_tracked, continued
from sparklake.metadata.delta.union.liveness import FileStates
from sparklake.metadata.delta.union.log_sides import (
    LogSide,
    RowClaim,
    UnionSignature,
    UnitedLog,
    commit_info,
)
from sparklake.metadata.delta.union.marked_files import MarkedFiles
from sparklake.metadata.delta.union.overwrites import check_overwrites
from sparklake.metadata.delta.union.regions import removes_rows, repeated_parameters
from sparklake.metadata.delta.union.schemas import Metadata, check_fits
from sparklake.metadata.delta.union.settings import check_identity
from sparklake.metadata.delta.union.undo import undoing
from sparklake.metadata.union.commits import CommitsApart
from sparklake.metadata.union.conflicts import UnmergeableTableError


def united(base: LogSide, source: LogSide, dest: LogSide, signature: UnionSignature) -> UnitedLog:
    """Return the commits to add to dest, or one undo if source lacks commits of base."""
    for side in (source, dest):
        if side.metadata is None or side.protocol is None:
            raise UnmergeableTableError(
                "one side deleted the table's log, and the other changed it. Restore the table "
                "there, or delete it on both sides, and merge again"
            )
        claims.check_features(side.protocol, side.metadata)
    apart = CommitsApart(base.commits, source.commits, dest.commits)
    undone = apart.undone()
    files = FileStates.of(base.commits, source.commits, dest.commits)
    if undone:
        return undoing(undone, files, base, source, dest, signature)
    source, dest = replace(source, own=apart.repeated()), replace(dest, own=apart.ours)
    if not source.own:
        return UnitedLog([])
    steps, dropped, row_claims = settled(base, source, dest)
    check_overwrites(source, dest)
    commits: list[tuple[Action, ...]] = []
    versions = {each.version for each in source.own}
    _find_restated(source, dest, versions, files)
    marked = MarkedFiles(source, dest, signature)
    marked.find(versions, files)
    for each in source.commits:
        if each.version in versions:
            repeated = marked.in_dest(each)
            files.ours.update(map(FileKey.of, marked.live.values()))
            files.repeat(repeated)
            step = steps.get(each.version)
            metadata: list[Action] = [] if step is None else [{"metaData": step}]
            retained = (action for action in repeated.actions if not dropped & action.keys())
            commits.append((_repeated_info(each, signature), *metadata, *retained))
        files.pass_by(each)
    result, row_ids = continued(dest, commits, signature)
    row_ids.check(source)
    return UnitedLog(result, marked.files, row_claims)


def _find_restated(
    source: LogSide, dest: LogSide, versions: Container[int], files: FileStates
) -> None:
    """Look up the files in dest that replayed commits re-add.

    An earlier commit of source, which is not repeated, added them, and no commit of dest touches
    them. A single lookup finds all of them, before the first commit is replayed.
    """
    added: set[FileKey] = set()
    restated: set[FileKey] = set()
    for each in source.commits:
        if each.version in versions:
            restated.update(added.intersection(each.adds))
        else:
            added.update(each.adds)
    unknown = restated - files.state.keys()
    if unknown:
        live = dest.find_adds({key.path for key in unknown})
        files.before.update(unknown & live.keys())


def settled(
    base: LogSide, source: LogSide, dest: LogSide
) -> tuple[Mapping[int, Metadata], frozenset[str], tuple[RowClaim, ...]]:
    """Return the metadata after commits of source, by version, and the kinds not to repeat.

    Rows must satisfy the returned claims.

    Raises UnmergeableTableError if the settings of both sides cannot be combined.
    """
    steps = metadata_steps(base, source, dest)
    dropped = {"commitInfo", "metaData", *_settled_protocol(base, source, dest)}
    row_claims = _check_settings(base, source, dest, steps)
    claims.check_names(base, source, dest)
    check_identity(source, dest)
    check_tracked(source, dest)
    return steps, frozenset(dropped), row_claims


def _settled_protocol(base: LogSide, source: LogSide, dest: LogSide) -> list[str]:
    """Return whether dest's protocol supersedes source's, and check that it covers its files."""
    ours, theirs = dest.protocol or {}, source.protocol or {}
    if _same(ours, base.protocol):
        claims.check_covers(theirs, ours, "source", "dest")
        if not _same(theirs, last_fields(source.own, "protocol") or ours):
            raise UnmergeableTableError(OTHER_ORDER)
        return []
    if not _same(theirs, base.protocol) and not _same(theirs, ours):
        raise UnmergeableTableError(
            "both sides changed the table's protocol differently. Enable the same features on both "
            "sides, and merge again"
        )
    claims.check_covers(ours, theirs, "dest", "source")
    return ["protocol"]


def _check_settings(
    base: LogSide, source: LogSide, dest: LogSide, steps: Mapping[int, Metadata]
) -> tuple[RowClaim, ...]:
    """Reject metadata that files do not fit. Return the claims to check on rows."""
    merged = [dest.metadata or {}, *steps.values()][-1]
    before = base_metadata(base, source, dest)
    newer = source if _same(dest.protocol, base.protocol) else dest
    row_claims = []
    for writer, side, changer, other in (
        ("source", source, "dest", dest),
        ("dest", dest, "source", source),
    ):
        if not _depend_on_metadata(side.own):
            continue
        files, changed = side.metadata or {}, other.metadata or {}
        check_fits(before, files, merged, changer, appends=not any(map(removes_rows, side.own)))
        claims.check_rewritten(before, side, other, writer, changer)
        claims.check_domains(before, changed, changer, side.own)
        claims.check_replaced(before, changed, changer, other.own, side.own)
        row_claims.append(claims.row_claim(side, other, merged, newer.protocol or {}, changer))
    return tuple(filter(None, row_claims))


def _same(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Compare protocols, ignoring the order of features."""
    ordered = [
        {name: sorted(each) if isinstance(each, list) else each for name, each in fields.items()}
        for fields in (one or {}, other or {})
    ]
    return ordered[0] == ordered[1]


def _depend_on_metadata(commits: Iterable[DeltaCommit]) -> bool:
    return any(each.last(kind) for each in commits for kind in ("add", "remove", "domainMetadata"))


def _repeated_info(commit: DeltaCommit, signature: UnionSignature) -> Action:
    names = ("operationMetrics", "isBlindAppend", "tags")
    more = {name: commit.info[name] for name in names if name in commit.info}
    more[ORIGIN] = commit.origin
    if commit.undone:
        more[UNDONE] = list(commit.undone)
    if commit.merged:
        more[MERGED] = list(commit.merged)
    return commit_info(signature, repeated_parameters(commit), more)
