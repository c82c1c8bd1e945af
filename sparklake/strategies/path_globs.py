"""Globs over the paths of objects.

`?` is one character and `*` any number of characters, both within a folder. `**` between slashes is
any number of folders, including none. `**` at the end is everything below. Every other character
matches itself. Object keys are not file paths: `a//b`, `./a` and `a/` are distinct keys, unlike in
glob libraries for files.
"""

from __future__ import annotations

import re
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


def matches(glob: str, key: bytes) -> bool:
    """Return whether a glob matches a key, even if it is not UTF-8."""
    return glob_pattern(glob).fullmatch(key.decode(errors="surrogateescape")) is not None
