"""Conflicts between the histories of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sparklake.errors import InvalidInputError

_SHOWN = 5


class UnmergeableTableError(Exception):
    """A conflict between the logs of a table: the reason and the files."""

    rows: Mapping[str, Sequence[int]] = {}

    def __init__(self, reason: str, files: Iterable[str] = ()) -> None:
        self.files = sorted(set(files))
        text = ", ".join(self.files[:_SHOWN])
        if len(self.files) > _SHOWN:
            text += f" and {len(self.files) - _SHOWN:,} more"
        super().__init__(f"{reason}: {text}" if text else reason)


class OverlappingRowsError(UnmergeableTableError):
    """Rows that both sides deleted or updated, by their positions in each file."""

    def __init__(self, rows: Mapping[str, Sequence[int]]) -> None:
        self.rows = dict(rows)
        super().__init__(
            "both sides deleted, updated or restored the same rows",
            (f"{path} at {_some(positions)}" for path, positions in rows.items()),
        )


@contextmanager
def refusing() -> Iterator[None]:
    """Raise InvalidInputError for UnmergeableTableError."""
    try:
        yield
    except UnmergeableTableError as error:
        raise InvalidInputError(str(error)) from error


def _some(positions: Sequence[int]) -> str:
    noun = "position" if len(positions) == 1 else "positions"
    text = ", ".join(map(str, positions[:_SHOWN]))
    more = len(positions) - _SHOWN
    return f"{noun} {text} and {more:,} more" if more > 0 else f"{noun} {text}"


def rewritten_without(writer: str, column: str, owner: str) -> UnmergeableTableError:
    """Return the conflict on a column whose values are in files of one side only."""
    return UnmergeableTableError(
        f"{writer} rewrote rows without the column {column!r}, which {owner} still has. Drop it on "
        "both sides first, such as by a cherry-pick of the commit that dropped it"
    )
