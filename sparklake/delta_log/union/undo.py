"""The union with a source older than base, which undoes base's commits in dest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparklake.delta_log.actions import Action, FileKey, Said
from sparklake.delta_log.delta_commits import (
    ORIGIN,
    UNDONE,
    DeltaCommit,
    UnmergeableTableError,
    commits_but,
    origins,
    still_to_undo,
    undo_origin,
)
from sparklake.delta_log.union.claims import check_covers, check_fits, same_metadata
from sparklake.delta_log.union.liveness import FileStates
from sparklake.delta_log.union.log_sides import FindAdds, LogSide, UnionSignature, commit_info


@dataclass(frozen=True, slots=True)
class _Net:
    """The net effect of commits on files, compared with the table before them.

    `added` are the new files' fields, `removed` the former fields of removed files, and
    `restated` the new and former fields of files that stay.
    """

    added: Mapping[FileKey, Said]
    removed: Mapping[FileKey, Said]
    restated: Mapping[FileKey, tuple[Said, Said]]


def undoing(
    undone: Sequence[DeltaCommit],
    files: FileStates,
    base: LogSide,
    source: LogSide,
    dest: LogSide,
    made: UnionSignature,
) -> list[tuple[Action, ...]]:
    """Return the commit that undoes some commits, or none; raise UnmergeableTableError."""
    left = still_to_undo(undone, dest.commits)
    if not left:
        return []
    later = commits_but(dest.commits, origins(base.commits))
    settings = _settings(left, source, dest, alone=not later and len(left) == len(undone))
    net = _net(left, source.find_adds)
    _check_files(net, files)
    if net.removed and not settings:
        check_covers(dest.protocol or {}, source.protocol or {}, "dest", "source")
        check_fits(source.metadata or {}, dest.metadata or {}, "dest")
    changes = any(
        said.get("dataChange", True)
        for each in left
        for kind in ("add", "remove")
        for said in each.said(kind)
    )
    if changes:
        _check_rows(net, dest)
    taken_back = [each.origin for each in left]
    parameters = {"undone": ", ".join(str(each.version) for each in left[:100])}
    info = commit_info(made, parameters, {ORIGIN: undo_origin(taken_back), UNDONE: taken_back})
    return [(info, *settings, *_file_actions(net, dest, made, changes))]


def _settings(
    left: Sequence[DeltaCommit], source: LogSide, dest: LogSide, *, alone: bool
) -> list[Action]:
    """Return the actions that restore table settings; raise UnmergeableTableError.

    Settings are restored only if the undone commits are the last ones of the log (`alone`). A
    protocol stays: older writers may not support the current features, and a newer protocol can
    read all earlier contents.
    """
    for kind in ("metaData", "protocol", "domainMetadata"):
        changed = any(True for each in left for _ in each.said(kind))
        if changed and (kind == "domainMetadata" or not alone):
            raise UnmergeableTableError(f"the commits to undo changed the table's {kind}")
    if not any(True for each in left for kind in ("metaData", "protocol") for _ in each.said(kind)):
        return []
    check_covers(dest.protocol or {}, source.protocol or {}, "dest", "source")
    if same_metadata(source.metadata, dest.metadata):
        return []
    return [{"metaData": source.metadata}]


def _net(commits: Sequence[DeltaCommit], find_adds: FindAdds) -> _Net:
    """Return the net effect of commits on files; raise UnmergeableTableError.

    The log before the commits shows whether a file existed, not the first action on it, because
    statistics add files again.
    """
    ends: dict[FileKey, Said | None] = {}
    had: set[FileKey] = set()
    for commit in commits:
        had.update(key for key in commit.removes if key not in ends)
        ends.update(dict.fromkeys(commit.removes))
        ends.update((FileKey.of(said), said) for said in commit.said("add"))
    before = find_adds(frozenset(ends))
    lost = [key.path for key in had if key not in before]
    if lost:
        raise UnmergeableTableError("the log no longer describes the files to restore", lost)
    return _Net(
        {key: said for key, said in ends.items() if said is not None and key not in before},
        {key: before[key] for key, said in ends.items() if said is None and key in before},
        {
            key: (said, before[key])
            for key, said in ends.items()
            if said is not None and key in before
        },
    )


def _check_files(net: _Net, files: FileStates) -> None:
    """Raise UnmergeableTableError unless dest's files are as the commits left them."""
    gone = [key.path for key in net.added if not files.is_live(key)]
    if gone:
        raise UnmergeableTableError("files to remove were removed or rewritten since", gone)
    back = [key.path for key in net.removed if files.is_live(key)]
    if back:
        raise UnmergeableTableError("files to restore were restored already", back)


def _check_rows(net: _Net, dest: LogSide) -> None:
    """Raise UnmergeableTableError if table settings forbid removing or restoring rows."""
    settings = (dest.metadata or {}).get("configuration") or {}
    if net.added and _is_on(settings, "delta.appendOnly"):
        raise UnmergeableTableError("the table is append-only")
    if net.added and net.removed and _is_on(settings, "delta.enableChangeDataFeed"):
        raise UnmergeableTableError(
            "the table has a change data feed, and reverting would change rows"
        )


def _is_on(settings: Mapping[str, Any], name: str) -> bool:
    return str(settings.get(name, "")).lower() == "true"


def _file_actions(
    net: _Net, dest: LogSide, made: UnionSignature, changes: bool
) -> Iterator[Action]:
    """Yield the actions that restore the former state of files."""
    for said in net.added.values():
        yield {"remove": _removal(said, made, changes)}
    for said in net.removed.values():
        yield {"add": {**said, "dataChange": changes}}
    if net.restated:
        last = _last_adds(dest.commits)
        for key, (said, before) in net.restated.items():
            # Later changes of dest to a file's fields stay. A file that dest has
            # removed stays removed.
            if last.get(key) == _plain(said) != _plain(before):
                yield {"add": {**before, "dataChange": False}}


def _last_adds(commits: Iterable[DeltaCommit]) -> dict[FileKey, Said]:
    """Return the last `add` fields of the files that commits leave."""
    found: dict[FileKey, Said] = {}
    for each in commits:
        for key in each.removes:
            found.pop(key, None)
        found.update((FileKey.of(said), _plain(said)) for said in each.said("add"))
    return found


def _plain(said: Said) -> Said:
    """Return the fields of a file itself, without `dataChange`."""
    return {name: each for name, each in said.items() if name != "dataChange"}


_CARRIED = ("path", "partitionValues", "size", "deletionVector")


def _removal(add: Said, made: UnionSignature, changes: bool) -> Said:
    kept = {name: add[name] for name in _CARRIED if add.get(name) is not None}
    return {
        **kept,
        "deletionTimestamp": made.timestamp,
        "dataChange": changes,
        "extendedFileMetadata": True,
    }
