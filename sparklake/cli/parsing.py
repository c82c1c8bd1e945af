"""Parsers of arguments other than URIs: labels, rules, times, durations."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path

from sparklake.config import disk_root
from sparklake.errors import InvalidInputError

STDIN = "-"
TREE_DEPTH = 3
ROWS_SHOWN = 100


class DiffShape(str, Enum):
    ROWS = "rows"
    FOLDERS = "folders"
    TREE = "tree"
    SUMMARY = "summary"


def diff_shape(*, by_folder: bool, tree: bool, summary: bool, depth: int | None) -> DiffShape:
    requests = {DiffShape.FOLDERS: by_folder, DiffShape.TREE: tree, DiffShape.SUMMARY: summary}
    shapes = [shape for shape, is_asked in requests.items() if is_asked]
    if len(shapes) > 1:
        raise InvalidInputError("choose one of --by-folder, --tree and --summary")
    if depth is not None and not (by_folder or tree):
        raise InvalidInputError("--depth needs --by-folder or --tree")
    return shapes[0] if shapes else DiffShape.ROWS


_DURATION = re.compile(r"([0-9]{1,9})([smhdw])")
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def labels(texts: Sequence[str] | None) -> dict[str, str]:
    values = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InvalidInputError(f"{text!r} is not KEY=VALUE")
        values[name] = value
    return values


def required_metadata(texts: Sequence[str] | None) -> dict[str, str | None]:
    """Parse `KEY` and `KEY=VALUE` strings. A key alone requires any value."""
    required: dict[str, str | None] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name:
            raise InvalidInputError(f"{text!r} is not KEY or KEY=VALUE")
        required[name] = value if equals else None
    return required


def renames(texts: Sequence[str] | None) -> dict[str, str]:
    """Parse `OLD=NEW` strings, split at the last '='."""
    names: dict[str, str] = {}
    for text in texts or ():
        old, equals, new = text.rpartition("=")
        if not (old and equals and new):
            raise InvalidInputError(f"{text!r} is not OLD=NEW")
        if names.setdefault(old, new) != new:
            raise InvalidInputError(f"{old!r} is renamed to both {names[old]!r} and {new!r}")
    return names


def rule_pairs(texts: Sequence[str] | None) -> list[tuple[str, str]]:
    """Parse `GLOB=STRATEGY` strings."""
    # Lazy import: it takes longer than the start of --help.
    from sparklake.strategies.choosing import rule_pair

    return [rule_pair(text) for text in texts or ()]


def branch_days(texts: Sequence[str] | None) -> dict[str, int]:
    """Parse `PATTERN=DAYS` strings, split at the last '='."""
    by_pattern: dict[str, int] = {}
    for text in texts or ():
        pattern, _, days = text.rpartition("=")
        if not (pattern and days.isdecimal() and days.isascii()):
            raise InvalidInputError(f"{text!r} is not PATTERN=DAYS, such as 'release-*=90'")
        if pattern in by_pattern:
            raise InvalidInputError(f"the pattern {pattern!r} has two retention rules: remove one")
        by_pattern[pattern] = int(days)
    return by_pattern


def moment(text: str | None) -> datetime | None:
    """Parse an ISO 8601 time, in UTC by default. A date is the start of the day."""
    if text is None:
        return None
    try:
        # Python 3.10 cannot parse the Z.
        time = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r} is not a time: write 2024-05-31, '2024-05-31 12:00' (both in UTC) "
            "or 2024-05-31T12:00:00+02:00"
        ) from error
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    try:
        if match is not None:
            return int(match[1]) * _UNITS[match[2]]
    except OverflowError:
        pass
    raise InvalidInputError(f"{text!r} is not a duration: write 30s, 15m, 12h, 7d or 2w")


@contextmanager
def file_at(place: str) -> Iterator[Path]:
    """Yield the given file, or a temporary copy of stdin for `-`."""
    if place != STDIN:
        yield Path(place)
        return
    with tempfile.NamedTemporaryFile(prefix="sparklake-", dir=disk_root()) as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


def one_level(requests: Mapping[str, bool]) -> str:
    levels = [level for level, is_asked in requests.items() if is_asked]
    if len(levels) > 1:
        raise InvalidInputError(f"choose one of {', '.join(f'--{each}' for each in requests)}")
    return levels[0] if levels else "objects"
