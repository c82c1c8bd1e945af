"""Enumerated values of settings files."""

from __future__ import annotations

from enum import Enum


class Engine(str, Enum):
    """Where the tasks of a plan run.

    `local` is this machine: one thread for small plans, several for larger ones. `auto` is `local`,
    and Spark for large plans if a session exists.
    """

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class BucketWrites(str, Enum):
    """How Spark writes to buckets: Hadoop's client, uploads by tasks, or the first available."""

    AUTO = "auto"
    HADOOP = "hadoop"
    UPLOAD = "upload"
