"""Delta tables at two refs, reduced to the differing files in their logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparklake.errors import InvalidInputError
from sparklake.frames.tables.table_sides import TableSide
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.metadata.delta.actions import Fields, FileKey
from sparklake.metadata.delta.file_names import LOG_FOLDER
from sparklake.metadata.delta.paths import file_keys, name_of
from sparklake.metadata.delta.union.log_sides import LogSide
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.verbs.delta.files_view import TableTree
from sparklake.verbs.delta.tree_log import TreeLog, log_sides, read_log
from sparklake.verbs.tables.diff_sides import FolderPair

Files = Mapping[FileKey, Fields]


def delta_sides(compared: FolderPair) -> tuple[TableSide, TableSide]:
    """Return both sides of a Delta table, and write their views."""
    folder, refs = compared.folder, compared.refs
    log = f"{folder}{LOG_FOLDER}"
    logs = [read_log(compared.context, tree.id, log.encode()) for tree in compared.trees]
    changed = {
        each.path.encode()
        for each in compared.changes()
        if each.type is ChangeType.CHANGED and not each.path.startswith(log)
    }
    try:
        sides, touched = _sides(logs)
        # Delta never writes a name twice, but another tool may replace a file.
        left, right = (_live(log, None if changed else touched) for log in logs)
    except UnmergeableTableError as error:
        raise InvalidInputError(
            f"the logs of {folder!r} at {refs[0]!r} and {refs[1]!r} are not compared: {error}. "
            "Compare the results of `read` instead"
        ) from error
    one, other = (_apart(*each, log.encode(), changed) for each in ((left, right), (right, left)))
    return _side(compared, 0, sides[0], one), _side(compared, 1, sides[1], other)


def _live(log: TreeLog, touched: frozenset[FileKey] | None) -> Files:
    """Return the given live files, by default all."""
    if touched is None:
        return log.live()
    live = log.live({key.path for key in touched})
    return {key: fields for key, fields in live.items() if key in touched}


def _sides(logs: Sequence[TreeLog]) -> tuple[Sequence[LogSide], frozenset[FileKey] | None]:
    """Return the final state of each log, and the touched files, None for all."""
    for each in logs:
        if each.checkpoints and not each.commits:
            raise UnmergeableTableError("a log has checkpoints and no commits")
    alone = [log_sides([each])[0] for each in logs]
    if not all(each.commits for each in logs):
        return alone, None
    try:
        sides = log_sides(logs)
    except UnmergeableTableError:
        # Commits since the divergence are missing. Later checkpoints list the live files.
        return alone, None
    commits = [each for side in sides for each in side.commits]
    return sides, frozenset(key for each in commits for key in (*each.adds, *each.removes))


def _apart(files: Files, others: Files, log_folder: bytes, changed: set[bytes]) -> list[Fields]:
    return [
        files[key]
        for key in sorted(files)
        if key not in others or changed.intersection(file_keys(log_folder, files[key]))
    ]


def _side(compared: FolderPair, at: int, side: LogSide, files: Sequence[Fields]) -> TableSide:
    tree = TableTree(compared.context, compared.refs[at], compared.trees[at], compared.folder)
    view = tree.view(side, files)
    if view is None:
        return TableSide()
    paths = tuple(compared.folder + name_of(each["path"]) for each in files)
    size = sum(int(each.get("size") or 0) for each in files)
    return TableSide(paths, view=view.uri, bytes=size)
