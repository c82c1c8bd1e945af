"""Open purges: writers must not use objects that a purge may delete.

docs/design/035 explains why no later reference to a deleted object is possible.
"""

from __future__ import annotations

from sparklake.graveler.ports.registers import PurgeState
from sparklake.namespace.layout import open_purge_key, purge_claim_key
from sparklake.namespace.markers import ENDED, decide_once, open_purges
from sparklake.verbs.base.context import Context


def open_purge(context: Context, purge_id: str) -> None:
    """Mark a purge as open, then restart the running verbs.

    A later scan finds what they published before. What they publish afterwards references nothing
    in the scan's list, except by its address.
    """
    context.store.replace(open_purge_key(purge_id), purge_id.encode())
    with context.refs.collections.begin(expires=False):
        pass


def close_purge(context: Context, purge_id: str) -> None:
    """Remove the marker of a purge after its last deletion."""
    context.store.delete(open_purge_key(purge_id))


def end_unregistered(context: Context) -> list[str]:
    """Close the purges that died before their registration or after their end.

    They delete nothing any more. Returns the ids of the never registered ones. One of these may run
    on without its lock: it then finds that it was ended.
    """
    unknown = []
    for each in open_purges(context.store):
        found = context.refs.purges.find(each)
        if found is None and not claim_purge(context, each, ENDED):
            continue  # It has been registered since.
        if found is None or found.state is PurgeState.DONE:
            close_purge(context, each)
        if found is None:
            unknown.append(each)
    return unknown


def claim_purge(context: Context, purge_id: str, claim: bytes = b"deleting") -> bool:
    """Claim that a registered purge deletes, or that it is ended; return whether that holds.

    The first claim counts.
    """
    return decide_once(context.store, purge_claim_key(purge_id), claim) == claim
