"""Git for data lakes on Spark: repositories, branches, commits, diff and three-way merge.

lake = sparklake.connect()
repo = lake.create_repository("lake", "s3://bucket/prefix")
branch = repo.create_branch("dev", source="main")
"""

from __future__ import annotations

from sparklake.branch import Branch
from sparklake.config import Engine
from sparklake.errors import MergeConflictError, SparklakeError
from sparklake.graveler.classification import Strategy
from sparklake.graveler.commits import Commit
from sparklake.lake import Lake, connect
from sparklake.repository import Repository
from sparklake.udfs.objects import ObjectInfo
from sparklake.udfs.reading import DiffRow

__all__ = [
    "Branch",
    "Commit",
    "DiffRow",
    "Engine",
    "Lake",
    "MergeConflictError",
    "ObjectInfo",
    "Repository",
    "SparklakeError",
    "Strategy",
    "connect",
]
