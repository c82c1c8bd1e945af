"""Actions of a Delta table's log: one JSON object a line, or one row of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from sparklake.errors import CorruptFileError
from sparklake.graveler.json_errors import BAD_JSON
from sparklake.udfs.delta.paths import name_of

Action: TypeAlias = Mapping[str, Any]
"""Is one action: its kind, such as `add`, and what is said of it."""

Said: TypeAlias = Mapping[str, Any]
"""Is what an action says."""

OF_FILES = ("add", "remove", "cdc")
"""Is the kinds of actions that name a file."""


def decode_actions(body: bytes, name: str) -> list[dict[str, Any]]:
    """Returns the actions of a commit, which errors call by a name; raises CorruptFileError."""
    try:
        actions = [msgspec.json.decode(line) for line in body.splitlines() if line.strip()]
    except BAD_JSON as error:
        raise CorruptFileError(f"{name} of a Delta log is no JSON: {error}") from error
    if not all(isinstance(each, dict) for each in actions):
        raise CorruptFileError(f"{name} of a Delta log has a line that is no object")
    return actions


def encode_actions(actions: Iterable[Action]) -> bytes:
    """Returns the bytes of a commit."""
    return b"".join(msgspec.json.encode(each) + b"\n" for each in actions)


def said_of(actions: Iterable[Action], *kinds: str) -> Iterator[dict[str, Any]]:
    """Yields what the actions of some kinds say; a kind that is null says nothing."""
    return (each[kind] for each in actions for kind in kinds if each.get(kind) is not None)


@dataclass(frozen=True, slots=True)
class FileKey:
    """Is what Delta tells files apart by: the path, and the deletion vector that goes with it.

    The path is as it is spelled in storage: writers escape different characters in the log.
    """

    path: str
    vector: str = ""

    @staticmethod
    def of(said: Said) -> FileKey:
        """Returns the key of an `add` or a `remove`."""
        path, vector = name_of(said["path"]), said.get("deletionVector")
        if not vector:
            return FileKey(path)
        parts = (vector.get("storageType"), vector.get("pathOrInlineDv"), vector.get("offset"))
        return FileKey(path, "|".join(map(str, parts)))
