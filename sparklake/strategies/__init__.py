"""Merge strategies, and the types for custom ones. See docs/merging.md."""

from __future__ import annotations

from sparklake.strategies.choosing import rows
from sparklake.strategies.decisions import CONFLICT_SCHEMA, Both, Decision, Take
from sparklake.strategies.object_access import NewObject, Objects
from sparklake.strategies.row_strategy import Rows

__all__ = ["CONFLICT_SCHEMA", "Both", "Decision", "NewObject", "Objects", "Rows", "Take", "rows"]
