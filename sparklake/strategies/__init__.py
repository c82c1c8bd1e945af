"""Merge strategies, and the types for custom ones. See docs/merging.md."""

from __future__ import annotations

from sparklake.strategies.decisions import CONFLICT_SCHEMA, Both, Decision, Take
from sparklake.strategies.object_access import NewObject, Objects

__all__ = ["CONFLICT_SCHEMA", "Both", "Decision", "NewObject", "Objects", "Take"]
