"""A ref store in this process's memory, for tests."""

from __future__ import annotations

from sparklake.stores.memory.branches import MemoryBranches
from sparklake.stores.memory.ref_store import MemoryRefStore
from sparklake.stores.memory.staging import MemoryStaging

__all__ = ["MemoryBranches", "MemoryRefStore", "MemoryStaging"]
