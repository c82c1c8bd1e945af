"""The formulas and the model, written from hashlib and plain dicts without sparklake.

Contents are `{key: identity}`, changes are `{key: identity, or None for a deletion}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

Contents = dict[bytes, bytes]
Changes = dict[bytes, bytes | None]

CAP_FACTOR = 4


def value_record_id(key: bytes, identity: bytes) -> bytes:
    return sha256(sha256(key).digest() + sha256(identity).digest()).digest()


def file_id(pairs: Iterable[tuple[bytes, bytes]]) -> str:
    return sha256(b"".join(value_record_id(*pair) for pair in pairs)).hexdigest()


def ends_range(key: bytes, identity: bytes, range_records: int) -> bool:
    return int(value_record_id(key, identity).hex(), 16) % range_records == 0


def cut(contents: Mapping[bytes, bytes], range_records: int) -> list[list[tuple[bytes, bytes]]]:
    """Return the records of each range."""
    ranges: list[list[tuple[bytes, bytes]]] = [[]]
    for pair in sorted(contents.items()):
        ranges[-1].append(pair)
        full = len(ranges[-1]) == CAP_FACTOR * range_records
        if full or ends_range(*pair, range_records):
            ranges.append([])
    return [each for each in ranges if each]


def range_ids(contents: Mapping[bytes, bytes], range_records: int) -> list[str]:
    return [file_id(each) for each in cut(contents, range_records)]


def meta_range_id(contents: Mapping[bytes, bytes], range_records: int) -> str:
    ranges = cut(contents, range_records)
    if not ranges:
        return ""
    return file_id((each[-1][0], file_id(each).encode()) for each in ranges)


def identity_of(key: bytes, range_records: int, *, end: bool, other_than: Iterable[bytes]) -> bytes:
    """Return an identity that makes a record end its range, or not."""
    excluded = set(other_than)
    numbers = (b"%d" % number for number in range(1_000_000))
    fitting = (each for each in numbers if ends_range(key, each, range_records) == end)
    return next(each for each in fitting if each not in excluded)


def changed(contents: Mapping[bytes, bytes], changes: Mapping[bytes, bytes | None]) -> Contents:
    after = {**contents, **changes}
    return {key: identity for key, identity in after.items() if identity is not None}


def differences(
    left: Mapping[bytes, bytes], right: Mapping[bytes, bytes]
) -> dict[bytes, tuple[bytes | None, bytes | None]]:
    sides = {key: (left.get(key), right.get(key)) for key in {*left, *right}}
    return {key: both for key, both in sorted(sides.items()) if both[0] != both[1]}


def merged(
    base: Mapping[bytes, bytes],
    source: Mapping[bytes, bytes],
    dest: Mapping[bytes, bytes],
    winner: Mapping[bytes, bytes],
) -> tuple[Contents, list[bytes]]:
    """Return a merge in which one side wins every conflict, and the keys in conflict."""
    changes: Changes = {}
    conflicts = []
    for key in sorted({*base, *source, *dest}):
        before, theirs, ours = base.get(key), source.get(key), dest.get(key)
        if theirs == before:
            continue
        if ours == before:
            changes[key] = theirs
        elif ours != theirs:
            changes[key] = winner.get(key)
            conflicts.append(key)
    return changed(dest, changes), conflicts
