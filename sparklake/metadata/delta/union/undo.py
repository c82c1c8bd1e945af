"""The union with a source older than base, which undoes base's commits in dest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparklake.metadata.delta.actions import Action, Fields, FileKey, fields_of
from sparklake.metadata.delta.delta_commits import ORIGIN, UNDONE, DeltaCommit
from sparklake.metadata.delta.union.claims import check_covers
from sparklake.metadata.delta.union.continuation import continued
from sparklake.metadata.delta.union.liveness import FileStates, live_after
from sparklake.metadata.delta.union.log_sides import (
    FindAdds,
    LogSide,
    UnionSignature,
    UnitedLog,
    commit_info,
    removal,
)
from sparklake.metadata.delta.union.marked_files import MarkedFiles, VectorChange
from sparklake.metadata.delta.union.schemas import (
    ROW_TRACKING,
    added_constraints,
    check_fits,
    is_enabled,
    same_metadata,
)
from sparklake.metadata.union.commits import commits_but, origins, still_to_undo, undo_origin
from sparklake.metadata.union.conflicts import UnmergeableTableError


@dataclass(frozen=True, slots=True)
class _Net:
    """The net effect of commits on files.

    `added` are the fields of new files, `removed` the former fields of removed files, and
    `restated` the new and former fields of lasting files.
    """

    added: Mapping[FileKey, Fields]
    removed: Mapping[FileKey, Fields]
    restated: Mapping[FileKey, tuple[Fields, Fields]]


def undoing(
    undone: Sequence[DeltaCommit],
    files: FileStates,
    base: LogSide,
    source: LogSide,
    dest: LogSide,
    signature: UnionSignature,
) -> UnitedLog:
    """Return a commit to undo the given ones, or none if dest already did."""
    targets = still_to_undo(undone, dest.commits)
    if not targets:
        return UnitedLog([])
    later = commits_but(dest.commits, origins(base.commits))
    alone = not later and len(targets) == len(undone)
    settings = _settings(targets, base, source, dest, alone=alone)
    every = _net(targets, source.find_adds)
    remarked, net = _split_vectors(every, files)
    changed = [key.path for key in net.added if not files.is_live(key)]
    if changed:
        raise UnmergeableTableError("files to remove were removed or rewritten since then", changed)
    restored = [key.path for key in net.removed if files.is_live(key)]
    if restored:
        raise UnmergeableTableError("files to restore are already restored", restored)
    if (net.removed or remarked) and not settings:
        check_covers(dest.protocol or {}, source.protocol or {}, "dest", "source")
        before, ours = source.metadata or {}, dest.metadata or {}
        check_fits(before, before, ours, "dest")
        if added_constraints(before, ours):
            raise UnmergeableTableError(
                "dest added a constraint that restored rows may violate. Drop it, revert, and add "
                "it again",
                added_constraints(before, ours),
            )
    changes = any(
        fields.get("dataChange", True)
        for each in targets
        for fields in fields_of(each.actions, "add", "remove")
    )
    if changes:
        _check_rows(every, dest)
    ids = [each.origin for each in targets]
    parameters = {"undone": ", ".join(str(each.version) for each in targets[:100])}
    info = commit_info(signature, parameters, {ORIGIN: undo_origin(ids), UNDONE: ids})
    marked = MarkedFiles(source, dest, signature)
    vectors = _vector_actions(remarked, marked, changes)
    actions = (info, *settings, *vectors, *_file_actions(net, dest, signature, changes))
    return UnitedLog(continued(dest, [actions], signature)[0], marked.files)


def _split_vectors(net: _Net, files: FileStates) -> tuple[dict[str, tuple[Fields, Fields]], _Net]:
    """Separate the files whose vector to undo was changed since then, by path.

    Their fields are those after and before the commits.
    """
    former = {key.path: fields for key, fields in net.removed.items()}
    remarked = {
        key.path: (fields, former[key.path])
        for key, fields in net.added.items()
        if key.path in former and not files.is_live(key)
    }
    added, removed = (
        {key: fields for key, fields in each.items() if key.path not in remarked}
        for each in (net.added, net.removed)
    )
    return remarked, _Net(added, removed, net.restated)


def _vector_actions(
    remarked: Mapping[str, tuple[Fields, Fields]], marked: MarkedFiles, changes: bool
) -> Iterator[Action]:
    if not remarked:
        return
    marked.look_up(remarked.keys())
    gone = remarked.keys() - marked.live.keys()
    if gone:
        raise UnmergeableTableError("files with rows to restore were removed or rewritten", gone)
    reverse = [
        VectorChange(after, before, marked.live[path], changes)
        for path, (after, before) in remarked.items()
    ]
    for pair in marked.changes(reverse):
        yield from pair


def _settings(
    targets: Sequence[DeltaCommit], base: LogSide, source: LogSide, dest: LogSide, *, alone: bool
) -> list[Action]:
    """Return actions to restore table settings.

    Settings are restored only if the undone commits are the last ones of the log (`alone`). The
    protocol is kept: older writers may not support the current features, and a newer protocol can
    read all earlier contents.
    """
    changed = _changed_kinds(targets, base, source)
    for kind in changed:
        if kind == "domainMetadata" or not alone:
            raise UnmergeableTableError(f"the commits to undo changed the table's {kind}")
    if not changed:
        return []
    check_covers(dest.protocol or {}, source.protocol or {}, "dest", "source")
    if same_metadata(source.metadata, dest.metadata):
        return []
    return [{"metaData": source.metadata}]


def _changed_kinds(targets: Sequence[DeltaCommit], base: LogSide, source: LogSide) -> list[str]:
    """Return the kinds of settings changed by commits, except for high-water marks."""
    previous = base.start().get("metaData") or source.metadata
    versions = {each.version for each in targets}
    kinds = set()
    for commit in base.commits:
        metadata = commit.last("metaData")
        if commit.version in versions and not same_metadata(metadata or previous, previous):
            kinds.add("metaData")
        previous = metadata or previous
    for each in targets:
        domains = {fields.get("domain") for fields in each.fields("domainMetadata")}
        if each.last("protocol") is not None:
            kinds.add("protocol")
        if domains - {ROW_TRACKING}:
            kinds.add("domainMetadata")
    return sorted(kinds)


def _net(commits: Sequence[DeltaCommit], find_adds: FindAdds) -> _Net:
    """Return the net effect of commits on files.

    The log before the commits shows whether a file existed, not the first action on it, because
    statistics add files again.
    """
    ends: dict[FileKey, Fields | None] = {}
    had: set[FileKey] = set()
    for commit in commits:
        had.update(key for key in commit.removes if key not in ends)
        ends.update(dict.fromkeys(commit.removes))
        ends.update((FileKey.of(fields), fields) for fields in commit.fields("add"))
    before = find_adds({key.path for key in ends})
    lost = [key.path for key in had if key not in before]
    if lost:
        raise UnmergeableTableError("the log no longer describes the files to restore", lost)
    live = {key: fields for key, fields in ends.items() if fields is not None}
    return _Net(
        {key: fields for key, fields in live.items() if key not in before},
        {key: before[key] for key in ends if key not in live and key in before},
        {key: (fields, before[key]) for key, fields in live.items() if key in before},
    )


def _check_rows(net: _Net, dest: LogSide) -> None:
    if net.added and is_enabled(dest.metadata, "delta.appendOnly"):
        raise UnmergeableTableError("the table is append-only")
    if net.added and net.removed and is_enabled(dest.metadata, "delta.enableChangeDataFeed"):
        raise UnmergeableTableError(
            "the table has a change data feed, and reverting would change rows"
        )


def _file_actions(
    net: _Net, dest: LogSide, signature: UnionSignature, changes: bool
) -> Iterator[Action]:
    for fields in net.added.values():
        yield removal(fields, signature, changes)
    for fields in net.removed.values():
        yield {"add": {**fields, "dataChange": changes}}
    if net.restated:
        last = live_after((each.actions for each in dest.commits), {})
        for key, (fields, before) in net.restated.items():
            # Later changes of dest stay: of a file's fields, or its removal.
            if key in last and _plain(last[key]) == _plain(fields) != _plain(before):
                yield {"add": {**before, "dataChange": False}}


def _plain(fields: Fields) -> Fields:
    return {name: each for name, each in fields.items() if name != "dataChange"}
