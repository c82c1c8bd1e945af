"""Enumerated values of settings files and arguments."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from sparklake.errors import InvalidInputError

E = TypeVar("E", bound=Enum)


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


def parse_choice(kind: type[E], value: object, failure: str, separator: str = ", ") -> E:
    """Return a member of an enumeration. The error is `failure`, followed by all values."""
    try:
        return kind(value)
    except ValueError as error:
        values = separator.join(each.value for each in kind)
        raise InvalidInputError(f"{failure} {values}") from error
