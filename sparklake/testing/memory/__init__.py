"""A ref store in this process's memory, for tests."""

from __future__ import annotations

from sparklake.testing.memory.branches import MemoryBranches
from sparklake.testing.memory.ref_store import MemoryRefStore
from sparklake.testing.memory.staging import MemoryStaging

__all__ = ["MemoryBranches", "MemoryRefStore", "MemoryStaging"]
