"""Spellings of object addresses: canonical, in records, for Spark, and as local paths.

Records of local files contain `local://`, everything else uses `file://`. lakeFS's local adapter
reads `local:///path`, and rejects a whole listing with one `file://` address. Records of earlier
versions contain `file://`, so both are read.

Records of Azure's blobs contain percent-encoded URLs, because lakeFS decodes them. Everything else
uses the literal keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidUriError
from sparklake.graveler.buffers import data_of, offsets_of
from sparklake.stores.objects.providers import StoreProvider
from sparklake.stores.objects.registry import (
    BUILT_IN,
    all_providers,
    find_provider,
    normalise_object_uri,
)

_FILE, _LOCAL = "file://", "local://"

URI_START = re.compile("^[A-Za-z][A-Za-z0-9+.-]*:/")
"""The start of a URI, including Hadoop URIs with a single slash. No key starts like this."""

PLAIN_PLACES = "|".join(each.plain_place for each in BUILT_IN if each.plain_place)
"""The start of a plain address in any built-in store, up to the slash before the key."""

UNUSUAL = "|".join(each.unusual for each in BUILT_IN if each.unusual)
"""Addresses of plain places that are checked one by one."""

HADOOP_CLIENTS = " or ".join(each.hadoop_client for each in BUILT_IN if each.hadoop_client)
"""The clients with which Spark reads and writes buckets."""

_BUILT_IN_SCHEMES = "^({}):/".format("|".join(each for one in BUILT_IN for each in one.schemes))

_FIRST_SCHEMES = "^({})://".format("|".join(each.schemes[0] for each in BUILT_IN))
"""The canonical schemes, which no rewrite changes."""

_CANONICAL = "^({})".format("|".join(each.canonical for each in BUILT_IN))

_ENCODED = "^({})/".format("|".join(each.encoded_place for each in BUILT_IN if each.encoded_place))
_ENCODED_URI = f"(?s){_ENCODED}.*%"
# Of a path, Go's net/url leaves these characters.
_NOT_ENCODED = "$&+,/:;=@"
_TO_ENCODE = f"(?s){_ENCODED}.*[^A-Za-z0-9_.~{_NOT_ENCODED}-]"


def shown_address(address: str) -> str:
    """Convert a record's full address to a URI for any reader."""
    if address.startswith(f"{_LOCAL}/"):
        return f"{_FILE}{address[len(_LOCAL) :]}"
    return _decoded(address) if re.match(_ENCODED, address) else address


def shown_addresses(addresses: pa.StringArray, inside: str = "") -> pa.StringArray:
    """Return the addresses of records, with `file://` for local files and literal keys.

    Those that start with `inside` have literal keys already.
    """
    outside = pc.invert(pc.starts_with(addresses, inside))
    if inside and not pc.any(outside).as_py():
        return addresses
    encoded = pc.match_substring_regex(addresses, _ENCODED_URI)
    if inside:
        encoded = pc.and_(encoded, outside)
    addresses = _replaced(addresses, encoded, _decoded)
    if not pc.any(pc.starts_with(addresses, f"{_LOCAL}/")).as_py():
        return addresses
    return pc.replace_substring_regex(addresses, f"^{_LOCAL}/", f"{_FILE}/")


def stored_address(address: str) -> str:
    if address.startswith((_FILE, _LOCAL)):
        return f"{_LOCAL}{normalise_object_uri(address)[len(_FILE) :]}"
    address = canonical_address(address)
    return _encoded(address) if re.match(_ENCODED, address) else address


def stored_addresses(addresses: pa.StringArray) -> pa.StringArray:
    """Convert addresses to their form in records. Keys in the namespace are unchanged."""
    if not may_have_uris(addresses):
        return addresses
    addresses = canonical_schemes(addresses)
    addresses = _replaced(addresses, pc.match_substring_regex(addresses, _TO_ENCODE), _encoded)
    files = pc.starts_with(addresses, _FILE)
    if not pc.any(files).as_py():
        return addresses
    odd = pc.and_not(files, pc.match_substring_regex(addresses, _CANONICAL))
    addresses = _replaced(addresses, odd, normalise_object_uri)
    return pc.replace_substring_regex(addresses, f"^{_FILE}/", f"{_LOCAL}/")


