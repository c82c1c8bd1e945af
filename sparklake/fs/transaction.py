"""Files that are written together: none of them is staged before all of them are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fsspec.transaction import Transaction

from sparklake.uri import KeyUri
from sparklake.verbs.objects.files import ObjectWriter


class StagedTransaction(Transaction):  # type: ignore[misc]  # fsspec has no types
    """Stages the files of `with fs.transaction`, all of a branch at once.

    Of a path that is written twice the later file counts. Copies and removals do not wait.
    """

    fs: Any

    def __init__(self, fs: Any, **kwargs: Any) -> None:
        super().__init__(fs, **kwargs)
        self.waiting: list[tuple[KeyUri, ObjectWriter]] = []

    def complete(self, commit: bool = True) -> None:
        """Stages what was written, or drops it."""
        try:
            if commit:
                self._stage()
        finally:
            for _, file in self.waiting:
                file.discard()
            self.waiting.clear()
            self.files.clear()
            self.fs._intrans = False
            self.fs._transaction = None
            self.fs = None

    def _stage(self) -> None:
        branches: dict[tuple[str, str], dict[str, Path]] = {}
        places: dict[tuple[str, str], KeyUri] = {}
        for place, file in self.waiting:
            if file.is_dropped:
                continue
            file.close()
            at = (place.repository, place.ref)
            places[at] = place
            branches.setdefault(at, {})[place.key] = file.file
        for at, files in branches.items():
            self.fs.branch(places[at]).put_many(files)
