"""Actions of a Delta log: a commit's JSON lines, or a checkpoint's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from sparklake.errors import CorruptFileError
from sparklake.graveler.json_errors import BAD_JSON
from sparklake.metadata.delta.paths import name_of

Action: TypeAlias = Mapping[str, Any]
"""One action: its kind, such as `add`, and its fields."""

Fields: TypeAlias = Mapping[str, Any]

OF_FILES = ("add", "remove", "cdc")
"""The kinds of file actions."""


def decode_actions(body: bytes, name: str) -> list[dict[str, Any]]:
    """Decode the actions of a commit. Errors contain `name`."""
    try:
        actions = [msgspec.json.decode(line) for line in body.splitlines() if line.strip()]
    except BAD_JSON as error:
        raise CorruptFileError(f"{name} of a Delta log is not JSON: {error}") from error
    if not all(isinstance(each, dict) for each in actions):
        raise CorruptFileError(f"{name} of a Delta log has a line that is not a JSON object")
    return actions


def encode_actions(actions: Iterable[Action]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in actions)


def fields_of(actions: Iterable[Action], *kinds: str) -> Iterator[dict[str, Any]]:
    return (each[kind] for each in actions for kind in kinds if each.get(kind) is not None)


@dataclass(frozen=True, slots=True, order=True)
class FileKey:
    """The identity of a file in Delta. The path is decoded, because writers escape differently."""

    path: str
    vector: str = ""

    @staticmethod
    def of(fields: Fields) -> FileKey:
        path, vector = name_of(fields["path"]), fields.get("deletionVector")
        if not vector:
            return FileKey(path)
        parts = map(vector.get, ("storageType", "pathOrInlineDv", "offset"))
        return FileKey(path, "|".join(map(str, parts)))
