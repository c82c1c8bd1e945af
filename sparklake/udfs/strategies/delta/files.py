"""Where the files of a Delta table lie that its log names."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

_LETTERS = b"0123456789" + bytes(range(97, 123)) + bytes(range(65, 91))
_Z85 = _LETTERS + b".-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789" + bytes(range(65, 91)) + bytes(range(97, 123)) + b"!#$%&()*+-;<=>?@^_`{|}~"
_UUID_CHARACTERS = 20


def file_keys(folder: bytes, said: Mapping[str, Any]) -> Iterator[bytes]:
    """Yields the keys of what an `add` needs, which lie below the table; others are not known."""
    root = folder.removesuffix(b"_delta_log/")
    path = said["path"]
    if _is_relative(path):
        yield root + unquote(path).encode()
    vector = said.get("deletionVector") or {}
    if vector.get("storageType") == "u":
        yield root + vector_path(vector["pathOrInlineDv"]).encode()


def vector_path(named: str) -> str:
    """Returns the path of a file of deletion vectors, of which the log has a prefix and a UUID."""
    prefix, packed = named[:-_UUID_CHARACTERS], named[-_UUID_CHARACTERS:]
    raw = base64.b85decode(packed.encode().translate(bytes.maketrans(_Z85, _B85)))
    name = f"deletion_vector_{uuid.UUID(bytes=raw)}.bin"
    return f"{prefix}/{name}" if prefix else name


def _is_relative(path: str) -> bool:
    return not path.startswith("/") and ":" not in path.partition("/")[0]
