"""Samples of the Parquet files that the sides of a merge add."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_FOLDERS = 1_000
"""The most folders with a sample. Further ones are left out."""


Samples = dict[bytes, bytes]
"""The key of a file for each folder."""


@dataclass(slots=True)
class AddedFiles:
    """Samples of the files that source and dest have added since base.

    A folder is that of a table: partition folders, such as `day=1/`, belong to it.
    """

    source: Samples = field(default_factory=dict)
    dest: Samples = field(default_factory=dict)

    def join(self, other: AddedFiles) -> None:
        """Add the samples of another task."""
        for mine, theirs in ((self.source, other.source), (self.dest, other.dest)):
            for folder, key in theirs.items():
                if folder in mine or len(mine) < MAX_FOLDERS:
                    mine[folder] = min(key, mine.get(folder, key))
