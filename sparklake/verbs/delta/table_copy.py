"""A copy of a branch's Delta log, for Delta to read and commit to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparklake.delta_log.actions import Action, encode_actions
from sparklake.delta_log.file_names import LOG_FOLDER, commit_version
from sparklake.delta_log.paths import canonical_path, encoded_path
from sparklake.delta_log.rewrite import (
    LogFiles,
    copied_actions,
    copied_checkpoint,
    files_to_read,
    relative_places,
    restore_relative,
)
from sparklake.graveler.ports import Write
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.addresses import spark_uri
from sparklake.stores.objects.prefetch import overlapped
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.snapshot import Snapshot
from sparklake.verbs.tables.formats import log_files
from sparklake.verbs.tables.version import TableVersion

_PUT_AT_ONCE = 64


@dataclass(slots=True)
class BaseTable:
    """A table at the start of a write.

    `log` has the files of its log by name. `spelled` maps the address of each data file and
    deletion vector to its path in the log: two short texts per file, about 300 MB for a table of a
    million files.
    """

    files: LogFiles
    log: Mapping[str, ObjectInfo]
    spelled: dict[str, str] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        return self.files.version < 0

    def name_files(self, files: Iterable[dict[str, Any]]) -> None:
        """Replace paths of files in the copied log with their paths in the branch's log."""
        for said in files:
            restore_relative(said, lambda path: self.spelled.get(canonical_path(path)))


def copy_log(
    context: Context, table: TableVersion, write: Write, *, names_files: bool
) -> BaseTable:
    """Copy a table's log to the place of a write.

    `names_files` is required if Delta's commits may name existing files.
    """
    log = dict(log_files(table))
    base = BaseTable(files_to_read(log, table.folder), log)
    bodies: dict[str, bytes] = {}
    for name, body in entry_bodies(log, base.files.names, table.ref):
        copier = _Copier(table.snapshot, table.folder)
        is_entry = name != base.files.checkpoint
        copied = copier.entry(body, name) if is_entry else copier.checkpoint(body)
        if names_files:
            base.spelled.update((canonical_path(to), path) for path, to in copier.moves.items())
        bodies[f"{write.place}/{LOG_FOLDER}{name}"] = copied
        if len(bodies) >= _PUT_AT_ONCE:
            context.store.put_many_if_absent(bodies)
            bodies = {}
    context.store.put_many_if_absent(bodies)
    return base


def entry_bodies(
    log: Mapping[str, ObjectInfo], names: tuple[str, ...], branch: str
) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the given log files."""
    bodies = overlapped(lambda name: read_body(log[name], branch), names)
    yield from zip(names, bodies, strict=True)


def new_entries(context: Context, write: Write, base: BaseTable) -> list[Sequence[Action]]:
    """Return the actions of each version committed to the copy.

    Their paths are those of the branch's log.
    """
    prefix = f"{write.place}/{LOG_FOLDER}"
    found = (each.key.removeprefix(prefix) for each in context.store.list(prefix))
    names = sorted(each for each in found if _version(each) > base.files.version)
    bodies = [context.store.get(f"{prefix}{name}") for name in names]
    return [
        copied_actions(body, name, base.name_files)
        for name, body in zip(names, bodies, strict=True)
    ]


def _version(name: str) -> int:
    version = commit_version(name)
    return -1 if version is None else version


class _Copier:
    """A rewriter of log files. `moves` maps each relative path to its address."""

    def __init__(self, snapshot: Snapshot, folder: str) -> None:
        self.moves: dict[str, str] = {}
        self._snapshot = snapshot
        self._folder = folder

    def entry(self, body: bytes, name: str) -> bytes:
        return encode_actions(copied_actions(body, name, self._rewrite))

    def checkpoint(self, body: bytes) -> bytes:
        return copied_checkpoint(body, self._rewrite)

    def _rewrite(self, files: Sequence[dict[str, Any]]) -> None:
        """Replace relative paths with addresses. A file missing from the tree keeps its path."""
        places = [place for said in files for place in relative_places(said)]
        names = sorted({each.name for each in places})
        asked = [self._folder + each for each in names]
        found = self._snapshot.lookup(asked)["address"].to_pylist() if asked else []
        addresses = dict(zip(names, found, strict=True))
        for place in places:
            address = addresses[place.name]
            if address is not None:
                absolute = encoded_path(spark_uri(address))
                self.moves[place.text] = absolute
                place.replace(absolute)
