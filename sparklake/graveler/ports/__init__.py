"""The ports of the core. Implementations inherit the test class of their contract."""

from __future__ import annotations

from sparklake.graveler.ports.branches import (
    Branches,
    BranchMove,
    BranchState,
    Layer,
    LayerCut,
    LayerKind,
    Staging,
)
from sparklake.graveler.ports.collections import Collections, RepositorySnapshot
from sparklake.graveler.ports.commits import Commits, Operation, Operations, RefVerb, TagInfo, Tags
from sparklake.graveler.ports.objects import (
    Content,
    ContentPart,
    FetchedContent,
    ObjectStore,
    StoredFolder,
    StoredObject,
    StoreTraits,
    Watch,
)
from sparklake.graveler.ports.registers import Write, Writes, WriteState
from sparklake.graveler.ports.repositories import (
    RefsSnapshot,
    RefStore,
    RepositoryInfo,
    RepositoryRefs,
    SettingsStore,
)

__all__ = [
    "BranchMove",
    "BranchState",
    "Branches",
    "Collections",
    "Commits",
    "Content",
    "StoredFolder",
    "Layer",
    "LayerCut",
    "LayerKind",
    "RepositorySnapshot",
    "ObjectStore",
    "Operation",
    "Operations",
    "ContentPart",
    "FetchedContent",
    "RefStore",
    "RefVerb",
    "RefsSnapshot",
    "RepositoryInfo",
    "RepositoryRefs",
    "SettingsStore",
    "Staging",
    "StoreTraits",
    "StoredObject",
    "Watch",
    "TagInfo",
    "Tags",
    "Write",
    "WriteState",
    "Writes",
]
