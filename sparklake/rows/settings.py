"""Settings of a repository for its tasks."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.config import NO_CACHE, CacheSettings
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.cache import open_cached_store
from sparklake.stores.objects import describe_store


@dataclass(frozen=True, slots=True)
class Workspace:
    """Settings of a repository for its tasks.

    Objects in the trees of `versions` may replace objects of equal content at the same paths.
    `instance` is the repository's uid. After `tree_sweeps`, a tree file may reference different
    objects under the same id, so older cached files are not used.
    """

    storage_namespace: str
    range_records: int
    cache: CacheSettings = NO_CACHE
    versions: tuple[MetaRangeId, ...] = ()
    instance: str = ""
    tree_sweeps: int = 0

    @property
    def compresses(self) -> bool:
        """Whether tree files are compressed. Only those of remote stores are."""
        return describe_store(self.storage_namespace).compresses

    def open_store(self) -> ObjectStore:
        """Open the repository's store. Tree files of a remote store are cached on this machine."""
        instance = self.instance
        if self.tree_sweeps:
            instance = f"{instance} {self.tree_sweeps}"
        return open_cached_store(self.storage_namespace, self.cache, instance)
