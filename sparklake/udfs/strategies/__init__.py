"""How conflicts are decided: by a side, by path, or by functions that users write.

What a user's own strategy needs is here; docs/merging.md says how to write one.
"""

from __future__ import annotations

from sparklake.udfs.strategies.decisions import CONFLICT_SCHEMA, Both, Decision, Take
from sparklake.udfs.strategies.objects import NewObject, Objects

__all__ = ["CONFLICT_SCHEMA", "Both", "Decision", "NewObject", "Objects", "Take"]
