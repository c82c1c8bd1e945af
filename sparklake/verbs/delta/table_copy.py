"""A copy of a branch's Delta log, for Delta to read and commit to."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparklake._scratch import scratch_folder
from sparklake.errors import InvalidInputError, MissingFileError
from sparklake.graveler.chunks import chunked
from sparklake.graveler.ports import Write
from sparklake.metadata.delta.actions import (
    OF_FILES,
    Action,
    decode_actions,
    encode_actions,
    fields_of,
)
from sparklake.metadata.delta.checkpoints import checkpoint_parts, fields_in, rewritten_checkpoint
from sparklake.metadata.delta.features import check_ordered_by_log
from sparklake.metadata.delta.file_names import LAST_CHECKPOINT, LOG_FOLDER, LogFiles, log_listing
from sparklake.metadata.delta.paths import canonical_path, encoded_path
from sparklake.metadata.delta.rewrite import (
    Rewrite,
    relative_places,
    restore_relative,
    rewritten_actions,
)
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.addresses import spark_uri
from sparklake.stores.objects.prefetch import overlapped
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.delta.checkpoint_files import files_to_read, log_files
from sparklake.verbs.tables.version import TableVersion

_PUT_AT_ONCE = 64


@dataclass(slots=True)
class BaseTable:
    """A table at the start of a write.

    `log` has the files of its log by name. With `names_files`, `spelled` maps the address of each
    data file and deletion vector to its path in the log: about 300 MB for a million files.
    """

    table: TableVersion
    files: LogFiles
    log: Mapping[str, ObjectInfo]
    names_files: bool
    spelled: dict[str, str] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        return self.files.version < 0

    def name_files(self, files: Iterable[dict[str, Any]]) -> None:
        for fields in files:
            restore_relative(fields, lambda path: self.spelled.get(canonical_path(path)))

    def place_files(self, files: Sequence[dict[str, Any]]) -> None:
        """Replace relative paths with addresses. A file missing in the tree keeps its path."""
        places = [place for fields in files for place in relative_places(fields)]
        names = sorted({each.name for each in places})
        paths = [self.table.folder + each for each in names]
        column = self.table.snapshot.lookup(paths)["address"].to_pylist() if paths else []
        addresses = dict(zip(names, column, strict=True))
        for place in places:
            address = addresses[place.name]
            if address is not None:
                absolute = encoded_path(spark_uri(address))
                if self.names_files:
                    self.spelled[canonical_path(absolute)] = place.text
                place.replace(absolute)

    def placed(self, scratch: Path) -> Iterator[tuple[str, Path | bytes]]:
        """Yield the log's files with addresses as paths."""
        return placed_files(self.table, self.log, self.files, scratch, self.place_files)

    def learn_names(self) -> None:
        if not self.names_files:
            self.names_files = True
            with scratch_folder() as scratch:
                deque(self.placed(scratch), maxlen=0)


def copy_log(
    context: Context, table: TableVersion, write: Write, *, names_files: bool, history: bool
) -> BaseTable:
    """Copy a log to the place of a write, since its latest checkpoint or with all `history`.

    `names_files` allows commits to existing files.
    """
    log = dict(log_files(table))
    files = files_to_read(log, table.ref, history=history)
    if files.missing is not None:
        raise InvalidInputError(
            f"the log {table.folder}{LOG_FOLDER} has neither all entries nor a complete checkpoint "
            "with all entries since: write to the table with Delta at its original location, and "
            "import it again"
        )
    base = BaseTable(table, files, log, names_files)
    with scratch_folder() as scratch:
        placed = (
            (f"{write.place}/{LOG_FOLDER}{name}", each) for name, each in base.placed(scratch)
        )
        for some in chunked(placed, _PUT_AT_ONCE):
            paths = {key: each for key, each in some if isinstance(each, Path)}
            context.store.put_files_if_absent(paths)
            bodies = {key: each for key, each in some if isinstance(each, bytes)}
            context.store.put_many_if_absent(bodies)
    return base


