"""Globs as regular expressions, matched in time O(glob x text).

Each fixed piece between two stars is matched at its first position only. The next star matches any
text, so a later position could not help. Only the last star searches for the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count

_FOLDERS = "**"
_CACHED = 1024


@lru_cache(maxsize=_CACHED)
def name_pattern(glob: str) -> re.Pattern[str]:
    """Return an expression for whole names. `*` is any characters, `?` is one."""
    return re.compile(_within(glob, ".", count()), re.DOTALL)


@lru_cache(maxsize=_CACHED)
def path_pattern(glob: str) -> re.Pattern[str]:
    """Return an expression for whole paths. `*` and `?` stay within a folder.

    `**` between slashes is any number of folders. At the end it is everything below.
    """
    numbers = count()
    *folders, last = glob.split("/")
    pieces = [""]
    for each in folders:
        if each == _FOLDERS:
            pieces.append("")
        else:
            pieces[-1] += f"{_within(each, '[^/]', numbers)}/"
    pieces[-1] += ".*" if last == _FOLDERS else _within(last, "[^/]", numbers)
    return re.compile(_starred(pieces, "(?:[^/]*/)", numbers), re.DOTALL)


def _within(glob: str, one: str, numbers: Iterator[int]) -> str:
    pieces = (
        "".join(one if each == "?" else re.escape(each) for each in piece)
        for piece in glob.split("*")
    )
    return _starred(list(pieces), one, numbers)


def _starred(pieces: Sequence[str], gap: str, numbers: Iterator[int]) -> str:
    """Join pieces with any number of gaps between two."""
    first, *others = pieces
    if not others:
        return first
    *inner, last = others
    middle = (_settled(f"{gap}*?{piece}", numbers) for piece in inner if piece)
    return "".join([first, *middle, f"{gap}*{last}"])


def _settled(expression: str, numbers: Iterator[int]) -> str:
    """Return an expression for only its first match, without backtracking.

    Python 3.10 has no atomic groups. A lookahead does not backtrack either.
    """
    name = f"g{next(numbers)}"
    return f"(?=(?P<{name}>{expression}))(?P={name})"
