"""The union: source's commits since base, replayed onto dest's log."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from sparklake.delta_log.actions import Action, FileKey
from sparklake.delta_log.delta_commits import (
    ORIGIN,
    UNDONE,
    DeltaCommit,
    UnmergeableTableError,
    commits_but,
    origins,
    standing,
)
from sparklake.delta_log.union import claims
from sparklake.delta_log.union.liveness import FileStates
from sparklake.delta_log.union.log_sides import LogSide, UnionSignature, UnitedLog, commit_info
from sparklake.delta_log.union.marked_files import MarkedFiles
from sparklake.delta_log.union.overwrites import check_overwrites
from sparklake.delta_log.union.regions import repeated_parameters
from sparklake.delta_log.union.undo import undoing


def united(base: LogSide, source: LogSide, dest: LogSide, signature: UnionSignature) -> UnitedLog:
    """Return the commits to add to dest, or one undo if source lacks commits of base."""
    for side in (source, dest):
        if side.metadata is None or side.protocol is None:
            raise UnmergeableTableError(
                "one side deleted the table's log, and the other changed it"
            )
        claims.check_features(side.protocol, side.metadata)
    undone = commits_but(base.commits, origins(source.commits))
    done = commits_but(source.commits, origins(base.commits))
    files = FileStates.of(base.commits, source.commits, dest.commits)
    if undone and done:
        raise UnmergeableTableError("source rewrote the table's history since base")
    if undone:
        return undoing(undone, files, base, source, dest, signature)
    origins_in_source = {each.origin for each in (*base.commits, *source.commits)}
    dest_commits = [each for each in dest.commits if each.origin not in origins_in_source]
    since = commits_but(dest.commits, origins(base.commits))
    source_commits = commits_but(done, origins(standing(since, origins(done))))
    if not source_commits:
        return UnitedLog([])
    dropped = {"commitInfo", *_settled_kinds(base, source, dest, source_commits, dest_commits)}
    claims.check_names(base.commits, source.commits, dest.commits, source_commits)
    check_overwrites(source, source_commits, dest, dest_commits)
    commits = []
    versions = {each.version for each in source_commits}
    _find_restated(source, dest, versions, files)
    marked = MarkedFiles(source, dest, signature)
    marked.find(versions, files)
    for each in source.commits:
        if each.version in versions:
            repeated = marked.in_dest(each)
            files.ours.update(map(FileKey.of, marked.live.values()))
            files.repeat(repeated)
            retained = (action for action in repeated.actions if not dropped & action.keys())
            commits.append((_repeated_info(each, signature), *retained))
        files.pass_by(each)
    return UnitedLog(commits, marked.files)


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


def _settled_kinds(
    base: LogSide,
    source: LogSide,
    dest: LogSide,
    source_commits: Sequence[DeltaCommit],
    dest_commits: Sequence[DeltaCommit],
) -> set[str]:
    """Return the action kinds superseded by dest's, and check the others."""
    dropped = set()
    if _changed("metaData", base.metadata, source.metadata, dest.metadata):
        dropped.add("metaData")
    if _changed("protocol", base.protocol, source.protocol, dest.protocol):
        dropped.add("protocol")
        claims.check_covers(dest.protocol or {}, source.protocol or {}, "dest", "source")
    else:
        claims.check_covers(source.protocol or {}, dest.protocol or {}, "source", "dest")
    if base.metadata is not None:
        if _depend_on_metadata(source_commits):
            claims.check_fits(base.metadata, dest.metadata or {}, "dest")
        if _depend_on_metadata(dest_commits):
            claims.check_fits(base.metadata, source.metadata or {}, "source")
    _check_end(source, dest, source_commits, dropped)
    return dropped


def _check_end(
    source: LogSide, dest: LogSide, source_commits: Sequence[DeltaCommit], dropped: Container[str]
) -> None:
    """Reject a union of a metadata change on one side and a protocol change on the other."""
    metadata = (dest if "metaData" in dropped else source).metadata
    protocol = (dest if "protocol" in dropped else source).protocol
    pairs = ((each.metadata, each.protocol) for each in (source, dest))
    if not any(
        claims.same_metadata(metadata, one) and _same(protocol, other) for one, other in pairs
    ):
        raise UnmergeableTableError(
            "one side changed the table's schema or properties, and the other side its protocol"
        )
    ends = [
        "metaData" in dropped
        or claims.same_metadata(metadata, _last(source_commits, "metaData", dest.metadata)),
        "protocol" in dropped or _same(protocol, _last(source_commits, "protocol", dest.protocol)),
    ]
    if not all(ends):
        raise UnmergeableTableError(
            "dest already has some of source's changes to the table's schema, properties or "
            "protocol, in a different order"
        )


def _last(
    commits: Sequence[DeltaCommit], kind: str, before: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    return next((fields for each in commits[::-1] if (fields := each.last(kind))), before)


_NAMES = {"metaData": "schema or properties", "protocol": "protocol"}


def _changed(
    kind: str,
    base: Mapping[str, Any] | None,
    source: Mapping[str, Any] | None,
    dest: Mapping[str, Any] | None,
) -> bool:
    """Return whether dest changed the metadata or protocol. Source must make the same change."""
    same = claims.same_metadata if kind == "metaData" else _same
    if same(dest, base):
        return False
    if not same(source, base) and not same(source, dest):
        if base is None:
            raise UnmergeableTableError("the table was created on both sides")
        raise UnmergeableTableError(f"both sides changed the table's {_NAMES[kind]} differently")
    return True


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
    names = ("operationMetrics", "isBlindAppend")
    more = {name: commit.info[name] for name in names if name in commit.info}
    more[ORIGIN] = commit.origin
    if commit.undone:
        more[UNDONE] = list(commit.undone)
    return commit_info(signature, repeated_parameters(commit), more)
