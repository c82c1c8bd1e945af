"""Names for keys that cannot be names of files: other programs write such keys.

`sparklake/uri.py` (`parse_uri`) decodes them.
"""

from __future__ import annotations

ESCAPED_FOLDER = "_sparklake_escaped/"
"""The folder of escaped keys in an export."""

_ENCODED = {"%": "%25", "/": "%2F", "\0": "%00"}
_DOTS = {".": "%2E", "..": "%2E%2E"}

# A file name has at most 255 bytes, and a character at most 4.
_NAME_CHARACTERS = 60


def is_file_name(key: str, *, has_folders: bool) -> bool:
    """Return whether a key can be the name of a file in any folder, or of an object in a bucket.

    With `has_folders`, no part may be empty.
    """
    parts = key.split("/")
    if key.startswith("/") or "\0" in key or "." in parts or ".." in parts:
        return False
    return not (has_folders and "" in parts)


def escaped_key(key: str) -> str:
    """Return a key percent-encoded, as one name: '/', '%', NUL, and the names '.' and '..'."""
    text = "".join(_ENCODED.get(each, each) for each in key)
    return _DOTS.get(text, text)


def exported_name(key: str, *, has_folders: bool) -> str:
    """Return the name of a key at a destination. Different keys have different names.

    An escaped name of more than 60 characters is split into folders that end with '~'. They are
    longer than any file name among the escaped names, so no file is in the place of a folder.
    """
    if is_file_name(key, has_folders=has_folders) and not key.startswith(ESCAPED_FOLDER):
        return key
    text = escaped_key(key)
    starts = range(0, len(text), _NAME_CHARACTERS)
    return ESCAPED_FOLDER + "~/".join(text[at : at + _NAME_CHARACTERS] for at in starts)
