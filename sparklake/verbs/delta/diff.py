"""A Delta table at two refs, as two tables of the different files in their logs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparklake.delta_log.actions import FileKey, Said, encode_actions
from sparklake.delta_log.delta_commits import UnmergeableTableError
from sparklake.delta_log.file_names import LOG_FOLDER, log_key
from sparklake.delta_log.paths import file_keys, name_of
from sparklake.delta_log.rewrite import rewritten_commit, to_addresses
from sparklake.delta_log.table_files import hashes, repeated, unlike
from sparklake.delta_log.union.log_sides import LogSide
from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.frames.tables.table_sides import TableSide
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.graveler.ranges import MetaRange
from sparklake.stores.objects.addresses import spark_uris
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.snapshot import snapshot_over
from sparklake.verbs.delta.tree_log import TreeLog, log_sides, read_log
from sparklake.verbs.diffs.differences import diff_trees
from sparklake.verbs.tables.view import View

if TYPE_CHECKING:
    import pyarrow as pa

_READ_PROPERTIES = "delta.columnMapping."
"""The prefix of the properties that readers need. Other properties would require more of a log."""

Files = Mapping[FileKey, Said]


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder of a table in a tree. Errors name the tree by its ref."""

    context: Context
    folder: str
    ref: str
    tree: MetaRange

    def resolve(self, relative: pa.Array) -> pa.Array:
        """Return the addresses of files below the table."""
        named = relative.dictionary_encode()
        paths = [self.folder + each for each in named.dictionary.to_pylist()]
        found = snapshot_over(self.context, self.ref, self.tree).lookup(paths).column("address")
        for path, address in zip(paths, found.to_pylist(), strict=True):
            if address is None:
                raise ObjectNotFoundError(
                    f"{self.ref!r} has no object {path!r}, which the log of its table names"
                )
        uris = spark_uris(found.combine_chunks())
        return unlike(uris, named.dictionary, repeated([hashes(uris)])).take(named.indices)


def delta_sides(
    context: Context, folder: str, refs: tuple[str, str], trees: tuple[MetaRange, MetaRange]
) -> tuple[TableSide, TableSide]:
    """Return both sides of a Delta table, and write their views.

    Raises:
        InvalidInputError: A log is not supported.
        ObjectNotFoundError: The tree lacks a file of its log.
    """
    places = [_Place(context, folder, *each) for each in zip(refs, trees, strict=True)]
    log_folder = f"{folder}{LOG_FOLDER}".encode()
    logs = [read_log(context, tree.id, log_folder) for tree in trees]
    changed = _changed(context, folder, refs, trees)
    try:
        sides, wanted = _sides(logs)
        # Delta never writes a name twice, but another tool may have replaced a file.
        left, right = (
            log.live() if changed or wanted is None else log.adds(wanted) for log in logs
        )
    except UnmergeableTableError as error:
        raise InvalidInputError(
            f"the logs of {folder!r} at {refs[0]!r} and {refs[1]!r} are not compared: {error}. "
            "Compare what `read` returns of both"
        ) from error
    apart = _apart(left, right, log_folder, changed), _apart(right, left, log_folder, changed)
    one, other = map(_side, places, sides, apart)
    return one, other


def _sides(logs: Sequence[TreeLog]) -> tuple[Sequence[LogSide], frozenset[FileKey] | None]:
    """Return the final state of each log, and the possibly different files, None for all."""
    for each in logs:
        if each.checkpoints and not each.commits:
            raise UnmergeableTableError("a log has checkpoints and no commits")
    alone = [log_sides([each])[0] for each in logs]
    if not all(each.commits for each in logs):
        return alone, None
    try:
        sides = log_sides(logs)
    except UnmergeableTableError:
        # Commits after the parting are missing. The later checkpoints list the live files.
        return alone, None
    commits = [each for side in sides for each in side.commits]
    return sides, frozenset(key for each in commits for key in (*each.adds, *each.removes))


def _changed(
    context: Context, folder: str, refs: tuple[str, str], trees: tuple[MetaRange, MetaRange]
) -> set[bytes]:
    """Return the keys of files with the same name and different content."""
    log = f"{folder}{LOG_FOLDER}"
    rows = diff_trees(context, *trees, folder, " -> ".join(refs))
    return {
        each.path.encode()
        for each in rows
        if each.type is ChangeType.CHANGED and not each.path.startswith(log)
    }


def _apart(files: Files, others: Files, log_folder: bytes, changed: set[bytes]) -> list[Said]:
    """Return the file actions without an equal one on the other side."""
    return [
        said
        for key, said in sorted(files.items(), key=lambda each: (each[0].path, each[0].vector))
        if key not in others or changed.intersection(file_keys(log_folder, said))
    ]


def _side(place: _Place, side: LogSide, files: Sequence[Said]) -> TableSide:
    if side.metadata is None or side.protocol is None:
        return TableSide()
    paths = tuple(place.folder + name_of(each["path"]) for each in files)
    return TableSide(paths, view=_view(place, side.protocol, side.metadata, files).uri)


def _view(place: _Place, protocol: Said, metadata: Said, files: Iterable[Said]) -> View:
    """Return a Delta table of the given files, named by a hash of its log."""
    settings = (metadata.get("configuration") or {}).items()
    kept = {name: value for name, value in settings if name.startswith(_READ_PROPERTIES)}
    adds = ({"add": {**each, "dataChange": True}} for each in files)
    said = encode_actions(
        [{"protocol": protocol}, {"metaData": {**metadata, "configuration": kept}}, *adds]
    )
    body = rewritten_commit(said, log_key(0), to_addresses(place.resolve))
    view = View(place.context.store, hashlib.sha256(body).hexdigest(), 0)
    if not view.exists:
        view.put({log_key(view.version): body})
    return view
