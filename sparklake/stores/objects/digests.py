"""Checksums of entries that are digests, and what they prove about the bytes of an object."""

from __future__ import annotations

import re
from collections.abc import Callable

from sparklake.graveler.ports import StoredObject

_MD5 = re.compile(r"[0-9a-f]{32}")


def may_be_md5(checksum: str) -> bool:
    """Tell whether a checksum may be the MD5 of an object's bytes."""
    return _MD5.fullmatch(checksum) is not None


def contradicts(checksum: str, digest: str, find: Callable[[], StoredObject | None]) -> bool:
    """Tell whether the MD5 of what was read proves that it is not what was added.

    The ETag of an encrypted object may look like an MD5 and be none. So where the digest differs,
    `find` asks the store: an object that still has this opaque ETag is the one that was added.
    """
    if not may_be_md5(checksum) or digest == checksum:
        return False
    found = find()
    return found is None or not found.is_opaque or found.checksum != checksum
