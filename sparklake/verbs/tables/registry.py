"""The register of writes: what is begun is known until it has landed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from sparklake.errors import NotFoundError, RefStoreUnavailableError, WriteEndedError
from sparklake.graveler.ports import Write, WriteState
from sparklake.udfs.strategies.objects import DATA_FOLDER
from sparklake.verbs.context import Context


@contextmanager
def begun(context: Context, branch: str) -> Iterator[Write]:
    """Notes a write to a fresh place; one that has not landed at the end is abandoned.

    That of a driver which dies stays open, and so does one whose end Postgres cannot be told.
    """
    name = uuid.uuid4().hex
    write = context.refs.writes.begin(name, f"{DATA_FOLDER}/{name}", branch, context.committer)
    try:
        yield write
    finally:
        with suppress(RefStoreUnavailableError):
            context.refs.writes.abandon([write.id])


def list_writes(context: Context) -> Sequence[Write]:
    """Returns the writes that are under way, or have staged nothing and never will."""
    return context.refs.writes.list()


def abandon_write(context: Context, write_id: str) -> Write:
    """Lets an open write never stage anything; returns it. Raises NotFoundError, WriteEndedError.

    One that was abandoned before is no error.
    """
    found = next(iter(context.refs.writes.abandon([write_id])), None)
    found = found or context.refs.writes.find(write_id)
    if found is None:
        raise NotFoundError(
            f"{context.info.name} has no write {write_id!r}; `sparklake writes` shows those that "
            "have not landed"
        )
    if found.state is WriteState.DONE:
        raise WriteEndedError.of(write_id, found.branch)
    return found
