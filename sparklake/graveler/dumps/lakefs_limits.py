"""Names and addresses allowed by sparklake and rejected by lakeFS."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.ports import RefsSnapshot

_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")

# lakeFS's tags may have nearly all characters, but not the ':' of sparklake's.
_NOT_IN_TAGS = ":"

# lakeFS parses an address as a URL: no control characters, and '%' only before two digits.
_SCHEMES = "(s3|gs|mem|memory|local|http|https)"
_READ_URL = rf"^{_SCHEMES}://([^%\x00-\x1f\x7f]|%[0-9A-Fa-f]{{2}})+$"

# Its local adapter reads clean absolute paths only.
_CLEAN_PARTS = r"(/([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+))+"
_LOCAL_PATH = rf"^local://{_CLEAN_PARTS}$"


def refused_branches(refs: RefsSnapshot) -> list[str]:
    return [each.name for each in refs.branches if not _BRANCH.fullmatch(each.name)]


def refused_tags(refs: RefsSnapshot) -> list[str]:
    return [each.name for each in refs.tags if _NOT_IN_TAGS in each.name]


def refused_addresses(addresses: pa.StringArray) -> pa.BooleanArray:
    """Return the mask of full addresses unparsable by lakeFS: listing such a commit fails."""
    is_url = pc.match_substring_regex(addresses, _READ_URL)
    is_local = pc.starts_with(addresses, "local:")
    is_path = pc.match_substring_regex(addresses, _LOCAL_PATH)
    return pc.invert(pc.and_(is_url, pc.or_(pc.invert(is_local), is_path)))
