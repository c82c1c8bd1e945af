"""The registry of object stores, by URI scheme. URIs are verbatim, never percent-encoded."""

from __future__ import annotations

import re
from functools import lru_cache

from sparklake.errors import InvalidUriError
from sparklake.graveler.ports import ObjectStore, StoreTraits
from sparklake.stores.objects.azure import AZURE
from sparklake.stores.objects.destinations import Destination
from sparklake.stores.objects.gcs import GCS
from sparklake.stores.objects.key_checks import invalid_uri
from sparklake.stores.objects.local.provider import LOCAL
from sparklake.stores.objects.providers import StoreProvider
from sparklake.stores.objects.s3.provider import S3
from sparklake.uri import is_utf8

BUILT_IN: tuple[StoreProvider, ...] = (LOCAL, S3, AZURE, GCS)
"""The stores of this package."""

ENTRY_POINTS = "sparklake.stores"
"""The group of entry points with the StoreProvider of other packages."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def provider_of(uri: str) -> StoreProvider:
    if not uri:
        raise InvalidUriError(f"The URI of the store is empty: use {_forms()}.")
    if "\0" in uri or not is_utf8(uri):
        raise invalid_uri(uri, "has a NUL character or is not UTF-8: rename the directory")
    match = _SCHEME.match(uri)
    if match is None:
        return LOCAL
    provider = find_provider(match[1].lower())
    if provider is None:
        # The URI is omitted from the message, because it may contain credentials.
        raise InvalidUriError(f"{match[1]}:// is not supported as an object store: use {_forms()}.")
    return provider


def find_provider(scheme: str) -> StoreProvider | None:
    """Return the provider for a scheme in lower case, or None."""
    built_in = next((each for each in BUILT_IN if scheme in each.schemes), None)
    return built_in or next((each for each in _plugins() if scheme in each.schemes), None)


def all_providers() -> tuple[StoreProvider, ...]:
    return (*BUILT_IN, *_plugins())


@lru_cache
def _plugins() -> tuple[StoreProvider, ...]:
    # Lazy import: it takes 20 ms, and small commands do not need it.
    from importlib.metadata import entry_points

    return tuple(each.load() for each in entry_points(group=ENTRY_POINTS))


def _forms() -> str:
    return ", ".join(each.forms for each in BUILT_IN)


def normalise_store_uri(uri_or_path: str) -> str:
    """Return the canonical URI of a root. Symbolic links are not resolved."""
    return provider_of(uri_or_path).root_of(uri_or_path)


def describe_store(uri: str) -> StoreTraits:
    """Return the traits of the store at a path or URI, without opening it."""
    return provider_of(uri).traits


def open_store(uri: str) -> ObjectStore:
    """Return the store at a path or URI. Nothing is read, and it need not exist yet."""
    provider = provider_of(uri)
    return provider.open(provider.root_of(uri))


def split_uri(uri: str) -> tuple[str, str]:
    """Split an address into the canonical root of its store and the key."""
    return provider_of(uri).split(uri)


def open_object(uri: str) -> tuple[ObjectStore, str]:
    """Return the store and the key of an object at any address, for reads."""
    provider = provider_of(uri)
    root, key = provider.split(uri)
    return provider.open(root), key


def open_destination(uri: str) -> Destination:
    """Return the destination at a path or URI. It need not exist, and nothing is written."""
    provider = provider_of(uri)
    return provider.open_destination(provider.root_of(uri))


def normalise_object_uri(uri: str) -> str:
    root, key = split_uri(uri)
    if not key:
        raise invalid_uri(uri, "has no object key: add one")
    return f"{root}/{key}"
