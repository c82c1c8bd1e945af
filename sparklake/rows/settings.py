"""The settings of a repository that its tasks need."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.config import NO_CACHE, CacheSettings
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.cache import open_cached_store


@dataclass(frozen=True, slots=True)
class Workspace:
    """The settings of a repository that its tasks need.

    Objects named by the trees in `versions` may replace other objects of equal content at the same
    paths. `instance` is the repository's uid. After `tree_sweeps`, a table of one id may name other
    objects than before, so tables that were cached before are not used.
    """

    storage_namespace: str
    range_records: int
    cache: CacheSettings = NO_CACHE
    versions: tuple[MetaRangeId, ...] = ()
    instance: str = ""
    tree_sweeps: int = 0

    @property
    def compresses(self) -> bool:
        """Whether tables are compressed. Only tables of remote stores are."""
        return not self.storage_namespace.startswith("file://")

    def open_store(self) -> ObjectStore:
        """Return the repository's store. Tables of a remote store are cached on this machine."""
        instance = self.instance
        if self.tree_sweeps:
            instance = f"{instance} {self.tree_sweeps}"
        return open_cached_store(self.storage_namespace, self.cache, instance)
