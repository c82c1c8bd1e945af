"""Choices of a user that settings files name."""

from __future__ import annotations

from enum import Enum


class Engine(str, Enum):
    """The place where a plan's tasks run.

    `local` is this machine: one thread for small plans, several for larger ones.
    `auto` is `local`, and Spark for large plans if a session exists.
    """

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class S3Writes(str, Enum):
    """The way in which Spark's writers write to buckets.

    `s3a` is Hadoop's S3 client. `upload` is files on local disk, which tasks upload. `auto` is
    s3a if Spark has that client.
    """

    AUTO = "auto"
    S3A = "s3a"
    UPLOAD = "upload"
