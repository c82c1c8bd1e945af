"""A lake's errors in streaming queries, which Spark quotes in its own exception."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from sparklake import errors

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_QUOTED = re.compile(r"\bsparklake\.errors\.(\w+): (.*?)(?: SQLSTATE: \w+)*$", re.MULTILINE)


@contextmanager
def quoted_alone() -> Iterator[None]:
    """Have Spark quote an error without its frames. The process of the source ends with it."""
    try:
        yield
    except errors.SparklakeError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def raising_own_errors(query: StreamingQuery) -> StreamingQuery:
    """Return a query whose waiting methods raise the quoted error instead of Spark's."""
    for name in ("awaitTermination", "processAllAvailable"):
        setattr(query, name, _raising_own(getattr(query, name)))
    return query


def _raising_own(wait: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(wait)
    def waiting(*args: Any, **options: Any) -> Any:
        try:
            return wait(*args, **options)
        except StreamingQueryException as error:
            # The last one: Python prints the causes of an error before it.
            for name, message in _QUOTED.findall(str(error))[-1:]:
                raise getattr(errors, name)(message) from error
            raise

    return waiting
