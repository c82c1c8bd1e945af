"""Globs over the paths of objects.

`?` is one character and `*` any number of characters, both within a folder. `**` between slashes is
any number of folders, including none. `**` at the end is everything below. Every other character
matches itself. Object keys are not file paths: `a//b`, `./a` and `a/` are distinct keys, unlike in
glob libraries for files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from sparklake.errors import InvalidInputError
from sparklake.graveler.globs import path_pattern
from sparklake.uri import is_utf8


@lru_cache(maxsize=1024)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Compile a glob to a pattern for whole paths."""
    if not isinstance(glob, str):
        raise InvalidInputError(f"a glob must be a string, not {glob!r}")
    if not glob:
        raise InvalidInputError("an empty glob matches no path: use a glob such as 'tables/**'")
    if not is_utf8(glob) or "\0" in glob:
        raise InvalidInputError(
            f"the glob {glob!r} must be UTF-8 without NUL: use `?` for other characters"
        )
    parts = glob.split("/")
    if any("**" in part and part != "**" for part in parts):
        raise InvalidInputError(
            f"in the glob {glob!r} `**` must be between slashes, as in 'a/**/*.csv'"
        )
    return path_pattern(glob)


def check_exclusions(globs: Sequence[str]) -> tuple[str, ...]:
    """Validate the globs to exclude."""
    if isinstance(globs, str):
        raise InvalidInputError(f"the paths to exclude must be a list of globs, not {globs!r}")
    for each in globs:
        glob_pattern(each)
    return tuple(globs)


def is_excluded(globs: Sequence[str], path: str) -> bool:
    """Return whether a glob matches a path, or a folder above it.

    A glob without a slash, other than at its end, matches names in all folders.
    """
    return any(
        pattern.fullmatch(path) is not None for each in globs for pattern in _exclusions(each)
    )


@lru_cache(maxsize=1024)
def _exclusions(glob: str) -> tuple[re.Pattern[str], ...]:
    whole = glob if "/" in glob.rstrip("/") else f"**/{glob}"
    below = path_pattern(f"{whole.rstrip('/')}/**")
    return (below,) if glob.endswith("/") else (path_pattern(whole), below)


def matches(glob: str, key: bytes) -> bool:
    """Return whether a glob matches a key, even if it is not UTF-8."""
    return glob_pattern(glob).fullmatch(key.decode(errors="surrogateescape")) is not None
