"""Checksums as digests, and their comparison with an object's bytes."""

from __future__ import annotations

import re
from collections.abc import Callable

from sparklake.graveler.ports import StoredObject

_MD5 = re.compile(r"[0-9a-f]{32}")


def may_be_md5(checksum: str) -> bool:
    return _MD5.fullmatch(checksum) is not None


def contradicts(checksum: str, digest: str, find: Callable[[], StoredObject | None]) -> bool:
    """Return whether the MD5 of the read bytes proves a change to the object.

    The ETag of an encrypted object may look like an MD5 without being one. So if the digest
    differs, `find` looks the object up: an object that still has this opaque ETag is unchanged.
    """
    if not may_be_md5(checksum) or digest == checksum:
        return False
    stored = find()
    return stored is None or not stored.is_opaque or stored.checksum != checksum
