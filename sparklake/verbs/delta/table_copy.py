"""A copy of a branch's Delta log, for Delta to read and commit to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
    deletion vector to its path in the log: about 300 MB for a million files.
    """

    files: LogFiles
    log: Mapping[str, ObjectInfo]
    spelled: dict[str, str] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        return self.files.version < 0

    def name_files(self, files: Iterable[dict[str, Any]]) -> None:
        for fields in files:
            restore_relative(fields, lambda path: self.spelled.get(canonical_path(path)))


def copy_log(
    context: Context, table: TableVersion, write: Write, *, names_files: bool
) -> BaseTable:
    """Copy a log to the place of a write. `names_files` allows commits to existing files."""
    log = dict(log_files(table))
    base = BaseTable(files_to_read(log, table.folder), log)
    bodies: dict[str, bytes] = {}
    for name, body in entry_bodies(log, base.files.names, table.ref):
        spelled = base.spelled if names_files else {}
        rewrite = partial(_to_addresses, table.snapshot, table.folder, spelled)
        bodies[f"{write.place}/{LOG_FOLDER}{name}"] = (
            copied_checkpoint(body, rewrite)
            if name == base.files.checkpoint
            else encode_actions(copied_actions(body, name, rewrite))
        )
        if len(bodies) >= _PUT_AT_ONCE:
            context.store.put_many_if_absent(bodies)
            bodies = {}
    context.store.put_many_if_absent(bodies)
    return base


def entry_bodies(
    log: Mapping[str, ObjectInfo], names: tuple[str, ...], branch: str
) -> Iterator[tuple[str, bytes]]:
    bodies = overlapped(lambda name: read_body(log[name], branch), names)
    yield from zip(names, bodies, strict=True)


def new_entries(context: Context, write: Write, base: BaseTable) -> list[Sequence[Action]]:
    """Return the actions of each new commit to the copy, with paths of the branch's log."""
    prefix = f"{write.place}/{LOG_FOLDER}"
    names = (each.key.removeprefix(prefix) for each in context.store.list(prefix))
    versions = ((commit_version(name), name) for name in names)
    new = sorted(name for at, name in versions if at is not None and at > base.files.version)
    bodies = [context.store.get(f"{prefix}{name}") for name in new]
    return [
        copied_actions(body, name, base.name_files) for name, body in zip(new, bodies, strict=True)
    ]


def _to_addresses(
    snapshot: Snapshot, folder: str, spelled: dict[str, str], files: Sequence[dict[str, Any]]
) -> None:
    """Replace relative paths with addresses. A file missing in the tree keeps its path."""
    places = [place for fields in files for place in relative_places(fields)]
    names = sorted({each.name for each in places})
    paths = [folder + each for each in names]
    column = snapshot.lookup(paths)["address"].to_pylist() if paths else []
    addresses = dict(zip(names, column, strict=True))
    for place in places:
        address = addresses[place.name]
        if address is not None:
            absolute = encoded_path(spark_uri(address))
            spelled[canonical_path(absolute)] = place.text
            place.replace(absolute)
