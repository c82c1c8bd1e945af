"""Keys of objects: UTF-8 paths, ordered as unsigned bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparklake.errors import InvalidInputError, InvalidKeyError
from sparklake.graveler.records import MAX_KEY_BYTES


def object_key(path: str) -> bytes:
    """Return the key of a path for a new object."""
    key = existing_key(path)
    if path.startswith("/") or "\0" in path or (".." in path and ".." in path.split("/")):
        raise InvalidKeyError(
            f"the key {path!r} would leave the store's root: no leading '/', no '..', no NUL"
        )
    return key


def existing_key(path: str) -> bytes:
    """Return the key of an existing object, possibly written by another program."""
    _check_text(path)
    try:
        key = path.encode()
    except UnicodeEncodeError as error:
        raise InvalidKeyError(f"the key {path!r} is not UTF-8; rename the object") from error
    if not key:
        raise InvalidKeyError("the key is empty; add the name of an object after the ref")
    if len(key) > MAX_KEY_BYTES:
        raise InvalidKeyError(
            f"the key {path[:60]!r}... has {len(key)} bytes; at most {MAX_KEY_BYTES} are allowed"
        )
    return key


def path_tuple(paths: Iterable[str], such: str = "paths") -> tuple[str, ...]:
    """Reject a string in place of a list: a `*` among its letters would mean everything."""
    if isinstance(paths, str):
        raise InvalidInputError(f"{such} must be a list, such as [{paths!r}]")
    return tuple(paths)


def key_prefix(prefix: str) -> bytes:
    _check_text(prefix)
    try:
        return prefix.encode()
    except UnicodeEncodeError as error:
        raise InvalidKeyError(
            f"the prefix {prefix!r} is not UTF-8, so no key can have it"
        ) from error


def _check_text(path: object) -> None:
    if not isinstance(path, str):
        raise InvalidKeyError(f"the path of an object must be a string, not {path!r}")


def key_folders(key: bytes) -> Iterator[bytes]:
    """Yield the folders above a key, including the root."""
    at = key.rfind(b"/")
    while at >= 0:
        yield key[: at + 1]
        at = key.rfind(b"/", 0, at)
    yield b""


def key_path(key: bytes) -> str:
    """Return the path of a key in UTF-8."""
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise InvalidKeyError(f"the key {key!r} is not UTF-8; rename the object") from error


@dataclass(frozen=True, slots=True)
class Interval:
    """The keys from `start` up to and without `stop`. None is the end of the key space."""

    start: bytes = b""
    stop: bytes | None = None

    def __contains__(self, key: bytes) -> bool:
        return self.start <= key and (self.stop is None or key < self.stop)

    @property
    def is_empty(self) -> bool:
        return self.stop is not None and self.stop <= self.start


EVERYTHING = Interval()


def common(one: Interval, other: Interval) -> Interval:
    """Return the intersection of two intervals."""
    stops = [stop for stop in (one.stop, other.stop) if stop is not None]
    return Interval(max(one.start, other.start), min(stops, default=None))


def prefix_interval(prefix: bytes) -> Interval:
    return Interval(prefix, prefix_end(prefix))


def disjoint_prefixes(prefixes: Iterable[bytes]) -> list[bytes]:
    """Sort prefixes, and drop extensions of others."""
    disjoint: list[bytes] = []
    for each in sorted(prefixes):
        if not (disjoint and each.startswith(disjoint[-1])):
            disjoint.append(each)
    return disjoint


def successor(key: bytes) -> bytes:
    return key + b"\x00"


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the smallest string above all keys with a prefix; None if there is none."""
    trimmed = prefix.rstrip(b"\xff")
    if not trimmed:
        return None
    return trimmed[:-1] + bytes([trimmed[-1] + 1])


ESCAPED_FOLDER = "_sparklake_escaped/"  # The folder of escaped keys in an export.

_ENCODED = {"%": "%25", "/": "%2F", "\0": "%00"}
_DOTS = {".": "%2E", "..": "%2E%2E"}

# A file name has at most 255 bytes, and a character at most 4.
_NAME_CHARACTERS = 60


def is_file_name(key: str, *, has_folders: bool) -> bool:
    """Return whether a key can name a file. With `has_folders`, no part may be empty."""
    parts = key.split("/")
    if key.startswith("/") or "\0" in key or "." in parts or ".." in parts:
        return False
    return not (has_folders and "" in parts)


def escaped_key(key: str) -> str:
    """Escape a key as a single name: '/', '%', NUL, and the names '.' and '..'."""
    text = "".join(_ENCODED.get(each, each) for each in key)
    return _DOTS.get(text, text)


def exported_name(key: str, *, has_folders: bool) -> str:
    """Return the name of a key at a destination.

    Distinct keys have distinct names. An escaped name of more than 60 characters is split into
    folders that end with '~'. They are longer than any file name among the escaped names, so no
    file is in the place of a folder.
    """
    if is_file_name(key, has_folders=has_folders) and not key.startswith(ESCAPED_FOLDER):
        return key
    text = escaped_key(key)
    starts = range(0, len(text), _NAME_CHARACTERS)
    return ESCAPED_FOLDER + "~/".join(text[at : at + _NAME_CHARACTERS] for at in starts)
