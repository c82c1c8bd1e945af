"""What people type besides URIs, for the command and the jobs alike."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sparklake.errors import InvalidInputError

STDIN = "-"


def labels(given: Sequence[str] | None) -> dict[str, str]:
    """Returns labels from `KEY=VALUE` texts; raises InvalidInputError."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InvalidInputError(f"a label is KEY=VALUE, not {text!r}")
        found[name] = value
    return found


@contextmanager
def file_at(given: str, folder: Path) -> Iterator[Path]:
    """Yields the file that is named, or for `-` a copy of stdin, in a folder, gone at the end."""
    if given != STDIN:
        yield Path(given)
        return
    with tempfile.NamedTemporaryFile(prefix="sparklake-", dir=folder) as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)