def placed_files(
    table: TableVersion,
    log: Mapping[str, ObjectInfo],
    files: LogFiles,
    scratch: Path,
    rewrite: Rewrite,
) -> Iterator[tuple[str, Path | bytes]]:
    """Rewrite the paths in a log's files. Raises InvalidInputError if a catalog orders commits."""
    what = f"the Delta log of {table.path!r} at {table.ref!r}"
    read, protocol = lru_cache(1)(partial(log_body, table, log)), None
    for part in checkpoint_parts(files.checkpoint, read, "protocol"):
        protocol = next(fields_in(part, "protocol"), protocol)
    yield from rewritten_checkpoint(files.checkpoint, read, scratch, rewrite, what).items()
    for name, body in entry_bodies(log, files.commits, table.ref):
        actions = rewritten_actions(body, name, rewrite)
        protocol = next(fields_of(actions, "protocol"), protocol)
        yield name, encode_actions(actions)
    check_ordered_by_log(protocol, what)


def log_body(table: TableVersion, log: Mapping[str, ObjectInfo], name: str) -> bytes:
    if name not in log:
        raise MissingFileError(
            f"the Delta log of {table.path!r} at {table.ref!r} has no {name!r}, which a checkpoint "
            "references: restore the file"
        )
    return read_body(log[name], table.ref)


def entry_bodies(
    log: Mapping[str, ObjectInfo], names: tuple[str, ...], branch: str
) -> Iterator[tuple[str, bytes]]:
    bodies = overlapped(lambda name: read_body(log[name], branch), names)
    yield from zip(names, bodies, strict=True)


@dataclass(frozen=True, slots=True)
class NewLog:
    """The new files of a copied log, with paths of the branch's log.

    `checkpoint` has the files of the latest checkpoint, by name.
    """

    entries: Sequence[Sequence[Action]]
    checkpoint: Mapping[str, Path]


def new_names(base: BaseTable, entries: Sequence[Sequence[Action]]) -> pa.Array:
    """Return the names of the files that commits to a copy add."""
    # Other files, such as those of a RESTORE, are already in the tree.
    existing = set(base.spelled.values())
    added = (fields for each in entries for fields in fields_of(each, "add", "cdc"))
    places = (place for fields in added for place in relative_places(fields))
    return pa.array(
        sorted({each.name for each in places if each.text not in existing}), pa.string()
    )


def new_log(context: Context, place: str, base: BaseTable, scratch: Path) -> NewLog:
    """Return the new commits to a copy, and the files of a new checkpoint."""
    prefix = f"{place}/{LOG_FOLDER}"
    names = [each.key.removeprefix(prefix) for each in context.store.list(prefix)]
    log = log_listing((name, name) for name in names)
    new = [name for at, name in sorted(log.commits.items()) if at > base.files.version]
    entries = [decode_actions(context.store.get(f"{prefix}{name}"), name) for name in new]
    pointer = LAST_CHECKPOINT.removeprefix(LOG_FOLDER)
    # Even an append may remove files, by Delta's auto compaction.
    if pointer in names or any(True for each in entries for _ in fields_of(each, "remove")):
        base.learn_names()
    for each in entries:
        base.name_files(fields_of(each, *OF_FILES))
    if pointer not in names:
        return NewLog(entries, {})
    [last] = decode_actions(context.store.get(f"{prefix}{pointer}"), pointer)
    files = rewritten_checkpoint(
        log.checkpoints[last["version"]],
        lambda name: context.store.get(f"{prefix}{name}"),
        scratch,
        base.name_files,
        f"the copy of a Delta log in {place}",
    )
    # Other fields describe the files before their paths were replaced.
    kept = {name: last[name] for name in ("version", "size", "parts") if name in last}
    files[pointer] = scratch / pointer
    files[pointer].write_bytes(json.dumps(kept).encode())
    return NewLog(entries, files)