def _providers(addresses: pa.StringArray) -> tuple[StoreProvider, ...]:
    """Return the providers of addresses. Plug-ins are loaded only for schemes not built in."""
    others = pc.and_not(
        pc.match_substring_regex(addresses, URI_START.pattern),
        pc.match_substring_regex(addresses, _BUILT_IN_SCHEMES),
    )
    return all_providers() if pc.any(others).as_py() else BUILT_IN


def canonical_address(address: str) -> str:
    """Return an address in its canonical spelling. One of an unsupported store is unchanged."""
    try:
        return normalise_object_uri(address)
    except InvalidUriError:
        return address  # Another tool wrote it.


def may_have_uris(addresses: pa.StringArray) -> bool:
    """Return False if no address has a colon. Faster than a search in each."""
    if not isinstance(addresses, pa.StringArray):
        return True
    bounds = offsets_of(addresses)
    return b":" in data_of(addresses)[bounds[0] : bounds[-1]].tobytes()


def canonical_schemes(addresses: pa.StringArray) -> pa.StringArray:
    if (
        not may_have_uris(addresses)
        or pc.all(pc.match_substring_regex(addresses, _FIRST_SCHEMES)).as_py()
    ):
        return addresses
    for each in _providers(addresses):
        if each.to_canonical is not None:
            addresses = each.to_canonical.column(addresses)
    return addresses


def canonical_addresses(addresses: pa.StringArray) -> pa.StringArray:
    """Return canonical addresses. Those of unsupported stores are unchanged."""
    addresses = canonical_schemes(addresses)
    odd = pc.invert(pc.match_substring_regex(addresses, _CANONICAL))
    return _replaced(addresses, odd, canonical_address)


def _replaced(
    addresses: pa.StringArray, odd: pa.BooleanArray, change: Callable[[str], str]
) -> pa.StringArray:
    if not pc.any(odd).as_py():
        return addresses
    pairs = zip(addresses.to_pylist(), odd.to_pylist(), strict=True)
    return pa.array([change(each) if is_odd else each for each, is_odd in pairs], pa.string())


def spark_uri(uri: str, like: str = "") -> str:
    """Convert a canonical URI for Spark, with the scheme of Hadoop's client.

    It is unchanged if `like` has the same scheme, and some sessions read that.
    """
    scheme = uri.partition("://")[0]
    provider = find_provider(scheme)
    if provider is None or provider.to_spark is None:
        return uri
    is_handled = provider.spark_may_handle and like.startswith(f"{scheme}://")
    return uri if is_handled else provider.to_spark.text(uri)


def may_be_handled(uri: str) -> bool:
    """Return whether some Spark sessions read the canonical URI itself."""
    provider = find_provider(uri.partition("://")[0])
    return provider is not None and provider.spark_may_handle


def spark_uris(uris: pa.StringArray) -> pa.StringArray:
    for each in _providers(uris):
        if each.to_spark is not None:
            uris = each.to_spark.column(uris)
    return uris


def unsupported_addresses(addresses: pa.StringArray) -> pa.BooleanArray:
    """Return the mask of full addresses in unsupported stores."""
    places = "|".join(
        each.place or f"({'|'.join(each.schemes)}):/" for each in _providers(addresses)
    )
    is_supported = pc.match_substring_regex(addresses, f"^({places})")
    return pc.and_not(pc.match_substring_regex(addresses, URI_START.pattern), is_supported)


def are_local(addresses: pa.StringArray) -> pa.BooleanArray:
    return pc.starts_with(addresses, _FILE)


def local_paths(addresses: pa.StringArray) -> pa.StringArray:
    return pc.utf8_slice_codeunits(addresses, len(_FILE))


def _decoded(address: str) -> str:
    try:
        return unquote(address, errors="strict")
    except UnicodeDecodeError:
        return address  # No tool of Azure writes it.


def _encoded(address: str) -> str:
    return quote(address, safe=_NOT_ENCODED)
