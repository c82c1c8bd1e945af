"""The disk cache of remote tree files."""

from __future__ import annotations

from sparklake.config import CacheSettings
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.cache.counts import CacheCounts
from sparklake.stores.cache.disk import CacheUsage, DiskCache, find_cache
from sparklake.stores.objects import open_store

__all__ = ["CacheCounts", "CacheUsage", "DiskCache", "find_cache", "open_cached_store"]


def open_cached_store(uri: str, settings: CacheSettings, instance: str = "") -> ObjectStore:
    """Return the store at a URI. Tree files of a remote store are cached on disk per instance."""
    store = open_store(uri)
    if store.traits.is_local:
        return store
    cache = find_cache(settings)
    if cache is None:
        return store
    # Lazy import: numpy and Arrow take 0.25 s, and local stores have no cache.
    from sparklake.graveler.sstable.range_files import verify_table
    from sparklake.stores.cache.cached_store import CachedStore

    return CachedStore(store, cache, verify_table, instance)
