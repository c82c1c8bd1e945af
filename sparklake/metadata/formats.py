"""The metadata files by which table formats are recognized."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFiles:
    """The metadata files of a table format, and the module with its verbs.

    `pattern` matches the names of identifying files, directly in the folder. Without one, every
    file in the folder is metadata. `prefixes` are the names to try first. Each commit to a table
    changes a key that matches `changed`. With `nests`, folders below a table may be other ones.

    A strategy decides a whole table if it decides the `samples`, which are names in the folder.
    With `has_rules`, rules on the folder exclude a table from unions. With `grows`, files of the
    folder are never removed from a branch by replays.
    """

    name: str
    folder: str
    pattern: str = ""
    prefixes: tuple[str, ...] = ("",)
    changed: bytes = b""
    samples: tuple[str, ...] = ()
    nests: bool = False
    has_rules: bool = False
    grows: bool = False
    verbs: str = ""

    def find_folder(self, key: bytes) -> bytes | None:
        """Return the metadata folder of a key that commits change, with a slash, or None."""
        match = re.search(self.changed, key, re.DOTALL) if self.changed else None
        if match is None:
            return None
        folder = self.folder.encode()
        return key[: key.index(folder, match.start()) + len(folder)]


def table_of(folder: bytes) -> bytes:
    """Return the table folder of a metadata folder. '' is the root."""
    return folder[: folder.rfind(b"/", 0, -1) + 1]
