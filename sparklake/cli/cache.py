"""`sparklake cache`: show, clear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.text import one_line, size
from sparklake.documents import cache_document
from sparklake.errors import NothingToDoError

if TYPE_CHECKING:
    from sparklake.stores.cache import DiskCache

app = Group("cache", "Local disk cache of tree files: show, clear.")


@app.add()
def show(invocation: Invocation) -> None:
    """Show the location and size of the cache."""
    cache = _cache(invocation)
    usage = cache.usage()
    invocation.out.one(
        cache_document(cache, usage),
        f"{one_line(str(cache.folder))} contains {usage.tree_files} tree files, "
        f"{size(usage.size)} of {size(cache.max_bytes)}",
    )


@app.add()
def clear(invocation: Invocation) -> None:
    """Delete everything in the cache.

    Running commands read the tables from the store again.
    """
    cache = _cache(invocation)
    removed = cache.clear()
    invocation.out.one(
        cache_document(cache, removed),
        f"{removed.tree_files} tree files removed from {one_line(str(cache.folder))}, "
        f"{size(removed.size)}",
    )


def _cache(invocation: Invocation) -> DiskCache:
    # Lazy import: it loads the readers of tables.
    from sparklake.stores.cache import find_cache

    cache = find_cache(invocation.settings.cache)
    if cache is None:
        raise NothingToDoError(
            "this machine has no cache: it is disabled by cache_bytes or SPARKLAKE_CACHE_BYTES, "
            "or its folder is not usable"
        )
    return cache
