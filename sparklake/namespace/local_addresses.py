"""Addresses of local files: `local://` in records, `file://` everywhere else.

lakeFS's local adapter reads `local:///path`, and fails for a whole listing that contains `file://`.
Records of earlier versions contain `file://` addresses, so both are read.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.stores.objects import normalise_object_uri

_FILE, _LOCAL, _S3A = "file://", "local://", "s3a://"

# lakeFS reads only clean absolute paths. Parts that begin with '.' are checked one by one.
_CLEAN_FILE = r"^file://(/[^./\x00][^/\x00]*)+$"


def shown_address(address: str) -> str:
    """Return the full address of a record as a URI that all readers understand."""
    return f"{_FILE}{address[len(_LOCAL) :]}" if address.startswith(f"{_LOCAL}/") else address


def shown_addresses(addresses: pa.StringArray) -> pa.StringArray:
    """Return the addresses of records, with `file://` for local files."""
    if not pc.any(pc.starts_with(addresses, f"{_LOCAL}/")).as_py():
        return addresses
    return pc.replace_substring_regex(addresses, f"^{_LOCAL}/", f"{_FILE}/")


def stored_address(address: str) -> str:
    """Return a full address as records contain it; raise InvalidUriError."""
    if address.startswith(_S3A):
        return f"s3://{address[len(_S3A) :]}"
    if not address.startswith((_FILE, _LOCAL)):
        return address
    return f"{_LOCAL}{normalise_object_uri(address)[len(_FILE) :]}"


def stored_addresses(addresses: pa.StringArray) -> pa.StringArray:
    """Return addresses as records contain them. Keys in the namespace stay as they are."""
    if pc.any(pc.starts_with(addresses, _S3A)).as_py():
        addresses = pc.replace_substring_regex(addresses, f"^{_S3A}", "s3://")
    files = pc.starts_with(addresses, _FILE)
    if not pc.any(files).as_py():
        return addresses
    odd = pc.and_not(files, pc.match_substring_regex(addresses, _CLEAN_FILE))
    if pc.any(odd).as_py():
        pairs = zip(addresses.to_pylist(), odd.to_pylist(), strict=True)
        clean = [normalise_object_uri(each) if is_odd else each for each, is_odd in pairs]
        addresses = pa.array(clean, pa.string())
    return pc.replace_substring_regex(addresses, f"^{_FILE}/", f"{_LOCAL}/")
