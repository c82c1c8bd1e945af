"""Entries of a Delta table's log, with the paths of its files rewritten.

In a tree the log names files by paths relative to the table, wherever they lie. The copy that Spark
works on lies elsewhere, and names each by the address of the very file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sparklake.errors import CorruptFileError, InvalidInputError

Move = Callable[[str], str]
"""Says what a path in a log becomes; both are percent-encoded, as Delta has them."""

Action = dict[str, dict[str, Any]]

LOG_FOLDER = "_delta_log/"

_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_LOCAL = re.compile(r"^file:/+")

_OF_FILES = ("add", "remove", "cdc")
_OF_APPENDS = {"commitInfo", "add", "txn"}
_OF_SHAPE = {"metaData", "protocol"}


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Is the files of a log that say what is in the table: those from a checkpoint on, or all.

    Names are below the folder of the log. `version` is the latest, -1 where there is none.
    """

    version: int
    checkpoint: str | None
    commits: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of all of them."""
        return (*([self.checkpoint] if self.checkpoint else ()), *self.commits)


def commit_name(version: int) -> str:
    """Returns the name of the entry of a version."""
    return f"{version:020d}.json"


def commit_version(name: str) -> int | None:
    """Returns the version that a file of a log is the entry of; None for another file."""
    found = _COMMIT.fullmatch(name)
    return int(found[1]) if found else None


def log_files(names: Iterable[str], folder: str) -> LogFiles:
    """Returns what is to be read of a log; raises InvalidInputError where that is not all there."""
    names = list(names)
    versions = sorted(each for name in names if (each := commit_version(name)) is not None)
    checkpoints = sorted(int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name)))
    latest = max([*versions, *checkpoints], default=-1)
    for start in (0, *reversed(checkpoints)):
        since = [each for each in versions if each >= start]
        if start in checkpoints and start > 0 and since[:1] != [start]:
            since = [start, *since]
        if since == list(range(start, latest + 1)):
            there = tuple(commit_name(each) for each in since if each in set(versions))
            return LogFiles(latest, f"{start:020d}.checkpoint.parquet" if start else None, there)
    if not names:
        return LogFiles(-1, None, ())
    raise InvalidInputError(
        f"the log {folder}{LOG_FOLDER} has neither all entries nor a checkpoint in one file with "
        "all entries since: write to the table by Delta where it lies, and import it again"
    )


def decode_entry(body: bytes, name: str) -> list[Action]:
    """Returns the actions of an entry; raises CorruptFileError."""
    try:
        lines = (line for line in body.splitlines() if line.strip())
        return [msgspec.json.decode(line, type=Action) for line in lines]
    except msgspec.DecodeError as error:
        raise CorruptFileError(f"the entry {name} of a Delta log is none: {error}") from error


def encode_entry(actions: Iterable[Action]) -> bytes:
    """Returns an entry of actions."""
    return b"".join(msgspec.json.encode(each) + b"\n" for each in actions)


def moved(actions: Sequence[Action], move: Move) -> list[Action]:
    """Returns actions with other paths; raises InvalidInputError for what names files otherwise."""
    return [{kind: _moved(kind, said, move) for kind, said in each.items()} for each in actions]


def _moved(kind: str, said: dict[str, Any], move: Move) -> dict[str, Any]:
    if kind in ("sidecar", "checkpointMetadata"):
        raise _unsupported("checkpoints in several files")
    if kind not in _OF_FILES:
        return said
    if (said.get("deletionVector") or {}).get("storageType", "i") != "i":
        raise _unsupported("deletion vectors")
    return {**said, "path": move(said["path"])}


def moved_checkpoint(body: bytes, move: Move) -> bytes:
    """Returns a checkpoint with other paths."""
    table = pq.read_table(io.BytesIO(body))
    for name in ("sidecar", "checkpointMetadata"):
        if name in table.column_names and table[name].null_count < table.num_rows:
            raise _unsupported("checkpoints in several files")
    for name in _OF_FILES:
        if name in table.column_names:
            at = table.column_names.index(name)
            column = _moved_column(table[name].combine_chunks(), move)
            table = table.set_column(at, pa.field(name, column.type), column)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _moved_column(column: pa.StructArray, move: Move) -> pa.StructArray:
    fields = [column.type.field(index) for index in range(column.type.num_fields)]
    values = dict(zip((each.name for each in fields), column.flatten(), strict=True))
    if "deletionVector" in values:
        kinds = pc.struct_field(values["deletionVector"], "storageType")
        if pc.any(pc.not_equal(kinds, "i")).as_py():
            raise _unsupported("deletion vectors")
    paths = [None if each is None else move(each) for each in values["path"].to_pylist()]
    values["path"] = pa.array(paths, column.type.field("path").type)
    return pa.StructArray.from_arrays(list(values.values()), fields=fields, mask=column.is_null())


def checkpoint_paths(body: bytes) -> Iterator[str]:
    """Yields the paths of files that a checkpoint names."""
    found: list[str] = []

    def note(path: str) -> str:
        found.append(path)
        return path

    moved_checkpoint(body, note)
    yield from found


def file_paths(actions: Iterable[Action], *kinds: str) -> Iterator[str]:
    """Yields the paths of files that actions name; of some kinds, or of all."""
    for each in actions:
        for kind, said in each.items():
            if kind in (kinds or _OF_FILES):
                yield said["path"]


def is_relative(path: str) -> bool:
    """Tells whether a path in a log is below the table."""
    return _ABSOLUTE.match(path) is None


def name_of(path: str) -> str:
    """Returns the name, below the table, of the file that a relative path stands for."""
    return unquote(path)


def encoded(uri: str) -> str:
    """Returns a verbatim URI as a path in a log."""
    return quote(uri, safe="/:")


def one_spelling(path: str) -> str:
    """Returns an absolute path in a log as it compares: Hadoop writes one in several ways."""
    return _LOCAL.sub("file:///", unquote(path))


def is_blind_append(actions: Sequence[Action]) -> bool:
    """Tells whether an entry only adds rows, whatever was in the table before."""
    kinds = {kind for each in actions for kind in each}
    infos = [each["commitInfo"] for each in actions if "commitInfo" in each]
    tracked = any("baseRowId" in each.get("add", {}) for each in actions)
    return (
        kinds <= _OF_APPENDS
        and not tracked
        and len(infos) == 1
        and infos[0].get("isBlindAppend") is True
        and "inCommitTimestamp" not in infos[0]
    )


def lets_append(theirs: Sequence[Action], ours: Sequence[Action]) -> bool:
    """Tells whether a blind append holds after an entry that it has not seen."""
    ids = {each["txn"]["appId"] for each in ours if "txn" in each}
    return not any(
        _OF_SHAPE & each.keys() or ("txn" in each and each["txn"]["appId"] in ids)
        for each in theirs
    )


def _unsupported(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"the Delta table has {what}, which cannot be written to in a branch yet: nothing was "
        "staged. Without deletion vectors, that is with delta.enableDeletionVectors off and after "
        "REORG TABLE ... APPLY (PURGE), a table can be imported and written to"
    )
