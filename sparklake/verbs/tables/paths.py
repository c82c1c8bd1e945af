"""Where tables lie: their folder in a tree, and the URIs by which Spark knows places."""

from __future__ import annotations

import re

from sparklake.errors import InvalidInputError
from sparklake.graveler.keys import object_key


def table_folder(path: str) -> str:
    """Returns the prefix of the objects of a table; raises InvalidInputError, InvalidKeyError."""
    stripped = path.strip("/")
    if not stripped:
        raise InvalidInputError("a table needs a path of its own below the root of the ref")
    object_key(f"{stripped}/")
    return f"{stripped}/"


def spark_uri(uri: str) -> str:
    """Returns the URI by which Spark knows a place: Hadoop's S3 client is called s3a."""
    return re.sub(r"^s3://", "s3a://", uri)
