"""The log of ref moves."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.errors import InvalidInputError
from sparklake.graveler.ports import Operation
from sparklake.verbs.context import Context


def list_operations(context: Context, limit: int, ref: str | None) -> Sequence[Operation]:
    """Returns the latest moves of refs, newest first; raises InvalidInputError."""
    if limit < 1:
        raise InvalidInputError(f"a log of {limit} operations: ask for 1 or more")
    return context.refs.operations.list(limit, ref)
