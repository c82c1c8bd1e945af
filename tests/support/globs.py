"""A matcher of globs by brute force, written from their description."""

from __future__ import annotations


def fits(glob: str, path: str) -> bool:
    """Return whether a glob matches a path."""
    return _parts_fit(glob.split("/"), path.split("/"))


def _parts_fit(globs: list[str], parts: list[str]) -> bool:
    if not globs or not parts:
        return globs == parts
    first, *rest = globs
    if first == "**":
        if not rest:
            return True
        return any(_parts_fit(rest, parts[count:]) for count in range(len(parts)))
    return _part_fits(first, parts[0]) and _parts_fit(rest, parts[1:])


def _part_fits(glob: str, part: str) -> bool:
    if not glob or not part:
        return part == glob.replace("*", "")
    if glob[0] == "*":
        return _part_fits(glob[1:], part) or _part_fits(glob, part[1:])
    return glob[0] in ("?", part[0]) and _part_fits(glob[1:], part[1:])
