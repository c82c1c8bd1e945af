"""Delta tables at two refs, reduced to the differing files in their logs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sparklake.delta_log.actions import Fields, FileKey, encode_actions
from sparklake.delta_log.delta_commits import UnmergeableTableError
from sparklake.delta_log.file_names import LOG_FOLDER, log_key
from sparklake.delta_log.paths import file_keys, name_of
from sparklake.delta_log.rewrite import rewritten_commit, to_addresses
from sparklake.delta_log.table_files import hashes, repeated, unlike
from sparklake.delta_log.union.log_sides import LogSide
from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.frames.tables.table_sides import TableSide
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.stores.objects.addresses import spark_uris
from sparklake.verbs.delta.tree_log import TreeLog, log_sides, read_log
from sparklake.verbs.tables.diff_sides import FolderPair
from sparklake.verbs.tables.view import View

if TYPE_CHECKING:
    import pyarrow as pa

_READ_PROPERTIES = "delta.columnMapping."
"""The prefix of the properties for readers. Others would require more of a log."""

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
        fields
        for key, fields in sorted(files.items(), key=lambda each: (each[0].path, each[0].vector))
        if key not in others or changed.intersection(file_keys(log_folder, fields))
    ]


def _side(compared: FolderPair, at: int, side: LogSide, files: Sequence[Fields]) -> TableSide:
    """Return a side as a view of the given files, named by a hash of its log."""
    if side.metadata is None or side.protocol is None:
        return TableSide()
    settings = (side.metadata.get("configuration") or {}).items()
    properties = {name: value for name, value in settings if name.startswith(_READ_PROPERTIES)}
    adds = ({"add": {**each, "dataChange": True}} for each in files)
    table = {"metaData": {**side.metadata, "configuration": properties}}
    log = encode_actions([{"protocol": side.protocol}, table, *adds])
    body = rewritten_commit(log, log_key(0), to_addresses(partial(_resolve, compared, at)))
    view = View(compared.context.store, hashlib.sha256(body).hexdigest(), 0)
    if not view.exists:
        view.put({log_key(view.version): body})
    paths = tuple(compared.folder + name_of(each["path"]) for each in files)
    return TableSide(paths, view=view.uri)


def _resolve(compared: FolderPair, at: int, relative: pa.Array) -> pa.Array:
    names = relative.dictionary_encode()
    addresses = compared.addresses(at, names.dictionary.to_pylist())
    for name, address in zip(names.dictionary.to_pylist(), addresses.to_pylist(), strict=True):
        if address is None:
            raise ObjectNotFoundError(
                f"{compared.refs[at]!r} has no object {compared.folder + name!r}, which the log "
                "of its table references"
            )
    uris = spark_uris(addresses.combine_chunks())
    return unlike(uris, names.dictionary, repeated([hashes(uris)])).take(names.indices)
