"""Merge strategies and the names for one's own. See docs/merging.md."""

from __future__ import annotations

from sparklake.strategies.decisions import CONFLICT_SCHEMA, Both, Decision, Take
from sparklake.strategies.object_access import NewObject, Objects

__all__ = ["CONFLICT_SCHEMA", "Both", "Decision", "NewObject", "Objects", "Take"]
